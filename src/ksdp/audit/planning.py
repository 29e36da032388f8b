"""From a spec and its corpus to the plan of an audit, or to a refusal that says what does not fit."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.linalg import svds

from ksdp.audit.absence import Absence, ProvedSensitive, absence_bounds, absence_shown
from ksdp.audit.contract import Mechanism, Release, traits_of
from ksdp.audit.corpus.groups import Units
from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.errors import InputError, SpecError
from ksdp.audit.mechanisms.callables import FunctionMechanism
from ksdp.audit.mechanisms.factorisation.pd_svd import PDSVD
from ksdp.audit.mechanisms.parameters import given_fields
from ksdp.audit.mechanisms.planted import ArrayLeak, leaks_of
from ksdp.audit.mechanisms.privacy.spent import Promise, promise_of
from ksdp.audit.mechanisms.privacy.transcript import ANY_PARTIES, GaussianReleases
from ksdp.audit.mechanisms.recorded import ENOUGH, RecordedRuns, is_own
from ksdp.audit.mechanisms.schema import ReleaseSchema, release_schema
from ksdp.audit.numeric.kernels import one_thread
from ksdp.audit.numeric.sparse_rows import rows_of, take_rows
from ksdp.audit.opened import Holdings, Opened
from ksdp.audit.plan import (
    CONTROLS,
    Plan,
    PlannedStatistics,
    proved_before_runs,
    reads_one_document,
    rounds_solved,
    unweighed,
)
from ksdp.audit.proofs import check_certifiable
from ksdp.audit.randomness import Purpose, derived_seed, generator
from ksdp.audit.registry import default_statistics, select_statistics
from ksdp.audit.reviewing import plural
from ksdp.audit.run_subsampling import EVERY_RUN, RunSubsampling, best_every, more_runs
from ksdp.audit.specs.design import Balanced, Design, Shared, make_design
from ksdp.audit.specs.models import Spec
from ksdp.audit.statistic import Pool, Statistic, own_statistics, statistic_traits
from ksdp.audit.statistics.further import further_runs, numbers_and_products
from ksdp.audit.statistics.linear.groups import GroupMean, OfGroups, solves_groups
from ksdp.audit.statistics.linear.system import own_mechanism
from ksdp.audit.statistics.simulated import SIMULATED, SimulatedStatistic, unlearnt
from ksdp.audit.statistics.simulated import STATISTICS as SIMULATIONS
from ksdp.audit.verdicts.looks import Look, planned_looks

# Runs of the smaller arm in which a planted leak must be seen (`testing.judge_controls`), and some more.
_CHECKS = 32


def make_plan(opened: Opened) -> Plan:
    """Check a spec against its corpus and decide everything."""
    spec, corpus, mechanism, holdings = opened.spec, opened.corpus, opened.mechanism, opened.holdings
    rank = traits_of(mechanism).rank
    if rank is not None:
        _check_rank(rank, holdings, corpus.features)
    _check_told_rows(spec, holdings, mechanism)
    promise = None if spec.planted else promised(spec, holdings, mechanism, corpus.features)
    proved = proved_before_runs(promise, spec) and not spec.statistics.explored
    design = _design(spec, holdings, mechanism, proved)
    sees, keeps = spec.statistics.sees, spec.store.observables
    shown = release_schema(mechanism, corpus.features, sees=sees, keeps=keeps)
    background = _background(holdings, corpus, rank, spec.seed)
    chosen = (spec.statistics.families, spec.statistics.names)
    tested = planned_statistics(
        *chosen, mechanism, shown, holdings, background, design.runs, spec.decision_in_run.margin
    )
    if spec.certificate is not None:
        check_certifiable(mechanism, design, corpus.features)
        if isinstance(mechanism, GaussianReleases) and mechanism.holds_against < 1 and not len(holdings.coalition):
            raise SpecError(
                f"each party of a run of {mechanism.name!r} knows a part of the noise: for a certificate, set "
                "`mechanism.colluders` to 1 or more, or audit a coalition (`parties.coalition`)."
            )
        if holdings.drawn:
            raise SpecError(
                "a certificate needs `parties.others` fixed or colluding: pairs share all other documents."
            )
    runs = planned_runs(spec, design, shown.kept, tested.chosen)
    absent = _absent(spec, holdings, shown.read, design)
    rest = {} if absent is None else {"audited": np.setdiff1d(design.targets(0), absent.units)}
    return Plan(
        opened=opened,
        releases=shown,
        tested=tested,
        design=replace(cast(Any, runs.design), **rest),
        background=background,
        block_runs=runs.block_runs,
        looks=runs.looks,
        reading=runs.reading,
        pool=_pool(corpus, holdings, mechanism, _leaks(spec, holdings, shown)),
        promise=promise,
        absent=absent,
    )


def _check_told_rows(spec: Spec, holdings: Holdings, mechanism: Mechanism) -> None:
    """Refuse groups of unequal sizes where a run says how many documents enter, which no statistic reads."""
    sizes = holdings.units.sizes
    if sizes.min() < sizes.max() and traits_of(mechanism).tells_rows and not spec.proved_by_draw:
        raise SpecError(
            f"a run of {mechanism.name} says how many documents enter, and groups have {sizes.min()} to "
            f"{sizes.max()} of them: that tells who is in. Give every group as many documents, or one that is "
            "their sum; or take a mechanism or an `opens` that says nothing of it (`ksdp mechanisms`)."
        )


def _pool(corpus: Corpus, holdings: Holdings, mechanism: Mechanism, planted: Sequence[ArrayLeak]) -> Pool:
    """Describe the databases: some of the victim's units, and all or half of those of others."""
    units = holdings.units
    mine, others = holdings.victim, np.sort(np.concatenate([holdings.honest, holdings.coalition]))
    share = holdings.size / max(len(mine), 1)
    own = corpus.matrix if len(mine) == len(units) else rows_of(corpus.matrix, units.rows(mine))
    group = _groups_of(units, mine)
    leaks = tuple(replace(leak, unit=int(np.searchsorted(mine, leak.unit))) for leak in planted)
    rows = None if len(mine) == len(units) else units.rows(mine)
    options: dict[str, Any] = {"group": group, "leaks": leaks, "corpus_rows": rows}
    if not len(others):
        return Pool(own, share, None, mechanism, **options)
    fixed = rows_of(corpus.matrix, units.rows(others))
    shared = 0.5 if holdings.drawn else 1.0
    pool = Pool(own, share, fixed, mechanism, shared, bool(len(holdings.coalition)), **options)
    if not (len(holdings.honest) and len(holdings.coalition)):
        return pool
    honest, coalition = (rows_of(corpus.matrix, units.rows(r)) for r in (holdings.honest, holdings.coalition))
    return replace(pool, honest=honest, coalition=coalition)


