"""Table 1 and Figures 4 and 5 of PD-ML-Lite: where NMF starts, and what a party gains by joining."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.contract import Database
from ksdp.audit.corpus.matrix import tf_idf, unit_rows
from ksdp.audit.errors import SpecError
from ksdp.audit.learning.learners import Learnt
from ksdp.audit.learning.measures import coherence, kept, regression
from ksdp.audit.mechanisms.factorisation.nmf_kernels import Penalties
from ksdp.audit.mechanisms.factorisation.nmf_starts import STARTS, initial_topics, random_topics
from ksdp.audit.mechanisms.factorisation.power_iteration import limit_of_power, start_block
from ksdp.audit.mechanisms.factorisation.rri_nmf import fit_coefficients, objective, pd_nmf_iter
from ksdp.audit.mechanisms.factorisation.weighted_nmf import fit_observed_coefficients, weighted_nmf_iter
from ksdp.audit.mechanisms.privacy.dp_nmf import DPNMF
from ksdp.audit.mechanisms.privacy.hardt_roth import HardtRoth
from ksdp.audit.numeric.array_types import Floats, Matrix
from ksdp.extras.reproduce.outcomes import Line, Outcome


@dataclass(frozen=True, eq=False)
class Parts:
    """One random split: row numbers."""

    learn: NDArray[np.intp]
    test: NDArray[np.intp]
    rng: np.random.Generator


def splits(rows: int, held_out: float, count: int, seed: int) -> Iterator[Parts]:
    """Random splits, each with a generator of its own."""
    for rng in np.random.default_rng(seed).spawn(count):
        order = rng.permutation(rows)
        test = round(held_out * rows)
        yield Parts(order[test:], order[:test], rng)


def parties_of_size(rows: sp.csr_array, learn: NDArray[np.intp], share: float, most: int) -> list[sp.csr_array]:
    """Disjoint parties of a share of all rows, as many as there are and at most `most`."""
    size = round(share * rows.shape[0])
    count = min(most, len(learn) // size if size else 0)
    if count < 1:
        raise SpecError(f"`share` must leave rows to hold out, and have at least one; got {share:g}.")
    return [sp.csr_array(rows[np.sort(learn[i * size : (i + 1) * size])]) for i in range(count)]


SHARES = (0.005, 0.01, 0.03, 0.1, 0.3)


@dataclass(frozen=True)
class Asked:
    """How much of it."""

    ranks: tuple[int, ...] = (7,)
    shares: tuple[float, ...] = SHARES
    """Of a party, in all rows."""
    splits: int = 5
    asked: int = 3
    """Parties that are asked, at most."""
    seed: int = 0
    held_out: float = 0.2


@dataclass(frozen=True)
class Change:
    """In per cent of a party's own error; positive is better. Mean over splits and parties asked."""

    rank: int
    share: float
    together: float
    private: float
    deviation: float
    """Of `together`, over splits."""
    pooled: float | None = None
    """Where something is fitted to a basis: fitted to everybody's rows too, and not to the party's own."""


class LowRank:
    """Rows in the space of the first right singular vectors; `private` is Hardt and Roth's noisy power."""

    fits = False
    """Whether the error depends on whose rows something is fitted to."""

    def __init__(self, rows: sp.csr_array, epsilon: float = 0.1, delta: float = 1e-5) -> None:
        self.rows, self.epsilon, self.delta = rows, epsilon, delta

    def learn(self, parties: Sequence[sp.csr_array], rank: int) -> Matrix:
        """All rows' leading singular vectors."""
        rows = sp.csr_array(sp.vstack(parties, format="csr"))
        return limit_of_power(rows, start_block(0, rows.shape[1], rank)).block

    def private(self, parties: Sequence[sp.csr_array], rank: int, rng: np.random.Generator) -> Matrix:
        """The same with differential privacy; rows are clipped to length 1."""
        noisy = HardtRoth(rank=rank, iterations=5, epsilon=self.epsilon, delta=self.delta)
        return np.asarray(noisy.run(Database(tuple(parties)), rng)["V"])

    def error(self, basis: Matrix, party: NDArray[np.intp], test: NDArray[np.intp]) -> float:
        """|X - X V V^T| of what is held out."""
        rows = self.rows[test]
        left = float((rows.data**2).sum()) - float(np.linalg.norm(np.asarray(rows @ basis.T)) ** 2)
        return float(np.sqrt(max(left, 0.0)))


