"""What a worker does with one block or one slice, and how many of them are spread over the workers."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ksdp.audit.design import Block
from ksdp.audit.errors import DamagedBlock, StoreError
from ksdp.audit.plan import CONTROLS, Plan, make_plan
from ksdp.audit.sampling import measure, sample
from ksdp.audit.testing import ArmTests, compare_arms
from ksdp.storage.blocks import (
    ROW_GROUP,
    ObservablesWriter,
    block_name,
    has_block,
    read_observables,
    read_values,
    write_values,
)
from ksdp.storage.findings import Curve, read_spec
from ksdp.storage.memory import open_corpus
from ksdp.storage.store import Store, content_key

__all__ = [
    "AuditRef",
    "BlockDone",
    "Slice",
    "all_present",
    "compute_block",
    "curve",
    "open_plan",
    "slices",
    "spread",
    "started_ahead",
    "test_slice",
]

_log = logging.getLogger("ksdp.tasks")


@dataclass(frozen=True)
class AuditRef:
    """Names an audit to a worker: its plan is rebuilt there from what is stored."""

    store: str
    audit: str
    corpus: str
    """Hash of the corpus."""
    may_sample: bool = True
    """False: only cached observables may be used."""


@dataclass(frozen=True)
class BlockDone:
    """How a block came about."""

    runs: int
    how: str
    """`sampled`, `measured` (from cached observables) or `cached`."""
    damaged: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Slice:
    """One row group of a lane's documents."""

    lane: int
    group: int


@lru_cache(maxsize=4)
def open_plan(ref: AuditRef) -> Plan:
    """Rebuild an audit's plan from the store, once a process."""
    store = Store(Path(ref.store))
    return make_plan(read_spec(store.audit(ref.audit)), open_corpus(store.corpus(ref.corpus)))


@dataclass(frozen=True)
class _Folders:
    observables: Path
    values: Path
    key: str
    values_key: str


@lru_cache(maxsize=4)
def _folders(ref: AuditRef) -> _Folders:
    plan = open_plan(ref)
    folder = Store(Path(ref.store)).runs(plan.runs_identity)
    key = content_key(plan.runs_identity)
    chosen = content_key({statistic.name: statistic.version for statistic in plan.statistics})
    return _Folders(folder / "observables", folder / "values" / chosen, key, f"{key}/{chosen}")


def _present(folder: Path, block: Block, key: str, damaged: list[str]) -> bool:
    try:
        return has_block(folder, block, key)
    except DamagedBlock:
        _discard(folder, block, damaged)
        return False


def _discard(folder: Path, block: Block, damaged: list[str]) -> None:
    name = block_name(block)
    _log.warning("block %s/%s is damaged and will be computed again", folder.name, name)
    (folder / name).unlink(missing_ok=True)
    damaged.append(f"{folder.name}/{name}")


def compute_block(ref: AuditRef, block: Block) -> BlockDone:
    """Make sure that a block's values are stored, with as little work as the store allows.

    Idempotent: a block that is there is left alone, a damaged one is named, dropped and computed again.
    """
    plan, folders = open_plan(ref), _folders(ref)
    damaged: list[str] = []
    keep = plan.spec.store.observables == "all"
    seen = _present(folders.observables, block, folders.key, damaged)
    if _present(folders.values, block, folders.values_key, damaged) and (seen or not keep or not ref.may_sample):
        return BlockDone(len(block), "cached", tuple(damaged))
    measured = None
    if seen:
        try:
            stored = read_observables(folders.observables, block, folders.key)
            measured, how = measure(plan, block, stored, plan.statistics), "measured"
        except DamagedBlock:
            _discard(folders.observables, block, damaged)
    if measured is None:
        if not ref.may_sample:
            raise StoreError(
                f"the observables of block {block_name(block)} are not in the store, and this command samples "
                'nothing; run `ksdp audit` with `store.observables = "all"` first.'
            )
        writer = ObservablesWriter(block, folders.key)
        measured = measure(plan, block, sample(plan, block), plan.statistics, writer.add if keep else None)
        if keep:
            writer.write(folders.observables)
        how = "sampled"
    write_values(folders.values, measured, folders.values_key, plan.spec.store.precision)
    return BlockDone(len(block), how, tuple(damaged))


def all_present(ref: AuditRef) -> bool:
    """Whether every block that an audit's findings rest on is in the store, whole."""
    plan, folders = open_plan(ref), _folders(ref)
    wanted = [(folders.values, folders.values_key)]
    if plan.spec.store.observables == "all" and ref.may_sample:
        wanted.append((folders.observables, folders.key))
    try:
        return all(has_block(folder, block, key) for folder, key in wanted for block in plan.blocks)
    except DamagedBlock:
        return False


