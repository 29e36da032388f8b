"""One release that exists already: documents that were in against documents held out. Nothing is run.

**Bound.** Documents that were in are paired at random with some held out. If chance alone decided who was in, it
is a fair coin which of a pair was: the other outcome is the same database with one record replaced. So guesses of
these coins prove an epsilon as in one run (`effects.one_run`), whatever they rest on. A pair is guessed by the
difference of its scores, or by the larger or the smaller one: a leak of few documents lies in a tail.

**Controls.** Two things must show nothing: one half of the held-out documents against the other; and both files by
scores that do not read the release, as length and energy in directions of held-out documents compared with nobody.

References: Steinke, Nasr & Jagielski (2023), https://arxiv.org/abs/2305.08846; Das, Zhang & Tramer (2024),
https://arxiv.org/abs/2406.16201 (files that differ); Newcombe (2006), https://doi.org/10.1002/sim.2324 (the AUC).
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
_CONTROL_LEVEL, _CONFIDENCE, _SHAM = 0.01, 0.95, 8


@dataclass(frozen=True)
class ScoreSeparation:
    """How well one score tells documents that were in from those held out; bounds hold with 95 % confidence."""

    score: str
    auc: tuple[float, float, float]
    """Probability that a document that was in has the larger score, and its bounds."""
    tpr: Mapping[str, tuple[float, float, float] | None]
    """True positive rate and its bounds by false positive rate; None where so few are held out."""


@dataclass(frozen=True)
class ControlComparison:
    """Two sets of documents that nothing may tell from each other, by the score that tells most."""

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
    bound: OneRun | None
    """Guesses of which document of a pair was in; None where a control failed."""
    guessed_by: str
    scores: tuple[ScoreSeparation, ...]
    controls: tuple[ControlComparison, ...]
    failed: str
    """Controls that failed, in words."""
    scope: str = SCOPE

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self)

    def __repr__(self) -> str:
        lines = [f"{self.scope}.", f"{self.members} documents that were in, {self.held_out} held out"]
        if (bound := self.bound) is None:
            lines[1] += f": NO BOUND. The files differ for another reason than membership: {self.failed}."
        else:
            guessed = f"{bound.right} of {bound.guesses} guesses by {self.guessed_by} are right:"
            lines[1] += (
                f", in {bound.records} random pairs; of which one of a pair was in, "
                f"{guessed if bound.guesses else 'no guesses prove more than'} epsilon at least "
                f"{bound.epsilon_low:.3g}, at delta {self.delta:.1g} (replace-one, confidence 95 %). This holds "
                "if chance alone decided who was in."
            )
        lines.append(f"  {'score':24} {'AUC':24} {'TPR at FPR 1 %':24} TPR at FPR 0.1 %")
        for row in self.scores:
            missing = [f"needs {fewest_without(float(fpr), 1 - _CONFIDENCE):,} held out" for fpr in row.tpr]
            cells = ["{:.3f} ({:.3f} to {:.3f})".format(*at) if at else "" for at in (row.auc, *row.tpr.values())]
            shown = [cell or less for cell, less in zip(cells, ["", *missing], strict=True)]
            lines.append(f"  {row.score:24} " + " ".join(f"{cell:24}" for cell in shown).rstrip())
        lines += [f"  control  {c.compared}: AUC {c.auc:.3f} by {c.score}, p {c.p:.2g}" for c in self.controls]
        return "\n".join(lines)


def audit_release(
    release: Mapping[str, NDArray[np.floating]],
    members: Corpus,
    held_out: Corpus,
    rng: np.random.Generator,
    delta: float = 0.0,
) -> ReleaseFinding:
    """Compare documents that were in with documents held out, by what statistics read in one release."""
    if members.features != held_out.features:
        raise InputError(f"documents have {members.features} columns that were in, {held_out.features} held out.")
    _refuse_shared(members, held_out)
    rows = sp.csr_array(sp.vstack([members.matrix, held_out.matrix], format="csr"))
    arrays = _named(release, rows.shape[1])
    order = rng.permutation(rows.shape[0])  # statistics that look at some documents do not know which were in
    shuffled = _scores(arrays, sp.csr_array(rows[order]), len(members) / rows.shape[0])
    scores = {name: values[np.argsort(order)] for name, values in shuffled.items()}
    rank = next((len(arrays[name]) for name in BASES if name in arrays), _SHAM)
    return compare_scores(scores, len(members), rng, delta, _blind(rows, len(members), rank, rng))


def compare_scores(
    scores: Mapping[str, Floats],
    members: int,
    rng: np.random.Generator,
    delta: float = 0.0,
    blind: Mapping[str, tuple[Floats, Floats]] | None = None,
) -> ReleaseFinding:
    """Compare scores, larger or smaller for documents that were in: those of `members` documents come first."""
    held_out = len(next(iter(scores.values()))) - members
    for number, what in ((members, "that were in"), (held_out, "held out")):
        if number < FEWEST:
            needed = (
                f"at least {FEWEST} are needed, and {fewest_without(0.01, 1 - _CONFIDENCE)} held out for a true"
            )
            raise InputError(
                f"there are {number} documents {what}; {needed} positive rate at 1 % false positives."
            )
    scores = {name: values for name, values in scores.items() if np.ptp(values) > 0}
    if not scores:
        raise InputError("every score is the same for all documents: the release says nothing of any of them.")
    half = members + held_out // 2
    halves = {name: (values[members:half], values[half:]) for name, values in scores.items()}
    controls = [_smallest("held out, first half against second half", halves)]
    controls += [_smallest("in against held out, without the release", blind)] if blind else []
    failed = [c for c in controls if c.p < _CONTROL_LEVEL / len(controls)]
    words = "; ".join(f"{c.compared} (AUC {c.auc:.3f} by {c.score}, p {c.p:.1g})" for c in failed)
    pairs, coins = _pairs(scores, members, rng)
    bound = one_run(np.stack([*pairs.values()]), coins, delta, _CONFIDENCE)
    gaps = tuple(_separation(name, v[:members], v[members:]) for name, v in scores.items())
    by = [*pairs][bound.score]
    return ReleaseFinding(members, held_out, delta, None if failed else bound, by, gaps, tuple(controls), words)


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

    documents = len(next(iter(scores.values())))
    count = min(members, documents - members)
    inside, free = rng.permutation(members)[:count], members + rng.permutation(documents - members)[:count]
    coins = rng.random(count) < 0.5
    first, second = np.where(coins, inside, free), np.where(coins, free, inside)
    values: dict[str, Floats] = {}
    for name, of_all in scores.items():
        values[name] = of_all[first] - of_all[second]
        place = rankdata(of_all)  # ties must not go by place: members come first
        sign = np.sign(values[name])
        values[f"{name} (largest)"] = sign * np.maximum(place[first], place[second])
        values[f"{name} (smallest)"] = sign * (documents + 1 - np.minimum(place[first], place[second]))
    return values, coins


def _scores(arrays: Mapping[str, Floats], rows: sp.csr_array, share: float) -> dict[str, Floats]:
    """Scores of documents by every statistic that needs nothing but these arrays."""
    seen, documents, lengths = (
        Observables(arrays),
        Documents(rows, pool=Pool(rows, share)),
        Documents(unit_rows(rows)),
    )
    chosen = list(default_statistics(arrays))
    read = {name for s in chosen for name in (*s.needs, *statistic_traits(s).needs_any)}
    others = [Release(name, array.shape) for name, array in arrays.items() if name not in read]
    chosen += statistics_of_arrays(others, rows.shape[1])
    scores = {s.name: np.asarray(s.evaluate(seen, documents), np.float64) for s in chosen}
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

    free, units = members + rng.permutation(rows.shape[0] - members), unit_rows(rows)
    apart, compared = free[: len(free) // 2], free[len(free) // 2 :]
    scores = {"length": np.asarray(rows.multiply(rows).sum(axis=1)).ravel()}
    if (rank := min(rank, len(apart) // 2, rows.shape[1] - 1)) > 0:
        scores["sham-energy"] = np.square(units @ svds(units[apart], rank, random_state=0)[2].T).sum(axis=1)
    return {name: (values[:members], values[compared]) for name, values in scores.items()}


def _smallest(compared: str, scores: Mapping[str, tuple[Floats, Floats]]) -> ControlComparison:
    """Compare two sets by every score; the smallest p, corrected for the number of scores."""
    from scipy.stats import mannwhitneyu

    tests = {name: mannwhitneyu(*both, method="asymptotic") for name, both in scores.items()}
    score = min(tests, key=lambda name: np.nan_to_num(tests[name].pvalue, nan=1.0))
    pairs, p = math.prod(map(len, scores[score])), float(np.nan_to_num(tests[score].pvalue, nan=1.0))
    return ControlComparison(compared, score, float(tests[score].statistic) / pairs, min(1.0, len(scores) * p))


def _separation(name: str, inside: Floats, free: Floats) -> ScoreSeparation:
    from scipy.stats import mannwhitneyu

    auc = float(mannwhitneyu(inside, free, method="asymptotic").statistic) / (len(inside) * len(free))
    rates = {f"{fpr:g}": tpr_at_fpr(inside, free, fpr, _CONFIDENCE) for fpr in (0.01, 0.001)}
    tpr = {fpr: None if at is None else (at.tpr, at.tpr_low, at.tpr_high) for fpr, at in rates.items()}
    return ScoreSeparation(name, (auc, *auc_interval(auc, len(inside), len(free))), tpr)


def auc_interval(auc: float, m: int, n: int) -> tuple[float, float]:
    """Return Newcombe's interval: all areas from which this one is no further than their own error allows."""
    from scipy.optimize import brentq
    from scipy.stats import norm

    z, more = float(norm.ppf((1 + _CONFIDENCE) / 2)), (m + n) / 2 - 1

    def beyond(area: float) -> float:
        spread = area * (1 - area) * (1 + more * (1 - area) / (2 - area) + more * area / (1 + area)) / (m * n)
        return abs(area - auc) - z * math.sqrt(spread)

    low, high = (float(brentq(beyond, end, auc)) if auc != end else end for end in (0.0, 1.0))
    return low, high


def _refuse_shared(members: Corpus, held_out: Corpus) -> None:
    from ksdp.audit.numeric.sparse_rows import same_rows

    places = same_rows(held_out.matrix, members.matrix)
    if (alike := np.flatnonzero(places >= 0)).size:
        raise InputError(
            f"{alike.size} documents are in both files, {str(held_out.ids[alike[0]])!r} held out and "
            f"{str(members.ids[places[alike[0]]])!r} in among them: a document was in or it was not."
        )
