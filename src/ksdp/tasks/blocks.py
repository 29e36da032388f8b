"""Work on one block of runs."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ksdp.audit.errors import DamagedBlock, StoreError
from ksdp.audit.plan import CONTROLS
from ksdp.audit.runs import BlockValues, Stored, measure, sample
from ksdp.audit.specs.design import Block
from ksdp.audit.verdicts.controls import CANARY
from ksdp.audit.verdicts.looks import FIRST
from ksdp.storage.audits.stages import stage_names
from ksdp.storage.blocks import (
    ObservablesWriter,
    StoredCells,
    block_name,
    check_block,
    has_block,
    read_digests,
    read_groups,
    read_observables,
    read_values,
    write_values,
)
from ksdp.storage.remote import Place, RemotePlace, remove_folder
from ksdp.storage.store import Store
from ksdp.tasks.audit_ref import AuditRef, folders_of, open_plan, open_stage

_log = logging.getLogger("ksdp.tasks")


@dataclass(frozen=True)
class BlockDone:
    """How a block came about."""

    runs: int
    how: str
    """`sampled`, `measured` (from cached observables) or `cached`."""
    damaged: tuple[str, ...] = ()


def _present(folder: Place, block: Block, key: str, damaged: list[str]) -> bool:
    try:
        return has_block(folder, block, key)
    except DamagedBlock:
        discard(folder, block, damaged)
        return False


def discard(folder: Place, block: Block, damaged: list[str]) -> None:
    """Drop a damaged block, so that it is computed again."""
    name = block_name(block)
    _log.warning("block %s/%s is damaged and will be computed again", folder.name, name)
    (folder / name).unlink(missing_ok=True)
    damaged.append(f"{folder.name}/{name}")


def read_cells(ref: AuditRef, block: Block, part: int, names: Sequence[str]) -> StoredCells:
    """The stored values of one row group in a block."""
    folders, precision = folders_of(ref), open_plan(ref).spec.store.precision
    try:
        return read_values(folders.values, block, folders.values_key, part, names, precision)
    except DamagedBlock:
        discard(folders.values, block, [])
        raise


_LOOK_SECONDS = 1.0


def _folder_of_counts(ref: AuditRef) -> Path:
    return Store(Path(ref.store)).root / "under-way" / ref.audit


def _counted(ref: AuditRef, block: Block, runs: Iterable[Stored]) -> Iterator[Stored]:
    folder, last_said = _folder_of_counts(ref), time.monotonic()
    try:
        for count, run in enumerate(runs, 1):
            yield run
            if (now := time.monotonic()) - last_said >= _LOOK_SECONDS:
                last_said = now
                with contextlib.suppress(OSError):  # nothing but a bar rests on it
                    folder.mkdir(parents=True, exist_ok=True)
                    (folder / block_name(block)).write_text(str(count), encoding="ascii")
    finally:
        with contextlib.suppress(OSError):
            (folder / block_name(block)).unlink()


@contextmanager
def followed(ref: AuditRef, tell: Callable[[int], None]) -> Iterator[None]:
    """Call `tell` every second with the runs that are made of blocks under way, as long as the context lasts."""
    folder, over = _folder_of_counts(ref), threading.Event()

    def count(path: Path) -> int:
        with contextlib.suppress(OSError, ValueError):
            return int(path.read_text(encoding="ascii"))
        return 0

    def follow() -> None:
        while not over.wait(_LOOK_SECONDS):
            tell(sum(map(count, folder.glob("*.parquet"))))

    remove_folder(folder)  # of workers that were killed
    thread = threading.Thread(target=follow, name="ksdp-under-way", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        remove_folder(folder)


def compute_block(ref: AuditRef, block: Block) -> BlockDone:
    """Make sure that a block's values are stored, with as little work as the store allows."""
    plan, folders = open_plan(ref), folders_of(ref)
    damaged: list[str] = []
    keep = plan.spec.store.observables != "none"
    seen = _present(folders.observables, block, folders.key, damaged)
    if _present(folders.values, block, folders.values_key, damaged) and (seen or not keep or not ref.may_sample):
        return BlockDone(len(block), "cached", tuple(damaged))
    measured, how = _carried(ref, block, damaged), "cached"
    if measured is None and seen and plan.from_store:
        try:
            stored = read_observables(folders.observables, block, folders.key)
            measured, how = measure(plan, block, _counted(ref, block, stored), plan.statistics), "measured"
        except DamagedBlock:
            discard(folders.observables, block, damaged)
    if measured is None:
        if not ref.may_sample:
            raise StoreError(
                f"the observables of block {block_name(block)} that these statistics read are not in the store, "
                'and this command samples nothing; run `ksdp audit` with `store.observables = "all"` first.'
            )
        writer = ObservablesWriter(block, folders.key)
        runs = _counted(ref, block, sample(plan, block))
        measured = measure(plan, block, runs, plan.statistics, writer.add if keep else None)
        if keep:
            writer.write(folders.observables)
        how = "sampled"
    write_values(folders.values, measured, folders.values_key, plan.spec.store.precision)
    return BlockDone(len(block), how, tuple(damaged))


