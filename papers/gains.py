"""Table 1 and Figures 4 and 5 of PD-ML-Lite: where NMF starts, and what a party gains by joining."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from joblib import Memory
from numpy.typing import NDArray
from scipy.sparse.linalg import svds

from papers.data import Floats, split, tf_idf
from papers.outcome import Cell, Line, Outcome, released, say

SHARES = (0.005, 0.01, 0.03, 0.1, 0.3)
HELD_OUT = 0.2
_SWEEPS = 20


def fitted(numerators: Floats, gram: Floats, tolerance: float = 1e-4, most: int = 200) -> Floats:
    """W >= 0 that minimises |X - W T|, by coordinates, from X T^T and T T^T."""
    W, diagonal = np.zeros_like(numerators), np.maximum(np.diag(gram), 1e-300)
    for _ in range(most):
        before = W.copy()
        for k, scale in enumerate(diagonal):
            W[:, k] = np.maximum(0.0, W[:, k] + (numerators[:, k] - W @ gram[:, k]) / scale)
        if np.linalg.norm(W - before) <= tolerance * np.linalg.norm(before):
            break
    return W


def left_over(rows: sp.csr_array, T: Floats) -> float:
    """|X - W T|^2, where W is the best that is not negative."""
    numerators, gram = np.asarray(rows @ T.T), T @ T.T
    W = fitted(numerators, gram)
    squared = float((rows.data**2).sum()) - 2 * float((W * numerators).sum()) + float(((W @ gram) * W).sum())
    return max(squared, 0.0)


def leading(rows: sp.csr_array, rank: int) -> Floats:
    """The first right singular vectors, one a row."""
    _, _, right = svds(rows, k=rank, rng=np.random.default_rng(0))
    return np.ascontiguousarray(right[::-1])


class LowRank:
    """Rows in the space of the first right singular vectors; the private form is Hardt and Roth's noisy power."""

    private_name = "Hardt-Roth"
    fits = False
    """Whether the error depends on whose rows something is fitted to."""

    def __init__(self, rows: sp.csr_array) -> None:
        self.rows = rows

    def learn(self, rows: sp.csr_array, rank: int) -> Floats:
        """The model that is learnt from rows."""
        return leading(rows, rank)

    def together(self, rows: sp.csr_array, rank: int) -> Floats:
        """The model of all parties."""
        return self.learn(rows, rank)

    def private(self, rows: sp.csr_array, rank: int, rng: np.random.Generator) -> Floats:
        """The same with differential privacy; rows are clipped to length 1."""
        return released("hardt-roth", [rows], rng, rank=rank, iterations=5, epsilon=0.1, delta=1e-5)["V"]

    def error(self, basis: Floats, party: NDArray[np.intp], test: NDArray[np.intp]) -> float:
        """|X - X V^T V|^2 of the rows that are held out."""
        rows = self.rows[test]
        left = float((rows.data**2).sum()) - float(np.linalg.norm(np.asarray(rows @ basis.T)) ** 2)
        return max(left, 0.0)


class Regression(LowRank):
    """Principal component regression: everybody's components, each party's own coefficients, as in the paper.

    Components are those of Algorithm 6: of five parties' rows, each less its party's own mean.
    """

    fits = True

    def __init__(self, rows: sp.csr_array, target: Floats) -> None:
        super().__init__(rows)
        self.target = target

    def learn(self, rows: sp.csr_array, rank: int) -> Floats:
        """The first principal components."""
        return released("pd-pca", [rows], rank=rank, opens="final", centre="own")["V"]

    def together(self, rows: sp.csr_array, rank: int) -> Floats:
        """Those of five parties, who hide their means."""
        return released("pd-pca", split(rows, 5), rank=rank, opens="final", centre="own")["V"]

    def error(self, basis: Floats, party: NDArray[np.intp], test: NDArray[np.intp]) -> float:
        """RMSE of the held-out targets."""

        def columns(of: NDArray[np.intp]) -> Floats:
            return np.column_stack([self.rows[of] @ basis.T, np.ones(len(of))])

        coefficients = np.linalg.lstsq(columns(party), self.target[party], rcond=None)[0]
        return float(np.sqrt(np.mean((columns(test) @ coefficients - self.target[test]) ** 2)))


