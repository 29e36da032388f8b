"""One block of runs: databases, observables, values; and one smoke run before anything is written."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.contract import Database, Observables
from ksdp.audit.corpus.groups import Units
from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.errors import InvalidAudit, KsdpError, SpecError
from ksdp.audit.mechanisms.callables import failure_of
from ksdp.audit.mechanisms.planted import with_leaks
from ksdp.audit.mechanisms.recorded import RecordedRuns, is_own
from ksdp.audit.numeric.sparse_rows import rows_of, take_rows
from ksdp.audit.plan import CONTROLS, NULL_CONTROLS, Plan
from ksdp.audit.randomness import Purpose, generator
from ksdp.audit.specs.design import Block, drawn_controls, mechanism_rng
from ksdp.audit.specs.own_names import names_own_code
from ksdp.audit.statistic import Documents, Pool, Statistic, statistic_traits
from ksdp.audit.statistics.simulated import unlearnt
from ksdp.audit.verdicts.controls import HANDED, canary_values, handed_bits, handed_units

STRONGEST = "strongest"
"""Name of the one column of a stage that measures one statistic of each document."""

_FEW = 2048
"""Documents measured in every run of a block, at most, beside which those that a run held are measured."""
# Shift of a planted control: D = 2 Phi(shift / 2) - 1 = 0.9.
_PLANTED_SHIFT = 3.289707253902945

Stored = dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class BlockValues:
    """The values of some statistics in one block of runs."""

    block: Block
    inclusion: NDArray[np.bool_]
    """Shape (n_documents + CONTROLS, n_runs)."""
    values: dict[str, NDArray[Any]]
    """Statistic to values, each of shape (n_documents + CONTROLS, n_runs), in the stored precision; `STRONGEST`
    alone where of each document one statistic is measured."""
    canary: NDArray[Any] | None = None
    """Every document's canary, of the same shape; below the documents stand the controls, as in every column."""
    kept: NDArray[np.bool_] | None = None
    """Which values were measured, of the same shape; the others are NaN. None: all were."""
    digests: tuple[str, ...] = ()
    """Digest of each run's announcement, if the mechanism is somebody's own: `run_digest`."""


def built_documents(
    corpus: Corpus,
    units: Units,
    targets: NDArray[np.int64],
    background: Mapping[str, NDArray[Any]],
    pool: Pool | None = None,
) -> Documents:
    """The target units, with the adversary's background knowledge."""
    rows, starts = None, None
    if units.order is not None:
        members, starts = units.members(targets)
        rows = Documents(take_rows(corpus.matrix, members), background, pool=pool)
    matrix = units.matrix if len(targets) == len(units) else rows_of(units.matrix, targets)
    return Documents(matrix, background, rows, starts, pool)


@lru_cache(maxsize=4)
def lane_documents(plan: Plan, lane: int) -> Documents:
    """The lane's documents with the adversary's background knowledge."""
    return built_documents(plan.corpus, plan.units, plan.design.targets(lane), plan.background, plan.pool)


def database_of(plan: Plan, lane: int, run: int) -> Database:
    """The parties' matrices of a run."""
    if not plan.holdings.drawn:
        return stacked(plan, plan.design.rows(lane, run))
    rng, honest = generator(plan.design.seed, Purpose.OTHERS, lane, run), plan.holdings.honest
    drawn = np.sort(rng.choice(honest, plan.holdings.entering, replace=False, shuffle=False))
    return stacked(plan, plan.design.rows(lane, run), drawn)


def stacked(plan: Plan, units: NDArray[np.int64], honest: NDArray[np.int64] | None = None) -> Database:
    """The parties' matrices where the victim holds these units, and honest parties all of theirs or some."""
    rows = plan.units.rows(units)
    parties = [take_rows(plan.corpus.matrix, rows)]
    if honest is not None:
        parties.append(take_rows(plan.corpus.matrix, plan.units.rows(honest)))
    elif len(plan.holdings.honest):
        parties.append(_fixed(plan)[0])
    if colluding := len(plan.holdings.coalition):
        parties.append(_fixed(plan)[1])
    return Database(tuple(parties), frozenset({len(parties) - 1} if colluding else ()), rows)


@lru_cache(maxsize=4)
def _fixed(plan: Plan) -> tuple[sp.csr_array, sp.csr_array]:
    matrix, rows = plan.corpus.matrix, plan.units.rows
    return take_rows(matrix, rows(plan.holdings.honest)), take_rows(matrix, rows(plan.holdings.coalition))


def run_observables(plan: Plan, lane: int, run: int) -> Stored:
    """Run the mechanism once and round what it announces to the precision of observables."""
    if plan.spec.statistics.runs_of is not None:
        raise KsdpError("these are edited versions of documents, which no run holds: nothing can be run again.")
    database = database_of(plan, lane, run)
    if isinstance(plan.mechanism, RecordedRuns):
        seen = plan.mechanism.of_run(run)
    else:
        seen = plan.mechanism.run(database, mechanism_rng(plan.design, lane, run))
    return {HANDED: handed_bits(database, len(plan.corpus))} | as_stored(plan, seen, lane, run)


