"""Coverage: which released arrays the tested statistics read, and which equations in who is in nobody solves."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import NormalDist

from ksdp.audit.bits import DIGITS, Shown, found_by_lattice, most_bits, shown
from ksdp.audit.contract import Mechanism, Release, traits_of
from ksdp.audit.mechanisms.chance import undeclared
from ksdp.audit.mechanisms.factorisation.pd_svd import EARLY, hidden_mean
from ksdp.audit.mechanisms.recorded import is_own, own_parts
from ksdp.audit.mechanisms.schema import exact_throughout
from ksdp.audit.plan import Plan, reads, rounds_solved, unweighed
from ksdp.audit.registry import statistics
from ksdp.audit.statistic import Statistic, own_statistics
from ksdp.audit.statistics.linear.groups import OfGroups, groups_solved
from ksdp.audit.statistics.linear.pilot import drawn_database, final_numbers, low_noise_numbers
from ksdp.audit.statistics.linear.solve import MOST_SOLVED, fits_dense_solver
from ksdp.audit.statistics.simulated import SimulatedStatistic

_UNSOLVED = (
    "who was in, by equations: {} are {:,} exact numbers in all for {:,} documents, and more than "
    f"{MOST_SOLVED:,} documents are not solved for (fewer columns or a lower rank show fewer numbers, and so does "
    '`mechanism.opens = "final"`; noise blurs them)'
)
_UNBLURRED = (
    "who was in, by equations: {:,} announced numbers have hardly any noise, for {:,} documents, and more than "
    f"{MOST_SOLVED:,} documents are not solved for (more noise, fewer columns or a lower rank make these fewer, "
    'and so does `mechanism.opens = "final"`)'
)
_GROUPS = (
    "which groups were in, by equations: {:,} announced numbers have no noise, or hardly any, for {:,} groups, "
    "which are not solved for (1,024 groups, 2^28 documents times numbers at most, and no others' that are drawn)"
)
_FOLLOWED = (
    "who was in, by following the run: `{}` makes {:,} numbers with hardly any noise or none, for {:,} documents "
    "that nobody solves for (a lower rank has fewer, noise blurs them, and V has equations of its own once it has "
    "converged)"
)
_DECODED = (
    "who was in, by lattice reduction: {:,.0f} bits are announced, more than it takes to find which of {:,} "
    "documents were in (noise, fewer numbers or more documents help)"
)
_ENUMERATED = (
    "who was in, by weighing every database: {:,} of {:,} documents are {:,} databases, and an attack that goes "
    "through so few of them sees more than any statistic (nobody is clear below {:,}: audit more documents)"
)
_FEWEST_DATABASES, _MANY = 10**5, 1000
_UNLEARNT = (
    "who was in, by following the function: {:,.0f} numbers are announced of {:,} documents, and a rule learnt "
    "from {:,} runs sees {:.0%} of what they tell (noise drawn anew, fewer numbers, more documents or runs help)"
)
_CHANCE = (
    "what undeclared chance hides in {}: {} (declare noise: release `ksdp.noise(value, rng, scale=...)` as it "
    "is; or take chance out, by a fixed `random_state`, say)"
)
_TRIALS = 20
"""Databases that are run twice, to see what is chance."""
_UNEQUAL, _MOSTLY = 4.0, 0.5
"""Times the average, that numbers say of some documents; and of this, what a learnt rule has to see."""
_LEARNT = '{} number by number (`statistics.families = ["simulated"]` does)'
_NAMED = 4
"""Columns named where more are left out."""
_UNTESTED = "what default columns see that were not tested: {} (`statistics.families` as it is without being set)"
_HIDDEN = (
    "who is in `{}`, which no statistic follows: of FedPower `mechanism.period = 1` shows each round, and "
    '`mechanism.opens = "final"` none; of counted-svd a secret draw within the margin is a proof'
)


@dataclass(frozen=True)
class Coverage:
    """The releases of a run, and the statistics that read each."""

    read_by: Mapping[str, tuple[str, ...]]
    """Every announced array that is looked at, to the names of the statistics that read it."""
    unread: tuple[str, ...]
    """Announced arrays that no tested statistic reads, in the order they are announced."""

    @property
    def may_clear(self) -> bool:
        """Whether a document can be called clear: nothing announced was left out."""
        return not self.unread


@dataclass(frozen=True)
class MayBeIn:
    """The documents that may be in a run, and how much numbers may tell about them."""

    count: int
    """Documents, or groups: the party's own and others'."""
    share: float
    """Share of these documents that is in a run."""
    margin: float = 1.0
    """Margin of the decision; 1 asks for numbers that say who was in."""
    groups: bool = False

    def told_by(self, numbers: float) -> bool:
        """Whether so many exact numbers say who was in, or tell the average one more than the margin."""
        return bool(numbers) and numbers >= self.needed * self.count

    @property
    def needed(self) -> float:
        """Exact numbers a document that are enough for either."""
        return min(enough_numbers(self.share), telling_numbers(self.share, self.margin))


def learnable(announced: Sequence[Release], runs: int) -> tuple[str, ...]:
    """Arrays in which a rule learnt from the runs sees more than any statistic."""
    sums = [(a, a.terms.learner) for a in announced if a.terms]
    sizes = {a.name: math.prod((*(min(n, EARLY) for n in a.shape[:1]), *a.shape[1:])) for a, _ in sums}
    return tuple(a.name for a, when in sums if when == "always" or (when and sizes[a.name] < runs))


def untested(default: Iterable[str], tested: Iterable[Statistic]) -> tuple[str, ...]:
    """Default statistics that this audit does not test; leaks only they detect go unnoticed."""
    names = {statistic.name for statistic in tested}
    out = [name for name in default if name not in names]
    if not out:
        return ()
    more = f" and {len(out) - _NAMED} more" if len(out) > _NAMED else ""
    return (_UNTESTED.format(", ".join(f"`{name}`" for name in out[:_NAMED]) + more),)


def unfollowed(read: Iterable[Release]) -> tuple[str, ...]:
    """Name the releases that no statistic follows."""
    return tuple(_HIDDEN.format(array.name) for array in read if array.terms and array.terms.form == "steps")


def unsolved(
    mechanism: Mechanism, announced: Iterable[Release], seen: Iterable[str], who: MayBeIn
) -> tuple[str, ...]:
    """Exact sums that are numbers enough to tell documents by more than the margin, where nobody solves them."""
    counted = exact_numbers(mechanism, announced, seen)
    total = sum(counted.values())
    if not who.told_by(total):
        return ()
    if who.groups:
        return (_GROUPS.format(total, who.count),)
    return (_UNSOLVED.format(", ".join(f"`{name}`" for name in counted), total, who.count),)


def exact_numbers(mechanism: Mechanism, announced: Iterable[Release], seen: Iterable[str]) -> dict[str, int]:
    """Different exact numbers that all rounds open, by the name of the array that has most of its kind."""
    if not exact_throughout(mechanism):
        return {}
    sums = [a for a in announced if a.terms and a.name in set(seen)]
    most: dict[str, int] = {}
    for form in dict.fromkeys(a.terms.form for a in sums if a.terms):
        # Those of one form say the same.
        numbers = {a.name: a.terms.numbers or math.prod(a.shape) for a in sums if a.terms and a.terms.form == form}
        name = max(numbers, key=lambda name: numbers[name])
        most[name] = numbers[name]
    return most


def followed(counts: Mapping[str, int], who: MayBeIn) -> tuple[str, ...]:
    """Numbers of a final output that say who was in to whoever follows the run, which no column does."""
    if not who.told_by(sum(counts.values())):
        return ()
    return tuple(_FOLLOWED.format(name, numbers, who.count) for name, numbers in counts.items())


def unblurred(numbers: int, who: MayBeIn) -> tuple[str, ...]:
    """Numbers with hardly any noise, enough to tell more than the margin, where nobody solves them."""
    if not who.told_by(numbers):
        return ()
    return ((_GROUPS if who.groups else _UNBLURRED).format(numbers, who.count),)


def decoded(bits: float, who: MayBeIn) -> tuple[str, ...]:
    """Numbers that say who was in to whoever uses that each is in or not, which no column does."""
    return (_DECODED.format(bits, who.count),) if found_by_lattice(who.count, who.share, bits) else ()


def enumerated(who: MayBeIn) -> tuple[str, ...]:
    """So few databases that an attack weighs each: of 16 documents that tells up to twice what columns do."""
    size = round(who.share * who.count)
    # Of many documents the number of databases has millions of digits.
    if min(size, who.count - size) > 1 and who.count > _MANY:
        return ()
    databases = math.comb(who.count, size)
    few = databases < _FEWEST_DATABASES
    return (_ENUMERATED.format(size, who.count, databases, _FEWEST_DATABASES),) if few else ()


def unlearnt(release: Shown, runs: int, who: MayBeIn) -> tuple[str, ...]:
    """Numbers that tell who was in to whoever follows the mechanism, of which a learnt rule sees too little.

    An attacker who runs the mechanism has one equation for each number: m numbers hold m / n of the inclusion of
    n documents, on average, and several times as much of some. A weighted sum of the numbers that was learnt
    from T runs holds, of a document of which they hold h, the share

        (1 - q) h / (h + m / T),

    q the share of the numbers' variance that is no sum over documents. Of the h that tells by the margin it has to
    see half: of 305 numbers of centres of clusters of 1,797 pictures it saw a fiftieth, and called 1,065 clear
    that equations tell apart. Of recorded runs nobody can tell noise from what is no sum: both count.
    """
    needed = who.needed
    if not who.told_by(_UNEQUAL * release.numbers):
        return ()
    seen = (1.0 - release.interaction) * needed / (needed + release.numbers / runs) if runs else 0.0
    return () if seen >= _MOSTLY else (_UNLEARNT.format(release.numbers, who.count, runs, seen),)


def enough_numbers(share: float) -> float:
    """Exact numbers a document that tell who was in, where this share is: a half at most.

    As a document is in or not, n / 2 general equations have one solution between 0 and 1 (Mangasarian & Recht,
    Probability of unique integer solution to a system of linear equations, 2011). Where few are in, the one that
    leaves most at 0 is found from fewer, of large general systems from

        min over a of p ((1 + a^2) F(a) + a f(a)) + (1 - p) ((1 + a^2) F(-a) - a f(a)),

    F and f the normal distribution and its density: the threshold of soft thresholding within the bounds (Donoho,
    Maleki & Montanari, Message-passing algorithms for compressed sensing, 2009, doi.org/10.1073/pnas.0909892106).
    """
    from scipy.optimize import minimize_scalar  # slow to load, and asked of many documents alone
    from scipy.stats import norm

    def numbers(at: float) -> float:
        bulk, peak = (1.0 + at * at), at * float(norm.pdf(at))
        return share * (bulk * float(norm.cdf(at)) + peak) + (1.0 - share) * (bulk * float(norm.cdf(-at)) - peak)

    return float(minimize_scalar(numbers, bounds=(-8.0, 8.0), method="bounded").fun)


def telling_numbers(share: float, margin: float) -> float:
    """Exact numbers a document by whose linear solution an average document has this advantage.

    Of m general equations in n unknowns the solution nearest to the expected one holds m / n of each, on average:
    it has the mean m / n apart and the variance m / n (1 - m / n) p (1 - p) of what is left, which is nearly
    normal. So d^2 = (m / n) / ((1 - m / n) p (1 - p)) for the distance d of both arms in standard deviations, and
    the advantage is 2 F(d / 2) - 1. What documents have in common makes it less.
    """
    if margin >= 1.0:
        return 1.0
    apart = share * (1.0 - share) * (2.0 * NormalDist().inv_cdf((1.0 + margin) / 2.0)) ** 2
    return apart / (1.0 + apart)


def coverage(
    opened: Iterable[str],
    seen: Iterable[str],
    tested: Iterable[Statistic],
    learnt: Iterable[str] = (),
    more: Iterable[str] = (),
) -> Coverage:
    """Return which tested statistics read which opened arrays, and which arrays nobody reads."""
    seen, tested = tuple(seen), tuple(tested)
    read = {s.name: reads(s, seen) for s in tested}
    by = {name: tuple(s for s, names in read.items() if name in names) for name in dict.fromkeys(opened)}
    unread = [name for name, who in by.items() if not who]
    unread += [_LEARNT.format(name) for name in learnt if name in by]
    unread += more
    return Coverage({n: who for n, who in by.items() if who}, tuple(unread))


def coverage_of(plan: Plan) -> Coverage:
    """Which announced arrays are read by which tested statistics of a plan, and what else is left."""
    mechanism, seen = plan.mechanism, plan.releases.seen
    of_all = [
        s for s in plan.statistics if isinstance(s, SimulatedStatistic) and len(s.reads) == len(plan.releases.read)
    ]
    trained = max((statistic.runs for statistic in of_all), default=0)
    who = may_be_in(plan)
    to_learn, sums = _to_learn(plan), _undeclared(plan)
    if not sums and hidden_mean(mechanism):
        sums = followed(exact_numbers(mechanism, plan.releases.recorded, seen), who)
    if not sums and not _solved(plan):
        sums = unsolved(mechanism, plan.releases.recorded, seen, who) + unblurred(_little_noise(plan), who)
    if not sums:
        key = ("final numbers", seen)
        numbers = plan.pool.derive(key, lambda: final_numbers(mechanism, plan.releases.read, plan.pool))
        sums = followed(dict(numbers), who)
    if not sums:  # which is told already where equations are enough
        told_apart = _shown(plan)
        follows = is_own(plan.mechanism) and not to_learn
        sums = decoded(told_apart.bits, who) or (unlearnt(told_apart, trained, who) if follows else ())
    more = untested(plan.tested.default, plan.statistics) + unfollowed(plan.releases.read) + enumerated(who) + sums
    return coverage(plan.releases.opened, seen, plan.statistics, to_learn, more)


def may_be_in(plan: Plan) -> MayBeIn:
    """Return the documents that may be in a run of the plan."""
    holdings, groups = plan.holdings, plan.units.word == "group"
    return MayBeIn(holdings.unknown, holdings.share, plan.spec.decision_in_run.margin, groups)


def telling(plan: Plan, margin: float) -> dict[str, int]:
    """Exact numbers, by array, which tell the average document apart by the margin, or who was in (1.0)."""
    who = replace(may_be_in(plan), margin=margin)
    exact = {} if plan.proved else exact_numbers(plan.mechanism, plan.releases.recorded, plan.releases.seen)
    return exact if who.told_by(sum(exact.values())) else {}


def _to_learn(plan: Plan) -> tuple[str, ...]:
    """Names of arrays of which no tested statistic weighs every number; those aside that equations hold."""
    simulated = {name for s in plan.statistics if isinstance(s, SimulatedStatistic) for name in s.reads}
    names = learnable(plan.releases.recorded, plan.design.runs)
    if own_parts(plan.mechanism):  # of which no other statistic knows anything
        names = plan.releases.seen
    elif not rounds_solved(plan.mechanism, plan.releases.read, plan.holdings.unknown):
        names += tuple(array.name for array in unweighed(plan.releases.read, plan.releases.seen, plan.statistics))
    return tuple(name for name in dict.fromkeys(names) if name not in simulated)


def _solved(plan: Plan) -> bool:
    """Whether equations in who is in are solved for all documents, or groups, that may be in."""
    holdings = plan.holdings
    if holdings.units.word == "document":
        return fits_dense_solver(holdings.unknown)
    if holdings.drawn:
        return False
    if not any(isinstance(statistic, OfGroups) for statistic in plan.statistics):
        return False
    numbers = sum(math.prod(array.shape) for array in plan.releases.read)
    return groups_solved(len(holdings.victim), int(holdings.units.sizes[holdings.victim].sum()), numbers)


def _little_noise(plan: Plan) -> int:
    """Announced numbers that are equations in who is in but for hardly any noise, and are not solved for."""
    mechanism, pool = plan.mechanism, plan.pool
    if traits_of(mechanism).noise_free:
        return 0
    own = own_statistics(mechanism)
    filters = [s for s in (*statistics().values(), *own) if set(s.needs) <= set(plan.releases.seen)]
    return int(
        pool.derive(
            ("little noise", plan.releases.seen), lambda: low_noise_numbers(filters, plan.releases.read, pool)
        )
    )


def _undeclared(plan: Plan) -> tuple[str, ...]:
    """Arrays of somebody's own mechanism whose chance nobody declared."""
    pool, own = plan.pool, own_parts(plan.mechanism)

    def found() -> dict[str, str]:
        databases = [drawn_database(pool, place)[0] for place in range(_TRIALS if own else 0)]
        return {name: why for part in own for name, why in undeclared(part, databases).items()}

    whys = pool.derive("undeclared chance", found)
    same = {why: [f"`{name}`" for name, reason in whys.items() if reason == why] for why in whys.values()}
    return tuple(_CHANCE.format(", ".join(names), why) for why, names in same.items())


def _shown(plan: Plan) -> Shown:
    arrays, who = [array for array in plan.releases.read if not array.derived_from], may_be_in(plan)
    most = most_bits(arrays)
    learnt = is_own(plan.mechanism) and who.told_by(_UNEQUAL * most / DIGITS)
    if not learnt and not found_by_lattice(who.count, who.share, most):
        return Shown(0.0, 0.0, 0.0)
    make = partial(shown, plan.mechanism, arrays, plan.pool, crossed=learnt)
    return plan.pool.derive(("shown", plan.releases.seen, learnt), make)
