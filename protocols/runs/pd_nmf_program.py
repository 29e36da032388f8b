"""One party of PD-NMF: its rows, the public topics, and what it wants summed (PD-ML-Lite, Algorithms 1 and 2).

Numerics are those of `factorisation.nmf_sweep`, with one difference: nobody knows which columns the
others' rows touch, so all of them are computed. A sum is (W_t^T R_t, ||W_t||^2), d + 1 numbers, one for every
topic and sweep; of ratings both are wanted column by column, 2 d numbers (`factorisation.weighted_nmf`). The start
``nnsvd`` takes ten sums of k d numbers and one of 2 k before (`factorisation.nmf_svd_start`).

The stop rule and every T_t come from announced sums only, in an order of operations that no library decides: all
parties get the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.factorisation.nmf_kernels import (
    Factors,
    Penalties,
    Silent,
    TopicShare,
    dot,
    gram_rows,
    next_topic,
    product,
    replace_topic,
    share_of,
)
from ksdp.audit.mechanisms.factorisation.nmf_starts import (
    SvdStart,
    agreed_topics,
    local_models,
    part_squares,
    pseudo_documents,
    topics_from_parts,
)
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.factorisation.rri_nmf import Factorisation, check_start, stack
from ksdp.audit.mechanisms.factorisation.weighted_nmf import observed_residual, observed_share
from ksdp.audit.mechanisms.party_side import PartyProgram, PartyResult, SecSum
from ksdp.audit.numeric.array_types import Matrix
from ksdp.protocols.runs.pd_svd_program import svd_program

_STARTS = ("random", "random-2x", "nnsvd", "pd-nmf-init")


def check_nmf(mechanism: PDNMF) -> None:
    """Refuse what cannot be run with secure sums alone."""
    if mechanism.start not in _STARTS:
        raise SpecError(
            f"`start` must be one of {', '.join(_STARTS)} in a run among parties; got {mechanism.start!r}: every "
            "party would tell all others its own topics."
        )
    if mechanism.weighted and not (mechanism.beta > 0 and mechanism.delta > 0):
        raise SpecError(
            "`beta` and `delta` must be above 0 where ratings are factorised among parties (1.0 each, for stars "
            "from 1 to 5): without `beta` a column of few ratings is a ratio of two rounding errors, and which "
            "columns nobody rated would have to be told; without `delta` coefficients outgrow what sums hold."
        )


def nmf_program(
    mechanism: PDNMF, matrix: sp.csr_array, chosen: tuple[NDArray[np.int64], int] | None = None
) -> PartyProgram:
    """One party of `PDNMF`.

    Parameters
    ----------
    mechanism : PDNMF
        Public, the same at every party.
    matrix : canonical CSR, shape (n, d)
        This party's rows; non-negative.
    chosen : optional
        Which columns these are of how many (`Database.chosen`).

    Returns
    -------
    PartyProgram
        Ends with `T`, `numerators`, `denominators` (those of the last sweep) and `sweeps`, and the party's own
        `W`, shape (n, k).

    Raises
    ------
    SpecError
        If the mechanism needs more than sums (`check_nmf`), or the party is too small for the start.

    Examples
    --------
    >>> from ksdp.audit.mechanisms.party_side import drive
    >>> rows = sp.csr_array([[1.0, 1.0, 0.0], [2.0, 2.0, 0.0], [0.0, 0.0, 3.0]])
    >>> mechanism = PDNMF(rank=2, sweeps=50)
    >>> one, other = drive([nmf_program(mechanism, rows[:1]), nmf_program(mechanism, rows[1:])])
    >>> one.public["T"].round(3)
    array([[0.5, 0.5, 0. ],
           [0. , 0. , 1. ]])
    >>> other.own["W"].round(1)
    array([[4., 0.],
           [0., 3.]])
    """
    check_nmf(mechanism)
    penalties, tolerance = mechanism.penalties, mechanism.tolerance
    start = agreed_topics(matrix.shape[1], mechanism.rank, mechanism.start_seed, chosen)
    if mechanism.start == "pd-nmf-init":
        (model,) = local_models([matrix], mechanism.rank, mechanism.local_fit)
        merged = yield from _iterate(pseudo_documents(model), start, mechanism.sweeps, tolerance, penalties)
        start = merged.T
    elif mechanism.start == "nnsvd":
        start = yield from _svd_start(mechanism, matrix)
    iterate = _iterate_observed if mechanism.weighted else _iterate
    fitted = yield from iterate(matrix, start, mechanism.cap, tolerance, penalties)
    public = {
        "T": fitted.T,
        "numerators": fitted.numerators,
        "denominators": fitted.denominators,
        "sweeps": np.array([float(fitted.sweeps)]),
    }
    return PartyResult(public, {"W": fitted.W})


def _svd_start(mechanism: PDNMF, matrix: sp.csr_array) -> Generator[Any, Any, Matrix]:
    """Ten rounds of sums for V and sigma, and one of 2 k numbers."""
    ends = yield from svd_program(SvdStart(mechanism.rank, mechanism.start_seed).svd, matrix)
    V, sigma = ends.public["V"], ends.public["sigma"]
    squares = yield SecSum(part_squares(matrix, V))
    return topics_from_parts(V, sigma, squares)


def _iterate(
    matrix: sp.csr_array, start: Matrix, sweeps: int, tolerance: float, penalties: Penalties
) -> Generator[SecSum, Matrix, Factorisation]:
    """PD-NMF-Iter, one party's side."""
    rows, features = stack([matrix])
    T = check_start(start, features).copy()
    topics = len(T)
    W = np.zeros((matrix.shape[0], topics))
    project = not any(penalties)
    nothing = np.zeros(topics)
    silent = Silent(0, np.zeros((topics, topics)), nothing.copy(), nothing.copy(), np.ones(topics, dtype=np.bool_))
    gram = gram_rows(T)
    thresholds, fits, interleaved = np.zeros(topics), np.empty_like(W), np.empty((features, 8))
    factors, share = Factors(T, W, gram), TopicShare(np.empty(features), np.empty(topics))
    numerators, denominators = np.empty_like(T), np.empty(topics)
    done, converged = 0, False
    while done < sweeps and not converged:
        before, changed = float(np.trace(gram)), 0.0
        product(rows, T, interleaved, fits)
        for t in range(topics):
            share_of(rows, 0, t, factors, fits, penalties, share)
            announced = yield SecSum(np.append(share.numerator, share.overlaps[t]))
            numerators[t], denominators[t] = announced[:-1], announced[-1]
            denominator = float(announced[-1]) + penalties.beta
            if denominator <= 0.0:
                continue  # an empty topic stays as it was
            topic = announced[:-1].copy()
            height = next_topic(t, topic, denominator, 0, penalties, project, thresholds)
            changed += replace_topic(t, topic, height, T, gram, silent)
        done += 1
        converged = math.sqrt(changed) <= tolerance * math.sqrt(before)
    return Factorisation(T, numerators, denominators, W, done, converged)


