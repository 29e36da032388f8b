"""How a result becomes the JSON that the store holds, and comes back: with a version, and no unknown key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import TypeAdapter

VERSION = 2
"""Of the format; one more wherever a key comes, goes or changes its meaning."""


_adapters: dict[type[Any], TypeAdapter[Any]] = {}


def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    """What reads and writes one class; to make it takes as long as to read ten summaries."""
    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    return _adapters[kind]


class StoredSummary:
    """A result with a `version`, as a pydantic dataclass."""

    def to_json(self) -> dict[str, Any]:
        """As its file holds it."""
        told: dict[str, Any] = _adapter(type(self)).dump_python(self, mode="json", by_alias=True)
        return told

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """What `to_json` gave.

        Raises
        ------
        ValueError
            If it is of another version, or a key is missing, not known, or of another type.
        """
        if told.get("version") != VERSION:
            wrote = f"version {told['version']!r}" if "version" in told else "no version"
            raise ValueError(f"its summary has {wrote}, and this ksdp reads version {VERSION}")
        read: Self = _adapter(cls).validate_python(told)
        return read
