"""From tests to the summary of an audit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.contract import guarantee_of, traits_of
from ksdp.audit.coverage import Coverage
from ksdp.audit.mechanisms.parameters import parameters_of
from ksdp.audit.plan import Plan
from ksdp.audit.proofs import Bound, knows_all
from ksdp.audit.results import parts
from ksdp.audit.results.parts import BoundSummary, ShareSummary, count_verdicts
from ksdp.audit.results.summary import VERSION, Summary
from ksdp.audit.specs.models import DecisionSpec
from ksdp.audit.testing import judge_controls
from ksdp.audit.verdicts.control_outcome import Controls
from ksdp.audit.verdicts.controls import judge_canaries
from ksdp.audit.verdicts.effects import Effect
from ksdp.audit.verdicts.laws import ArmTests
from ksdp.audit.verdicts.looks import InterimVerdicts
from ksdp.audit.verdicts.multiplicity import share_bounds
from ksdp.audit.verdicts.power import detectable_distance, minimal_detectable, smallest_margin
from ksdp.audit.verdicts.verdict import Proof, ProvedBy, Verdict


def bound_summary(
    bound: Bound, interim: InterimVerdicts, rule: DecisionSpec, documents: int, looks: int
) -> BoundSummary:
    """Summarise a bound on every attack, against what so many looks at so many documents measured."""
    below = rule.accepts(bound.advantage)
    sensitive = below & (interim.decisions.verdict == Verdict.SENSITIVE)
    means = None if bound.pairs is None else bound.pairs.mean(axis=1)
    return BoundSummary(
        by=bound.by,
        trust=bound.trust,
        any_knowledge=bound.any_knowledge,
        every_size=bound.every_size,
        level=bound.level,
        certified=int(below.sum()),
        sensitive=int(sensitive.sum()),
        contradicted=int(bound.contradicted(interim.tests, documents, looks).sum()),
        median=float(np.median(bound.advantage)),
        largest=float(bound.advantage.max()),
        largest_certified=float(bound.advantage[below].max(initial=0.0)),
        fewest_copies=None if bound.copies is None else int(bound.copies[below].min(initial=bound.copies.max())),
        pairs=None if bound.pairs is None else bound.pairs.shape[1],
        median_knows_all=None if means is None else float(np.median(means)),
        largest_knows_all=None if means is None else float(means.max()),
    )


def void_where_contradicted(judged: Controls, bounds: Sequence[BoundSummary]) -> Controls:
    """The controls, failed where a document was measured to be above its bound: its ground does not hold."""
    for bound in bounds:
        alike = bound.by == ProvedBy.COPIES
        judged = judged.contradicted(
            bound.contradicted, bound.trust if alike else "the noise were what the mechanism says"
        )
    return judged


def absence_summary(plan: Plan) -> parts.AbsenceSummary | None:
    """In numbers; None where nobody is proved sensitive before any run."""
    if plan.absent is None:
        return None
    bound = plan.absent.bound
    return parts.AbsenceSummary(len(bound), float(np.median(bound)), float(bound.max()))


def share_summary(plan: Plan, interim: InterimVerdicts) -> ShareSummary | None:
    """Bounds of the share that leaks more than the margin (at all, if that is 0); None where none were drawn."""
    if not isinstance(plan.spec.design.documents, int):
        return None
    rule, decisions = plan.spec.decision_in_run, interim.decisions
    scale = np.array([math.log10(rule.level / look.level) for look in plan.looks])
    above = np.minimum(decisions.log10_p_above + scale[interim.look], 0.0)
    population = len(plan.holdings.victim)
    if plan.absent is not None:  # sensitive at any level
        above = np.append(above, np.full(len(plan.absent.units), -np.inf))
    below = decisions.log10_p_below if rule.margin else np.zeros_like(above)
    low, high = share_bounds(above, below, population, rule.level)
    return ShareSummary(len(above), population, rule.level, low, high)


# Quantiles of Kolmogorov's law: a document that leaks nothing measures D * sqrt(n m / (n + m)) below these.
_KOLMOGOROV_50, _KOLMOGOROV_95 = 0.8276, 1.3581


@dataclass(frozen=True, eq=False)
class Tested:
    """Everything that the looks gave."""

    plan: Plan
    coverage: Coverage
    looks: int
    interim: InterimVerdicts
    controls: Sequence[ArmTests]
    shuffled: Sequence[NDArray[np.float64]]
    canaries: Sequence[ArmTests]
    """One a look, and one more of the fresh runs where they measured anything."""
    bounds: tuple[Bound, ...] = ()
    """Bounds on every attack."""


@dataclass(frozen=True)
class Cost:
    """Runs and seconds of an audit."""

    sampled_runs: int
    """Runs that a later look reads again are counted again."""
    fresh_sampled_runs: int
    damaged_blocks: tuple[str, ...]
    seconds: float
    seconds_by_stage: Mapping[str, float]


@dataclass(frozen=True)
class AuditLocation:
    """Under what name an audit is kept, and where."""

    audit: str
    corpus: str
    store: str
    report: str
    provenance: parts.Provenance


def detectable(tested: Tested) -> NDArray[np.float64]:
    """The measured D at which a leak of each document would surely have been detected at its last look."""
    tests, rule = tested.interim.tests, tested.plan.spec.decision_in_run
    documents, columns = tested.interim.counted.documents, tests.distance.shape[1]
    out = np.empty(len(tests))
    for number in np.unique(tested.interim.look):
        mine = tested.interim.look == number
        arms = (tests.n_with[mine, 0], tests.n_without[mine, 0])
        out[mine] = detectable_distance(*arms, documents, columns, rule, tested.plan.looks[number].level)
    return out


def chance(n_with: NDArray[np.int64], n_without: NDArray[np.int64]) -> parts.ChanceSummary:
    """D by chance, from Kolmogorov's law for arms of the median size."""
    n, m = (max(float(np.median(arm)), 1.0) for arm in (n_with, n_without))
    spread = math.sqrt((n + m) / (n * m))
    return parts.ChanceSummary(min(_KOLMOGOROV_50 * spread, 1.0), min(_KOLMOGOROV_95 * spread, 1.0))


