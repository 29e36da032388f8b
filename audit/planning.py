"""From a spec and its corpus to the plan of an audit, or to a refusal that says what does not fit."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import svds
from threadpoolctl import threadpool_limits

from ksdp.audit.certifying import check_certifiable
from ksdp.audit.corpus import Corpus
from ksdp.audit.csr_rows import take_rows
from ksdp.audit.design import Design, Shared, adversary_rows, as_rows, make_design
from ksdp.audit.document_parts import reads_one_document
from ksdp.audit.errors import SpecError
from ksdp.audit.groups import Units, make_units
from ksdp.audit.interim_looks import Look, early_looks_pay, plan_looks
from ksdp.audit.kept_runs import best_every, more_runs
from ksdp.audit.mechanisms.contract import Announced, Mechanism, final_output, kept_of, opened
from ksdp.audit.party_view import parties_of
from ksdp.audit.plan import CONTROLS, Plan
from ksdp.audit.randomness import Purpose, generator
from ksdp.audit.reading import EVERY_RUN, Reading
from ksdp.audit.recorded import RecordedRuns
from ksdp.audit.registry import mechanism_of, select_statistics
from ksdp.audit.requested_learners import LEARNED_PREFIX, requested_learners
from ksdp.audit.spec import Spec
from ksdp.audit.statistics.coefficients import COEFFICIENTS, coefficients
from ksdp.audit.statistics.contract import Statistic
from ksdp.audit.statistics.over_rows import OverRows
from ksdp.audit.verdicts.multiplicity import EXACT_SHARE
from ksdp.audit.verdicts.over_statistics import documents_feasible
from ksdp.audit.verdicts.raw_filter import RAW

__all__ = ["make_plan"]

# More would take longer than the runs themselves.
_MOST_PERMUTATIONS = 200_000
# A block's values and observables stay below this, so that a worker's memory does not depend on the corpus.
_BLOCK_BYTES = 64 * 2**20
_STATISTICS_GUESS = 8
# A mean and a covariance of a few dozen coefficients need no more documents.
_POPULATION = 1024
# Families whose last bit depends on a document's place among others.
_BY_PLACE = ("paper-blocks", COEFFICIENTS)
# Strata of blocks before the first look, where a part of the without runs is kept.
_FEWEST_STRATA = 4
# A worker holds the announced numbers of all runs (4 GiB), and some matrices of runs by runs (512 MiB each).
_MOST_RAW = 2**30
_MOST_RAW_RUNS = 8192


def make_plan(spec: Spec, corpus: Corpus) -> Plan:
    """Check a spec against its corpus and decide everything.

    Raises
    ------
    SpecError
        If the corpus is too small for the design or the rank, a party is empty, or a name is unknown; or if the
        spec has views, each of which is an audit of its own (`ksdp.audit.views`).
    """
    if spec.views is not None:
        raise SpecError("`views` must be left out: this is for one view. `ksdp audit` audits several.")
    mechanism = mechanism_of(spec.mechanism)
    units = make_units(corpus, spec.design.unit)
    pool, honest, coalition = parties_of(spec, corpus, units)
    whole = len(units) if spec.parties.me is None else len(pool)
    size = as_rows(spec.design.party_size, whole)
    rank = getattr(mechanism, "rank", None)
    if rank is not None:
        _check_rank(rank, int(np.sort(units.sizes[pool])[:size].sum()), corpus.features)
    targets = _targets(spec.design.documents, units, pool)
    design: Design
    if isinstance(mechanism, RecordedRuns):
        design = mechanism.design(pool if targets is None else targets, spec.seed)
    else:
        design = make_design(spec.design, pool, spec.seed, documents=whole, targets=targets)
    announced = _announced(mechanism, corpus.features)
    seen = shown = opened(mechanism, corpus.features)
    if spec.statistics.sees == "final":
        seen = shown = final_output(mechanism)
    seen = tuple(name for name in seen if name in {a.name for a in announced})
    families, learners = requested_learners(spec.statistics)
    background = _background(spec, corpus, units, mechanism, size, honest, coalition)
    plain = [n for n in spec.statistics.names if not n.startswith(LEARNED_PREFIX)]
    brought = getattr(mechanism, "statistics", ())
    chosen, skipped = select_statistics(families, plain, seen, background, brought)
    if units.word == "group":
        chosen = (*chosen, *(OverRows(statistic) for statistic in chosen))
    if set(learners) - {RAW} and rank is not None:
        chosen += coefficients(rank, seen)
    if RAW in learners:
        _check_raw(spec, [a for a in announced if a.name in seen], design.runs)
    if spec.certificate is not None:
        check_certifiable(mechanism, design, corpus.features)
        if spec.parties.others == "drawn":
            raise SpecError(
                "a certificate needs `parties.others` fixed or colluding: pairs share all other documents."
            )
    block_runs = _block_runs(design, kept_of(announced, spec.store.observables))
    every = _every(spec, design, block_runs)
    exact = getattr(mechanism, "noise_free", False)
    numbers = sum(int(np.prod(a.shape)) for a in announced if exact and a.name in seen)
    early = early_looks_pay(spec, design, chosen, numbers / (size + len(honest)))
    if every > 1:
        design = _with_more_runs(design, every, block_runs)
    looks = plan_looks(spec, design.runs, block_runs * every, early)
    plan = Plan(
        spec=spec,
        corpus=corpus,
        units=units,
        mechanism=mechanism,
        announced=announced,
        seen=seen,
        opened=shown,
        statistics=chosen,
        skipped=skipped,
        design=design,
        party_rows=size,
        honest=honest,
        coalition=coalition,
        background=background,
        learners=learners,
        block_runs=block_runs,
        looks=looks,
        population=_population(design, spec.seed),
        reading=EVERY_RUN if _reads_all(spec, chosen) else _reading(every, looks, block_runs),
    )
    _check_permutations(plan)
    return plan


def _check_rank(rank: int, rows: int, features: int) -> None:
    if rank >= min(rows, features):
        raise SpecError(
            f"`mechanism.rank` must be below the party's rows ({rows}) and the features ({features}); got {rank}."
        )


def _targets(documents: object, units: Units, pool: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Rows of the documents that are named; None where none are.

    Raises
    ------
    SpecError
        If the corpus does not hold one, or another party does.
    """
    if not isinstance(documents, tuple):
        return None
    place = {str(name): row for row, name in enumerate(units.ids)}
    if unknown := [name for name in documents if name not in place]:
        raise SpecError(f"`design.documents` names {unknown[0]!r}, which the corpus does not hold.")
    targets = np.unique([place[name] for name in documents])
    elsewhere = np.setdiff1d(targets, pool)
    if len(elsewhere):
        raise SpecError(f"`design.documents` names {units.ids[elsewhere[0]]!s}, which another party holds.")
    return targets


