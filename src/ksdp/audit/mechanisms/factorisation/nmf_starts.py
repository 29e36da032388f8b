"""Starts of PD-NMF, all agreed or made by secure sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import svds

from ksdp.audit.contract import EXACT, Database, Observables, Release
from ksdp.audit.errors import CorpusError, SpecError
from ksdp.audit.mechanisms.factorisation.lanczos import dot
from ksdp.audit.mechanisms.factorisation.nmf_kernels import PLAIN, Penalties
from ksdp.audit.mechanisms.factorisation.pd_svd import SigmaSVD
from ksdp.audit.mechanisms.factorisation.rri_nmf import (
    LAST_SUMS,
    Factorisation,
    KeptSums,
    fit_coefficients,
    objective,
    pd_nmf_iter,
)
from ksdp.audit.mechanisms.factorisation.weighted_nmf import (
    fit_observed_coefficients,
    observed_objective,
    weighted_nmf_iter,
)
from ksdp.audit.mechanisms.schema import released
from ksdp.audit.numeric.array_types import Matrix, Vector
from ksdp.audit.numeric.kernels import one_thread

STARTS = ("random", "random-2x", "nnsvd", "best-of-m", "pd-nmf-init")


@dataclass(frozen=True)
class LocalFit:
    """How a start that depends on data fits its local models: as the mechanism itself iterates."""

    sweeps: int = 20
    tolerance: float = 1e-4
    penalties: Penalties = PLAIN
    weighted: bool = False
    """On the observed entries only."""

    def factorise(
        self, parties: Sequence[sp.csr_array], start: Matrix, *, weighted: bool = False, kept: KeptSums = LAST_SUMS
    ) -> Factorisation:
        """NMF of the parties' rows."""
        iterate = weighted_nmf_iter if weighted else pd_nmf_iter
        return iterate(
            parties, start, sweeps=self.sweeps, tolerance=self.tolerance, penalties=self.penalties, kept=kept
        )


@lru_cache(maxsize=4)
def random_topics(features: int, rank: int, seed: int) -> Matrix:
    """Return rank rows of independent U[0, 1] entries, each divided by its sum; read-only, equal for all."""
    topics = np.random.default_rng(seed).random((rank, features))
    topics /= topics.sum(axis=1, keepdims=True)
    topics.flags.writeable = False
    return topics


def _truncated_svd(matrix: sp.csr_array, rank: int) -> tuple[Matrix, Matrix, Matrix]:
    smaller = min(matrix.shape)
    with one_thread():
        if rank >= smaller - 1:
            U, s, VT = scipy.linalg.svd(matrix.toarray(), full_matrices=False)
        else:
            # A generic start: a structured one may be orthogonal to a wanted vector. `rng` serves restarts.
            v0 = np.random.default_rng(0).random(smaller)
            U, s, VT = svds(matrix, k=rank, v0=v0, rng=np.random.default_rng(0))
    order = np.argsort(-s, kind="stable")[:rank]
    return U[:, order], s[order], VT[order]


def nnsvd(matrix: sp.csr_array, rank: int) -> Matrix:
    r"""The topics of the non-negative double SVD, shape (rank, d), rows of sum 1.

    The first topic is :math:`|v_1|`. Of each further singular triplet the dominant non-negative part counts: of
    :math:`(u_+, v_+)` and :math:`(u_-, v_-)` the pair with the larger :math:`\|u_\pm\| \|v_\pm\|`, which does not
    depend on the signs of the SVD. A topic of singular value 0 is uniform. Boutsidis & Gallopoulos 2008 (the
    variant that keeps zeros); the scale of a row matters to the simplex projection alone.
    """
    if rank > min(matrix.shape):
        raise SpecError(
            f"`rank` must be at most the rows and the features of the data the start is made from "
            f"({matrix.shape[0]} x {matrix.shape[1]}); got {rank}."
        )
    if not matrix.data.any():
        raise CorpusError("the start nnsvd needs at least one entry that is not 0.")
    U, s, VT = _truncated_svd(matrix, rank)
    topics = np.empty((rank, matrix.shape[1]))
    for t in range(rank):
        u, v = U[:, t], VT[t]
        if s[t] <= max(matrix.shape) * np.finfo(np.float64).eps * s[0]:
            topics[t] = 1.0
        elif t == 0:
            topics[t] = np.abs(v)  # by Perron and Frobenius u and v have one sign, or can be chosen so
        else:
            up, un, vp, vn = np.maximum(u, 0), np.maximum(-u, 0), np.maximum(v, 0), np.maximum(-v, 0)
            positive = _norm(up) * _norm(vp) >= _norm(un) * _norm(vn)
            topics[t] = vp if positive else vn
    return np.asarray(topics / topics.sum(axis=1, keepdims=True))