def as_stored(plan: Plan, seen: Mapping[str, NDArray[Any]], lane: int, run: int, again: str = "") -> Stored:
    """Return what a run announced, rounded, with planted leaks; `again` says that the run is repeated."""
    stored = _as_declared(plan, seen, f"lane {lane}, run {run}{again}")
    if not plan.pool.leaks:
        return stored
    rng = generator(plan.design.seed, Purpose.PLANTED, lane, run)
    return with_leaks(plan.pool.leaks, stored, plan.design.rows(lane, run), rng)


def run_digest(plan: Plan, stored: Stored) -> str:
    """Digest of a run's announcement, to the last bit."""
    digest = hashlib.blake2b(digest_size=8)
    for name in sorted(plan.kept):
        digest.update(np.ascontiguousarray(stored[name]).tobytes())
    return digest.hexdigest()


def _as_declared(plan: Plan, seen: Mapping[str, NDArray[Any]], where: str) -> Stored:
    whose, own = f"mechanism {plan.mechanism.name!r}", is_own(plan.mechanism)
    declared = {array.name: array for array in plan.releases.recorded}
    if differ := sorted(declared.keys() ^ set(seen)):
        what = "is declared, not announced" if differ[0] in declared else "is announced, not declared"
        raise InvalidAudit(
            f"{whose}: {differ[0]!r} {what} ({where}). Every run must announce the same arrays: which there are "
            "tells who is in, and no statistic looks at it."
        )
    stored: Stored = {}
    for name, release in declared.items():
        given = np.asarray(seen[name])
        array = np.array(given, dtype=plan.precision)
        if array.shape != release.shape:
            raise InvalidAudit(
                f"{whose} announced {name!r} of shape {array.shape} ({where}); declared are {release.shape}. Pad "
                "it to one shape, or announce a summary of one length."
            )
        wanted = release.dtype or ("float64" if own else "")
        if wanted and given.dtype.name != wanted:
            raise InvalidAudit(
                f"{whose} announced {name!r} as {given.dtype} ({where}); declared is {wanted}. Convert it "
                "to that type in every run, or declare another (`Release.dtype`)."
            )
        if not _all_finite(array):
            raise InvalidAudit(
                f"{whose} announced NaN or infinity in {name!r} ({where}). Announce a finite number in its place."
            )
        array += array.dtype.type(0)  # -0.0 is 0.0, as on the wire; a store may leave zeros out
        stored[name] = array
    return stored


def _all_finite(array: NDArray[Any]) -> bool:
    """Whether no number is NaN or infinite; a sum tells in one pass, and overflows where it must be looked for."""
    return math.isfinite(float(array.sum(dtype=np.float64))) or bool(np.isfinite(array).all())


def sample(plan: Plan, block: Block) -> Iterator[Stored]:
    """The observables of each run of a block, in order."""
    for run in range(block.start, block.stop):
        yield run_observables(plan, block.lane, run)


def measure(
    plan: Plan,
    block: Block,
    runs: Iterator[Stored] | Sequence[Stored],
    statistics: Sequence[Statistic],
    keep: Callable[[Stored], None] | None = None,
) -> BlockValues:
    """Evaluate statistics on the observables of a block, one run after the other."""
    documents = lane_documents(plan, block.lane)
    bits, controls = drawn_controls(plan.design, block, CONTROLS)
    controls[NULL_CONTROLS:] += _PLANTED_SHIFT * bits[NULL_CONTROLS:]
    inclusion = np.concatenate([plan.design.inclusion(block), bits])
    kept = plan.kept_runs(block, inclusion)
    precision = plan.spec.store.precision
    # Filled run by run, transposed once: rows of documents are what tests read.
    targets = plan.design.targets(block.lane)
    shape = (len(block), len(documents) + CONTROLS)
    names = [s.name for s in statistics] if plan.strongest is None else [STRONGEST]
    values = {name: np.full(shape, np.nan, dtype=precision) for name in names}
    canary = np.empty(shape, dtype=precision)
    for column in (canary, *values.values()):
        column[:, len(documents) :] = controls.T
    parts = _parts(documents, kept, statistics, plan.strongest)
    done, own, digests = 0, is_own(plan.mechanism), []
    asks = {id(statistic): statistic_traits(statistic).ask for statistic in statistics}
    for stored, at in zip(runs, range(len(block)), strict=False):
        if own:
            digests.append(run_digest(plan, stored))
        if keep is not None:
            keep({name: stored[name] for name in (HANDED, *plan.kept)})
        units = handed_units(stored, plan.corpus, plan.units)
        canary[at, : len(documents)] = canary_values(units, plan.design.seed, block.lane, block.start + at)[
            targets
        ]
        # A store of the last round lacks earlier ones, and is asked only where nobody reads those (`from_store`).
        seen = Observables(
            {name: stored[name].astype(np.float64) for name in plan.releases.seen if name in stored}
        )
        for places, some, wanted in (result for part in parts for result in part.of(at)):
            for statistic in wanted:
                if (ask := asks[id(statistic)]) is not None:
                    ask(seen, some)
            for statistic in wanted:
                result = statistic.evaluate(seen, some).astype(precision)
                if not _all_finite(result):
                    raise KsdpError(
                        f"statistic {statistic.name!r} is not finite for {int((~np.isfinite(result)).sum())} "
                        f"documents (lane {block.lane}, run {block.start + at})."
                    )
                values[statistic.name if plan.strongest is None else STRONGEST][at, places] = result
        done += 1
    if done != len(block):
        raise KsdpError(f"block {block} has {done} runs of observables; it needs {len(block)}.")
    # Each goes as it is turned: of a million documents a block is gigabytes.
    columns = {name: np.ascontiguousarray(values.pop(name).T) for name in list(values)}
    found_canary = np.ascontiguousarray(canary.T)
    if kept is not None:
        # Documents are measured where they are kept; canaries and controls were filled in everywhere.
        found_canary[~kept] = np.nan
        dropped = ~kept[len(documents) :]
        for column in columns.values():
            column[len(documents) :][dropped] = np.nan
    return BlockValues(block, inclusion, columns, found_canary, kept, tuple(digests))