def _check_permutations(plan: Plan) -> None:
    """Refuse so many documents that max-t proves something only with permutations that outlast the runs."""
    if plan.permutations <= _MOST_PERMUTATIONS:
        return
    decision = plan.spec.decision
    most = documents_feasible((1 - EXACT_SHARE) * decision.level, _MOST_PERMUTATIONS, decision.correction)
    raise SpecError(
        f"`decision.over_statistics` max-t can prove a single leak among at most {most} documents; "
        f"{len(plan.audited)} are audited."
    )


def _check_raw(spec: Spec, read: Sequence[Announced], runs: int) -> None:
    """Refuse a learner on raw announcements that are not kept, or that no worker can hold."""
    lost = [a.name for a in read if a not in kept_of(tuple(read), spec.store.observables)]
    if lost or spec.store.observables == "none":
        raise SpecError(
            f'`store.observables` must be "all" with {LEARNED_PREFIX}{RAW}, which reads every announced array.'
        )
    numbers = sum(int(np.prod(a.shape)) for a in read)
    if runs > _MOST_RAW_RUNS or runs * numbers > _MOST_RAW:
        raise SpecError(
            f"{LEARNED_PREFIX}{RAW} holds all runs in memory: at most {_MOST_RAW_RUNS} runs and {_MOST_RAW} "
            f"announced numbers; got {runs} runs of {numbers}. Take fewer features, a smaller rank, or fewer runs."
        )


def _population(design: Design, seed: int) -> NDArray[np.int64]:
    """Some thousand of the audited units, drawn from the seed."""
    audited = np.concatenate([design.targets(lane) for lane in range(design.lanes)])
    if len(audited) > _POPULATION:
        audited = generator(seed, Purpose.POPULATION).choice(audited, _POPULATION, replace=False)
    return np.sort(audited)