class Topics(LowRank):
    """NMF; the private form is the paper's DP inside the algorithm (epsilon 0.25, delta 0.01)."""

    private_name = "DP-NMF"

    def learn(self, rows: sp.csr_array, rank: int) -> Floats:
        """Topics, from the agreed random start."""
        return released("pd-nmf", [rows], rank=rank, opens="final")["T"]

    def private(self, rows: sp.csr_array, rank: int, rng: np.random.Generator) -> Floats:
        """Noise in the sums of ten sweeps."""
        return released("dp-nmf", [rows], rng, rank=rank, sweeps=10, epsilon=0.25, delta=0.01)["T"]

    def error(self, basis: Floats, party: NDArray[np.intp], test: NDArray[np.intp]) -> float:
        """|X - W T|^2 of the rows that are held out, W fitted to T."""
        return left_over(sp.csr_array(self.rows[test]), basis)


@dataclass(frozen=True)
class Change:
    """In per cent of a party's own error; positive is better. Mean over splits and parties."""

    rank: int
    share: float
    together: float
    private: float
    deviation: float
    """Of `together`, over splits."""
    pooled: float | None
    """With coefficients of everybody's rows too, where there are any."""


def _splits(rows: int, count: int) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp], np.random.Generator]]:
    """Rows to learn from, rows to judge by, and a generator, of each random split."""
    for rng in np.random.default_rng(0).spawn(count):
        order = rng.permutation(rows)
        test = round(HELD_OUT * rows)
        yield order[test:], order[:test], rng