def _iterate_observed(
    matrix: sp.csr_array, start: Matrix, sweeps: int, tolerance: float, penalties: Penalties
) -> Generator[SecSum, Matrix, Factorisation]:
    """PD-NMF-Iter on the observed entries, one party's side."""
    rows, features = stack([matrix])
    T = check_start(start, features).copy()
    W, lengths = np.zeros((matrix.shape[0], len(T))), np.diff(rows.indptr)
    residual = observed_residual(rows, T, W)
    share = np.empty((2, features))
    numerators, denominators = np.empty_like(T), np.empty_like(T)
    done, converged = 0, False
    while done < sweeps and not converged:
        before, changed = 0.0, 0.0
        for t, topic in enumerate(T):
            observed_share(rows, 0, t, topic, W, residual, penalties, share)
            numerators[t], denominators[t] = yield SecSum(share.copy())
            new = np.maximum(numerators[t] - penalties.alpha, 0.0) / (denominators[t] + penalties.beta)
            before += dot(topic, topic)
            topic -= new
            changed += dot(topic, topic)
            topic[:] = new
            residual -= np.repeat(W[:, t], lengths) * new[rows.columns]
        done += 1
        converged = math.sqrt(changed) <= tolerance * math.sqrt(before)
    return Factorisation(T, numerators, denominators, W, done, converged)
