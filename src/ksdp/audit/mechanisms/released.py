"""One release that exists already, the documents that were in, and some that were held out. Nothing is run.

**Bound.** Documents that were in are paired at random with documents that were held out. If chance alone decided
who was in, then of every pair it is a fair coin which one was, and all coins are independent: the other outcome is
the same database with one record replaced. So guesses of these coins prove an epsilon as guesses of who is in one
run do (`effects.one_run`), whatever the guesses rest on, and however the release depends on all documents at once.
The bound is uniform over scores, directions and numbers of guesses. It is of all documents together.

A pair is guessed by the difference of its scores, or by the larger or the smaller one: the last two find a leak of
few documents, whose scores lie beyond all others.

**Controls.** The bound is void where the files differ for another reason than membership, as by the time that they
were collected. Two things must show nothing: the first half of the held-out documents against the second, by the
same scores; and documents that were in against documents held out, by scores that do not read the release: length,
number of entries, and energy in the leading directions of a half of the held-out documents that is compared with
nobody.

References: Steinke, Nasr & Jagielski (2023), https://arxiv.org/abs/2305.08846; Das, Zhang & Tramer (2024),
https://arxiv.org/abs/2406.16201 (blind attacks that a difference of the files alone feeds); Newcombe (2006),
https://doi.org/10.1002/sim.2324 (the interval of the AUC, method 5).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.contract import Observables, Release
from ksdp.audit.corpus.matrix import Corpus, unit_rows
from ksdp.audit.errors import InputError
from ksdp.audit.numeric.array_types import Floats
from ksdp.audit.registry import default_statistics
from ksdp.audit.statistic import Documents, Pool, statistic_traits
from ksdp.audit.statistics.geometry import nonnegative_coefficients, row_space_energy
from ksdp.audit.statistics.plain import statistics_of_arrays
from ksdp.audit.statistics.products import BASES, products
from ksdp.audit.verdicts.effects import OneRun, fewest_without, one_run, tpr_at_fpr

FEWEST = 40
"""Documents of each file, at least."""
SCOPE = "one release, pooled over documents; no verdict about a document"
_CONTROL_LEVEL = 0.01
_SHAM = 8
"""Leading directions that a control compares, where the release has no basis to count."""
_FPRS = (0.01, 0.001)


@dataclass(frozen=True)
class ScoreSeparation:
    """How well one score tells documents that were in from those held out."""

    score: str
    auc: float
    """Probability that a document that was in has the larger score."""
    auc_low: float
    auc_high: float
    tpr: Mapping[str, tuple[float, float, float] | None]
    """By false positive rate: true positive rate and its bounds; None where so few are held out."""


@dataclass(frozen=True)
class ControlComparison:
    """Two sets of documents that nothing may tell from each other."""

    compared: str
    score: str
    auc: float
    p: float


@dataclass(frozen=True)
class ReleaseFinding:
    """What one release tells of all documents together."""

    members: int
    held_out: int
    delta: float
    confidence: float
    bound: OneRun | None
    """Guesses of which document of a pair was in; None where a control failed."""
    guessed_by: str
    scores: tuple[ScoreSeparation, ...]
    controls: tuple[ControlComparison, ...]
    """The smallest p of each kind."""
    failed: str
    """Control that failed, in words; empty where none did."""
    scope: str = SCOPE

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self)

    def sentence(self) -> str:
        """For people."""
        asked = f"{self.members} documents that were in, {self.held_out} held out"
        if self.bound is None:
            return (
                f"{asked}: NO BOUND. The files differ for another reason than membership: {self.failed}. Draw at "
                "random who is held out, before the release is made."
            )
        guesses = "no guesses prove more than"
        if self.bound.guesses:
            guesses = f"{self.bound.right} of {self.bound.guesses} guesses by {self.guessed_by} are right:"
        return (
            f"{asked}, in {self.bound.records} random pairs; of which one of a pair was in, {guesses} epsilon at "
            f"least {self.bound.epsilon_low:.3g}, at delta {self.delta:.1g} (replace-one, confidence "
            f"{100 * self.confidence:g} %). This holds if chance alone decided who was in."
        )

    def __repr__(self) -> str:
        rows = [f"  {'score':24} {'AUC':24} {'TPR at FPR 1 %':24} TPR at FPR 0.1 %"]
        for row in self.scores:
            rates = [
                f"needs {fewest_without(float(fpr), 1 - self.confidence):,} held out"
                if at is None
                else "{:.3f} ({:.3f} to {:.3f})".format(*at)
                for fpr, at in row.tpr.items()
            ]
            auc = f"{row.auc:.3f} ({row.auc_low:.3f} to {row.auc_high:.3f})"
            rows.append(f"  {row.score:24} {auc:24} {rates[0]:24} {rates[1]}")
        rows += [f"  control  {c.compared}: AUC {c.auc:.3f} by {c.score}, p {c.p:.2g}" for c in self.controls]
        return "\n".join([f"{self.scope}.", self.sentence(), *rows])


def audit_release(
    release: Mapping[str, NDArray[np.floating]],
    members: Corpus,
    held_out: Corpus,
    rng: np.random.Generator,
    delta: float = 0.0,
    confidence: float = 0.95,
) -> ReleaseFinding:
    """Compare documents that were in with documents held out, by what statistics read in one release."""
    if members.features != held_out.features:
        raise InputError(f"documents have {members.features} columns that were in, {held_out.features} held out.")
    _refuse_few(len(members), len(held_out))
    _refuse_shared(members, held_out)
    rows = sp.csr_array(sp.vstack([members.matrix, held_out.matrix], format="csr"))
    arrays = _named(release, rows.shape[1])
    order = rng.permutation(rows.shape[0])  # statistics that look at some documents do not know which were in
    shuffled = _scores(arrays, sp.csr_array(rows[order]), len(members) / rows.shape[0])
    scores = {name: values[np.argsort(order)] for name, values in shuffled.items()}
    rank = next((len(arrays[name]) for name in BASES if name in arrays), _SHAM)
    blind = _blind(rows, len(members), rank, rng)
    return compare_scores(scores, len(members), rng, delta, confidence, blind)


def compare_scores(
    scores: Mapping[str, Floats],
    members: int,
    rng: np.random.Generator,
    delta: float = 0.0,
    confidence: float = 0.95,
    blind: Mapping[str, tuple[Floats, Floats]] | None = None,
) -> ReleaseFinding:
    """Compare scores, larger or smaller for documents that were in: those of `members` documents come first."""
    held_out = len(next(iter(scores.values()))) - members
    _refuse_few(members, held_out)
    scores = {name: values for name, values in scores.items() if np.ptp(values) > 0}
    if not scores:
        raise InputError("every score is the same for all documents: the release says nothing of any of them.")
    half = members + held_out // 2
    controls = [
        _smallest(
            "held out, first half against second half", {n: (v[members:half], v[half:]) for n, v in scores.items()}
        )
    ]
    if blind:
        controls.append(_smallest("in against held out, without the release", blind))
    failed = [c for c in controls if c.p < _CONTROL_LEVEL / len(controls)]
    words = "; ".join(f"{c.compared} (AUC {c.auc:.3f} by {c.score}, p {c.p:.1g})" for c in failed)
    pairs, coins = _pairs(scores, members, rng)
    bound = one_run(np.stack([*pairs.values()]), coins, delta, confidence)
    tested = tuple(_separation(name, v[:members], v[members:], confidence) for name, v in scores.items())
    return ReleaseFinding(
        members=members,
        held_out=held_out,
        delta=delta,
        confidence=confidence,
        bound=None if failed else bound,
        guessed_by=[*pairs][bound.score],
        scores=tested,
        controls=tuple(controls),
        failed=words,
    )


def _refuse_few(members: int, held_out: int) -> None:
    for number, what in ((members, "that were in"), (held_out, "held out")):
        if number < FEWEST:
            raise InputError(
                f"there are {number} documents {what}; at least {FEWEST} are needed, and "
                f"{fewest_without(0.01, 0.05)} held out for a true positive rate at 1 % false positives."
            )


def _named(release: Mapping[str, NDArray[np.floating]], features: int) -> dict[str, Floats]:
    """Arrays by name, vectors as rows; without a name, V if rows are orthonormal, T if nothing is negative."""
    arrays: dict[str, Floats] = {}
    for name, given in release.items():
        array = np.asarray(given, np.float64)
        if not np.isfinite(array).all():
            raise InputError(f"the released {name or 'array'} holds NaN or infinity.")
        if array.ndim == 2 and array.shape[1] != features == array.shape[0]:
            array = array.T
        if name in ("", *BASES) and (array.ndim != 2 or array.shape[1] != features):
            raise InputError(f"the release has shape {array.shape}; the documents have {features} columns.")
        is_basis = array.ndim == 2 and np.allclose(array @ array.T, np.eye(len(array)), atol=1e-3)
        arrays[name or ("V" if is_basis else "T" if (array >= 0).all() else "release")] = array
    return arrays


def _pairs(
    scores: Mapping[str, Floats], members: int, rng: np.random.Generator
) -> tuple[dict[str, Floats], NDArray[np.bool_]]:
    """Values of random pairs: the larger, the surer that the first was in; and whether it was."""
    from scipy.stats import rankdata  # half a second of imports, as below

    inside, free = rng.permutation(members), members + rng.permutation(len(next(iter(scores.values()))) - members)
    count = min(len(inside), len(free))
    coins = rng.random(count) < 0.5
    first = np.where(coins, inside[:count], free[:count])
    second = np.where(coins, free[:count], inside[:count])
    values: dict[str, Floats] = {}
    for name, of_all in scores.items():
        one, other = of_all[first], of_all[second]
        sign, place = np.sign(one - other), rankdata(of_all)  # ties must not go by place: members come first
        values[name] = one - other
        values[f"{name} (largest)"] = sign * np.maximum(place[first], place[second])
        values[f"{name} (smallest)"] = sign * (len(of_all) + 1 - np.minimum(place[first], place[second]))
    return values, coins


def _scores(arrays: Mapping[str, Floats], rows: sp.csr_array, share: float) -> dict[str, Floats]:
    """Scores of documents by every statistic that needs nothing but these arrays."""
    seen, features = Observables(arrays), rows.shape[1]
    documents = Documents(rows, pool=Pool(rows, share))
    chosen = list(default_statistics(arrays))
    read = {name for s in chosen for name in (*s.needs, *statistic_traits(s).needs_any)}
    others = [Release(name, array.shape) for name, array in arrays.items() if name not in read]
    chosen += statistics_of_arrays(others, features)
    if not chosen:
        raise InputError("the release has no array that says anything of a document.")
    scores = {s.name: np.asarray(s.evaluate(seen, documents), np.float64) for s in chosen}
    lengths = Documents(unit_rows(rows))
    if any(name in arrays for name in BASES):
        scores["share-of-length"] = row_space_energy(seen, lengths)
    if "T" in arrays:
        fit = nonnegative_coefficients(seen, lengths) * products(seen, lengths, "T")
        scores["share-of-topics"] = np.asarray(fit.sum(axis=1))
    return scores


def _blind(
    rows: sp.csr_array, members: int, rank: int, rng: np.random.Generator
) -> dict[str, tuple[Floats, Floats]]:
    """Scores that read no release, of documents that were in and of half of those held out."""
    from scipy.sparse.linalg import svds

    free = members + rng.permutation(rows.shape[0] - members)
    apart, compared = free[: len(free) // 2], free[len(free) // 2 :]
    units = unit_rows(rows)
    rank = min(rank, len(apart) // 2, rows.shape[1] - 1)
    squares, entries = np.asarray(rows.multiply(rows).sum(axis=1)).ravel(), np.diff(rows.indptr).astype(np.float64)
    scores = {"length": squares, "entries": entries}
    if rank > 0:
        sham = svds(units[apart], rank, random_state=0)[2]
        scores["sham-energy"] = np.asarray(np.square(units @ sham.T).sum(axis=1))
    return {name: (values[:members], values[compared]) for name, values in scores.items()}


def _smallest(compared: str, scores: Mapping[str, tuple[Floats, Floats]]) -> ControlComparison:
    """Compare two sets by every score; the smallest p, corrected for the number of scores."""
    from scipy.stats import mannwhitneyu

    tests = {
        name: mannwhitneyu(*both, method="asymptotic")
        for name, both in scores.items()
        if np.ptp(np.hstack(both)) > 0
    }
    if not tests:
        return ControlComparison(compared, next(iter(scores)), 0.5, 1.0)
    score = min(tests, key=lambda name: tests[name].pvalue)
    first, second = scores[score]
    auc = float(tests[score].statistic / (len(first) * len(second)))
    return ControlComparison(compared, score, auc, min(1.0, len(scores) * float(tests[score].pvalue)))


def _separation(name: str, inside: Floats, free: Floats, confidence: float) -> ScoreSeparation:
    from scipy.stats import rankdata

    m, n = len(inside), len(free)
    auc = (float(rankdata(np.concatenate([inside, free]))[:m].sum()) - m * (m + 1) / 2) / (m * n)
    rates: dict[str, tuple[float, float, float] | None] = {}
    for fpr in _FPRS:
        rate = tpr_at_fpr(inside, free, fpr, confidence)
        rates[f"{fpr:g}"] = None if rate is None else (rate.tpr, rate.tpr_low, rate.tpr_high)
    return ScoreSeparation(name, auc, *auc_interval(auc, m, n, confidence), rates)


def auc_interval(auc: float, m: int, n: int, confidence: float) -> tuple[float, float]:
    """Return Newcombe's interval: all areas from which this one is no further than their own error allows."""
    from scipy.optimize import brentq
    from scipy.stats import norm

    z, more = float(norm.ppf((1 + confidence) / 2)), (m + n) / 2 - 1

    def beyond(area: float) -> float:
        spread = area * (1 - area) * (1 + more * (1 - area) / (2 - area) + more * area / (1 + area)) / (m * n)
        return abs(area - auc) - z * math.sqrt(spread)

    low = float(brentq(beyond, 0.0, auc)) if auc > 0 else 0.0
    high = float(brentq(beyond, auc, 1.0)) if auc < 1 else 1.0
    return low, high


def _refuse_shared(members: Corpus, held_out: Corpus) -> None:
    from ksdp.audit.numeric.sparse_rows import same_rows

    places = same_rows(held_out.matrix, members.matrix)
    if (alike := np.flatnonzero(places >= 0)).size:
        first = int(alike[0])
        raise InputError(
            f"{alike.size} documents are in both files, {str(held_out.ids[first])!r} held out and "
            f"{str(members.ids[places[first]])!r} in among them: a document was in or it was not."
        )
