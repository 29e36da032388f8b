"""The finished audits of a store in a few words each: what a list, a timeline and a trend need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from ksdp.audit.content_keys import content_key
from ksdp.audit.errors import StoreError
from ksdp.audit.mechanisms.mechanism_words import mechanism_words
from ksdp.audit.results.summary import Summary
from ksdp.audit.spec import Spec
from ksdp.storage.store import Store
from ksdp.storage.summaries import read_summary


@dataclass(frozen=True)
class Brief:
    """An audit in a few words."""

    audit: str
    finished: datetime
    mechanism: str
    corpus_path: str
    corpus: str
    """Hash of the corpus."""
    series: str
    """Equal for audits that differ in seed, number of runs, level and documents only."""
    documents: int
    """Or groups, where `unit` says so."""
    unit: str
    runs: int
    valid: bool
    verdicts: Mapping[str, int]
    largest: float
    """The largest D of any document under any statistic."""
    seconds: float


def valid_audit(audit: str) -> bool:
    """Whether this may be an audit's id; anything else is never made part of a path."""
    return 0 < len(audit) <= 64 and audit.isascii() and audit.replace("-", "").isalnum()


def mechanism_of(mechanism: str, spec: Spec) -> str:
    """Name of an audit's mechanism; of one around another, that one's."""
    return mechanism_words(mechanism, spec.mechanism.parameters)


def _series(spec: Spec) -> str:
    tables = spec.model_dump(mode="json")
    design = {key: value for key, value in tables["design"].items() if key not in ("with_runs", "documents")}
    asked = {
        "corpus": tables["corpus"],
        "mechanism": tables["mechanism"],
        "design": design,
        "parties": tables["parties"],
    }
    return content_key(asked)[:10]


def brief(summary: Summary) -> Brief:
    """The entry of an audit in a list."""
    return Brief(
        audit=summary.audit,
        finished=datetime.fromisoformat(summary.provenance.finished),
        mechanism=mechanism_of(summary.mechanism, summary.spec),
        corpus_path=summary.spec.corpus.path,
        corpus=summary.corpus,
        series=_series(summary.spec),
        documents=summary.documents,
        unit=summary.design.unit,
        runs=summary.runs,
        valid=summary.valid,
        verdicts=summary.verdicts.as_dict(),
        largest=summary.largest_distance,
        seconds=summary.seconds,
    )


@lru_cache(maxsize=100_000)
def _brief(file: Path, _written: int) -> Brief | None:
    try:
        return brief(read_summary(file.parent))
    except (StoreError, ValueError):  # the latter: a time that is none
        return None


def read_history(store: Store) -> list[Brief]:
    """The finished audits, newest first; one that cannot be read is left out. Files are read once."""
    briefs = (_brief(file, file.stat().st_mtime_ns) for file in store.root.glob("audits/*/audit.json"))
    known = [entry for entry in briefs if entry is not None]
    return sorted(known, key=lambda entry: (entry.finished, entry.audit), reverse=True)


def screen_ids(store: Store) -> list[str]:
    """Screens of the store, newest first."""
    files = [file for file in store.root.glob("screens/*.json") if valid_audit(file.stem)]
    return [file.stem for file in sorted(files, key=lambda f: f.stat().st_mtime, reverse=True)]