class _Part:
    """Documents of which the same statistics are measured."""

    def __init__(
        self,
        documents: Documents,
        kept: NDArray[np.bool_] | None,
        statistics: Sequence[Statistic],
        places: NDArray[np.int64] | None = None,
    ) -> None:
        """`places` of the documents among all of them, where these are some."""
        some = documents if places is None else documents.at(places)
        self._documents, self._statistics, self._places = some, statistics, places
        if kept is None:
            self._everywhere: Any = slice(0, len(some))
            self._whole, self._held = some, None
            return
        mine = kept[: len(documents)] if places is None else kept[places]
        everywhere = mine.all(axis=1)
        self._everywhere = np.flatnonzero(everywhere)
        self._whole = some.at(self._everywhere)
        self._held = mine & ~np.asarray(everywhere)[:, None]

    def of(self, run: int) -> Iterator[tuple[Any, Documents, Sequence[Statistic]]]:
        """Yield the documents measured in a run, with their places: those of its block, and those that it held."""
        places_held = np.zeros(0, np.int64) if self._held is None else np.flatnonzero(self._held[:, run])
        if len(places_held) and 0 < len(self._whole) <= _FEW:
            together = np.concatenate([self._everywhere, places_held])
            yield self._among_all(together), self._documents.at(together), self._statistics
            return
        if len(self._whole):
            yield self._among_all(self._everywhere), self._whole, self._statistics
        if len(places_held):
            yield self._among_all(places_held), self._documents.at(places_held), self._statistics

    def _among_all(self, places: Any) -> Any:
        return places if self._places is None else self._places[places]


def _parts(
    documents: Documents,
    kept: NDArray[np.bool_] | None,
    statistics: Sequence[Statistic],
    strongest: NDArray[np.int64] | None,
) -> list[_Part]:
    """All documents under all statistics; or those of each statistic, where of a document one is measured."""
    if strongest is None:
        return [_Part(documents, kept, statistics)]
    return [
        _Part(documents, kept, (statistic,), places)
        for number, statistic in enumerate(statistics)
        if len(places := np.flatnonzero(strongest == number))
    ]


def try_own_code(plan: Plan) -> None:
    """If the spec names a user's own code, run it once, with every statistic that is not learnt from more runs."""
    if not names_own_code(plan.spec) or plan.spec.statistics.runs_of is not None:
        return
    with _trial(f"mechanism {plan.mechanism.name!r}", "run"):
        stored = run_observables(plan, 0, 0)
    seen = Observables({array: stored[array].astype(np.float64) for array in plan.releases.seen})
    documents = lane_documents(plan, 0)
    for statistic in unlearnt(plan.statistics):
        whose = f"statistic {statistic.name!r}"
        with _trial(whose, "evaluate"):
            values = np.asarray(statistic.evaluate(seen, documents))
        if values.shape != (len(documents),):
            raise SpecError(
                f"`evaluate` of {whose} must give one number a document, shape ({len(documents)},); "
                f"got shape {values.shape}."
            )
        if values.dtype.kind not in "biuf" or not np.isfinite(values).all():
            raise SpecError(f"`evaluate` of {whose} must give finite numbers.")


@contextmanager
def _trial(whose: str, what: str) -> Iterator[None]:
    try:
        yield
    except KsdpError as error:
        raise SpecError(f"`{what}` of {whose} fails in a trial run: {error}") from error
    except Exception as error:  # somebody else's code
        raise SpecError(f"`{what}` of {whose} fails in a trial run: {failure_of(error)}.") from error
