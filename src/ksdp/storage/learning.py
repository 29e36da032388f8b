"""Gains and advice of a store: what a run gains, and what would make it safe."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ksdp.audit.specs.content_keys import content_key
from ksdp.audit.specs.models import Spec
from ksdp.storage.codec import read_object, write_checked_json
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
    """Read advice that `write_advice` kept."""
    return _read(store.root / "advice" / f"{name}.json")


def write_advised_spec(path: Path, tables: Mapping[str, Any], said: str) -> None:
    """Write a spec as TOML; what is not set is left out."""
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


@dataclass(frozen=True)
class GainAndAdvice:
    """Gain and advice for one spec on one corpus; None if there is none."""

    gain: Mapping[str, Any] | None
    """As `ksdp gain` found it (`GainSummary.to_json`)."""
    advice: Mapping[str, Any] | None
    """The newest advice about this spec, or that recommended it."""
    recommended: bool
    """Whether it recommended this very spec."""
    outlook: Mapping[str, Any] | None = None
    """Remedy that an audit named: an estimate of its gain, if that is cheap, and the seconds of a search."""

    @property
    def nothing_gained(self) -> str | None:
        """The sentence that comes before everything else, where it is not sure that joining gains anything."""
        if self.gain is None or self.gain["measures"][0]["gain"]["low"] > 0:
            return None
        return str(self.gain["sentences"][0])


def write_gain(store: Store, spec: Spec, corpus: str, gain: Mapping[str, Any]) -> Path:
    """Keep what a run gains."""
    path = _gain_path(store, spec, corpus)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    write_checked_json(path, gain)
    return path


def write_outlook(store: Store, spec: Spec, corpus: str, outlook: Mapping[str, Any]) -> None:
    """Keep what an audit says of a remedy before anybody asks for advice."""
    path = _gain_path(store, spec, corpus).with_suffix(".outlook.json")
    path.parent.mkdir(mode=0o700, exist_ok=True)
    write_checked_json(path, outlook)


def learning_of(store: Store, spec: Spec, corpus: str) -> GainAndAdvice:
    """Read the gain and advice for a spec and a corpus, by its hash."""
    path = _gain_path(store, spec, corpus)
    gain = _read(path) if path.is_file() else None
    beside = path.with_suffix(".outlook.json")
    outlook = _read(beside) if beside.is_file() else None
    written = sorted(
        (store.root / "advice").glob("*.json"), key=lambda file: file.stat().st_mtime_ns, reverse=True
    )
    for advice in map(_read, written):
        if advice.get("advised") == spec.hash and advice.get("advised_corpus") == corpus:
            return GainAndAdvice(gain, advice, True, outlook)
        question = (advice.get("asked"), advice.get("gain_asked"), advice.get("corpus"))
        if question == (spec.hash, spec.gain.model_dump(mode="json"), corpus):
            return GainAndAdvice(gain, advice, False, outlook)
    return GainAndAdvice(gain, None, False, outlook)


def _gain_path(store: Store, spec: Spec, corpus: str) -> Path:
    about = {"spec": spec.hash, "gain": spec.gain.model_dump(mode="json"), "corpus": corpus}
    return store.root / "gain" / f"{content_key(about)[:16]}.json"


def _read(path: Path) -> dict[str, Any]:
    return read_object(path, dict, path.parent.name, "delete it and run the same command again")