def _every(spec: Spec, design: Design, block_runs: int) -> int:
    """Of how many blocks of runs one may keep a document's without arm: by the design alone, so that audits of the
    same runs under other statistics have the same number of them."""
    needed = spec.design.without_runs == "needed" and spec.design.unit == "document"
    if not (needed and isinstance(design, Shared)) or design.share >= 0.5:
        return 1
    asked = spec.design.looks
    first = float(design.runs)
    if asked != "needed":  # early looks of large audits read all of their runs where these are few
        first *= 1 / asked if isinstance(asked, int) else asked[0]
    every = best_every(design.share)
    # With few blocks the draw is lumpy, and there is little to save: before a first look, or after it.
    while every > 1 and max(first, design.runs - first) < _FEWEST_STRATA * every * block_runs:
        every //= 2
    return every


def _reading(every: int, looks: Sequence[Look], block_runs: int) -> Reading:
    """A first look of few blocks reads all of them."""
    lumpy = len(looks) > 1 and looks[0].runs < _FEWEST_STRATA * every * block_runs
    return Reading(every, looks[0].runs if lumpy and every > 1 else 0)


def _reads_all(spec: Spec, chosen: Sequence[Statistic]) -> bool:
    """Whether tests need all runs of every document.

    Learners and permutations read whole runs. Statistics of other packages may look at who else is measured, which
    is then not the same in both arms.
    """
    own = reads_one_document(chosen) and not any(statistic.family in _BY_PLACE for statistic in chosen)
    return not own or bool(requested_learners(spec.statistics)[1]) or spec.decision.joint


def _with_more_runs(design: Design, every: int, block_runs: int) -> Design:
    """Whole strata of blocks, and so many that the tests are as strong as if they read all runs."""
    assert isinstance(design, Shared)
    whole = every * block_runs
    runs = whole * math.ceil(design.runs * more_runs(design.share, every) / whole)
    return dataclasses.replace(design, runs=runs)


def _announced(mechanism: Mechanism, features: int) -> tuple[Announced, ...]:
    """What the mechanism says that it announces, in the contract's form."""
    try:
        announced = tuple(mechanism.observables(features))
    except TypeError as error:
        raise SpecError(f"`observables` of {mechanism.name!r} must give a tuple of `Announced`.") from error
    wrong = [type(array).__name__ for array in announced if not isinstance(array, Announced)]
    if wrong or not announced:
        got = f"one holds a {wrong[0]}" if wrong else "it is empty"
        raise SpecError(f"`observables` of {mechanism.name!r} must give a tuple of `Announced`; {got}.")
    return announced


def _block_runs(design: Design, announced: tuple[Announced, ...]) -> int:
    """Runs in a block: a power of two from the sizes alone, so that audits of the same runs share blocks."""
    audited = len(design.pool if isinstance(design, Shared) else design.targets(0)) + CONTROLS
    observables = sum(int(np.prod(a.shape)) for a in announced)
    fits = _BLOCK_BYTES // (4 * (audited * _STATISTICS_GUESS + observables))
    return int(2 ** np.clip(np.floor(np.log2(max(fits, 1))), 4, 8))


def _background(
    spec: Spec,
    corpus: Corpus,
    units: Units,
    mechanism: Mechanism,
    size: int,
    honest: NDArray[np.int64],
    coalition: NDArray[np.int64],
) -> dict[str, NDArray[Any]]:
    """The adversary's own singular values, from the coalition's data or from a sample of its own."""
    known_units = coalition if len(coalition) else adversary_rows(np.arange(len(units)), size, spec.seed)
    own = units.rows(known_units)
    if spec.parties.others == "drawn":
        honest = honest[: (len(honest) + 1) // 2]
    victim = size + len(honest)
    if units.word == "group":
        victim = round(size * float(units.sizes.mean())) + int(units.sizes[honest].sum())
    known: dict[str, NDArray[Any]] = {
        "adversary_rows": np.array(len(own)),
        "victim_rows": np.array(victim),
    }
    rank = getattr(mechanism, "rank", None)
    if rank is not None and rank < min(len(own), corpus.features):
        matrix = take_rows(corpus.matrix, own)
        with threadpool_limits(1):  # the order of additions, and so the last bits, depend on the threads
            sigma = svds(matrix, rank, return_singular_vectors=False, v0=np.ones(min(matrix.shape)))
        known["adversary_sigma"] = np.sort(sigma)[::-1].copy()
    return known
