"""Levers: what may be set, what a setting gives away and gains, and which one is advised."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from ksdp.audit.contract import OPENS, traits_of
from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.coverage import coverage_of
from ksdp.audit.errors import InputError, SpecError
from ksdp.audit.learning.gain import GainRows, Interval, gain_scores, gain_words, summarise_gain, usual_splits
from ksdp.audit.mechanisms.privacy.counted_svd import CountedSVD
from ksdp.audit.mechanisms.privacy.moments import Moments
from ksdp.audit.mechanisms.privacy.noisy import Noisy
from ksdp.audit.numeric.array_types import Floats
from ksdp.audit.opened import Opened, size_base
from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.proofs import paired_advantages
from ksdp.audit.randomness import Purpose, generator
from ksdp.audit.registry import mechanism_of
from ksdp.audit.runs import measure, sample
from ksdp.audit.screening.rounds import pool_size, sampled_spec
from ksdp.audit.specs.design import Block
from ksdp.audit.specs.models import GainSpec, Spec
from ksdp.audit.statistic import Statistic
from ksdp.audit.verdicts.laws import ks_table
from ksdp.audit.verdicts.multiplicity import share_lower_limit, share_upper_limit

Value = str | int | float


@dataclass(frozen=True)
class Setting:
    """One choice of levers. None leaves what the spec has."""

    opens: str | None = None
    rank: int | None = None
    noise: float | None = None
    """Standard deviation per entry of what is released."""
    advantage: float | None = None
    """Advantage that the noise of `moments` allows; `moments` then takes the mechanism's place."""
    row_bound: float | None = None
    drawn: float | None = None
    """Share of the documents that a secret draw lets into a run."""
    shrink: float | None = None
    """What a run that counts terms itself shrinks columns by: `counted-svd`, which takes the mechanism's place."""
    vocabulary: int | None = None
    pairs: int | None = None
    """Pairs of runs by which a certificate bounds every attack, if there is noise."""

    @property
    def values(self) -> dict[str, Value]:
        """The levers that it sets."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    @property
    def name(self) -> str:
        """For people."""
        shown = {name.replace("_", " "): value for name, value in self.values.items()}
        levers = [f"{name} {value if isinstance(value, str) else f'{value:g}'}" for name, value in shown.items()]
        around = [Moments.name] * (self.advantage is not None) + [CountedSVD.name] * (self.shrink is not None)
        return ", ".join([*around, *levers]) or "the spec as it stands"


_RANKS = (4, 8)
"""Tried beside the spec's own, where that is smaller: what noise and a draw prove does not depend on it."""
_NOISE, _WIDER = (0.1, 0.2), (0.4, 0.5, 0.7, 0.9)
"""In units of the root mean square entry of unit rows; margins within which the nearest miss may be."""
_MOST_COLUMNS = 2000
"""Columns that `moments` is tried with, at most: noise on all pairs of more takes a party more than seconds."""


def candidates(spec: Spec, features: int, row_bound: float | None) -> list[Setting]:
    """The settings that are worth a look: the spec as it stands, proofs of its margin, then measured noise."""
    has, rank, opens = _has(spec)
    ranks = [] if rank is None else [r for r in dict.fromkeys((rank, *_RANKS)) if rank <= r < features]
    own = [None if r == rank else r for r in ranks] or [None]
    proved = [proof for r in own for proof in _proofs(spec, r, rank, features, row_bound, spec.decision.margin)]
    draws = [(proof, math.floor(50 * proof.drawn) / 100) for proof in proved if proof.drawn is not None]
    proved += [replace(proof, drawn=half) for proof, half in draws if half]
    exact = [Setting(opens=opens, rank=r) for r in own]
    noise = [
        replace(setting, noise=float(f"{size / math.sqrt(features):.2g}"))
        for setting in exact
        for size in (_NOISE if "noise" not in has and "opens" in has else ())
    ]
    return list(dict.fromkeys([Setting(), *proved, *exact, *noise]))