class Regression(LowRank):
    """Principal component regression: everybody's components, each party's own coefficients, as in the paper."""

    fits = True

    def __init__(self, rows: sp.csr_array, target: Matrix, epsilon: float = 0.1, delta: float = 1e-5) -> None:
        super().__init__(rows, epsilon, delta)
        self.target = target

    def error(self, basis: Matrix, party: NDArray[np.intp], test: NDArray[np.intp]) -> float:
        """RMSE of the held-out targets."""
        learnt = Learnt(basis, None, False)
        train = self.rows[party], self.target[party]
        return -regression(learnt, train, (self.rows[test], self.target[test]))


class Topics(LowRank):
    """NMF; `private` is the paper's DP inside the algorithm (epsilon 0.25, delta 0.01)."""

    sweeps = 20

    def learn(self, parties: Sequence[sp.csr_array], rank: int) -> Matrix:
        """Topics of all rows, from the agreed random start."""
        start = random_topics(parties[0].shape[1], rank, 0)
        return pd_nmf_iter(list(parties), start, sweeps=self.sweeps).T

    def private(self, parties: Sequence[sp.csr_array], rank: int, rng: np.random.Generator) -> Matrix:
        """Noise in the sums of ten sweeps."""
        noisy = DPNMF(rank=rank, sweeps=10, epsilon=self.epsilon, delta=self.delta)
        return np.asarray(noisy.run(Database(tuple(parties)), rng)["T"])

    def error(self, basis: Matrix, party: NDArray[np.intp], test: NDArray[np.intp]) -> float:
        """|X - W T| of what is held out, W fitted to T."""
        rows = sp.csr_array(self.rows[test])
        return float(np.sqrt(2 * objective(rows, fit_coefficients(rows, basis, tolerance=1e-4), basis)))


def uplift(task: LowRank, asked: Asked, say: Callable[[str], None] = lambda _: None) -> list[Change]:
    """One change for each rank and party size."""
    rows, found = task.rows, []
    parts = list(splits(rows.shape[0], asked.held_out, asked.splits, asked.seed))
    for rank in asked.ranks:
        whole = [_everybody(task, part, rank) for part in parts]
        for share in asked.shares:
            say(f"rank {rank}, parties of {share:.1%}")
            changes = []
            for part, (basis, noisy) in zip(parts, whole, strict=True):
                size = round(share * rows.shape[0])
                for number, party in enumerate(parties_of_size(rows, part.learn, share, asked.asked)):
                    held = part.learn[number * size : (number + 1) * size]
                    own = task.error(task.learn([party], rank), held, part.test)
                    pairs = ((basis, held), (noisy, held), (basis, part.learn if task.fits else held))
                    changes.append([100 * (1 - task.error(b, fitted, part.test) / own) for b, fitted in pairs])
            table = np.array(changes).reshape(len(parts), -1, 3).mean(axis=1)
            mean = table.mean(axis=0)
            deviation = float(table[:, 0].std(ddof=1)) if len(parts) > 1 else 0.0
            pooled = float(mean[2]) if task.fits else None
            found.append(Change(rank, share, float(mean[0]), float(mean[1]), deviation, pooled))
    return found


def _everybody(task: LowRank, part: Parts, rank: int) -> tuple[Matrix, Matrix]:
    rows = [sp.csr_array(task.rows[np.sort(part.learn)])]
    return task.learn(rows, rank), task.private(rows, rank, part.rng)


