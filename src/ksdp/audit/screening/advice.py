"""Levers: what may be set, what a setting gives away and gains, and which one is advised."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from ksdp.audit.contract import OPENS, traits_of
from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.coverage import coverage_of
from ksdp.audit.errors import InputError, SpecError
from ksdp.audit.learning.gain import Interval
from ksdp.audit.mechanisms.privacy.moments import Moments
from ksdp.audit.mechanisms.privacy.noisy import Noisy
from ksdp.audit.numeric.array_types import Floats
from ksdp.audit.party_view import size_base
from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.randomness import Purpose, generator
from ksdp.audit.registry import mechanism_of
from ksdp.audit.sampling import measure, sample
from ksdp.audit.screening.rounds import pool_size, sampled_spec
from ksdp.audit.specs.design import Block
from ksdp.audit.specs.models import Spec
from ksdp.audit.verdicts.laws import ks_table
from ksdp.audit.verdicts.multiplicity import share_lower_limit, share_upper_limit

Value = str | int | float


@dataclass(frozen=True)
class Setting:
    """One choice of levers. None leaves what the spec has.

    Examples
    --------
    >>> Setting(opens="final", rank=3, noise=0.1).name, Setting().name
    ('opens final, rank 3, noise 0.1', 'the spec as it stands')
    """

    opens: str | None = None
    rank: int | None = None
    noise: float | None = None
    """Of V alone, in units of 1 / sqrt(columns), the root mean square entry of an orthonormal basis: public."""
    advantage: float | None = None
    """Advantage that the noise of `moments` allows."""
    drawn: float | None = None
    """Share of the documents that a secret draw lets into a run."""
    vocabulary: int | None = None
    """Most frequent terms."""

    @property
    def values(self) -> dict[str, Value]:
        """The levers that it sets."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @property
    def name(self) -> str:
        """For people."""
        return ", ".join(f"{name} {value}" for name, value in self.values.items()) or "the spec as it stands"


LEVERS = tuple(field.name for field in dataclasses.fields(Setting))
"""By name. Party size is none of them: it is a fact, and advice says how many documents it would take."""

_TERMS = (2000, 500)
_NOISE = (0.1, 0.4)
_ADVANTAGES = (0.1, 0.2, 0.4)
_DRAWN = (0.25,)


@dataclass(frozen=True)
class Lever:
    """One lever and the values that it may have; the spec's own first."""

    name: str
    values: tuple[Value, ...]