def _norm(x: Matrix) -> float:
    return float(np.sqrt((x * x).sum()))


def local_models(parties: Sequence[sp.csr_array], rank: int, how: LocalFit = LocalFit()) -> list[Factorisation]:
    """Return every party's own NMF, from its own nnsvd start (Algorithm 2, lines 3 and 4)."""
    smallest = min(party.shape[0] for party in parties)
    if smallest < rank:
        raise SpecError(
            f"`rank` must be at most the rows of the smallest party ({smallest}) for its own NMF; got {rank}."
        )
    return [how.factorise([party], nnsvd(party, rank), weighted=how.weighted) for party in parties]


def best_of_parties(parties: Sequence[sp.csr_array], rank: int, how: LocalFit = LocalFit()) -> Matrix:
    """Return the local topics with the smallest reconstruction error, summed over all parties ("best of M")."""
    models = local_models(parties, rank, how)
    if len(models) == 1:
        return models[0].T
    fit = fit_observed_coefficients if how.weighted else fit_coefficients
    error = observed_objective if how.weighted else objective
    gamma, delta = how.penalties.gamma, how.penalties.delta
    totals = []
    for model in models:
        fitted = [fit(party, model.T, gamma=gamma, delta=delta, tolerance=1e-6) for party in parties]
        totals.append(sum(error(party, W, model.T) for party, W in zip(parties, fitted, strict=True)))
    return models[int(np.argmin(totals))].T


def pseudo_documents(model: Factorisation) -> sp.csr_array:
    """A party's local topics as documents, each as long as its column of W (Algorithm 2, line 5)."""
    weights = np.sqrt((model.W * model.W).sum(axis=0))
    return sp.csr_array(weights[:, None] * model.T)


def merged_models(
    parties: Sequence[sp.csr_array],
    rank: int,
    how: LocalFit = LocalFit(),
    *,
    seed: int = 0,
    kept: KeptSums = LAST_SUMS,
) -> Factorisation:
    """Return what PD-NMF-Init announces: PD-NMF-Iter on the parties' weighted local topics as documents.

    Each party's topics are scaled by the norms of the columns of its W, so that an error in a topic weighs what it
    costs in that party's documents (Theorem 2). The iterations start from the agreed random topics: independent
    U[0, 1] entries. The paper's parties average random matrices of their own, which is public as well, but another
    law: the mean of M such entries has variance 1 / (12 M), so that with many parties topics begin almost alike.

    Notes
    -----
    PD-ML-Lite, Algorithm 2. The pseudo-documents have no missing entries: `weighted` is for the local models.
    """
    models = local_models(parties, rank, how)
    pseudo = [pseudo_documents(model) for model in models]
    start = random_topics(parties[0].shape[1], rank, seed)
    return how.factorise(pseudo, start, kept=kept)


def merged_topics(
    parties: Sequence[sp.csr_array], rank: int, how: LocalFit = LocalFit(), *, seed: int = 0
) -> Matrix:
    """Return T_init of PD-NMF-Init, the topics that `merged_models` ends with."""
    return merged_models(parties, rank, how, seed=seed).T