def wider(spec: Spec, setting: Setting, features: int, row_bound: float | None) -> list[Setting]:
    """Proofs of larger margins at the rank of a setting, the smallest margin first."""
    rank = _has(spec)[1]
    margins = (margin for margin in _WIDER if margin > spec.decision.margin)
    return [proof for c in margins for proof in _proofs(spec, setting.rank, rank, features, row_bound, c)]


def _has(spec: Spec) -> tuple[set[str], int | None, str | None]:
    mechanism = mechanism_of(spec.mechanism)
    inner: Any = mechanism.inner if isinstance(mechanism, Noisy) else mechanism
    has = {f.name for f in dataclasses.fields(inner)} if dataclasses.is_dataclass(inner) else set[str]()
    has |= {"noise"} if isinstance(mechanism, Noisy) else set()
    more = "opens" in has and not isinstance(inner, Moments) and traits_of(inner).opens != OPENS[1]
    return has, traits_of(inner).rank, OPENS[1] if more else None


def _proofs(
    spec: Spec, rank: int | None, own: int | None, features: int, row_bound: float | None, margin: float
) -> list[Setting]:
    has, _, opens = _has(spec)
    settings = []
    if spec.corpus.levers.drawn is None and "advantage" not in has:
        share = math.floor(margin * 100) / 100 or margin
        counted = (spec.mechanism.name, spec.corpus.weighting, spec.corpus.idf) == ("pd-svd", "tf-idf", "global")
        settings.append(Setting(opens=opens, rank=rank, drawn=share))
        if counted:
            settings = [Setting(rank=rank or own, drawn=share, shrink=CountedSVD.shrink)]
    if "advantage" in has:
        settings.append(Setting(rank=rank, advantage=margin))
    elif row_bound is not None and own is not None and features <= _MOST_COLUMNS and "opens" in has:
        settings.append(Setting(rank=rank or own, advantage=margin, row_bound=float(f"{row_bound:.2g}")))
    return settings


_SPLITS = 5
"""Splits of an estimate."""


def draw_remedy(plan: Plan) -> str | None:
    """Estimate the gain under a draw that proves the margin; None if there is a proof, or nothing is learnt.

    Also None where the corpus is not what a gain is measured on: ratings, or rows under levers.
    """
    spec, corpus = plan.spec, plan.corpus
    draws = _proofs(spec, None, None, corpus.features, None, spec.decision.margin)
    setting = next((draw for draw in draws if draw.drawn is not None), None)
    if setting is None or spec.corpus.format == "ratings" or spec.corpus.levers.any:
        return None
    group = corpus.group if spec.design.unit == "group" else None
    few, rows = GainSpec(splits=_SPLITS), GainRows(corpus.matrix, corpus.matrix, None, corpus.party, group=group)
    try:
        scores = list(gain_scores(plan.mechanism, rows, few, spec.seed, owners=False))
        rows = replace(rows, drawn=setting.drawn)
        drawn = list(gain_scores(plan.mechanism, rows, few, spec.seed, baselines=False, owners=False))
    except (InputError, ValueError):
        return None
    drawn += [score for score in scores if score.learner != "run"]
    measures = [summarise_gain(s, "", few, False).measures[0] for s in (scores, drawn)]
    stands, then = (gain_words(measure.gain) for measure in measures)
    return (
        f"As it stands, a run gains {stands} over working alone; with a secret draw of {setting.drawn:g}, within "
        f"the margin for every attack, {then} ({measures[0].measure}, estimated from {_SPLITS} splits)."
    )


def search_seconds(entries: int) -> float:
    """CPU seconds of a search over the settings of a corpus of so many entries, within a factor of two."""
    return 5 + 5e-6 * entries * usual_splits(entries)


PROVED_RUNS = 10
"""Runs in an arm of a spec whose margin is proved: they check the program."""