def _groups_of(units: Units, mine: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """The group of each row of these units, in the corpus's order, from 0; None where units are documents."""
    if units.order is None:
        return None
    rows, starts = units.members(mine)
    number = np.repeat(np.arange(len(mine)), np.diff(starts))
    return np.asarray(number[np.argsort(rows, kind="stable")])


# A block's values and observables stay below this, so that a worker's memory does not depend on the corpus.
_BLOCK_BYTES = 64 * 2**20
_STATISTICS_GUESS = 8
# The family whose last bit depends on a document's place among others.
_BY_PLACE = "paper-blocks"
# Strata of blocks before the first look, where a part of the without runs is kept.
_FEWEST_STRATA = 4


@dataclass(frozen=True, eq=False)
class PlannedRuns:
    """The runs of an audit."""

    design: Design
    """Which documents are in which run, with the runs of a lane."""
    block_runs: int
    """Runs in a block."""
    looks: tuple[Look, ...]
    """When the audit decides, and at what level."""
    reading: RunSubsampling
    """Which part of the runs a document's tests read (`ksdp.audit.run_subsampling`)."""


def planned_runs(
    spec: Spec, design: Design, kept: Sequence[Release], statistics: Sequence[Statistic]
) -> PlannedRuns:
    """Decide blocks, looks and reading, and add the runs that reading a part of them costs."""
    block_runs = _block_runs(design, kept)
    every, drawn = _partly_read(spec, design, block_runs)
    looks = planned_looks(spec, drawn, block_runs * every)
    by_place = any(statistic.family == _BY_PLACE for statistic in statistics)
    if by_place or not reads_one_document(statistics):
        return PlannedRuns(drawn, block_runs, looks, EVERY_RUN)
    # A first look of few blocks reads all of them.
    lumpy = len(looks) > 1 and looks[0].runs < _FEWEST_STRATA * every * block_runs
    return PlannedRuns(
        drawn, block_runs, looks, RunSubsampling(every, looks[0].runs if lumpy and every > 1 else 0)
    )


def _block_runs(design: Design, kept: Sequence[Release]) -> int:
    """Runs in a block: a power of two from the sizes alone, so that audits of the same runs share blocks."""
    audited = len(design.pool if isinstance(design, Shared) else design.targets(0)) + CONTROLS
    observables = sum(int(np.prod(a.shape)) for a in kept)
    fits = _BLOCK_BYTES // (4 * (audited * _STATISTICS_GUESS + observables))
    return int(2 ** np.clip(np.floor(np.log2(max(fits, 1))), 4, 8))


def _partly_read(spec: Spec, design: Design, block_runs: int) -> tuple[int, Design]:
    needed = spec.design.without_runs == "needed" and spec.design.unit == "document"
    if not (needed and isinstance(design, Shared)) or design.share >= 0.5:
        return 1, design
    every = best_every(design.share)
    # With few blocks the draw is lumpy, and there is little to save.
    while every > 1 and design.runs < _FEWEST_STRATA * every * block_runs:
        every //= 2
    if every == 1:
        return 1, design
    multiple = every * block_runs
    runs = multiple * math.ceil(design.runs * more_runs(design.share, every) / multiple)
    return every, dataclasses.replace(design, runs=runs)


def planned_statistics(
    families: Sequence[str],
    names: Sequence[str],
    mechanism: Mechanism,
    shown: ReleaseSchema,
    holdings: Holdings,
    background: Mapping[str, Any],
    runs: int,
    margin: float,
) -> PlannedStatistics:
    """Choose the statistics that a spec asks for and the mechanism's observables allow."""
    own = own_statistics(mechanism)
    others = default_statistics(shown.seen, background, own)
    dear = _left_out(others, shown, holdings.unknown)
    others = tuple(s for s in others if s.name not in dear)
    learnt, missing = _simulated(mechanism, shown, holdings, others, by_name=SIMULATED in (*names, *families))
    brought: tuple[Statistic, ...] = () if missing else SIMULATIONS
    chosen, skipped = select_statistics(families, names, shown.seen, background, (*own, *brought))
    further = _further(mechanism, holdings, learnt, margin)
    chosen = tuple(s.over(learnt, runs, further) if isinstance(s, SimulatedStatistic) else s for s in chosen)
    needs = _left_out([s for s in chosen if s.name not in names], shown, holdings.unknown)
    needs |= {s.name: f"needs {missing}" for s in chosen if isinstance(s, SimulatedStatistic) and missing}
    chosen = tuple(s for s in chosen if s.name not in needs)
    skipped = skipped | needs
    if not chosen:
        raise SpecError(f"no statistic can be computed: {'; '.join(f'{n} {why}' for n, why in skipped.items())}.")
    if holdings.units.word == "group":
        solved = (OfGroups(statistic) for statistic in chosen if solves_groups(statistic))
        each = (GroupMean(statistic) for statistic in unlearnt(chosen))
        chosen = (*chosen, *each, *solved)
    # Arrays of a program's own function, or of recorded runs, may have the names of ours and be something else.
    if isinstance(mechanism, FunctionMechanism | RecordedRuns):
        others = ()
    default = (*others, *(s for s in brought if s.name not in needs))
    return PlannedStatistics(chosen, skipped, tuple(s.name for s in default))


MOST_LEARNT_OF, MOST_LEARNT_FROM = 2**13, 2**14
"""Documents, and announced numbers of a run, up to which runs of ksdp's own mechanisms are learnt from whole."""
_MOST_PRODUCT = 2**25
"""Largest product of both."""
MOST_LEARNT_IN_PART = 2**15
"""Documents up to which arrays are learnt from that no other statistic weighs."""


def _simulated(
    mechanism: Mechanism, shown: ReleaseSchema, holdings: Holdings, others: Sequence[Statistic], *, by_name: bool
) -> tuple[tuple[Release, ...], str]:
    """Arrays that the statistic learnt from simulated runs reads; where it is not tested, what it needs."""
    if isinstance(mechanism, RecordedRuns) and not mechanism.learnt:
        return (), f"a mechanism that can be run, or {ENOUGH} recorded runs"
    if is_own(mechanism) or by_name:  # of somebody's own mechanism no other statistic knows anything
        return shown.read, ""
    if rounds_solved(mechanism, shown.read, holdings.unknown):
        return (), "no equations that say who was in: these do"
    little = holdings.unknown * shown.numbers <= _MOST_PRODUCT
    if little and holdings.unknown <= MOST_LEARNT_OF and shown.numbers <= MOST_LEARNT_FROM:
        return shown.read, ""
    arrays = unweighed(shown.read, shown.seen, others)
    numbers = sum(math.prod(array.shape) for array in arrays)
    if arrays and numbers <= MOST_LEARNT_FROM and holdings.unknown <= MOST_LEARNT_IN_PART:
        return arrays, ""
    most = f"at most {MOST_LEARNT_OF:,} documents and {MOST_LEARNT_FROM:,} announced numbers"
    return (), f"{most}, or `statistics.names` to name it"


def _further(mechanism: Mechanism, holdings: Holdings, learnt: Sequence[Release], margin: float) -> int:
    """Training runs of one decomposition each; 0 of what takes longer."""
    own = own_mechanism(mechanism)
    if not isinstance(own, PDSVD) or own.solver != "limit":
        return 0
    units, numbers = holdings.units, numbers_and_products(learnt)
    return further_runs(int(units.sizes.sum()), units.matrix.shape[1], numbers, holdings.share, margin)


def _left_out(statistics: Sequence[Statistic], shown: ReleaseSchema, documents: int) -> dict[str, str]:
    """Statistics that are not worth their time with so many documents (`Statistic`), and what they need."""
    shapes = {array.name: array.shape for array in shown.read}
    lacking = {s.name: asks(shapes, documents) for s in statistics if (asks := statistic_traits(s).asks_for)}
    return {name: f"needs {what}" for name, what in lacking.items() if what}


def absence_of(spec: Spec, holdings: Holdings, seen: Sequence[Release]) -> Absence | None:
    """Bounds that absence proves for each of the victim's units, in order; None if it proves nothing."""
    shown, units = "" if spec.planted else absence_shown(seen), holdings.units.matrix
    if not shown or spec.design.kind != "shared":
        return None
    if shown == "factor" and holdings.units.order is not None:  # a sum of rows may be longer than all of them
        return None
    others = np.concatenate([holdings.honest, holdings.coalition])
    bounds = absence_bounds(
        rows_of(units, holdings.victim),
        holdings.size,
        shown,
        poisson=spec.design.sampling == "poisson",
        others=rows_of(units, np.sort(others)) if len(others) else None,
        entering=holdings.entering if holdings.drawn else None,
    )
    return bounds if bounds.bound.any() else None


def _absent(spec: Spec, holdings: Holdings, seen: Sequence[Release], design: Design) -> ProvedSensitive | None:
    """Audited units that absence proves sensitive; if these are all, the least exposed one is measured too."""
    margin = spec.decision_in_run.margin
    applies = margin > 0 and spec.design.absent == "proved" and not spec.statistics.explored
    bounds = absence_of(spec, holdings, seen) if applies else None
    if bounds is None:
        return None
    audited = design.targets(0)
    bound = bounds.bound[np.searchsorted(holdings.victim, audited)]
    above = bound > margin
    if above.all():
        above[np.argmin(bound)] = False
    return ProvedSensitive(audited[above], bound[above]) if above.any() else None


def _leaks(spec: Spec, holdings: Holdings, shown: ReleaseSchema) -> tuple[ArrayLeak, ...]:
    rows = {str(holdings.units.ids[unit]): int(unit) for unit in holdings.victim} if spec.planted else {}
    return leaks_of(spec.planted, rows, {array.name: array.shape for array in shown.recorded})


def promised(spec: Spec, holdings: Holdings, mechanism: Mechanism, features: int) -> Promise | None:
    """Bound of the noise for each document, if databases with and without it differ in that record alone."""
    one_record = holdings.units.order is None and spec.design.sampling == "fixed"
    sizes = [size for size in (holdings.size, holdings.entering, len(holdings.coalition)) if size]
    known_parties = ANY_PARTIES if spec.parties.others == "colluding" else 1  # whoever takes part knows its own
    return promise_of(mechanism, sizes, features, known_parties) if one_record else None


def _check_rank(rank: int, holdings: Holdings, features: int) -> None:
    rows = int(np.sort(holdings.units.sizes[holdings.victim])[: holdings.size].sum())  # of its smallest groups
    if rank >= min(rows, features):
        raise SpecError(
            f"`mechanism.rank` must be below the party's rows ({rows}) and the features ({features}); got {rank}. "
            f"{'Raise `design.party_size`, or lower the rank.' if rows < features else 'Lower the rank.'}"
        )


def _design(spec: Spec, holdings: Holdings, mechanism: Mechanism, proved: bool) -> Design:
    """Which documents are in which run; of what is `proved` before any, a few runs check the program."""
    targets = _targets(spec.design.documents, holdings)
    if isinstance(mechanism, RecordedRuns):
        return mechanism.design(holdings.victim if targets is None else targets, spec.seed)
    wanted = spec.design
    if proved and wanted.with_runs > _CHECKS:
        wanted = wanted.model_copy(update={"with_runs": _CHECKS})
    design: Any = make_design(wanted, holdings.victim, spec.seed, documents=holdings.counted, targets=targets)
    few = isinstance(spec.design.documents, int) and len(design.audited) < len(design.pool)
    few = few or spec.design.pool is not None
    if few or isinstance(design, Balanced):
        # It counts those alone (`Plan.counted`), so that nobody may have looked at these runs before: a number
        # chosen by what was seen there proves somebody to leak in every fifth audit of nothing.
        design = replace(design, seed=derived_seed(spec.seed, Purpose.AUDITED, *design.audited.tolist()))
    return cast(Design, design)


def _targets(documents: object, holdings: Holdings) -> NDArray[np.int64] | None:
    if not isinstance(documents, tuple):
        return None
    place = {str(name): row for row, name in enumerate(holdings.units.ids)}
    if unknown := [name for name in documents if name not in place]:
        raise SpecError(f"`design.documents` names {unknown[0]!r}, which the corpus does not hold.")
    targets = np.unique([place[name] for name in documents])
    elsewhere = np.setdiff1d(targets, holdings.victim)
    if len(elsewhere):
        raise SpecError(
            f"`design.documents` names {holdings.units.ids[elsewhere[0]]!s}, which another party holds, or which "
            "`design.pool` leaves out."
        )
    return targets


def _background(holdings: Holdings, corpus: Corpus, rank: int | None, seed: int) -> dict[str, NDArray[Any]]:
    """The adversary's own singular values, from the coalition's data or from a sample of its own."""
    if len(holdings.coalition):
        known_units = holdings.coalition
    else:
        rng = generator(seed, Purpose.ADVERSARY)
        known_units = np.sort(rng.choice(len(holdings.units), holdings.size, replace=False, shuffle=False))
    own = holdings.units.rows(known_units)
    victim = holdings.size + holdings.entering
    if holdings.units.word == "group":
        of_others = int(holdings.units.sizes[holdings.honest[: holdings.entering]].sum())
        victim = round(holdings.size * float(holdings.units.sizes.mean())) + of_others
    background: dict[str, NDArray[Any]] = {"adversary_rows": np.array(len(own)), "victim_rows": np.array(victim)}
    if rank is not None and rank < min(len(own), corpus.features):
        matrix = take_rows(corpus.matrix, own)
        with one_thread():
            sigma = svds(matrix, rank, return_singular_vectors=False, v0=np.ones(min(matrix.shape)))
        background["adversary_sigma"] = np.sort(sigma)[::-1].copy()
    return background


_SHOWN = 12
_LABELS = frozenset({"label", "labels", "target", "class", "y", "outcome", "response"})
_ALONE = 0.99
"""Share of the squared length of all rows from which a factorisation sees one column alone."""
_FAR = 2.0
"""Rows longer than so many times the bound lose more than half of their length."""


def corpus_notes(opened: Opened) -> list[str]:
    """A sentence each, where there are any: rows left out, rows alike, columns taken, rows that are clipped."""
    spec, corpus = opened.spec, opened.corpus
    notes = [] if spec.draw_sentence is None else [spec.draw_sentence]
    if corpus.left_out:
        some = ", ".join(corpus.left_out[:3]) + (", ..." if len(corpus.left_out) > 3 else "")
        notes.append(
            f"{plural(len(corpus.left_out), 'row')} without any feature left out, without verdicts: {some}."
        )
    if alike := _copies(corpus):
        notes.append(
            f"{alike:,} documents are copies of another: a run hides which of them took part, not that one did."
        )
    if corpus.taken:
        notes.append(_taken(corpus.taken))
        if alone := _outweighing(corpus, corpus.taken):
            notes.append(alone)
    if clipped := _clipped(corpus, given_fields(opened.mechanism).get("row_bound")):
        notes.append(clipped)
    return notes


def _copies(corpus: Corpus) -> int:
    """Documents whose row is that of another one: a copy that stays hides the one that goes."""
    _, copies = np.unique(corpus.first_alike, return_counts=True)
    return int(copies[copies > 1].sum())


def _taken(columns: tuple[str, ...]) -> str:
    more = f" and {len(columns) - _SHOWN} more" if len(columns) > _SHOWN else ""
    note = f"the table's {len(columns)} columns are taken: {', '.join(columns[:_SHOWN])}{more}."
    labels = [name for name in columns if name.lower() in _LABELS]
    if labels:
        note += f" `{labels[0]}` looks like a label: `corpus.columns` names those that are meant."
    return note


def _outweighing(corpus: Corpus, columns: tuple[str, ...]) -> str:
    squares = np.asarray(corpus.matrix.multiply(corpus.matrix).sum(axis=0)).ravel()
    largest = int(np.argmax(squares))
    if len(columns) != len(squares) or len(columns) < 2 or squares[largest] <= _ALONE * squares.sum():
        return ""
    return (
        f"`{columns[largest]}` holds {100 * squares[largest] / squares.sum():.4g} % of the rows' squared length: "
        "its numbers are so large that the other columns hardly count. "
        '`corpus.weighting = "standardised"` weighs all alike.'
    )


def _clipped(corpus: Corpus, bound: float | None) -> str:
    if bound is None:
        return ""
    matrix = corpus.matrix
    lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    longer = lengths[lengths > bound * (1 + 1e-9)]
    if not len(longer):
        return ""
    times = float(np.median(longer)) / bound
    advice = " Scale the rows (`corpus.rows`, `corpus.weighting`) or raise the bound." if times > _FAR else ""
    return (
        f"{len(longer)} of {len(corpus)} rows are longer than the mechanism's `row_bound` of {bound:g} and are "
        f"clipped to it; half of these are over {times:.3g} times as long.{advice}"
    )


_LEAST, _MOST = 2.0, 16.0


def wanted_factor(runs: ArrayLike, runs_to_decide: ArrayLike) -> float:
    """How many times as many runs would decide every document, between 2 and 16."""
    done, needed = np.asarray(runs, dtype=np.float64), np.asarray(runs_to_decide, dtype=np.float64)
    factors = (needed / done)[np.isfinite(needed)]
    return float(min(max(_LEAST, *factors), _MOST)) if len(factors) else _LEAST


def topped_up(spec: Spec, documents: Sequence[str], factor: float, *, with_runs: int | None = None) -> Spec:
    """The spec of the audit that looks again.

    The shared design continues the same sequence of runs, so all that was run is used again and every document
    gains: nobody is chosen. The others, whose runs belong to the documents they name, audit those that were asked
    for alone. Those were chosen by what was seen of them, and what was seen must not count twice: they get runs of
    a seed of their own, and no others.

    How many runs are asked for depends on what was seen. So they are doubled until there are enough, and with each
    doubling the level is halved: all looks that could follow then add up to less than twice the first level.
    """
    before = spec.design.with_runs
    wanted = math.ceil(before * factor) if with_runs is None else with_runs
    if wanted <= before:
        raise InputError(f"`with_runs` must be above the {before} of the audit; got {wanted}.")
    times = 2 ** math.ceil(math.log2(wanted / before))
    more, tables = times * before, spec.tables_at_level(lambda level: level / times)
    tables["design"]["with_runs"] = more
    if spec.design.kind != "shared":
        tables["design"]["documents"] = sorted(documents)
        tables["seed"] = derived_seed(spec.seed, Purpose.MORE, more)
    return Spec.model_validate(tables)
