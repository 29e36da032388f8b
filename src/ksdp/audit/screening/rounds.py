"""A screen's rounds: who is audited when, at which level, and what must be proved before a list is signed."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ksdp.audit.continuing import tables_at_part
from ksdp.audit.errors import SpecError
from ksdp.audit.plan import Plan
from ksdp.audit.randomness import Purpose, derived_seed, generator
from ksdp.audit.reviewing import plural
from ksdp.audit.run_subsampling import more_runs
from ksdp.audit.specs.design import as_rows
from ksdp.audit.specs.models import Spec
from ksdp.audit.verdicts.margins import band_width
from ksdp.audit.verdicts.multiplicity import share_upper_limit
from ksdp.audit.verdicts.power import minimal_detectable

_SEARCH = 2**31
"""In the place of a round's number: no screen has so many."""
_NARROWER = 0.8
"""A proof's bands against those of the round before it. Were they no narrower, what was just clear would be a coin
toss away from undecided each time, and fewer documents would be left of every proof."""


def round_level(level: float, number: int, rounds: int) -> float:
    """Level of a round: `level` 2^(rounds - number) / (2^rounds - 1).

    Halved from round to round, because the first audits the most documents and finds the most; a later one loses
    little by it, as thresholds move with the root of the logarithm of the level. The weights sum to 1.

    Examples
    --------
    >>> [round(round_level(0.07, number, 3), 4) for number in (1, 2, 3)]
    [0.04, 0.02, 0.01]
    """
    if not 1 <= number <= rounds:
        raise ValueError(f"`number` must be in 1 to {rounds}; got {number}.")
    return level * 2.0 ** (rounds - number) / (2.0**rounds - 1.0)


def round_seed(seed: int, number: int) -> int:
    """Seed of a round, below 2^53: the spec's own in the first, so that an audit made before is not made again."""
    if number == 1:
        return seed
    return derived_seed(seed, Purpose.SCREEN, number)


def search_seed(seed: int) -> int:
    """Seed of a search, below 2^53: none of its runs are those of a round that decided whether to search."""
    return round_seed(seed, _SEARCH)


def check_screenable(spec: Spec) -> None:
    """Refuse what cannot be screened."""
    if spec.views is not None:
        raise SpecError("`views` must be left out: screen the strongest view.")
    if spec.planted:
        raise SpecError("`planted` must be left out: what is screened must be what is run.")
    if spec.statistics.sees == "final":
        raise SpecError("`statistics.sees` must be all: a protocol run announces more than its final output.")
    if isinstance(spec.design.documents, int):
        raise SpecError("`design.documents` must name ids or be left out: screening decides about each document.")
    if spec.design.documents is not None and (spec.parties.honest or spec.parties.coalition):
        raise SpecError("`design.documents` must be left out where `parties` are given.")


@dataclass(frozen=True)
class RoundSizes:
    """What a round has in place of what the spec says; None: the spec's own."""

    audited: Sequence[str] | None = None
    """Ids to audit."""
    size: int | None = None
    """Documents in a database."""
    with_runs: int | None = None


AS_ASKED = RoundSizes()


def round_spec(spec: Spec, number: int, rounds: int, documents: int, asked: RoundSizes = AS_ASKED) -> Spec:
    """The spec of a round.

    Parameters
    ----------
    number : int
        From 1. The first round differs from `spec` in its levels only.
    rounds : int
        The most rounds that may be.
    documents : int
        Rows of the whole corpus, or of the named party (`party_view.size_base`). Sizes given as fractions refer
        to it and become numbers of rows, so that databases have the same size in all rounds.
    asked : RoundSizes, optional
        In place of the spec's own.
    """
    tables = tables_at_part(spec, lambda level: round_level(level, number, rounds))
    tables["seed"] = round_seed(spec.seed, number)
    if number > 1:
        tables["design"]["party_size"] = asked.size or as_rows(spec.design.party_size, documents)
        for name in ("honest", "coalition"):
            size = getattr(spec.parties, name)
            tables["parties"][name] = None if size is None else as_rows(size, documents)
        if asked.audited is not None or spec.design.documents is not None:
            tables["design"]["documents"] = list(asked.audited or ())
        if asked.with_runs is not None:
            tables["design"]["with_runs"] = asked.with_runs
    return Spec.model_validate(tables)