def at_setting(spec: Spec, setting: Setting, features: int) -> Spec:
    """The spec at a setting."""
    tables = spec.tables()
    levers, mechanism = tables["corpus"]["levers"], tables["mechanism"]
    if setting.vocabulary is not None:
        levers["most_frequent"] = None if setting.vocabulary == features else setting.vocabulary
    if setting.advantage is not None and mechanism["name"] != Moments.name:
        mechanism = {"name": Moments.name, "rank": mechanism.get("rank"), "colluders": 1}
        tables["mechanism"] = mechanism
    if setting.shrink is not None:
        tables["mechanism"] = mechanism = {"name": CountedSVD.name}
        tables["corpus"]["weighting"] = "counts"
    inner = mechanism.setdefault("parameters", {}) if mechanism["name"] == Noisy.name else mechanism
    inner |= {name: value for name, value in setting.values.items() if name in _OF_MECHANISMS}
    if setting.drawn is not None:
        _draw(tables, spec.corpus.levers.enters, setting.drawn)
    if setting.noise is not None:
        mechanism["noise"] = setting.noise
    if setting.pairs is not None:
        tables["certificate"] = {"pairs": setting.pairs}
    if setting.drawn is not None or setting.advantage is not None:
        tables["design"]["with_runs"] = min(tables["design"]["with_runs"], PROVED_RUNS)
    try:
        return Spec.model_validate(tables)
    except ValueError as error:
        raise InputError(f"the levers {setting.name} do not go together: {error}") from None


_OF_MECHANISMS = ("rank", "opens", "advantage", "row_bound", "shrink")


def _draw(tables: dict[str, Any], before: float, drawn: float) -> None:
    """Set the share of documents that enters a run. Sizes refer to the documents that enter."""
    if drawn == before:
        return
    corpus = tables["corpus"]
    if corpus["party"] is not None and corpus["idf"] == "global" and corpus["weighting"] != "counts":
        corpus["idf"] = "party"  # the weights must not count documents that are not drawn
    share, corpus["levers"]["drawn"] = drawn / before, drawn
    for section, key in (("design", "party_size"), ("parties", "honest"), ("parties", "coalition")):
        size = tables[section].get(key)
        if size is not None:
            tables[section][key] = max(1, round(share * size)) if isinstance(size, int) else share * size


PAIRS, MOST_PAIRED = 200, 200_000
"""Pairs of runs of a certificate; runs that it may take, about as long as the audits of a list."""
_PAIRED = 30
"""Documents, and pairs of each, that say whether a certificate is worth it."""


def certified_share(spec: Spec, corpus: Corpus) -> float:
    """Share of a few documents on which pairs of runs bound every attack well within the margin."""
    tables = spec.tables()
    tables["design"]["documents"] = min(_PAIRED, size_base(spec, corpus))
    plan = make_plan(Opened.of(Spec.model_validate(tables), corpus))
    mean = paired_advantages(plan, 0, _PAIRED).mean(axis=1)
    return float((mean <= _AIM * plan.spec.decision_in_run.margin).mean())


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
    """Leak of a sample of documents under one setting."""

    documents: int
    runs: int
    median: float
    """Median over documents of the largest D over statistics; it is measured, so that chance is in it. All numbers
    are of a held document: with `corpus.levers.drawn`, that share of the number of a document in a run."""
    high: float
    above: int
    """Documents whose measured D is above the margin."""
    limit: float
    """Upper confidence limit of their share of all documents."""
    least: float
    """Lower confidence limit of the share that is above the margin by more than chance."""
    chance: float
    """Value of `high` if nothing leaked: the same runs, with their arms dealt anew."""
    net: float
    """`high` with chance taken out, in squares: an estimate, comparable between numbers of runs."""
    unread: tuple[str, ...]
    """Announced arrays that nobody looks at: then nothing can be cleared."""


