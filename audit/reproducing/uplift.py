"""Figure 5 and Figure 4 (a), (c) of PD-ML-Lite: how much smaller an error gets by learning from everybody's rows.

What is held out is never learnt from. "Everybody" is all that is not held out, cut into parties of the size asked
for; each of some of these parties is asked what it has alone. Changes are in per cent of a party's own error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.array_types import Matrix
from ksdp.audit.learning.learners import Learnt
from ksdp.audit.learning.measures import regression
from ksdp.audit.mechanisms.contract import Database
from ksdp.audit.mechanisms.factorisation.nmf_starts import random_topics
from ksdp.audit.mechanisms.factorisation.power_iteration import start_block
from ksdp.audit.mechanisms.factorisation.power_limit import limit_of_power
from ksdp.audit.mechanisms.factorisation.rri_nmf import fit_coefficients, objective, pd_nmf_iter
from ksdp.audit.mechanisms.privacy.dp_nmf import DPNMF
from ksdp.audit.mechanisms.privacy.hardt_roth import HardtRoth
from ksdp.audit.reproducing.held_out import Parts, parties_of_size, splits
from ksdp.audit.reproducing.outcome import Line, Outcome

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
