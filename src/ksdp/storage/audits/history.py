"""Finished audits of a store: their summaries, their ids, and lists in a few words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from ksdp.audit.errors import DamagedFile, NotFound, StoreError
from ksdp.audit.results.parts import BoundSummary as BoundSummary
from ksdp.audit.results.parts import VerdictCounts
from ksdp.audit.results.risk import Risk as Risk
from ksdp.audit.results.summary import Summary as Summary
from ksdp.audit.reviewing import visible
from ksdp.audit.specs.models import Spec
from ksdp.audit.specs.own_names import mechanism_words
from ksdp.audit.verdicts.verdict import ProvedBy as ProvedBy
from ksdp.audit.verdicts.verdict import Verdict as Verdict
from ksdp.storage.audits.ledger import AuditLedger, lost_audits, read_ledger
from ksdp.storage.codec import names_file, read_object
from ksdp.storage.store import Store


def read_summary(folder: Path) -> Summary:
    """Read `audit.json`; its paths are where it lies now, as a store may be copied, or mounted elsewhere."""
    path = folder / "audit.json"
    if not path.is_file() and not names_file(path):
        raise StoreError(f"there is no finished audit {folder.name!r} in this store.")
    summary = read_object(path, Summary.from_json, f"audit {folder.name!r}")
    return replace(summary, store=str(folder.parents[1]), report=str(folder / "report.html"))


def _places(store: Store) -> dict[str, int]:
    """Audits in the order in which they were finished: by the ledger, as a clock may have been set back since."""
    try:
        return {audit: place for place, audit in enumerate(read_ledger(store).finished)}
    except StoreError:  # damage of its own
        return {}


def newest_first(store: Store) -> list[str]:
    """The finished audits, that which was finished last first."""
    places = _places(store)
    return sorted(store.audits(), key=lambda audit: places.get(audit, -1), reverse=True)


LATEST = "latest"


def find_audit(store: Store, name: str) -> str:
    """The id of the finished audit that a person named."""
    audits = store.audits()
    if name in audits:
        return name
    if name == LATEST:
        history = read_history(store)
        for sentence in history.damaged:  # it may be the latest
            raise DamagedFile(f"{sentence.rstrip('.')}. Name another audit, or mend this one first.")
        if not audits:
            raise NotFound(f"there is no finished audit in {store.root}.")
        if not (signable := signable_among(read_ledger(store), history.audits)):
            raise NotFound(f"no audit in {store.root} can be signed; name one that `ksdp list` shows.")
        return signable[0].audit
    lost = lost_audits(store)
    mine = [audit for audit in (*audits, *lost) if audit.startswith(name)] if name else []
    if len(mine) > 1:
        raise NotFound(f"several audits begin with {name!r}: {', '.join(sorted(mine))}.")
    if not mine:
        raise NotFound(f"there is no finished audit {name!r} in {store.root}; `ksdp list` shows those there are.")
    if mine[0] in lost:
        raise DamagedFile(lost[mine[0]])
    return mine[0]


def opened_audit(root: Path, name: str) -> tuple[Store, str]:
    """A store that is there, and the id of the finished audit in it that a person named."""
    opened = Store.open(root, create=False)
    return opened, find_audit(opened, name)


@dataclass(frozen=True)
class Brief:
    """An audit in a few words."""

    audit: str
    finished: datetime
    mechanism: str
    corpus_path: str
    corpus: str
    series: str
    """`ksdp.audit.specs.models.Spec.series`: audits of one setting."""
    documents: int
    """Or groups, where `unit` says so."""
    unit: str
    runs: int
    valid: bool
    verdicts: VerdictCounts
    largest: float
    """The largest D of any document under any statistic."""
    seconds: float
    spec: str
    decides: bool
    """Whether its verdicts may be used (`ksdp.audit.specs.models.Spec.decides`)."""


def valid_audit(audit: str) -> bool:
    """Whether this may be an audit's id; anything else is never made part of a path."""
    return 0 < len(audit) <= 64 and audit.isascii() and audit.replace("-", "").isalnum()


def mechanism_of(mechanism: str, spec: Spec) -> str:
    """Name of an audit's mechanism; of one around another, that one's; with the title that the spec gives."""
    words = mechanism_words(mechanism, {"mechanism": spec.mechanism.name, **spec.mechanism.parameters})
    return f"{words} ({visible(spec.title)})" if spec.title else words


def brief(summary: Summary) -> Brief:
    """The entry of an audit in a list."""
    return Brief(
        audit=summary.audit,
        finished=datetime.fromisoformat(summary.provenance.finished),
        mechanism=mechanism_of(summary.mechanism, summary.spec),
        corpus_path=summary.spec.corpus.path,
        corpus=summary.corpus,
        series=summary.spec.series,
        documents=summary.documents,
        unit=summary.design.unit,
        runs=summary.runs,
        valid=summary.valid,
        verdicts=summary.verdicts,
        largest=summary.largest_distance,
        seconds=summary.seconds,
        spec=summary.spec.hash,
        decides=summary.spec.decides,
    )


@lru_cache(maxsize=100_000)
def _brief(file: Path, _written: int) -> Brief | str:
    try:
        return brief(read_summary(file.parent))
    except (StoreError, ValueError) as error:  # the latter: a time that is none
        return str(error)


@dataclass(frozen=True)
class History:
    """The finished audits of a store."""

    audits: tuple[Brief, ...]
    damaged: tuple[str, ...]
    """A sentence for each that cannot be read."""


def read_history(store: Store) -> History:
    """The finished audits. Files are read once."""
    files = sorted((file.stat().st_mtime_ns, file) for file in store.root.glob("audits/*/audit.json"))
    entries = [_brief(file, written) for written, file in reversed(files)]
    audits = [entry for entry in entries if isinstance(entry, Brief)]
    places = _places(store)
    audits.sort(key=lambda entry: (places.get(entry.audit, -1), entry.finished), reverse=True)
    damaged = [entry for entry in entries if isinstance(entry, str)]
    try:
        damaged += lost_audits(store).values()
    except StoreError as error:  # the ledger
        damaged.append(str(error))
    return History(tuple(audits), tuple(damaged))


def signable_among(ledger: AuditLedger, audits: Sequence[Brief]) -> tuple[Brief, ...]:
    """Return the audits that people decide about and that can be signed; the order stays."""
    parts, deciding = ledger.parts, ledger.deciding
    return tuple(
        entry for entry in audits if entry.decides and (entry.audit not in parts or entry.audit in deciding)
    )


def screen_ids(store: Store) -> list[str]:
    """Screens of the store, newest first."""
    files = [file for file in store.root.glob("screens/*.json") if valid_audit(file.stem)]
    return [file.stem for file in sorted(files, key=lambda f: f.stat().st_mtime, reverse=True)]