def chance_distance(n_with: int, n_without: int, statistics: int = 1) -> float:
    """D of the largest of some statistics below which at least 95 % of documents stay where nothing leaks."""
    return math.sqrt(math.log(2 * statistics / 0.05) / 2 * (1 / n_with + 1 / n_without))


def sampled_leak(
    plan: Plan, *, level: float, population: int, quota: float = 0.0, statistics: Sequence[Statistic] = ()
) -> Leak:
    """Run a plan here and look at its documents; stop as soon as the share above the margin is settled."""
    statistics = statistics or plan.statistics
    if not plan.reading.all:
        raise SpecError("a sampled leak needs `design.without_runs` all.")
    count, enters = len(plan.audited), plan.spec.corpus.levers.enters
    stops = [max(1, round(plan.runs * part)) for part in _LOOKS]
    values: dict[str, list[Floats]] = {statistic.name: [] for statistic in statistics}
    bits: list[NDArray[np.bool_]] = []
    for block in _cut(plan.blocks, stops):
        block_values = measure(plan, block, sample(plan, block), statistics)
        bits.append(block_values.inclusion[:count])
        for name, part in block_values.values.items():
            values[name].append(part[:count])
        last = block.stop == plan.runs
        if block.stop not in stops and not last:
            continue
        inclusion = np.concatenate(bits, axis=1)
        columns = {name: np.concatenate(parts, axis=1) for name, parts in values.items()}
        distances = {name: enters * _distances(column, inclusion) for name, column in columns.items()}
        largest = np.max(list(distances.values()), axis=0)
        runs_with = max(1, int(inclusion.sum(axis=1).mean()))
        by_chance = enters * chance_distance(runs_with, max(1, inclusion.shape[1] - runs_with), len(columns))
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
        coverage_of(plan).unread,
    )


def _cut(blocks: Sequence[Block], stops: Sequence[int]) -> Iterator[Block]:
    for block in blocks:
        ends = [*(stop for stop in stops if block.start < stop < block.stop), block.stop]
        yield from (Block(block.lane, start, end) for start, end in itertools.pairwise([block.start, *ends]))


def _distances(values: Floats, inclusion: NDArray[np.bool_]) -> Floats:
    return np.nan_to_num(np.asarray(ks_table(values, inclusion).distance, dtype=np.float64))


ADVICE_VERSION = 1
_ENOUGH = 0.9
"""Share of the exact run's gain: among settings that keep as much for sure, the leak decides."""
_AIM = 0.75
"""Share of the margin in which D has to lie, so that a whole audit clears most documents."""


@dataclass(frozen=True)
class Tried:
    """One setting: what it gains and gives away; or why it was refused."""

    setting: Setting
    gain: Interval | None = None
    """Gain of the run over working alone, at this setting's rank."""
    kept: Interval | None = None
    """Share of the gain of the exact run of this rank over working alone."""
    value: float | None = None
    leak: Leak | None = None
    """The leak of a sample of documents; None where a proof or the gain decides."""
    promised: float | None = None
    """Bound on the advantage of every attack on every document, if noise or a secret draw proves one."""
    trust: str = ""
    """Assumption of the bound."""
    cannot_run: str | None = None
    absent: int = 0
    """Documents that the absence of their rarest feature proves to be above the margin."""
    refused: str | None = None

    @property
    def useful(self) -> bool:
        """Whether the interval of its gain is above 0."""
        return self.refused is None and self.gain is not None and self.gain.low > 0

    def proved(self, margin: float) -> bool:
        """Whether no attack on any document exceeds the margin, by the mechanism's own proof."""
        return self.promised is not None and self.promised <= margin

    @property
    def reach(self) -> float | None:
        """The margin that it is within: its bound, or else D of 95 % of the sampled documents."""
        return self.promised if self.promised is not None or self.leak is None else self.leak.high


@dataclass(frozen=True)
class Baselines:
    """Values without this run."""

    measure: str
    alone: float
    exact: float
    public: float | None
    exact_leak: Leak | None = None
    """Leak of the exact run on the same documents, without levers and noise; None if it was not run."""