def summarise(tested: Tested, effects: Sequence[Effect], cost: Cost, filed: AuditLocation) -> Summary:
    """Everything that an audit found, in one value."""
    plan, tests, decisions = tested.plan, tested.interim.tests, tested.interim.decisions
    levels = [look.level for look in plan.looks[: tested.looks]]
    levels += [plan.spec.decision.level] * (len(tested.canaries) - tested.looks)
    canaries = judge_canaries(tested.canaries, plan.spec.decision_in_run, levels)
    judged = judge_controls(tested.controls, tested.shuffled, canaries)
    rule, looks = plan.spec.decision_in_run, len(plan.looks)
    bounds = [bound_summary(bound, tested.interim, rule, plan.counted, looks) for bound in tested.bounds]
    judged = void_where_contradicted(judged, bounds)
    absent = 0 if plan.absent is None else len(plan.absent.units)
    verdicts = count_verdicts(decisions.verdict, decisions.proof == Proof.EVERY_ATTACK)
    covered, runs = tested.coverage, plan.looks[tested.looks - 1].runs * plan.design.lanes
    sampled = min(cost.sampled_runs, runs)  # runs that a later look reads again are counted once
    return Summary(
        version=VERSION,
        audit=filed.audit,
        corpus=filed.corpus,
        mechanism=plan.mechanism.name,
        mechanism_version=plan.mechanism.version,
        parameters=parameters_of(plan.mechanism),
        guarantee=parts.GuaranteeSummary.from_json(guarantee_of(plan.mechanism).as_json()),
        documents=len(tests) + absent,
        runs=runs,
        valid=judged.valid,
        verdicts=replace(verdicts, sensitive=verdicts.sensitive + absent),
        detected=int(decisions.detected.sum()) + absent,
        statistics=_statistics(tested),
        skipped_statistics=plan.tested.skipped,
        opens="final" if plan.spec.statistics.sees == "final" else traits_of(plan.mechanism).opens,
        announced=tuple(parts.AnnouncedArray(a.name, a.shape) for a in plan.releases.read),
        coverage=covered.read_by,
        unread=covered.unread,
        paper_alone=_paper_alone(tested),
        controls=judged,
        power=_power(tested, len(plan.columns)),
        chance=chance(tests.n_with[:, 0], tests.n_without[:, 0]),
        looks=_looks(tested),
        fresh=_fresh(tested, effects),
        knows_all=knows_all(plan.mechanism),
        corpus_about=parts.CorpusSummary(
            documents=len(plan.corpus),
            features=plan.corpus.features,
            entries=int(plan.corpus.matrix.nnz),
            without_features=len(plan.corpus.left_out),
            parties=_parties(plan),
        ),
        design=_design(plan, tests.n_with[:, 0]),
        spec=plan.spec,
        cached_runs=runs - sampled,
        sampled_runs=sampled,
        fresh_sampled_runs=cost.fresh_sampled_runs,
        damaged_blocks=cost.damaged_blocks,
        seconds=round(cost.seconds, 3),
        seconds_by_stage={name: round(value, 3) for name, value in cost.seconds_by_stage.items()},
        provenance=filed.provenance,
        store=filed.store,
        report=filed.report,
        share=share_summary(plan, tested.interim) if judged.valid else None,
        bounds=tuple(b for b in bounds if b.by != ProvedBy.COPIES or b.certified or b.contradicted),
        absence=absence_summary(plan),
    )


