"""What a run's singular vectors say by themselves: equations in who is in, which are solved as those of rounds.

The leading right singular vectors V of a run are eigenvectors of its second moments, so that

    sum over documents of <x, v_t> (x - (x V^T) V) = 0,    sum over documents of <x, v_t> <x, v_u> = 0,

t and u different, whatever the run was computed by; where a mean is announced of x - mean, whose sum is 0 as well,
and where singular values are, the sum of <x, v_t>^2 is sigma_t^2. These are the equations of a round of the
iteration (`round_terms`) whose blocks before and after are V. They hold at the run's own V: nothing is expected of
it, and no first order is taken (`match.BasisMatch`), so that as many of them as there are documents tell everybody
apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from typing import cast

import numpy as np
import scipy.sparse as sp

from ksdp.audit.array_types import Floats
from ksdp.audit.errors import KsdpError
from ksdp.audit.mechanisms.contract import Database, Observables
from ksdp.audit.mechanisms.factorisation.pd_svd import numbers_of_basis
from ksdp.audit.statistics.beside_counts import beside_counts
from ksdp.audit.statistics.contract import Documents, Pool
from ksdp.audit.statistics.equations import Equations, own_mechanism, what_they_say
from ksdp.audit.statistics.little_noise import Equated
from ksdp.audit.statistics.products import announced
from ksdp.audit.statistics.round_terms import block_numbers
from ksdp.audit.statistics.rounds_match import is_exact, mean_of_all
from ksdp.audit.statistics.ruled_out import Possible, WithinBasis
from ksdp.audit.statistics.solved_filters import hides_little
from ksdp.audit.statistics.solved_parts import MOST_SOLVED, few_enough
from ksdp.audit.statistics.term_numbers import TermNumbers
from ksdp.audit.statistics.term_products import LOST

FEWEST = 1 / 16
"""Numbers a document, of more documents than are solved for, where it is named: with fewer, what is expected of V
says as much, and is worked out once (17,678 mails of 500 terms, rank 7, a third, 0.2 numbers a mail: D of all in
one run against all out 0.29 by `BasisMatch` and 0.30 by these; solved, ten seconds a run, 0.34)."""
_ROUNDS = frozenset({"first_blocks", "block_sums", "sums", "uploads", "P"})
"""What rounds announce, which filters of their own look at."""
_LEAST = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class BasisEquations:
    """Who was in a run, by the equations that its singular vectors solve.

    As `BlocksMatch`, of the final V alone. Where a run stopped before it had converged, or there is noise, what
    the equations miss is taken from one run on what databases are drawn from; where that is not small beside what
    documents add, all is 0, and `BasisMatch` says as much.
    """

    sentence = "Whether the document belongs to those whose sums the announced directions solve."

    name: str = "basis-equations"
    version: int = 3
    family: str = "geometry"
    needs: tuple[str, ...] = ("V",)

    def asks_for(self, arrays: Mapping[str, tuple[int, ...]], documents: int) -> str:
        """What is missing that it is worth its time for, in words; empty where nothing is.

        Parameters
        ----------
        arrays : what is seen of a run, and the shape of each
        documents : that may be in
        """
        if _ROUNDS & set(arrays):
            return "a run that shows its V alone: sums of rounds say more"
        if len(arrays["V"]) != 2:
            return "a V of rows"
        if few_enough(documents):
            return ""
        return f"{MOST_SOLVED:,} documents or fewer, or to be named: of more it only proves leaks, and is dear"

    def equations_of(self, observables: Observables, pool: Pool) -> Equated | None:
        """What documents add to the sums that V leaves, and these sums; None where all is 0."""
        V = np.ascontiguousarray(announced(observables, "V"))
        if pool.mechanism is None or not _enough(numbers_of_basis(*V.shape), _who_may(pool)):
            return None
        exact, missed = _converged(pool), None
        if not exact:
            missed = cast(Floats | None, pool.derive(("what V misses", len(V)), lambda: _missed(pool)))
            if missed is None:
                return None
        mean = None
        if "mean" in observables:
            mean = mean_of_all(announced(observables, "mean").ravel(), pool)
        sigma = announced(observables, "sigma").ravel() if "sigma" in observables else None

        def terms(rows: sp.csr_array) -> TermNumbers:
            return _terms(rows, V, mean, sigma is not None)

        sums, noise = _sums(V, mean, sigma), 0.0 if missed is None else missed
        known = Equations(sums, noise, exact=exact, possible=_possible(V, mean, pool) if exact else None)
        return beside_counts(pool, terms, known)

    def evaluate(self, observables: Observables, documents: Documents) -> Floats:
        """One number a document, shape (n_documents,); all 0 where V tells too little of so many documents."""
        found = self.equations_of(observables, documents.made_of)
        return (
            np.zeros(len(documents)) if found is None else what_they_say(self.name, observables, documents, *found)
        )


def _enough(numbers: int, documents: int) -> bool:
    return few_enough(documents) or numbers >= FEWEST * documents


def _who_may(pool: Pool) -> int:
    """Documents of which nobody knows whether they are in."""
    others = 0 if pool.fixed is None or pool.fixed_share == 1.0 else pool.fixed.shape[0]
    return int(pool.drawn.shape[0] + others)


def _converged(pool: Pool) -> bool:
    """Whether the equations are known to hold: V is the limit, as it is."""
    return is_exact(pool) and getattr(own_mechanism(pool.mechanism), "solver", "") == "limit"


def _terms(rows: sp.csr_array, V: Floats, mean: Floats | None, squares: bool) -> TermNumbers:
    """What each document adds: to the part outside of V, row by row, and to the products within it."""
    made = block_numbers(rows, np.stack([V, V]), mean)
    pairs = _pairs(len(V), squares)
    within = made.numbers[:, : len(V)]
    return replace(made, scalars=within[:, pairs[:, 0]] * within[:, pairs[:, 1]])


def _pairs(rank: int, squares: bool) -> np.ndarray:
    """Places of the products of two vectors' that are known; of one with itself where singular values are."""
    pairs = [(t, u) for t, u in combinations_with_replacement(range(rank), 2) if squares or t != u]
    return np.array(pairs, np.int64).reshape(-1, 2)