@dataclass(frozen=True)
class Ended:
    """Why the rounds ended."""

    outcome: str
    """`stable`, `void`, `hopeless`, `limit` or `too-few`."""
    helps: bool | None
    """Whether leaving documents out makes the rest safe to use; None where nothing had to be left out, or the
    audit is void."""
    reason: str


def fewest_documents(rows: int, share: float) -> int:
    """Documents that databases of `rows` need to be drawn from: never more than half of the way to the whole.

    Close to the whole nothing is random any more, and runs go as 1 / (1 - share).

    Parameters
    ----------
    rows : int
        Documents in a database.
    share : float
        `rows` over the documents that databases were drawn from in the first round.

    Examples
    --------
    >>> fewest_documents(24, 0.2)
    40
    """
    return math.ceil(2 * rows / (1 + share))


def no_proof(
    *, number: int, rounds: int, listed: int, rows: int, share: float, others: bool = False
) -> str | None:
    """Why the listed documents cannot be audited by themselves after this round; None if they can.

    Parameters
    ----------
    number, rounds : int
        This round, and the most there may be.
    listed : int
        Documents to list.
    rows, share : as for `fewest_documents`
    others : bool
        Whether other parties hold documents of the same corpus.
    """
    if others:
        return "the other parties' documents are drawn from the same corpus, and are not listed"
    if listed < (fewest := fewest_documents(rows, share)):
        return f"{listed} listed documents are too few for databases of {rows} (at least {fewest} are needed)"
    if number == rounds:
        return f"no round was left for it after {rounds}"
    return None


@dataclass(frozen=True)
class ScreenRound:
    """What a round was and what it found."""

    number: int
    """From 1."""
    rounds: int
    """The most there may be."""
    audited: int
    """Documents of this round."""
    sensitive: int
    """Of these."""
    before: int
    """Documents left out in earlier rounds."""
    left: int
    """Documents that the victim's databases would be drawn from in the next round."""
    rows: int
    """Documents in a database."""
    share: float
    """`rows` over the documents that databases were drawn from in the first round."""
    most: float
    """Share of the audited documents above which leaving them out is called no help."""
    unit: str = "document"
    """What one is called."""


def ending(done: ScreenRound) -> Ended | None:
    """Decide after a round whether another one follows (None)."""
    number, sensitive, unit = done.number, done.sensitive, done.unit
    if not sensitive:
        if not done.before:
            return Ended("stable", None, "Nothing is sensitive.")
        return Ended(
            "stable", True, f"Without {plural(done.before, unit)}, round {number} found nothing sensitive."
        )
    counted = f"{sensitive} of {done.audited} audited {unit}s are sensitive in round {number}"
    if sensitive > done.most * done.audited or sensitive == done.audited:
        still = " still" if number > 1 else ""
        return Ended(
            "hopeless",
            False,
            f"{counted}: leaving {unit}s out does not help, because most are{still} sensitive. A larger party, "
            "a lower rank or fewer iterations may.",
        )
    if number == done.rounds:
        return Ended("limit", False, f"{counted}, the last that was allowed: each exclusion uncovered others.")
    fewest = fewest_documents(done.rows, done.share)
    if done.left < fewest:
        return Ended(
            "too-few",
            False,
            f"{counted}, and without them {done.left} {unit}s are left: too few for databases of {done.rows} (at "
            f"least {fewest} are needed).",
        )
    return None


def proof_runs(before: tuple[int, int, float], share: float, level: float) -> int:
    """Runs in the smaller arm at which a proof's bands are four fifths as wide as those of the round before.

    Parameters
    ----------
    before : (n_with, n_without, level)
        A document's arms in that round, and the level of each of its bands.
    share : float
        Probability that a run of the proof holds a document.
    level : float
        Of each band of the proof.

    Examples
    --------
    >>> proof_runs((200, 6500, 0.01), 0.03, 0.005), proof_runs((200, 6500, 0.01), 0.5, 0.005)
    (350, 679)
    """
    width = _NARROWER * _width(*before)
    ratio = max(share, 1 - share) / min(share, 1 - share)

    def narrow(runs: int) -> bool:
        return _width(runs, round(runs * ratio), level) <= width

    enough = 2
    while not narrow(enough):
        enough *= 2
    return 2 + bisect_left(range(2, enough), True, key=narrow)


