"""What a mechanism is called where people read: in lists, reports and terminals. It imports no numerics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def mechanism_words(name: str, parameters: Mapping[str, Any]) -> str:
    """The name; of a mechanism around another one, which that is and what is done to it."""
    return f"{parameters.get('mechanism', 'pd-svd')} with noise" if name == "noisy" else name