def all_stored(ref: AuditRef) -> bool:
    """Whether the store holds the observables of all of a stage's runs."""
    folders = folders_of(ref)
    return all(_present(folders.observables, block, folders.key, []) for block in open_plan(ref).blocks)


def drop_values(ref: AuditRef) -> None:
    """Remove the values of a stage, or of some of its documents, where the store does not keep them."""
    folders = folders_of(ref)
    if folders.dropped:
        for block in open_plan(ref).blocks:
            (folders.values / block_name(block)).unlink(missing_ok=True)


def drop_passing(ref: AuditRef) -> None:
    """Remove all values of an audit, where the store does not keep them, and what an earlier try has left."""
    if folders_of(ref).dropped:
        store = Store(Path(ref.store))
        for stage in (FIRST, *stage_names(store.audit(ref.audit))):
            remove_folder(folders_of(ref.at(stage)).values.parent)
        for folder in store.root.glob(f"runs/*/passing/{ref.audit}"):
            remove_folder(folder)


def _carried(ref: AuditRef, block: Block, damaged: list[str]) -> BlockValues | None:
    """The values of a block that an earlier look has measured, of the documents that are still looked at."""
    plan, before = open_plan(ref), open_stage(ref).before
    if before is None or block.stop > open_stage(ref.at(before)).runs:
        return None
    earlier, folders = open_plan(ref.at(before)), folders_of(ref.at(before))
    if not _present(folders.values, block, folders.values_key, damaged):
        return None
    names = [statistic.name for statistic in plan.statistics]
    targets = earlier.design.targets(block.lane)
    places = np.searchsorted(targets, plan.design.targets(block.lane))
    rows = np.concatenate([places, len(targets) + np.arange(CONTROLS)])
    try:
        columns = [*names, CANARY]
        groups = read_groups(folders.values, block, folders.values_key, columns, plan.spec.store.precision)
        of_runs = read_digests(folders.values, block, folders.values_key)
    except DamagedBlock:
        discard(folders.values, block, damaged)
        return None
    *plain, canary = (column[rows] for column in groups.whole())
    kept = None if groups.kept is None else groups.kept[rows]
    values = dict(zip(names, plain, strict=True))
    return BlockValues(block, groups.inclusion[rows], values, canary, kept, tuple(of_runs))


def all_whole(ref: AuditRef) -> bool:
    """Whether every block that a stage's findings rest on is in the store, and is what was written."""
    folders = folders_of(ref)
    wanted = [] if folders.dropped else [(folders.values, folders.values_key)]
    blocks = open_plan(ref).blocks
    every = [(folder, key, block) for folder, key in wanted for block in blocks]
    if ref.may_sample and open_plan(ref).spec.store.observables != "none":
        every += [(folders.observables, folders.key, block) for block in blocks]

    def whole(location: tuple[Place, str, Block]) -> bool:
        folder, key, block = location
        try:
            if isinstance(folder, RemotePlace):  # its server keeps files whole; tests compare every page they read
                return has_block(folder, block, key)
            check_block(folder, block, key)
        except DamagedBlock:
            if (folder / block_name(block)).exists():
                discard(folder, block, [])
            return False
        return True

    with ThreadPoolExecutor(os.cpu_count()) as readers:
        return all(list(readers.map(whole, every)))
