"""Short names for content: the same for the same values, in every process."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

__all__ = ["content_key"]


def content_key(identity: Mapping[str, Any]) -> str:
    """A hash of `identity` that does not depend on the order of its keys."""
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:20]
