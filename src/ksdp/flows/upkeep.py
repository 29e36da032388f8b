"""Upkeep of a store: what is damaged in it and what to do about it, and which runs may be deleted."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from ksdp.audit.errors import KsdpError, StoreError
from ksdp.audit.results.summary import Summary
from ksdp.audit.screening.clearance import Clearance
from ksdp.audit.specs.content_keys import content_key
from ksdp.audit.verdicts.looks import fresh_seed
from ksdp.flows.audits.run import one_at_a_time
from ksdp.storage.audits.history import read_summary
from ksdp.storage.audits.ledger import check_none_lost, lost_audits, read_ledger
from ksdp.storage.clearances import clearance_at, content_hash, read_clearance, stored_clearances, verify_clearance
from ksdp.storage.codec import REPAIR, SUMS, failures, read_object
from ksdp.storage.files import read_stored
from ksdp.storage.findings import check_verdicts, read_spec
from ksdp.storage.remote import RemotePlace, remove_folder, source_of
from ksdp.storage.reviews.log import LogHead, check_chain
from ksdp.storage.schedules.changes import drift_audits
from ksdp.storage.schedules.schedule_files import read_runs, read_schedule
from ksdp.storage.store import Store

Value = TypeVar("Value")


@dataclass(frozen=True)
class Damage:
    """One thing that is not what was written."""

    where: str
    sentence: str
    """The fault, and the command that mends it."""


_REMEDIES = {"audits": REPAIR, "corpora": REPAIR, "runs": "delete it, and an audit that needs it makes it again"}


def _remedy(where: Path) -> str:
    return _REMEDIES.get(where.parts[0], "restore it from a backup")


def damage(store: Store) -> list[Damage]:
    """All damage of a store: every file with a checksum, block, log, ledger and signature is read."""
    faults = [*_of_checksums(store), *_of_objects(store), *_of_records(store), *_of_blocks(store)]
    return [*faults, *_of_verdicts(store, {Path(fault.where).parts[:2] for fault in faults})]


def _of_checksums(store: Store) -> Iterator[Damage]:
    for sums in sorted(store.root.rglob(SUMS)):
        folder = sums.parent.relative_to(store.root)
        for name, wrong in failures(sums.parent).items():
            yield Damage(str(folder / name), f"{wrong}; {_remedy(folder)}.")
    for audit, sentence in _or_none(lost_audits, store).items():
        if not (store.audit(audit) / SUMS).is_file():
            yield Damage(f"audits/{audit}", sentence)


def _or_none(read: Callable[[Store], dict[str, Value]], store: Store) -> dict[str, Value]:
    try:
        return read(store)
    except StoreError:
        return {}


def _of_verdicts(store: Store, damaged: Collection[tuple[str, ...]]) -> Iterator[Damage]:
    """Verdicts that do not follow from the p-values beside them, though every checksum holds."""
    for audit in store.audits():
        if ("audits", audit) not in damaged and read_summary(store.audit(audit)).valid:
            try:
                check_verdicts(store.audit(audit), read_spec(store.audit(audit)))
            except StoreError as error:
                yield Damage(f"audits/{audit}/verdicts.parquet", str(error))


def _of_objects(store: Store) -> Iterator[Damage]:
    """Objects that carry their own checksum, are named by their content, or only have to be JSON."""
    for path in sorted(store.root.rglob("*.json")):
        where = path.relative_to(store.root)
        if where.parts[0] in ("prefect", "clearances"):
            continue
        try:
            if path.name == "ksdp-store.json":
                Store.open(path.parent, create=False)
            elif path.name == "identity.json":
                Store(path.parents[2]).identity(path.parent.name)
            elif path.name == "head.json":
                json.loads(read_stored(path))
            else:
                read_object(path, dict, str(where.parent), _remedy(where))
        except StoreError as error:
            if path.name not in failures(path.parent):  # else it was counted
                yield Damage(str(where), str(error))
        except (OSError, ValueError) as error:
            yield Damage(str(where), f"it is not what was written ({type(error).__name__}); {_remedy(where)}.")


def _of_records(store: Store) -> Iterator[Damage]:
    checks: dict[str, Callable[[], object]] = {
        "audits/ledger.jsonl": partial(_check_ledger, store),
        "reviews/log.jsonl": partial(_check_reviews, store),
    }
    for folder in sorted(store.root.glob("schedules/*/")):
        checks[f"schedules/{folder.name}/schedule.json"] = partial(read_schedule, store, folder.name)
        checks[f"schedules/{folder.name}/history.jsonl"] = partial(_check_history, store, folder.name)
    for digest in _or_none(lambda here: read_ledger(here).signed, store):
        path = clearance_at(store, digest)
        checks[str(path.relative_to(store.root))] = partial(_check_signature, path)
    for where, check in checks.items():
        try:
            check()
        except KsdpError as error:
            yield Damage(where, str(error))


def _check_ledger(store: Store) -> None:
    signed = {content_hash(clearance): clearance.audits for clearance in _clearances(store)}
    finished, ledger = store.audits(), read_ledger(store)
    for kind, witnessed, names in (
        ("started", {*finished, *chain(*signed.values())}, ledger.started),
        ("finished", {*finished}, ledger.finished),
        ("signed", {*signed}, ledger.signed),
    ):
        for name in sorted(witnessed.difference(names)):
            raise StoreError(f"lines of it are gone: it no longer says that {name!r} was {kind}. Restore it.")


def _clearances(store: Store) -> list[Clearance]:
    faults = []
    for path in stored_clearances(store):
        with contextlib.suppress(KsdpError):
            faults.append(read_clearance(path))
    return faults


def _check_reviews(store: Store) -> None:
    reviewed = (clearance.reviewed for clearance in _clearances(store))
    report = check_chain(
        store.root, [LogHead(signer.log_entries, signer.log_head) for signer in reviewed if signer]
    )
    if not report.whole:
        raise StoreError(report.reason)


def _check_history(store: Store, name: str) -> None:
    audits = {run.audit for run in read_runs(store, name)}
    for audit in drift_audits(store, name):
        if audit not in audits:
            raise StoreError(
                f"lines of it are gone: it no longer says what audit {audit!r} has spent. Restore it."
            )


def _check_signature(path: Path) -> None:
    clearance = read_clearance(path)
    verify_clearance(path, now=clearance.created)
    if content_hash(clearance) != path.stem:
        raise StoreError("it is another clearance than the ledger names.")


def _of_blocks(store: Store) -> Iterator[Damage]:
    for path in sorted(store.root.glob("runs/**/*.parquet")):
        where = path.relative_to(store.root)
        try:
            with pq.ParquetFile(source_of(path), page_checksum_verification=True) as file:
                for group in range(file.num_row_groups):
                    file.read_row_group(group, use_threads=False)
        except (OSError, ValueError, pa.ArrowException) as error:
            yield Damage(str(where), f"the block cannot be read ({type(error).__name__}); {_remedy(where)}.")


def _folders(store: Store, summary: Summary) -> set[str]:
    """The folders of runs that an audit rests on: those of its looks, and the fresh ones."""
    names = {Path(stage.values).parts[1] for stage in summary.provenance.stages}
    for identity in map(store.identity, sorted(names)):
        if identity:
            names.add(content_key(identity | {"seed": fresh_seed(identity["seed"])}))
    return {f"runs/{name}" for name in names}


@dataclass(frozen=True)
class Runs:
    """The runs of one seed, corpus and mechanism: a folder of blocks."""

    folder: str
    """Below the store, or where its blocks are."""
    size: int
    """Bytes; 0 where they are at a URL."""
    kept: bool
    why: str


def prunable(store: Store, now: datetime, keep: timedelta) -> list[Runs]:
    """All runs of a store: which stay, which may be deleted, and why."""
    check_none_lost(store)
    summaries = {audit: read_summary(store.audit(audit)) for audit in store.audits()}
    signed = {audit: digest for digest, audits in read_ledger(store).signed.items() for audit in audits}
    users = {audit: _folders(store, summary) for audit, summary in summaries.items()}
    old = []
    for folder in sorted(store.root.glob("runs/*/")):
        name = f"runs/{folder.name}"
        audits = [audit for audit, folders in users.items() if name in folders]
        files = [file.stat() for file in folder.rglob("*") if file.is_file()]
        finished = [datetime.fromisoformat(summaries[audit].provenance.finished) for audit in audits]
        written = datetime.fromtimestamp(max((file.st_mtime for file in files), default=time.time()), UTC)
        last = max(finished, default=written)
        if cleared := [audit for audit in audits if audit in signed]:
            kept, why = True, f"audit {cleared[0]} rests on it, which clearance {signed[cleared[0]][:12]} signs"
        else:
            whose = f"audit {', '.join(audits)}" if audits else "no finished audit"
            kept, why = now - last < keep, f"{whose} rests on it, of {last:%Y-%m-%d}; in no clearance"
        old.append(Runs(name, sum(file.st_size for file in files), kept, why))
    return old


def prune(store: Store, now: datetime, keep: timedelta) -> list[Runs]:
    """Delete the runs that may be deleted (`prunable`); the same `ksdp audit` makes them again."""
    with one_at_a_time(store.root):
        old = prunable(store, now, keep)
        for runs in old:
            if not runs.kept:
                if isinstance(store.blocks, RemotePlace):
                    remove_folder(store.blocks / runs.folder)
                remove_folder(store.root / runs.folder)
                if (store.root / runs.folder).exists():
                    raise StoreError(f"{runs.folder} cannot be deleted whole: see who owns its files; then again.")
    return old