def initial_topics(
    name: str, parties: Sequence[sp.csr_array], rank: int, how: LocalFit = LocalFit(), *, seed: int = 0
) -> Matrix:
    """Return the start of that name, shape (rank, d)."""
    if name in ("random", "random-2x"):
        return random_topics(parties[0].shape[1], rank, seed)
    if name == "nnsvd":
        return nnsvd(parties[0] if len(parties) == 1 else sp.csr_array(sp.vstack(parties, format="csr")), rank)
    if name == "best-of-m":
        return best_of_parties(parties, rank, how)
    if name == "pd-nmf-init":
        return merged_topics(parties, rank, how, seed=seed)
    raise SpecError(f"`start` must be one of {', '.join(STARTS)}; got {name!r}.")


Array = NDArray[np.float64]

ITERATIONS = 10
"""Rounds of the power iteration. A start need not be exact, and every round is opened."""
NOTHING = 1e-3
"""A direction whose singular value is at most this part of the largest has no topic: sums have rounding errors."""
_COUNT = "iterations"


def part_squares(matrix: sp.csr_array, V: Matrix) -> Matrix:
    """One party's share: squared lengths of the positive and of the negative part of each X v, shape (2, k)."""
    image = np.asarray(matrix @ np.ascontiguousarray(V.T))
    return np.stack([np.square(np.maximum(sign * image, 0.0)).sum(axis=0) for sign in (1.0, -1.0)])


def topics_from_parts(V: Matrix, sigma: Vector, squares: Matrix) -> Matrix:
    """The start, rows of sum 1; the same bits at every party."""
    if not sigma[0] > 0.0:
        raise CorpusError("the start nnsvd needs at least one entry that is not 0.")
    topics = np.ones_like(V)
    for t, v in enumerate(V):
        if sigma[t] <= NOTHING * sigma[0]:
            continue  # uniform
        if t == 0:
            topics[t] = np.abs(v)  # by Perron and Frobenius all of one sign, or so it can be chosen
            continue
        positive, negative = np.maximum(v, 0.0), np.maximum(-v, 0.0)
        sides = float(squares[0, t]) * dot(positive, positive), float(squares[1, t]) * dot(negative, negative)
        topics[t] = positive if sides[0] >= sides[1] else negative
    sums = np.array([dot(row, np.ones_like(row)) for row in topics])
    return np.asarray(topics / sums[:, None])


class SvdStart:
    """The start of so many topics from the agreed seed.

    Parameters
    ----------
    rank : k, below the features and the rows of all parties
    seed : of the block that iterations begin with
    """

    def __init__(self, rank: int, seed: int) -> None:
        self.svd = SigmaSVD(rank=rank, solver="power", iterations=ITERATIONS, tolerance=0.0, start_seed=seed)

    def releases(self, features: int) -> tuple[Release, ...]:
        """As `SigmaSVD`, and ``part_squares``; none is part of a final output."""
        kept = [replace(a, final=False) for a in self.svd.releases(features) if a.name != _COUNT]
        parts = Release("part_squares", (2, self.svd.rank), noise=EXACT)
        return (*(a for a in kept if a.recorded), parts, *(a for a in kept if not a.recorded))

    def run(self, database: Database, *, release: bool = False) -> tuple[Matrix, dict[str, Array]]:
        """The start, and what parties announce on the way to it; what they `release`, where that is asked for."""
        rng = np.random.default_rng(0)  # draws nothing
        seen = dict(self.svd.release(database, rng) if release else self.svd.run(database, rng))
        seen.pop(_COUNT)
        squares = np.zeros((2, self.svd.rank))
        for party in database.parties:
            squares += part_squares(party, seen["V"])
        return topics_from_parts(seen["V"], seen["sigma"], squares), seen | {"part_squares": squares}

    def derive(self, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Return the recorded arrays, worked out from the released ones."""
        names = {"part_squares"} | {array.name for array in released(self.svd, self.svd.rank + 1)}
        mine = {name: array for name, array in arrays.items() if name in names}
        return dict(self.svd.derive(Observables(mine)))