@dataclass(frozen=True)
class Checked:
    """Result of the audit that signs, for one setting, and the gain of the documents that it lists."""

    place: int
    """Index of the setting in `Advice.tried`."""
    listed: int
    every_attack: int
    """Number of these that are clear against every attack."""
    gain: Interval | None
    """The gain of a run that these alone enter, on other splits than the search's; None without a list."""
    reason: str


@dataclass(frozen=True)
class Advice:
    """The result of a search over settings."""

    version: int
    margin: float
    quota: float
    documents: int
    """Documents, or groups."""
    unit: str
    baselines: Baselines
    tried: tuple[Tried, ...]
    frontier: tuple[int, ...]
    """Places in `tried` of the settings that none other beats in both."""
    best: int | None
    nearest: int | None
    """Place of the useful setting that is nearest to being within the margin, where none is."""
    checked: tuple[Checked, ...] = ()
    needed: str | None = None
    """From how many documents on the spec as it stands would be safe or useful, as `ksdp plan` says it."""

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        table = asdict(self)
        for trial, shown in zip(self.tried, table["tried"], strict=True):
            shown |= {"setting": trial.setting.values, "name": trial.setting.name}
        return table


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
    return f"it takes about {needed:,} documents until 95 % are within the margin, where there are {documents:,}"


def trial_plan(spec: Spec, corpus: Corpus, drawn: int, runs: int) -> Plan:
    """Plan an audit of random documents, each in half of the runs, for `sampled_leak`; `runs` bounds an arm."""
    units = size_base(spec, corpus)
    tables = sampled_spec(spec, units, pool_size(spec, units), drawn).model_dump(mode="json")
    tables["design"] |= {"with_runs": runs, "looks": "end", "fresh_runs": 0, "without_runs": "all"}
    tables["design"]["absent"] = "measured"
    tables["certificate"] = None
    return make_plan(Opened.of(Spec.model_validate(tables), corpus))


def frontier_of(tried: Sequence[Tried]) -> tuple[int, ...]:
    """Places of the settings that none other beats in both what is kept and what is given away."""
    places = [place for place, trial in enumerate(tried) if trial.gain is not None and trial.reach is not None]
    return tuple(n for n in places if not any(_beats(tried[other], tried[n]) for other in places))


def in_order(tried: Sequence[Tried], margin: float) -> list[int]:
    """Places of the proved settings: those that parties can run; by leak those that keep enough; then by gain."""
    proved = [place for place, trial in enumerate(tried) if trial.useful and trial.proved(margin)]

    def order(place: int) -> tuple[bool, float, float, bool]:
        trial = tried[place]
        enough = trial.kept is not None and trial.kept.low >= _ENOUGH
        given = trial.promised if enough and trial.promised is not None else math.inf
        return trial.cannot_run is not None, given, -_surely(trial), not trial.setting.values

    return sorted(proved, key=order)


def nearest_miss(tried: Sequence[Tried], checked: Sequence[Checked]) -> int | None:
    """Place of the useful setting that is within the smallest margin; of one that was checked first."""
    if listed := [check for check in checked if check.listed]:
        return max(listed, key=lambda check: check.listed).place
    reaches = {place: trial.reach for place, trial in enumerate(tried) if trial.useful and trial.reach is not None}
    return min(reaches, key=lambda place: reaches[place] or 0.0, default=None)


def _surely(trial: Tried) -> float:
    return -math.inf if trial.gain is None else trial.gain.low


def _beats(trial: Tried, other: Tried) -> bool:
    gained, least = (-math.inf if t.gain is None else t.gain.mean for t in (trial, other))
    given, most = (math.inf if t.reach is None else t.reach for t in (trial, other))
    return gained >= least and given <= most and (gained > least or given < most)