def uplift(
    task: LowRank, ranks: Sequence[int] = (7,), shares: Sequence[float] = SHARES, splits: int = 5, parties: int = 3
) -> list[Change]:
    """What at most so many disjoint parties of each size gain, for each rank."""
    n, changes = task.rows.shape[0], []
    for rank in ranks:
        tables: dict[float, list[Floats]] = {share: [] for share in shares}
        for number, (learn, test, rng) in enumerate(_splits(n, splits)):
            say(f"rank {rank}, split {number + 1}")
            everybody = sp.csr_array(task.rows[np.sort(learn)])
            basis, noisy = task.together(everybody, rank), task.private(everybody, rank, rng)
            for share in shares:
                size, found = round(share * n), []
                for party in range(min(parties, len(learn) // size)):
                    held = learn[party * size : (party + 1) * size]
                    own = task.error(task.learn(sp.csr_array(task.rows[np.sort(held)]), rank), held, test)
                    pairs = ((basis, held), (noisy, held), (basis, learn if task.fits else held))
                    found.append([100 * (1 - task.error(V, rows, test) / own) for V, rows in pairs])
                tables[share].append(np.mean(found, axis=0))
        for share, table in tables.items():
            together, private, pooled = np.mean(table, axis=0)
            deviation = float(np.std([row[0] for row in table], ddof=1)) if len(table) > 1 else 0.0
            pool = float(pooled) if task.fits else None
            changes.append(Change(rank, share, float(together), float(private), deviation, pool))
    return changes


def uplift_outcome(measured: dict[str, list[Change]], private: str) -> Outcome:
    """One row a data set, rank and party size."""
    rows, lines, notes = [], [], []
    for name, changes in measured.items():
        for change in changes:
            numbers = (change.together, change.deviation, change.pooled, change.private)
            rounded = (None if number is None else round(number, 2) for number in numbers)
            rows.append((name, change.rank, f"{change.share:.1%}", *rounded))
        for rank in dict.fromkeys(change.rank for change in changes):
            some = sorted((c for c in changes if c.rank == rank), key=lambda c: c.share)
            x, least, most = tuple(100 * c.share for c in some), some[0], some[-1]
            lines.append(Line(name, f"together, k = {rank}", x, tuple(c.together for c in some)))
            pooled = tuple(c.pooled for c in some if c.pooled is not None)
            if pooled:
                lines.append(Line(name, f"coefficients too, k = {rank}", x, pooled))
            lines.append(Line(name, f"{private}, k = {rank}", x, tuple(c.private for c in some)))
            worse = [f"{c.share:.1%}" for c in some if c.private < 0]
            noisy = f"worse than alone at {', '.join(worse)}" if worse else "better than alone at every size"
            notes.append(
                f"{name}, k = {rank}: together {least.together:+.1f} % for parties of {least.share:.1%}, "
                f"{most.together:+.1f} % for those of {most.share:.1%}; {private} {noisy}."
                + (
                    f" With coefficients of everybody's rows too {pooled[0]:+.1f} %, {pooled[-1]:+.1f} %."
                    if pooled
                    else ""
                )
            )
    columns = f"data | k | party | together, % | deviation | coefficients too, % | {private}, %"
    return Outcome(columns, rows, notes, lines, "party size (%)", "error smaller by (%)", ("x",))


PRINTED = {
    "best-of-m": (8110.7, 16.9),
    "nnsvd": (7903.5, 16.9),
    "random": (8216.1, 16.5),
    "random-2x": (7919.8, 16.9),
    "pd-nmf-init": (7907.9, 17.0),
}
"""Error and coherence of Table 1."""
_TOP = 10
"""Terms that stand for a topic."""


def coherence(T: Floats, words: sp.csr_array) -> float:
    """Mean NPMI, by document, of the pairs of every topic's top terms."""
    n, scores = words.shape[0], []
    for topic in np.argsort(-T, axis=1, kind="stable")[:, :_TOP]:
        there = (words[:, topic] != 0).toarray().astype(float)
        both, single = there.T @ there / n, there.mean(axis=0)
        a, b = np.triu_indices(_TOP, 1)
        joint = both[a, b]
        some = (joint > 0) & (joint < 1)
        pairs = np.where(joint > 0, 0.0, -1.0)
        pairs[some] = np.log(joint / (single[a] * single[b]), where=some, out=np.zeros_like(joint))[some]
        pairs[some] /= -np.log(joint[some])
        scores.append(pairs.mean())
    return float(np.mean(scores))


Scores = dict[str, list[tuple[float, float]]]
"""By start: error relative to everybody's rows, and coherence, one pair a trial and setting."""


def starts_scores(
    words: sp.csr_array,
    parties: Sequence[int],
    shares: Sequence[float],
    ranks: Sequence[int],
    trials: int,
    parts: Memory,
) -> Scores:
    """Every start in the same settings; parties draw their documents independently, as in the paper."""
    setting = parts.cache(_setting)
    scores: Scores = defaultdict(list)
    n = words.shape[0]
    for trial in range(trials):
        learn = np.random.default_rng((0, trial)).permutation(n)[n // 10 :]
        for count in parties:
            for share in shares:
                rng = np.random.default_rng((0, trial, count, round(1000 * share)))
                held = [np.sort(rng.choice(learn, round(share * n), replace=False)) for _ in range(count)]
                for rank in ranks:
                    say(f"trial {trial + 1}, {count} parties of {share:.0%}, k = {rank}")
                    for name, score in setting([sp.csr_array(words[rows]) for rows in held], rank):
                        scores[name].append(score)
    return dict(scores)


def _setting(parts: Sequence[sp.csr_array], rank: int) -> list[tuple[str, tuple[float, float]]]:
    everybody = sp.csr_array(sp.vstack(parts, format="csr"))
    together, own = tf_idf(everybody), [tf_idf(part) for part in parts]
    length, scores = float(np.linalg.norm(together.data)), []
    for name in PRINTED:
        rows = [together] if name == "nnsvd" else own
        how: dict[str, Any] = {"start": name, "sweeps": _SWEEPS, "tolerance": 0.0, "opens": "final"}
        T = released("pd-nmf", rows, rank=rank, **how)["T"]
        error = float(np.sqrt(left_over(together, T))) / length
        scores.append((name, (error, coherence(T, everybody))))
    return scores


def starts_outcome(measured: dict[str, Scores]) -> Outcome:
    """Means over settings, and differences from nnsvd in the same settings."""
    rows, notes = [], []
    for data, scores in measured.items():
        base = np.array(scores["nnsvd"])
        differing = {}
        for name, printed in PRINTED.items():
            table = np.array(scores[name])
            relative = 100 * (table[:, 0] / base[:, 0] - 1)
            spread = 3 * relative.std(ddof=1) / np.sqrt(len(relative)) if len(relative) > 1 else 0.0
            differing[name] = (float(relative.mean()), float(spread))
            numbers = (
                round(100 * (printed[0] / PRINTED["nnsvd"][0] - 1), 2),
                f"{relative.mean():+.2f} +- {spread:.2f}",
                printed[1],
                round(100 * float(table[:, 1].mean()), 1),
            )
            rows.append((data, name, *numbers))
        started, bound = differing["pd-nmf-init"]
        notes.append(
            f"{data}: PD-NMF-Init ends {started:+.2f} % (3 sigma: {bound:.2f}) from nnsvd's error, random "
            f"{differing['random'][0]:+.2f} %, best of M {differing['best-of-m'][0]:+.2f} %; nnsvd's own is "
            f"{base[:, 0].mean():.4f} of the rows' length."
        )
    columns = (
        "data | start | paper: error beyond nnsvd, % | ours, % +- 3 sigma | paper: coherence | ours: NPMI x 100"
    )
    return Outcome(columns, rows, notes)


RATING_SHARES = (0.01, 0.04, 0.11, 0.34)
"""Shares of all users that a party holds, as in Figures 4 (b) and (c)."""
_LEAST, _MOST = 1.0, 5.0


def _parted(ratings: sp.csr_array, share: float, rng: np.random.Generator) -> tuple[sp.csr_array, sp.csr_array]:
    """The ratings without a random share of them, and that share."""
    hidden = rng.random(ratings.nnz) < share
    parts = []
    for which in (~hidden, hidden):
        indptr = np.concatenate([[0], np.cumsum(which)])[ratings.indptr]
        parts.append(sp.csr_array((ratings.data[which], ratings.indices[which], indptr), shape=ratings.shape))
    return parts[0], parts[1]


def _rating_topics(parts: Sequence[sp.csr_array], rank: int, penalty: float, sweeps: int) -> Floats:
    how: dict[str, Any] = {"weighted": True, "beta": penalty, "delta": penalty, "tolerance": 0.0, "opens": "final"}
    return released("pd-nmf", parts, rank=rank, sweeps=sweeps, **how)["T"]


def _rating_errors(T: Floats, given: sp.csr_array, hidden: sp.csr_array, penalty: float) -> Floats:
    """The sum of squared errors of hidden ratings and their number; coefficients are fitted to the given ones."""
    rated = sp.csr_array((np.ones(given.nnz), given.indices, given.indptr), shape=given.shape)
    rank, numerators, W = len(T), np.asarray(given @ T.T), np.zeros((given.shape[0], len(T)))
    grams = np.asarray(rated @ (T[:, None] * T).reshape(rank * rank, -1).T).reshape(-1, rank, rank)
    for _ in range(200):
        before = W.copy()
        for k in range(rank):
            own = grams[:, k, k]
            gained = numerators[:, k] - np.einsum("ut,ut->u", grams[:, k], W) + own * W[:, k]
            W[:, k] = np.maximum(0.0, gained / (own + penalty))
        if np.linalg.norm(W - before) <= 1e-4 * np.linalg.norm(before):
            break
    users = np.repeat(np.arange(hidden.shape[0]), np.diff(hidden.indptr))
    predicted = np.clip(np.einsum("ij,ij->i", W[users], T.T[hidden.indices]), _LEAST, _MOST)
    return np.array([np.sum((predicted - hidden.data) ** 2), hidden.nnz])


def _rmse(T: Floats, given: sp.csr_array, hidden: sp.csr_array, penalty: float) -> float:
    errors, ratings = _rating_errors(T, given, hidden, penalty)
    return float(np.sqrt(errors / ratings))


PENALTIES = (0.03, 10.0)
"""Least and largest regulariser that is tried."""


def hyperband(
    error: Callable[[float, int], float], rng: np.random.Generator, sweeps: int, cut: int = 3
) -> tuple[float, int]:
    """The regulariser of the least error, and how many were tried, by Hyperband (Li et al. 2018, algorithm 1).

    Bracket s tries about (brackets / (s + 1)) cut^s values for sweeps / cut^s sweeps each, keeps the best part in
    `cut` of them, and gives these `cut` times as many sweeps, until one bracket's values have had all sweeps.

    Parameters
    ----------
    error : of a regulariser and a number of sweeps
    sweeps : that a value gets at most
    """
    most = int(np.log(sweeps) / np.log(cut) + 1e-9)
    best, tried = (np.inf, 0.0), 0
    for s in range(most, -1, -1):
        count = int(np.ceil((most + 1) / (s + 1) * cut**s))
        values, tried = np.exp(rng.uniform(np.log(PENALTIES[0]), np.log(PENALTIES[1]), count)), tried + count
        for rung in range(s + 1):
            errors = [error(float(value), max(round(sweeps / cut ** (s - rung)), 1)) for value in values]
            order = np.argsort(errors, kind="stable")
            if rung == s:
                best = min(best, (errors[order[0]], float(values[order[0]])))
            values = values[order[: max(len(values) // cut, 1)]]
    return best[1], tried


def chosen_penalty(parts: Sequence[sp.csr_array], rank: int, sweeps: int = _SWEEPS) -> float:
    """beta = delta with the least error on a tenth of the parties' ratings, which is held out for this.

    Parties need PD-NMF and a secure sum of two numbers for each value: squared errors and ratings held out.
    """
    split = [_parted(part, 0.1, np.random.default_rng((0, 1, number))) for number, part in enumerate(parts)]

    def error(penalty: float, sweeps: int) -> float:
        T = _rating_topics([given for given, _ in split], rank, penalty, sweeps)
        errors, ratings = np.sum([_rating_errors(T, *pair, penalty) for pair in split], axis=0)
        return float(np.sqrt(errors / ratings))

    return hyperband(error, np.random.default_rng(0), sweeps)[0]


PRIVATE = {"sweeps": 10, "epsilon": 0.25, "delta": 0.01, "row_bound": 50.0, "contribution": 3.0}
"""DP-NMF on ratings. Half of all users have ratings of a norm of less than 36; the bounds are not the paper's."""


def rating_starts(ratings: sp.csr_array, starts: Sequence[str], rank: int, sweeps: int) -> dict[str, float]:
    """RMSE of a fifth of all ratings, which are hidden, of three parties' topics from each start."""
    given, hidden = _parted(ratings, HELD_OUT, np.random.default_rng(0))
    parts, errors = split(given, 3), {}
    for start in starts:
        how: dict[str, Any] = {"weighted": True, "beta": 1.0, "delta": 1.0, "tolerance": 0.0, "opens": "final"}
        T = released("pd-nmf", parts, rank=rank, sweeps=sweeps, start=start, **how)["T"]
        errors[start] = round(_rmse(T, given, hidden, 1.0), 4)
    return errors


def rating_uplift(
    ratings: sp.csr_array,
    *,
    ranks: Sequence[int] = (7,),
    shares: Sequence[float] = RATING_SHARES,
    parties: int = 2,
    sweeps: int = 27,
) -> Outcome:
    """RMSE of a party's own hidden ratings, alone, together and together with DP, by party size and rank."""
    rng = np.random.default_rng(0)
    order = rng.permutation(ratings.shape[0])
    given, later = _parted(sp.csr_array(ratings[order]), HELD_OUT, rng)
    rows: list[tuple[Cell, ...]] = []
    lines, notes = [], []
    for rank in ranks:
        thirds = split(given, 3)
        penalty = chosen_penalty(thirds, rank, sweeps)
        say(f"rank {rank}: beta = delta = {penalty:.3g}")
        together = _rating_topics(thirds, rank, penalty, sweeps)
        private = released("dp-nmf", thirds, rng, rank=rank, weighted=True, **PRIVATE)["T"]
        changes = []
        for share in shares:
            say(f"rank {rank}, parties of {share:.1%}")
            size, errors = round(share * ratings.shape[0]), []
            for party in range(min(parties, ratings.shape[0] // size)):
                mine = slice(party * size, (party + 1) * size)
                own, hidden = sp.csr_array(given[mine]), sp.csr_array(later[mine])
                best = chosen_penalty([own], rank, sweeps)
                alone = _rmse(_rating_topics([own], rank, best, sweeps), own, hidden, best)
                errors.append((alone, *(_rmse(T, own, hidden, penalty) for T in (together, private))))
            gains = np.mean([[100 * (1 - error / each[0]) for error in each[1:]] for each in errors], axis=0)
            changes.append(gains)
            numbers = (round(float(value), 4) for value in np.mean(errors, axis=0))
            rows.append((rank, round(penalty, 3), f"{share:.1%}", *numbers, *(round(float(g), 2) for g in gains)))
        for name, y in zip((f"k = {rank}", f"DP-NMF, k = {rank}"), np.transpose(changes), strict=True):
            lines.append(Line("MovieLens-1M", name, tuple(100 * share for share in shares), tuple(map(float, y))))
        notes.append(
            f"k = {rank}: joining makes a party's RMSE on its own users {changes[0][0]:.1f} % smaller at "
            f"{shares[0]:.0%} of the users, {changes[-1][0]:.1f} % at {shares[-1]:.0%}; with DP inside "
            f"{changes[0][1]:+.1f} % and {changes[-1][1]:+.1f} % (the paper's Figure 4 (c): -50 to -200 %)."
        )
    columns = "k | beta = delta | party | RMSE alone | together | DP-NMF | together smaller by, % | DP-NMF, %"
    return Outcome(columns, rows, notes, lines, "party size (%)", "RMSE smaller by (%)", ("x",))
