"""Figure 4 (b) of PD-ML-Lite: how much better a party predicts its own users' ratings with everybody's topics.

A part of every user's ratings is hidden. Topics are learnt by weighted PD-NMF from what is left of the party's
own users, or of everybody's; the party fits its users' coefficients to either, and predicts. Regularisers are
chosen in the distributed setting by successive halving (one bracket of Hyperband), on a part of the given
ratings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from ksdp.audit.array_types import Matrix
from ksdp.audit.learning.measures import kept
from ksdp.audit.mechanisms.factorisation.nmf_kernels import Penalties
from ksdp.audit.mechanisms.factorisation.nmf_starts import random_topics
from ksdp.audit.mechanisms.factorisation.weighted_nmf import fit_observed_coefficients, weighted_nmf_iter
from ksdp.audit.reproducing.outcome import Line, Outcome

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