def _sums(V: Floats, mean: Floats | None, sigma: Floats | None) -> Floats:
    """What documents add up to, in the order of `TermNumbers`."""
    outside = np.zeros(V.size + (0 if mean is None else len(mean)))
    pairs = _pairs(len(V), sigma is not None)
    within = np.zeros(len(pairs))
    if sigma is not None:
        own = pairs[:, 0] == pairs[:, 1]
        within[own] = np.square(sigma[pairs[own, 0]])
    return np.concatenate([outside, within])


def _possible(V: Floats, mean: Floats | None, pool: Pool) -> Possible | None:
    """Who has entries only where V is not 0, of nonnegative documents, where no mean is subtracted."""
    if mean is not None or any(
        part is not None and part.data.min(initial=0.0) < 0.0 for part in (pool.drawn, pool.fixed)
    ):
        return None
    touched = np.asarray(V.any(axis=0))
    return None if touched.all() else WithinBasis(touched, V[0])


def _missed(pool: Pool) -> Floats | None:
    """The variance of what the equations miss of each number, by one run; None where it hides what documents add.

    Rows are alike within themselves: each has the mean over its entries.
    """
    rng = np.random.default_rng(0)
    taken = pool.one_draw(rng)
    try:
        assert pool.mechanism is not None
        seen = pool.mechanism.run(Database(taken), rng)
    except KsdpError:  # too few documents for its rank, say
        return None
    V = np.ascontiguousarray(np.asarray(seen["V"], dtype=np.float64))
    mean = np.asarray(seen["mean"], dtype=np.float64).ravel() if "mean" in seen else None
    sigma = np.asarray(seen["sigma"], dtype=np.float64).ravel() if "sigma" in seen else None
    left = -_sums(V, mean, sigma)
    for rows in taken:
        left += _terms(rows, V, mean, sigma is not None).summed(np.ones(rows.shape[0]))
    whole = _terms(pool.drawn, V, mean, sigma is not None)
    rows_left, single = whole.apart(np.square(left))
    noise = np.concatenate(
        [
            np.repeat(rows_left.mean(axis=1), rows_left.shape[1]),
            np.full(len(single), single.mean() if len(single) else 0.0),
        ]
    )
    noise += max(LOST * float(np.square(whole.weights).sum()), _LEAST)
    varied = max(pool.share * (1 - pool.share), 1e-3)
    return noise if hides_little(whole, noise / varied) else None
