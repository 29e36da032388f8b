"""Advice in the store: `advice/<id>.json`, and the page beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ksdp.audit.errors import StoreError
from ksdp.storage.checksums import read_checked_json, write_checked_json
from ksdp.storage.store import Store, write_text


def advice_page(store: Store, name: str) -> Path:
    """Where the page of some advice stands."""
    return store.root / "advice" / f"{name}.html"


def write_advice(store: Store, name: str, advice: Mapping[str, Any]) -> None:
    """Keep advice."""
    (store.root / "advice").mkdir(mode=0o700, exist_ok=True)
    write_checked_json(store.root / "advice" / f"{name}.json", advice)


def write_advice_page(store: Store, name: str, page: str) -> None:
    """Keep its page."""
    write_text(advice_page(store, name), page)


def read_advice(store: Store, name: str) -> dict[str, Any]:
    """What `write_advice` kept."""
    path = store.root / "advice" / f"{name}.json"
    try:
        return read_checked_json(path)
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} is missing or damaged.") from error


def write_advised_spec(path: Path, tables: Mapping[str, Any], said: str) -> None:
    """Write a spec as TOML; what is not set is left out.

    Parameters
    ----------
    tables : mapping
        As `Spec.model_dump` gives it.
    said : str
        A comment for the first line.
    """
    lines = [f"# {said}", *_table(tables, ())]
    write_text(path, "\n".join(lines) + "\n")


def _table(table: Mapping[str, Any], place: tuple[str, ...]) -> list[str]:
    plain = {key: value for key, value in table.items() if value is not None and not isinstance(value, Mapping)}
    lines = [f"{_key(key)} = {json.dumps(value)}" for key, value in plain.items()]
    head = [f"\n[{'.'.join(map(_key, place))}]"] if place and lines else []
    for key, value in table.items():
        if isinstance(value, Mapping):
            lines += _table(value, (*place, key))
    return head + lines


def _key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() and key.isascii() else json.dumps(key)