def _design(plan: Plan, runs_with: NDArray[np.int64]) -> parts.DesignSummary:
    return parts.DesignSummary(
        kind=plan.spec.design.kind,
        unit=plan.units.word,
        sampling=plan.spec.design.sampling,
        party_rows=plan.holdings.size,
        honest_rows=len(plan.holdings.honest),
        coalition_rows=len(plan.holdings.coalition),
        share=plan.design.share,
        n_with=(int(runs_with.min()), int(np.median(runs_with)), int(runs_with.max())),
        every=plan.reading.every,
        early=plan.reading.early,
    )


def _statistics(tested: Tested) -> dict[str, parts.StatisticSummary]:
    """One entry a column: how strong it is, and what it alone would have said."""
    interim = tested.interim
    distances = np.nan_to_num(interim.tests.distance)
    return {
        statistic.name: parts.StatisticSummary(
            version=statistic.version,
            family=statistic.family,
            sentence=statistic.sentence,
            median_D=float(np.median(distances[:, column])),
            max_D=float(distances[:, column].max()),
            sensitive=int(interim.alone[:, column].sum()),
            strongest_for=int((interim.decisions.strongest == column).sum()),
        )
        for column, statistic in enumerate(tested.plan.columns)
    }


def _paper_alone(tested: Tested) -> parts.PaperAlone | None:
    columns = tested.plan.columns
    paper = [n for n, column in enumerate(columns) if column.family.startswith("paper")]
    if not paper:
        return None
    tests = tested.interim.tests
    smallest = tests.log10_p[:, paper].min(axis=1)
    return parts.PaperAlone(
        statistics=tuple(columns[n].name for n in paper),
        detected=int(tested.interim.paper.sum()),
        median_D=float(np.median(np.nan_to_num(tests.distance[:, paper]).max(axis=1))),
        mean_smallest_p=float((10**smallest).mean()),
        uncorrected_below_level=int((smallest <= np.log10(tested.plan.spec.decision.level)).sum()),
    )


def _power(tested: Tested, columns: int) -> parts.PowerSummary:
    last = tested.interim.look == tested.interim.look.max()
    tests, rule = tested.interim.tests, tested.plan.spec.decision_in_run
    m, n = (int(np.median(arm[last, 0])) for arm in (tests.n_with, tests.n_without))
    level = tested.plan.looks[tested.looks - 1].level
    at_look = rule.model_copy(update={"level": level, "clear_level": rule.for_clear * level / rule.level})
    finds, certifies = 1.0, 1.0
    if min(m, n):
        among = tested.interim.counted.documents
        finds = min(minimal_detectable(m, n, among, columns, at_look), 1.0)
        certifies = min(smallest_margin(m, n, among, columns, at_look), 1.0)
    needed = tested.interim.decisions.runs_to_decide
    finite = needed[np.isfinite(needed)]
    return parts.PowerSummary(finds, certifies, float(np.median(finite)) if len(finite) else None)


def _looks(tested: Tested) -> tuple[parts.LookSummary, ...]:
    decisions, when = tested.interim.decisions, tested.interim.look
    certified = decisions.proof == Proof.EVERY_ATTACK
    return tuple(
        parts.LookSummary(
            runs=look.runs,
            level=look.level,
            tested=int((when >= number).sum()),
            verdicts=count_verdicts(decisions.verdict[when == number], certified[when == number]),
        )
        for number, look in enumerate(tested.plan.looks)
    )


def _fresh(tested: Tested, effects: Sequence[Effect]) -> parts.FreshSummary | None:
    if not effects:
        return None
    level = tested.plan.spec.decision.level
    first = dict(zip(tested.plan.audited, np.nan_to_num(tested.interim.tests.distance).max(axis=1), strict=True))
    exposed = max(effects, key=lambda effect: first[effect.row])
    return parts.FreshSummary(
        runs=tested.plan.fresh_runs * tested.plan.design.lanes,
        documents=len(effects),
        n_with_median=int(np.median([e.n_with for e in effects])),
        confirmed=sum(e.advantage_low > 0 or e.log10_p <= math.log10(level) for e in effects),
        median_advantage=float(np.median([e.advantage for e in effects])),
        median_D=float(np.median([e.distance for e in effects])),
        advantage_low=exposed.advantage_low,
        epsilon_low=exposed.epsilon_low,
        median_tpr_at_fpr_01=_median([e.tpr_at_fpr_01 for e in effects]),
        median_tpr_at_fpr_001=_median([e.tpr_at_fpr_001 for e in effects]),
    )


def _median(rates: Sequence[float | None]) -> float | None:
    measured = [rate for rate in rates if rate is not None]
    return float(np.median(measured)) if measured else None


def _parties(plan: Plan) -> dict[str, int] | None:
    if plan.corpus.party is None:
        return None
    names, counts = np.unique(plan.corpus.party, return_counts=True)
    return {str(n): int(c) for n, c in zip(names, counts, strict=True)}