def slices(plan: Plan) -> list[Slice]:
    """All slices of all lanes, in the order of the documents."""
    return [
        Slice(lane, group)
        for lane in range(plan.design.lanes)
        for group in range(-(-(len(plan.design.targets(lane)) + CONTROLS) // ROW_GROUP))
    ]


# A slice's values of all runs stay below this in a worker.
_SLICE_BYTES = 256 * 2**20


def test_slice(ref: AuditRef, part: Slice) -> ArmTests:
    """Test the documents (and controls) of a slice over all runs of its lane.

    Raises
    ------
    DamagedBlock
        Naming the block; it is dropped, so that `compute_block` makes it again.
    """
    plan = open_plan(ref)
    names = [statistic.name for statistic in plan.statistics]
    rows = min(ROW_GROUP, len(plan.design.targets(part.lane)) + CONTROLS)
    at_once = max(1, _SLICE_BYTES // (rows * plan.design.runs * 4))
    parts = []
    for first in range(0, len(names), at_once):
        parts.append(_test_columns(ref, part, names[first : first + at_once]))
    return ArmTests(
        parts[0].n_with,
        parts[0].n_without,
        np.concatenate([p.distance for p in parts], axis=1),
        np.concatenate([p.log10_p for p in parts], axis=1),
        np.concatenate([p.log10_tail for p in parts], axis=1),
    )


def _test_columns(ref: AuditRef, part: Slice, names: Sequence[str]) -> ArmTests:
    inclusion, values = _gather(ref, part, names)
    return compare_arms(dict(zip(names, values, strict=True)), inclusion)


def _gather(ref: AuditRef, part: Slice, names: Sequence[str]) -> tuple[Any, list[Any]]:
    plan, folders = open_plan(ref), _folders(ref)
    precision = plan.spec.store.precision
    inclusion: Any = None
    values: list[Any] = []
    for block in plan.blocks:
        if block.lane != part.lane:
            continue
        try:
            bits, columns = read_values(folders.values, block, folders.values_key, part.group, names, precision)
        except DamagedBlock:
            _discard(folders.values, block, [])
            raise
        if inclusion is None:
            inclusion = np.empty((len(bits), plan.design.runs), np.bool_)
            values = [np.empty((len(bits), plan.design.runs), precision) for _ in names]
        inclusion[:, block.start : block.stop] = bits
        for whole, column in zip(values, columns, strict=True):
            whole[:, block.start : block.stop] = column
    return inclusion, values


def curve(ref: AuditRef, lane: int, row: int, statistic: str) -> Curve:
    """The values behind one test: the document in row `row` of its lane."""
    plan = open_plan(ref)
    inclusion, (values,) = _gather(ref, Slice(lane, row // ROW_GROUP), [statistic])
    bits, column = inclusion[row % ROW_GROUP], values[row % ROW_GROUP].astype(np.float64)
    document = str(plan.corpus.ids[plan.design.targets(lane)[row]])
    return Curve(document, statistic, np.sort(column[bits]), np.sort(column[~bits]))


def _connected(address: str) -> Any:
    """A client of the scheduler; one that registers while another cancels may meet a stray message: try again."""
    from distributed import Client

    for _ in range(4):
        try:
            return Client(address, set_as_default=False)
        except AssertionError:
            time.sleep(0.2)
    return Client(address, set_as_default=False)


def _submit(
    client: Any, function: Callable[..., Any], arguments: Sequence[tuple[Any, ...]], attempt: int
) -> list[Any]:
    """Submit under names that say what is computed, so that work under way is joined, not done twice."""
    names = (
        f"{function.__name__}-{content_key({'arguments': repr(args), 'attempt': attempt})}" for args in arguments
    )
    return [client.submit(function, *args, key=name) for name, args in zip(names, arguments, strict=True)]


def spread(
    address: str,
    function: Callable[..., Any],
    arguments: Sequence[tuple[Any, ...]],
    done: Callable[[Any], None],
    attempt: int = 0,
) -> list[Any]:
    """Call `function` once for each tuple on the workers; results in order, `done` as each arrives.

    A later `attempt` computes again what an earlier one has.
    """
    from distributed import as_completed

    with _connected(address) as client:
        futures = _submit(client, function, arguments, attempt)
        try:
            for future in as_completed(futures, loop=client.loop):
                done(future.result())
            return [future.result() for future in futures]
        except BaseException:
            client.cancel(futures, reason="the audit stops")
            raise


@contextmanager
def started_ahead(address: str, ref: AuditRef) -> Iterator[None]:
    """Let the workers begin on an audit's blocks while Prefect is still starting; the flow's tasks join them."""
    with _connected(address) as client:
        futures = _submit(client, compute_block, [(ref, block) for block in open_plan(ref).blocks], 0)
        try:
            yield
        except BaseException:
            client.cancel(futures, reason="the audit stops")
            raise