def uplift_outcome(measured: dict[str, list[Change]], private: str) -> Outcome:
    """The table, the plot, and whether what the paper says is seen.

    Parameters
    ----------
    measured : dict
        Changes by data set.
    private : str
        Name of the differentially private mechanism.
    """
    rows = []
    for name, some in measured.items():
        for one in some:
            changes = (one.together, one.deviation, one.pooled, one.private)
            rounded = (None if change is None else round(change, 2) for change in changes)
            rows.append((name, one.rank, f"{one.share:.1%}", *rounded))
    lines, notes = [], []
    for name, some in measured.items():
        for rank in dict.fromkeys(one.rank for one in some):
            of = [one for one in some if one.rank == rank]
            x = tuple(100 * one.share for one in of)
            lines.append(Line(name, f"together, k = {rank}", x, tuple(one.together for one in of)))
            pooled = tuple(one.pooled for one in of if one.pooled is not None)
            if pooled:
                lines.append(Line(name, f"coefficients too, k = {rank}", x, pooled))
            lines.append(Line(name, f"{private}, k = {rank}", x, tuple(one.private for one in of)))
            least, most = min(of, key=lambda one: one.share), max(of, key=lambda one: one.share)
            worse = [f"{one.share:.1%}" for one in of if one.private < 0]
            dp = f"worse than alone at {', '.join(worse)}" if worse else "better than alone at every size"
            notes.append(
                f"{name}, k = {rank}: together {least.together:+.1f} % for parties of {least.share:.1%}, "
                f"{most.together:+.1f} % for those of {most.share:.1%}; {private} {dp}."
                + (
                    f" With coefficients of everybody's rows too {pooled[0]:+.1f} %, {pooled[-1]:+.1f} %."
                    if pooled
                    else ""
                )
            )
    columns = ("data", "k", "party", "together, %", "deviation", "coefficients too, %", f"{private}, %")
    return Outcome(
        columns, tuple(rows), tuple(notes), tuple(lines), "party size (%)", "error smaller by (%)", ("x",)
    )


PRINTED = {
    "best-of-m": (8110.7, 16.9, 44.8),
    "nnsvd": (7903.5, 16.9, 43.8),
    "random": (8216.1, 16.5, 43.9),
    "random-2x": (7919.8, 16.9, 43.8),
    "pd-nmf-init": (7907.9, 17.0, 43.8),
}
"""Error, coherence and perplexity of Table 1."""
_SWEEPS = 20
_SMOOTHED = 0.01
"""Of every document's mixture, spread over all terms: a term that no topic has would make perplexity infinite."""


@dataclass(frozen=True)
class AskedStarts:
    """Settings that are averaged over."""

    parties: tuple[int, ...] = (3, 5)
    shares: tuple[float, ...] = (0.03, 0.1)
    ranks: tuple[int, ...] = (20,)
    trials: int = 2
    seed: int = 0


def perplexity(T: Floats, counts: sp.csr_array, rows: sp.csr_array) -> float:
    """exp of the mean of -log p over words held out, each document's mixture fitted to its weighed row.

    Parameters
    ----------
    counts : csr_array, shape (n_documents, n_features)
        Words that are to be told.
    rows : csr_array of the same shape
        The same documents, weighed: what mixtures are fitted to.
    """
    mixtures = fit_coefficients(rows, T, tolerance=1e-4)
    mass = mixtures @ T.sum(axis=1)
    kept = np.flatnonzero((mass > 0) & (np.diff(counts.indptr) > 0))
    nats = words = 0.0
    for row in kept:
        at = slice(counts.indptr[row], counts.indptr[row + 1])
        likelihood = mixtures[row] @ T[:, counts.indices[at]] / mass[row]
        likelihood = (1 - _SMOOTHED) * likelihood + _SMOOTHED / T.shape[1]
        nats -= float(counts.data[at] @ np.log(likelihood))
        words += float(counts.data[at].sum())
    return float(np.exp(nats / words)) if words else float("nan")