def lever_space(spec: Spec, features: int, wanted: tuple[str, ...] = LEVERS) -> tuple[Lever, ...]:
    """The levers that this spec has, in the order of `LEVERS`."""
    mechanism: Any = mechanism_of(spec.mechanism)
    inner: Any = mechanism.inner if isinstance(mechanism, Noisy) else mechanism
    has = {f.name for f in dataclasses.fields(inner)} if dataclasses.is_dataclass(inner) else set()
    levers, rank, promises = spec.corpus.levers, traits_of(inner).rank, isinstance(inner, Moments)
    text = spec.corpus.format != "table" and spec.corpus.columns is None
    found: dict[str, tuple[Value, ...]] = {}
    if "opens" in has and not promises:
        found["opens"] = (traits_of(inner).opens, *OPENS)
    if "rank" in has and rank is not None and rank > 2:
        found["rank"] = (rank, max(2, rank // 2))
    if "opens" in has and not promises and "V" in {a.name for a in mechanism.releases(max(features, 64))}:
        found["noise"] = (mechanism.noise if isinstance(mechanism, Noisy) else 0.0, *_NOISE)
    if promises and inner.noise is None:
        found["advantage"] = (inner.advantage, *_ADVANTAGES)
    found["drawn"] = (levers.enters, *(share for share in _DRAWN if share < levers.enters))
    if text and levers.basis is None:
        now = levers.most_frequent or features
        found["vocabulary"] = (now, *(count for count in _TERMS if count < now))
    space = (Lever(name, tuple(dict.fromkeys(found[name]))) for name in LEVERS if name in found)
    return tuple(lever for lever in space if lever.name in wanted and len(lever.values) > 1)


def grid(spec: Spec, features: int, wanted: tuple[str, ...] = LEVERS) -> list[Setting]:
    """Every choice of levers that goes together: the spec as it stands, then those that announce fewest numbers.

    Runs and scores cost as much as numbers are announced, and fewer numbers give less away.
    """
    space = lever_space(spec, features, wanted)
    own, *others = (
        # mypy does not look into keywords that a mapping gives
        Setting(**{one.name: value for one, value in zip(space, chosen, strict=True) if value != one.values[0]})  # type: ignore[arg-type]
        for chosen in itertools.product(*(lever.values for lever in space))
    )
    costs = {setting: cost for setting in others if (cost := _announced(spec, setting, features)) is not None}
    return [own, *sorted(costs, key=lambda setting: costs[setting])]


def _announced(spec: Spec, setting: Setting, features: int) -> int | None:
    """Numbers that a run opens at a setting; None where its levers do not go together."""
    try:
        mechanism = mechanism_of(at_setting(spec, setting, features).mechanism)
    except InputError:
        return None
    columns = spec.corpus.levers.directions or setting.vocabulary or spec.corpus.levers.most_frequent or features
    return sum(math.prod(array.shape) for array in mechanism.releases(columns))


def at_setting(spec: Spec, setting: Setting, features: int) -> Spec:
    """The spec at a setting."""
    tables = spec.tables()
    levers, mechanism = tables["corpus"]["levers"], tables["mechanism"]
    columns = features
    if setting.vocabulary is not None:
        columns = setting.vocabulary
        levers["most_frequent"] = None if columns == features else columns
    inner = mechanism.setdefault("parameters", {}) if mechanism["name"] == Noisy.name else mechanism
    inner |= {name: value for name, value in setting.values.items() if name in ("rank", "opens", "advantage")}
    if setting.drawn is not None:
        _draw(tables, spec.corpus.levers.enters, setting.drawn)
    if setting.noise is not None and mechanism["name"] == Noisy.name:
        mechanism |= {"noise": setting.noise, "scale": 1 / math.sqrt(columns)}
    elif setting.noise:
        own = {key: value for key, value in mechanism.items() if key != "name"}
        tables["mechanism"] = {
            "name": Noisy.name,
            "mechanism": mechanism["name"],
            "noise": setting.noise,
            "scale": 1 / math.sqrt(columns),
            "parameters": own,
        }
    try:
        return Spec.model_validate(tables)
    except ValueError as error:
        raise InputError(f"the levers {setting.name} do not go together: {error}") from None


def _sampled(spec: Spec, corpus: Corpus, drawn: int) -> dict[str, Any]:
    units = size_base(spec, corpus)
    return sampled_spec(spec, units, pool_size(spec, units), drawn).model_dump(mode="json")


def _draw(tables: dict[str, Any], before: float, drawn: float) -> None:
    """That share of the documents enters a run, where another did before: sizes are of what enters."""
    if drawn == before:
        return
    share, tables["corpus"]["levers"]["drawn"] = drawn / before, drawn
    for section, key in (("design", "party_size"), ("parties", "honest"), ("parties", "coalition")):
        size = tables[section].get(key)
        if size is not None:
            tables[section][key] = max(1, round(share * size)) if isinstance(size, int) else share * size


LOOKS = 3
"""How often a sample is looked at: after a quarter of the runs, a half, all of them."""
_LOOKS = (1 / 16, 1 / 4, 1 / 2, 1.0)
"""The first one, at a sixteenth, gives hopeless settings up, and decides nothing else."""
_HOPELESS = 0.5
"""Share of documents far above the margin from which it is not worth looking again."""
_RELABELLED = 2**31
"""The stream that deals runs anew, to see what chance alone would show."""


@dataclass(frozen=True)
class Leak:
    """What a sample of documents showed under one setting."""

    documents: int
    runs: int
    median: float
    """Of every document's largest D over statistics; measured, so that chance is in it. This and what follows is
    of a document that is held: with `corpus.levers.drawn`, that share of what is said of one that is in a run."""
    high: float
    """95 % of the documents are below."""
    above: int
    """Documents whose measured D is above the margin."""
    limit: float
    """Upper confidence limit of their share of all documents, at the level that this setting has."""
    least: float
    """Lower confidence limit of the share that is above it by more than chance."""
    chance: float
    """What `high` would be if nothing leaked: of the same runs, with and without dealt anew."""
    net: float
    """`high` with chance taken out, in squares: an estimate, comparable between numbers of runs."""
    strongest: str
    unread: tuple[str, ...]
    """Announced arrays that nobody looks at: then nothing can be cleared."""
    early: bool
    """Given up after a part of the runs: too much was above the margin."""


def chance_distance(n_with: int, n_without: int, statistics: int = 1) -> float:
    """D of the largest of some statistics below which at least 95 % of documents stay where nothing leaks.

    By the limit law of Kolmogorov's statistic, whose tail is 2 exp(-2 x^2), times the statistics.
    """
    return math.sqrt(math.log(2 * statistics / 0.05) / 2 * (1 / n_with + 1 / n_without))


def sampled_leak(plan: Plan, *, level: float, population: int, quota: float = 0.0) -> Leak:
    """Run a plan here and look at its documents; stop as soon as the share above the margin is settled.

    The level is split over the looks, so that the limits hold wherever it stops.
    """
    if not plan.reading.all:
        raise SpecError("a sampled leak needs `design.without_runs` all.")
    count, enters = len(plan.audited), plan.spec.corpus.levers.enters
    stops = [max(1, round(plan.runs * part)) for part in _LOOKS]
    values: dict[str, list[Floats]] = {statistic.name: [] for statistic in plan.statistics}
    bits: list[NDArray[np.bool_]] = []
    for block in _cut(plan.blocks, stops):
        found = measure(plan, block, sample(plan, block), plan.statistics)
        bits.append(found.inclusion[:count])
        for name, part in found.values.items():
            values[name].append(part[:count])
        last = block.stop == plan.runs
        if block.stop not in stops and not last:
            continue
        inclusion = np.concatenate(bits, axis=1)
        columns = {name: np.concatenate(parts, axis=1) for name, parts in values.items()}
        distances = {name: enters * _distances(column, inclusion) for name, column in columns.items()}
        largest = np.max(list(distances.values()), axis=0)
        held = max(1, int(inclusion.sum(axis=1).mean()))
        by_chance = enters * chance_distance(held, max(1, inclusion.shape[1] - held), len(columns))
        margin = plan.spec.decision.margin
        # With few runs many are above the margin by chance: that gives no setting up.
        above, far = int((largest > margin).sum()), int((largest > margin + by_chance).sum())
        hopeless = far > _HOPELESS * count
        units = max(population, count)
        limit = share_upper_limit(above, count, level / LOOKS, units)
        least = share_lower_limit(far, count, level / LOOKS, units)
        settled = block.stop >= stops[1] and (limit <= quota or least > quota)
        if last or hopeless or settled:
            break
    else:
        raise SpecError("a sampled leak needs at least one run.")
    rng = generator(plan.spec.seed, Purpose.SHUFFLE, _RELABELLED)
    dealt = inclusion[:, rng.permutation(inclusion.shape[1])]
    nothing = enters * np.max([_distances(column, dealt) for column in columns.values()], axis=0)
    high, chance = float(np.quantile(largest, 0.95)), float(np.quantile(nothing, 0.95))
    return Leak(
        count,
        inclusion.shape[1],
        float(np.median(largest)),
        high,
        above,
        limit,
        least,
        chance,
        math.sqrt(max(high**2 - chance**2, 0.0)),
        max(distances, key=lambda name: float(np.median(distances[name]))),
        coverage_of(plan).unread,
        (hopeless or least > quota) and not last,
    )


def _cut(blocks: Sequence[Block], stops: Sequence[int]) -> Iterator[Block]:
    for block in blocks:
        ends = [*(stop for stop in stops if block.start < stop < block.stop), block.stop]
        yield from (Block(block.lane, start, end) for start, end in itertools.pairwise([block.start, *ends]))


def _distances(values: Floats, inclusion: NDArray[np.bool_]) -> Floats:
    return np.nan_to_num(np.asarray(ks_table(values, inclusion).distance, dtype=np.float64))


ADVICE_VERSION = 1
_AIM = 0.75
"""Of the margin: where D has to lie for a whole audit to clear most documents."""
MOST = 0.9
"""Of what the exact run gains."""
_NEARLY = 0.95
"""Settings that gain this much of the best one's gain are as good; of those the one that gives least away."""


@dataclass(frozen=True)
class Tried:
    """One setting: what it gains and gives away; or why it was refused."""

    setting: Setting
    gain: Interval | None = None
    """Of the run over working alone."""
    kept: Interval | None = None
    """Of what the exact run gains over working alone."""
    value: float | None = None
    """Of the measure, for the run."""
    leak: Leak | None = None
    promised: float | None = None
    """What bounds the advantage of every attack on every document, where noise or a secret draw proves a bound."""
    announced: int = 0
    """Numbers that a run opens."""
    cannot_run: str | None = None
    """Why parties cannot run it as it is."""
    times: float | None = None
    """With so many times the documents, noise would leave `MOST` of what the exact run gains, by an estimate."""
    refused: str | None = None

    @property
    def useful(self) -> bool:
        """Whether the interval of its gain is above 0."""
        return self.gain is not None and self.gain.low > 0

    def proved(self, margin: float) -> bool:
        """Whether no attack on any document exceeds the margin, by the mechanism's own proof."""
        return self.promised is not None and self.promised <= margin

    def safe(self, quota: float, margin: float) -> bool:
        """Whether few enough documents are above the margin, by proof or by the limit that the sample gives."""
        if self.leak is None:
            return False
        return not self.leak.unread and (self.proved(margin) or self.leak.limit <= quota)

    def good(self, quota: float, margin: float) -> bool:
        """Useful and safe."""
        return self.useful and self.safe(quota, margin)


@dataclass(frozen=True)
class Baselines:
    """What there is without this run."""

    measure: str
    alone: float
    exact: float
    public: float | None
    exact_leak: Leak | None = None
    """What the exact run gives away: the same documents, without levers and noise. None where it was not run."""


@dataclass(frozen=True)
class Advice:
    """The result of a search over levers."""

    version: int
    margin: float
    quota: float
    """Largest share of documents that may be above the margin."""
    confidence: float
    """With which all limits of all settings hold together."""
    documents: int
    """Of the corpus."""
    baselines: Baselines
    tried: tuple[Tried, ...]
    frontier: tuple[int, ...]
    """Places in `tried` of the settings that none other beats in both."""
    best: int | None
    """Place of the one to confirm."""
    nearest: int | None
    """Place of the useful setting that is nearest to being safe, where none is."""
    needed: int | None
    """Documents from which on that one would give little enough away; an estimate."""
    unsettled: tuple[int, ...]
    """Places of useful settings that more documents and runs may show to be safe."""

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        told = asdict(self)
        for one, shown in zip(self.tried, told["tried"], strict=True):
            shown |= {"setting": one.setting.values, "name": one.setting.name}
        return told


def documents_needed(leak: Leak, margin: float, documents: int) -> int:
    r"""Documents from which on D would be small enough: an estimate and no bound.

    The two laws of a sum over n documents lie :math:`\delta \propto 1 / \sqrt{n}` deviations apart, so that
    :math:`D = 2 \Phi(\delta / 2) - 1` (Sankararaman et al. 2009, https://doi.org/10.1038/ng.436).
    """
    shown = min(leak.net, 1 - 1 / leak.runs)  # more cannot be told apart from certainty
    far, near = (float(norm.ppf((1 + distance) / 2)) for distance in (shown, _AIM * margin))
    return math.ceil(documents * max(1.0, (far / near) ** 2))


def needed_words(needed: int, documents: int) -> str:
    """From how many documents on a run would be safe, for people."""
    if needed <= documents:
        return f"an estimated 95 % of these {documents:,} documents are within the margin"
    return f"it takes about {needed:,} documents until 95 % are within the margin, and there are {documents:,}"


def times_words(times: float) -> str:
    """With how many documents noise would leave most of the gain, for people."""
    return f"with about {times:.2g} times as many documents it would keep {MOST:.0%} of what the exact run gains"


def trial_plan(spec: Spec, corpus: Corpus, drawn: int, runs: int) -> Plan:
    """Of some random documents, each in half of the runs, at most so many in either arm: for `sampled_leak`."""
    tables = _sampled(spec, corpus, drawn)
    tables["design"] |= {"with_runs": runs, "looks": "end", "fresh_runs": 0, "without_runs": "all"}
    tables["design"]["absent"] = "measured"
    tables["certificate"] = None
    return make_plan(Spec.model_validate(tables), corpus)


def advise(
    tried: Sequence[Tried], baselines: Baselines, *, margin: float, quota: float, confidence: float, documents: int
) -> Advice:
    """Choose among the settings that are both useful and safe; those that parties can run come first."""
    measured = [place for place, one in enumerate(tried) if one.gain is not None and one.leak is not None]
    frontier = tuple(
        place for place in measured if not any(_beats(tried[other], tried[place]) for other in measured)
    )
    good = [place for place in measured if tried[place].good(quota, margin)]
    best = _chosen(tried, good, margin)
    nearest: int | None = None
    needed: int | None = None
    unsettled: tuple[int, ...] = ()
    if best is None:
        useful = [(place, tried[place].leak) for place in measured if tried[place].useful]
        read = {place: leak for place, leak in useful if leak is not None and not leak.unread}
        unsettled = tuple(place for place, leak in read.items() if leak.least <= quota)
        counts = {place: documents_needed(leak, margin, documents) for place, leak in read.items()}
        nearest = min(counts, key=lambda place: (counts[place], read[place].limit), default=None)
        needed = None if nearest is None else counts[nearest]
    return Advice(
        ADVICE_VERSION,
        margin,
        quota,
        confidence,
        documents,
        baselines,
        tuple(tried),
        frontier,
        best,
        nearest,
        needed,
        unsettled,
    )


def _chosen(tried: Sequence[Tried], good: Sequence[int], margin: float) -> int | None:
    runnable = [place for place in good if tried[place].cannot_run is None] or list(good)
    among = [place for place in runnable if tried[place].proved(margin)] or runnable
    if not among:
        return None
    most = max(_gained(tried[place]) for place in among)
    near = [place for place in among if _gained(tried[place]) >= _NEARLY * most]

    def order(place: int) -> tuple[bool, float, float]:
        one = tried[place]
        return not one.proved(margin), 0.0 if one.proved(margin) else _net(one), -_gained(one)

    return min(near, key=order)


def _gains_more(advice: Advice) -> Tried | None:
    """The setting that gains more than the recommended one, and most, of those that are measured safe alone."""
    least = -math.inf if advice.best is None else _gained(advice.tried[advice.best])
    safe = (one for one in advice.tried if one.good(advice.quota, advice.margin))
    more = [one for one in safe if not one.proved(advice.margin) and _gained(one) > least]
    return max(more, key=_gained, default=None)


def _gained(one: Tried) -> float:
    return -math.inf if one.gain is None else one.gain.mean


def _value(one: Tried) -> float:
    return -math.inf if one.value is None else one.value


def _net(one: Tried) -> float:
    return math.inf if one.leak is None else one.leak.net


def _beats(one: Tried, other: Tried) -> bool:
    at_least = _value(one) >= _value(other) and _net(one) <= _net(other)
    return at_least and (_value(one) > _value(other) or _net(one) < _net(other))


def advice_sentences(advice: Advice) -> tuple[str, ...]:
    """What to run, what it gives away, gains and costs; or why nothing is recommended."""
    if advice.best is not None:
        return _recommended(advice, advice.tried[advice.best])
    tried = f"{len(advice.tried)} tried"
    if not any(one.useful for one in advice.tried):
        return (
            f"No setting within these levers gains anything over working alone: {tried}. Work alone, or with "
            "other parties.",
        )
    if advice.unsettled:
        return (
            f"No setting within these levers was shown to be both useful and safe: {tried}. It is not settled for "
            f"{len(advice.unsettled)} of them: draw more documents and runs.",
            *_missed(advice),
        )
    return (
        f"No setting within these levers is both useful and safe: {tried}.",
        *_missed(advice),
        "ksdp clear signs the documents that hold without the others, if there are any.",
    )


def _missed(advice: Advice) -> tuple[str, ...]:
    if advice.nearest is None or advice.needed is None:
        return ()
    one = advice.tried[advice.nearest]
    assert one.leak is not None
    assert one.gain is not None
    return (
        f"The nearest miss is {one.setting.name}: it gains {one.gain.mean:+.4f}, and 95 % of the documents "
        f"measure a D below {one.leak.high:.2f}, where the margin is {advice.margin:g}. By an estimate "
        f"{needed_words(advice.needed, advice.documents)}.",
    )


def _recommended(advice: Advice, one: Tried) -> tuple[str, ...]:
    assert one.leak is not None
    assert one.gain is not None
    gained = (
        f"Run {one.setting.name}: it gains {one.gain.mean:+.4f} "
        f"({one.gain.low:+.4f} to {one.gain.high:+.4f}) over working alone"
    )
    if one.kept is not None:
        gained += (
            f", {one.kept.mean:.0%} ({one.kept.low:.0%} to {one.kept.high:.0%}) of what the exact run gains "
            "without any protection"
        )
    sentences = [f"{gained}."]
    if one.times is not None:
        sentences.append(f"{times_words(one.times).capitalize()}.")
    if one.promised is not None:
        sentences.append(
            f"No attack on any document has an advantage above {one.promised:.2f}: noise or a secret "
            "draw proves it."
        )
    limit = (
        f"at least {1 - one.leak.limit:.1%} of the documents are at or below it"
        if one.leak.limit <= advice.quota or not one.proved(advice.margin)
        else f"up to {one.leak.limit:.1%} of all may measure above it by chance"
    )
    sentences.append(
        f"Measured, on {one.leak.documents} random documents: {one.leak.above} above the margin of "
        f"{advice.margin:g}, so that {limit}, to {advice.confidence:.0%} certain over all settings together."
    )
    sentences.append(f"A run opens {one.announced:,} numbers.")
    if one.proved(advice.margin) and (more := _gains_more(advice)) is not None:
        sentences.append(f"Safe against the tried attacks alone, {more.setting.name} gains {_gained(more):+.4f}.")
    if one.cannot_run is not None:
        sentences.append(f"Parties cannot run it yet as it is: {one.cannot_run}")
    return tuple(sentences)