def advice_sentences(advice: Advice) -> tuple[str, ...]:
    """Say what to run, its leak and its gain; or why nothing is within reach, and what would have to change."""
    if advice.best is not None:
        forecast = next(check for check in advice.checked if check.place == advice.best)
        return _recommended(advice, advice.tried[advice.best], forecast)
    useful = [trial for trial in advice.tried if trial.useful]
    if not useful:
        return (
            f"Work alone. No setting gains anything over that, not even the exact run: {len(advice.tried)} were "
            "tried.",
        )
    least = f"Not reachable within a margin of {advice.margin:g}: work alone, or change what is named below."
    proofs = [trial for trial in advice.tried if trial.proved(advice.margin) and trial.gain is not None]
    sentences = [least]
    if proofs:
        most = max(proofs, key=_surely)
        assert most.gain is not None
        sentences.append(
            f"What is proved within it gains nothing for sure; {most.setting.name} gains most, "
            f"{gain_words(most.gain)}."
        )
    if absent := advice.tried[0].absent:
        away = f"{absent:,} of {advice.documents:,} {advice.unit}s are given away before any run"
        sentences.append(f"As it stands, {away}, by the absence of their rarest feature.")
    return (*sentences, *_missed(advice), *_changes(advice))


def _missed(advice: Advice) -> list[str]:
    if advice.nearest is None:
        return []
    miss = advice.tried[advice.nearest]
    assert miss.gain is not None
    text = f"The nearest miss is {miss.setting.name}: with all documents it gains {gain_words(miss.gain)}"
    seen = next((check for check in advice.checked if check.place == advice.nearest), None)
    if seen is not None and seen.gain is not None:
        out = advice.documents - seen.listed
        many = f", more than the quota of {advice.quota:.0%}" if out > advice.quota * advice.documents else ""
        text += (
            f", but {out:,} of {advice.documents:,} would have to stay out{many}, and with the other "
            f"{seen.listed:,} it gains {gain_words(seen.gain)}"
        )
    elif miss.leak is not None and miss.promised is None:
        text += f", but {miss.leak.above} of {miss.leak.documents} sampled documents measure a D above the margin"
        text += "" if seen is None else f", and audits of all of them end so: {seen.reason.rstrip('.')}"
    return [f"{text}."]


def _changes(advice: Advice) -> list[str]:
    proofs = [trial for trial in advice.tried if trial.useful and trial.promised is not None]
    changes = []
    if proofs:
        trial = min(proofs, key=lambda tried: tried.promised or 0.0)
        assert trial.gain is not None
        changes.append(
            f"a margin of {trial.promised:g}, within which {trial.setting.name} gains {gain_words(trial.gain)}"
        )
    elif advice.nearest is not None and (leak := advice.tried[advice.nearest].leak) is not None:
        changes.append(f"a margin of about {leak.high:.2g}, which 95 % of the sampled documents are within there")
    if advice.needed is not None:
        changes.append(advice.needed)
    return [f"What would have to change: {'; or '.join(changes)}."] if changes else []


def _recommended(advice: Advice, trial: Tried, forecast: Checked) -> tuple[str, ...]:
    every = "all" if forecast.listed == advice.documents else f"{forecast.listed:,} of"
    text = f"Run {trial.setting.name}: {every} {advice.documents:,} {advice.unit}s may enter"
    trust = []
    if trial.promised is not None and trial.proved(advice.margin):
        text += f", and no attack on any of them has an advantage above {trial.promised:.2g}: it is proved"
        trust = [f"Whom one must trust: {trial.trust}."]
    elif forecast.every_attack:
        text += f", {forecast.every_attack:,} of them proved against every attack"
    else:
        text += f", each proved within {advice.margin:g} against the attacks that were tried"
    sentences = [f"{text}.", *trust, f"An audit of exactly these says so: {forecast.reason}"]
    if trial.cannot_run is not None:
        sentences.append(f"Parties cannot run it yet as it is: {trial.cannot_run}")
    return tuple(sentences)
