"""Specs as text, from tables of which a test changes what it is about."""

import json
from collections.abc import Mapping
from typing import Any


def spec_text(tables: Mapping[str, Any], **changes: Any) -> str:
    """TOML, one table a line. `mechanism={"rank": 2}` changes this key alone; a key that is None is left out."""
    made = {**tables}
    for name, change in changes.items():
        made[name] = made.get(name, {}) | change if isinstance(change, dict) else change
    return "".join(f"{name} = {toml(value)}\n" for name, value in made.items())


def toml(value: Any) -> str:
    if not isinstance(value, dict):
        return json.dumps(value)
    return "{" + ", ".join(f"{key} = {toml(each)}" for key, each in value.items() if each is not None) + "}"