def _width(n_with: int, n_without: int, level: float) -> float:
    return float(band_width(np.array([n_with]), np.array([n_without]), level)[0])


def drawn_from(plan: Plan) -> int:
    """Documents that the victim's databases are drawn from."""
    return len(plan.holdings.victim)


def check_undecided(plan: Plan) -> None:
    """Refuse to list undecided documents where a leak as large as the margin would not even be detected."""
    rule = plan.spec.rule
    detectable = minimal_detectable(*plan.arms, plan.counted, len(plan.columns), rule)
    if detectable > rule.margin:
        raise SpecError(
            f"undecided documents may be listed only where these runs find a leak of `decision.margin` "
            f"({rule.margin:g}); they find {min(detectable, 1.0):.2f}. Raise `design.with_runs` (`ksdp plan` says "
            "what runs find), or list clear documents alone."
        )


def runs_for_proof(plan: Plan, listed: int) -> int:
    """Runs for a proof of the listed documents after a round (`proof_runs`); it has half of the round's level.

    Parameters
    ----------
    plan : Plan
        Of the round.
    listed : int
        Documents to prove.
    """
    level, statistics = plan.spec.decision.level, len(plan.statistics)
    each = level / (len(plan.audited) * statistics)
    # As strong as the tests, which may read a part of the runs; the proof's own may do so, too.
    runs = plan.design.runs / more_runs(plan.design.share, plan.reading.every)
    held = runs * plan.design.share
    arms = (round(held), round(runs - held), each)
    share = plan.holdings.size / listed if plan.spec.design.kind == "shared" else plan.design.share
    return proof_runs(arms, share, level / 2 / (listed * statistics))


def pool_size(spec: Spec, documents: int) -> int:
    """Documents that the victim's databases are drawn from."""
    held = (spec.parties.honest, spec.parties.coalition)
    return documents - sum(as_rows(size, documents) for size in held if size is not None)


def sampled_spec(spec: Spec, units: int, pool: int, drawn: int) -> Spec:
    """The spec that audits `drawn` documents, with runs that no round has seen.

    The design is balanced where the documents fit into half of the databases, shared elsewhere. Where the spec
    names documents, the sample is of those. `units` is how many there are in the whole corpus, `pool` how many of
    them the victim's databases are drawn from.
    """
    tables = spec.model_dump(mode="json")
    tables["seed"] = search_seed(spec.seed)
    design, named = tables["design"], spec.design.documents
    rows = as_rows(spec.design.party_size, units)
    fits = drawn <= rows and pool // 2 <= pool - drawn and spec.design.sampling == "fixed"
    design["kind"] = "balanced" if fits and rows <= pool - drawn else "shared"
    design["party_size"] = rows
    design["documents"] = drawn
    if isinstance(named, tuple):
        rng = generator(spec.seed, Purpose.SAMPLE)
        design["documents"] = sorted(rng.choice(np.unique(named), drawn, replace=False).tolist())
    return Spec.model_validate(tables)


def fewest_drawn(level: float, population: int, quota: float) -> int:
    """How many have to be drawn at least, so that a share of at most `quota` can be shown: where all are, any can.

    Examples
    --------
    >>> fewest_drawn(0.05, 10_000, 0.05), fewest_drawn(0.05, 40, 0.0)
    (59, 39)
    """
    counts = range(1, population + 1)
    # Where none is found, the limit falls with every document drawn.
    place = bisect_left(counts, True, key=lambda drawn: share_upper_limit(0, drawn, level, population) <= quota)
    return counts[place]


def most_allowed(drawn: int, level: float, population: int, quota: float) -> int | None:
    """The most of `drawn` that may be found with the limit of their share within `quota`; None if 0 is too many.

    Examples
    --------
    >>> most_allowed(200, 0.05, 10_000, 0.05), most_allowed(20, 0.05, 10_000, 0.05)
    (4, None)
    """
    allowed = None
    for found in range(drawn + 1):
        if share_upper_limit(found, drawn, level, population) > quota:
            break
        allowed = found
    return allowed
