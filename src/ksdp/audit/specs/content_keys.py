"""Short names for content: the same for the same values, in every process."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def content_key(identity: Mapping[str, Any]) -> str:
    """A hash of `identity` that does not depend on the order of its keys."""
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def whole_numbers(value: object) -> object:
    """The same JSON value with whole numbers as such, however they were written: 1 for 1.0, at any depth."""
    if isinstance(value, dict):
        return {name: whole_numbers(part) for name, part in value.items()}
    if isinstance(value, list):
        return [whole_numbers(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