def starts_scores(
    counts: sp.csr_array, asked: AskedStarts, say: Callable[[str], None] = lambda _: None
) -> dict[str, list[tuple[float, float, float]]]:
    """Error relative to everybody's rows, coherence and perplexity of every start, one triple a trial and setting.

    Parties draw their documents independently of each other, as in the paper, so that they share some.
    """
    scores_of: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    n = counts.shape[0]
    for trial in range(asked.trials):
        order = np.random.default_rng((asked.seed, trial)).permutation(n)
        test, learn = counts[order[: n // 10]], order[n // 10 :]
        for parties in asked.parties:
            for share in asked.shares:
                rng = np.random.default_rng((asked.seed, trial, parties, round(1000 * share)))
                held = [np.sort(rng.choice(learn, round(share * n), replace=False)) for _ in range(parties)]
                for rank in asked.ranks:
                    say(f"trial {trial + 1}, {parties} parties of {share:.0%}, k = {rank}")
                    _setting([sp.csr_array(counts[rows]) for rows in held], sp.csr_array(test), rank, scores_of)
    return dict(scores_of)


def _setting(
    parts: Sequence[sp.csr_array],
    test: sp.csr_array,
    rank: int,
    scores_of: dict[str, list[tuple[float, float, float]]],
) -> None:
    everybody = sp.csr_array(sp.vstack(parts, format="csr"))
    together = unit_rows(tf_idf(everybody))
    frequency = np.log(everybody.shape[0] / np.maximum(1, np.bincount(everybody.indices, minlength=test.shape[1])))
    own = [unit_rows(tf_idf(part)) for part in parts]
    asked = unit_rows(sp.csr_array(test @ sp.diags_array(frequency)))
    length = float(np.linalg.norm(together.data))
    for name in STARTS:
        rows = [together] if name == "nnsvd" else own
        start = initial_topics(name, rows, rank)
        sweeps = 2 * _SWEEPS if name == "random-2x" else _SWEEPS
        T = pd_nmf_iter(rows, start, sweeps=sweeps, tolerance=0.0).T
        error = float(np.sqrt(2 * objective(together, fit_coefficients(together, T, tolerance=1e-4), T)))
        scores = error / length, coherence(Learnt(T, None, True), everybody), perplexity(T, test, asked)
        scores_of[name].append(scores)


def starts_outcome(measured: dict[str, dict[str, list[tuple[float, float, float]]]]) -> Outcome:
    """Means over settings, differences from nnsvd in the same settings, and whether the paper's order holds."""
    rows, notes = [], []
    for data, scores in measured.items():
        base = np.array(scores["nnsvd"])
        best = base.mean(axis=0)
        differing = {}
        for name in STARTS:
            table = np.array(scores[name])
            relative = 100 * (table[:, 0] / base[:, 0] - 1)
            spread = 3 * relative.std(ddof=1) / np.sqrt(len(relative)) if len(relative) > 1 else 0.0
            differing[name] = (float(relative.mean()), float(spread))
            mean, printed = table.mean(axis=0), PRINTED[name]
            rows.append(
                (
                    data,
                    name,
                    round(100 * (printed[0] / PRINTED["nnsvd"][0] - 1), 2),
                    f"{relative.mean():+.2f} +- {spread:.2f}",
                    printed[1],
                    round(100 * float(mean[1]), 1),
                    printed[2],
                    round(float(mean[2]), 1),
                )
            )
        inited, bound = differing["pd-nmf-init"]
        plain, _ = differing["random"]
        notes.append(
            f"{data}: PD-NMF-Init ends {inited:+.2f} % (3 sigma: {bound:.2f}) from nnsvd's error, random "
            f"{plain:+.2f} %, "
            f"best of M {differing['best-of-m'][0]:+.2f} %; nnsvd's own is {best[0]:.4f} of the rows' length."
        )
    columns = (
        "data",
        "start",
        "paper: error beyond nnsvd, %",
        "ours, % +- 3 sigma",
        "paper: coherence",
        "ours: NPMI x 100",
        "paper: perplexity",
        "ours",
    )
    return Outcome(columns, tuple(rows), tuple(notes))


_LEAST, _MOST = 1.0, 5.0


@dataclass(frozen=True)
class AskedRatings:
    """How much of it."""

    ranks: tuple[int, ...] = (7,)
    shares: tuple[float, ...] = (0.005, 0.01, 0.03, 0.1, 0.3)
    asked: int = 2
    """Parties that are asked."""
    hidden: float = 0.2
    penalties: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0)
    sweeps: int = 20
    seed: int = 0


def _parted(ratings: sp.csr_array, share: float, rng: np.random.Generator) -> tuple[sp.csr_array, sp.csr_array]:
    hidden = rng.random(ratings.nnz) < share
    return kept(ratings, ~hidden), kept(ratings, hidden)


def _learn(
    ratings: Sequence[sp.csr_array], rank: int, penalty: float, sweeps: int, start: Matrix | None
) -> Matrix:
    begin = random_topics(ratings[0].shape[1], rank, 0) if start is None else start
    how = Penalties(beta=penalty, delta=penalty)
    return weighted_nmf_iter(list(ratings), begin, sweeps=sweeps, tolerance=0.0, penalties=how).T


def _error(T: Matrix, given: sp.csr_array, asked: sp.csr_array, penalty: float) -> float:
    W = fit_observed_coefficients(given, T, delta=penalty, tolerance=1e-4)
    users = np.repeat(np.arange(asked.shape[0]), np.diff(asked.indptr))
    said = np.clip(np.einsum("ij,ij->i", W[users], T.T[asked.indices]), _LEAST, _MOST)
    return float(np.sqrt(np.mean((said - asked.data) ** 2)))


def chosen_penalty(ratings: sp.csr_array, rank: int, asked: AskedRatings) -> float:
    """Half of the penalties go after each round, and who stays iterates on: beta = delta = the last one left."""
    given, test = _parted(ratings, 0.1, np.random.default_rng((asked.seed, 1)))
    left: dict[float, Matrix | None] = dict.fromkeys(asked.penalties)
    sweeps = max(1, asked.sweeps // 4)
    while len(left) > 1:
        topics = {penalty: _learn([given], rank, penalty, sweeps, start) for penalty, start in left.items()}
        order = sorted(topics, key=lambda penalty: _error(topics[penalty], given, test, penalty))
        left = {penalty: topics[penalty] for penalty in order[: len(order) // 2]}
        sweeps *= 2
    return next(iter(left))


def rating_uplift(
    ratings: sp.csr_array, asked: AskedRatings, say: Callable[[str], None] = lambda _: None
) -> Outcome:
    """RMSE of a party's own hidden ratings, alone and together, by party size and rank."""
    rng = np.random.default_rng(asked.seed)
    order = rng.permutation(ratings.shape[0])
    given, later = _parted(sp.csr_array(ratings[order]), asked.hidden, rng)
    rows, lines, said = [], [], []
    for rank in asked.ranks:
        penalty = chosen_penalty(given, rank, asked)
        say(f"rank {rank}: beta = delta = {penalty:g}")
        together = _learn([given], rank, penalty, asked.sweeps, None)
        changes = []
        for share in asked.shares:
            say(f"rank {rank}, parties of {share:.1%}")
            size = round(share * ratings.shape[0])
            errors = []
            for party in range(min(asked.asked, ratings.shape[0] // size)):
                mine = slice(party * size, (party + 1) * size)
                own, hidden = sp.csr_array(given[mine]), sp.csr_array(later[mine])
                alone = min(
                    _error(_learn([own], rank, p, asked.sweeps, None), own, hidden, p) for p in asked.penalties
                )
                errors.append((alone, _error(together, own, hidden, penalty)))
            alone, run = np.mean(errors, axis=0)
            changes.append(float(np.mean([100 * (1 - b / a) for a, b in errors])))
            row = (f"{share:.1%}", round(float(alone), 4), round(float(run), 4), round(changes[-1], 2))
            rows.append((rank, penalty, *row))
        x = tuple(100 * share for share in asked.shares)
        lines.append(Line("MovieLens-1M", f"k = {rank}", x, tuple(changes)))
        said.append(
            f"k = {rank}: joining makes a party's RMSE on its own users {changes[0]:.1f} % smaller at "
            f"{asked.shares[0]:.1%} of the users, {changes[-1]:.1f} % at {asked.shares[-1]:.1%}."
        )
    columns = ("k", "beta = delta", "party", "RMSE alone", "together", "smaller by, %")
    return Outcome(
        columns, tuple(rows), tuple(said), tuple(lines), "party size (%)", "RMSE smaller by (%)", ("x",)
    )
