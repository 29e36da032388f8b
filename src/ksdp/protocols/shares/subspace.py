"""The leading right singular vectors of all parties' rows, on shares of their second moments.

Block power iteration with more vectors than wanted: A = S / trace(S), Q <- orth(A Q), a fixed number of times;
then the projector on the k leading Ritz vectors (`matrices.leading`). What is opened, in this order, is a function
of the result alone (but for errors below what `Settings` says):

1. one bit, that the run has converged: the residual |(I - QQ^T) A Q P|_F is below 2^-19 theta, theta between the
   eigenvalues k and k + 1, and these are more than 2^-18 of the trace apart;
2. W = Q P Q^T start, which spans V: everybody makes the same orthonormal basis C of it;
3. where sigma is revealed C A C^T, of which V and sigma are the eigenvectors and values; else the projectors on
   its 1, 2, ..., k - 1 leading eigenvectors, from which V follows, and no value; for two eigenvalues closer than
   2^-18 of the trace, that they are, and only the plane of their vectors.

With noise the bit also says that no two of the k values are that close, and V with its noise is all else that
is opened: v_i = (P_i - P_(i-1)) s_i over its length, P_i the projector on the leading i vectors, s_i row i of the
start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.mechanisms.factorisation.power_iteration import orthonormalise, settle_signs, start_block, towards
from ksdp.audit.mechanisms.privacy.noise import FRACTION_BITS
from ksdp.protocols.shares.arithmetic import FRACTION, Local, SharedArithmetic, fixed, product, reals
from ksdp.protocols.shares.field import PRIME, Integers, modular_product
from ksdp.protocols.shares.matrices import (
    FACTOR_FRACTION,
    FACTOR_GROWTH,
    NORM_BITS,
    UNIT_FRACTION,
    Leading,
    inverse_root,
    leading,
    reciprocal,
    unit_rows,
)
from ksdp.protocols.shares.sizes import SCALE_FRACTION, SCALE_GROWTH

MOMENT_BITS = 62
"""The largest sum of squares that parties may enter together is 2^this on shares."""
_PUBLIC = 24
"""Fraction bits of a start on shares."""
_BASIS = 40
_OUT = 30
"""Fraction bits of what is opened."""
RESIDUAL_BITS = 38
"""-log2 of the squared residual, relative, at which a run has converged."""
_SPARE = 24
_GROWTH = 8
_STRAY = 2 * FRACTION_BITS - 10
"""With noise, squared lengths are within 2^-10 of 1: log2 of that, in squares of the noise's step."""


class NotConverged(Exception):
    """The opened bit says so."""


@dataclass(frozen=True)
class Decomposition:
    """Parameters of a decomposition; public, agreed."""

    rank: int
    features: int
    block: int
    rounds: int
    start_seed: int
    reveal_sigma: bool


@dataclass(frozen=True, eq=False)
class OpenedSubspace:
    """Results that everybody has learnt."""

    basis: NDArray[np.float64]
    """W^T, shape (rank, features)."""
    moments: NDArray[np.float64] | None
    """C A C^T relative to the largest sum of squares, shape (rank, rank), where sigma is revealed."""
    projectors: NDArray[np.float64] | None
    """Shape (rank - 1, rank, rank), zero where two eigenvalues are too close."""


def _transposed(array: Integers) -> Integers:
    return np.ascontiguousarray(array.T)


async def decompose(
    runtime: Any, moments: NDArray[np.float32], trace: int, task: Decomposition, noise: Integers | None = None
) -> OpenedSubspace | NDArray[np.float64]:
    """One computing party's side: what is opened without noise, or V with it."""
    shares = SharedArithmetic(runtime)
    scale = await reciprocal(shares, np.array([trace << (FRACTION - MOMENT_BITS)], dtype=object) % PRIME)
    basis = await _iterated(shares, moments, scale, task)
    (image,) = await shares.rounded(
        Local(modular_product(moments, basis), MOMENT_BITS + FRACTION + 2, MOMENT_BITS - _SPARE)
    )
    (image,) = await shares.rounded(
        Local(image * scale, FRACTION + _SPARE + SCALE_FRACTION + 2, _SPARE + SCALE_FRACTION)
    )
    if noise is not None:
        return await _noisy_vectors(shares, basis, image, task, noise)
    return await _open(shares, moments, scale, basis, image, task)


async def _iterated(
    shares: SharedArithmetic, moments: NDArray[np.float32], scale: Integers, task: Decomposition
) -> Integers:
    """An orthonormal basis, shape (features, block), after all iterations; at `FRACTION`."""
    start = start_block(task.start_seed, task.features, task.block)  # more rows than are wanted
    start = orthonormalise(start, start)
    # Kept multiplied by 1 / trace, so that a product with S is one with A.
    scaled = _transposed(fixed(start, FRACTION - SCALE_FRACTION)) * scale % PRIME
    for done in range(1, task.rounds + 1):
        (image,) = await shares.rounded(
            Local(modular_product(moments, scaled), MOMENT_BITS + FRACTION + 2, MOMENT_BITS)
        )
        (gram,) = await shares.rounded_symmetric(Local(product(_transposed(image), image), 2 * FRACTION + 2))
        factor = await inverse_root(shares, gram)
        if done == task.rounds:
            break
        (factor,) = await shares.rounded(
            Local(factor * scale, FACTOR_FRACTION + SCALE_FRACTION + FACTOR_GROWTH + SCALE_GROWTH, SCALE_FRACTION)
        )
        (scaled,) = await shares.rounded(
            Local(product(image, factor), FRACTION + FACTOR_FRACTION + SCALE_GROWTH + 1, FACTOR_FRACTION)
        )
    (basis,) = await shares.rounded(Local(product(image, factor), FRACTION + FACTOR_FRACTION + 2, FACTOR_FRACTION))
    return basis


async def _open(
    shares: SharedArithmetic,
    moments: NDArray[np.float32],
    scale: Integers,
    basis: Integers,
    image: Integers,
    task: Decomposition,
) -> OpenedSubspace:
    top = await _projected(shares, basis, image, (task.rank,))
    (seen,) = await shares.rounded(
        Local(product(await _start_seen(shares, basis, task), top.projectors[0]), 2 * FRACTION + _GROWTH)
    )
    (spans,) = await shares.rounded(
        Local(product(seen, _transposed(basis)), 2 * FRACTION + _GROWTH, 2 * FRACTION - _OUT)
    )
    opened = reals(await shares.opened(spans), _OUT)
    public = fixed(_orthonormal(opened, task), _BASIS)
    # Products with what is public are local.
    inner = product(public, modular_product(moments, _transposed(public)))
    if task.reveal_sigma:
        keep = FRACTION - 4
        (inner,) = await shares.rounded(
            Local(inner, MOMENT_BITS + 2 * _BASIS + 2, MOMENT_BITS + 2 * _BASIS - keep)
        )
        moments_seen = reals(await shares.opened(inner), keep)
        return OpenedSubspace(opened, (moments_seen + moments_seen.T) / 2, None)
    if task.rank == 1:
        return OpenedSubspace(opened, None, np.zeros((0, 1, 1)))
    fraction = FRACTION + _SPARE
    (inner,) = await shares.rounded(
        Local(inner, MOMENT_BITS + 2 * _BASIS + 2, MOMENT_BITS + 2 * _BASIS - fraction)
    )
    # Half of C A C^T and half of its transpose.
    (inner,) = await shares.rounded_symmetric(
        Local((inner + inner.T) * scale, fraction + SCALE_FRACTION + 3, fraction + SCALE_FRACTION + 1 - FRACTION)
    )
    parts = await leading(shares, inner, tuple(range(1, task.rank)))
    (rounded,) = await shares.rounded(
        Local(parts.projectors * parts.separated[:, None, None], FRACTION + 2, FRACTION - _OUT)
    )
    return OpenedSubspace(opened, None, reals(await shares.opened(rounded), _OUT))


async def _projected(
    shares: SharedArithmetic, basis: Integers, image: Integers, wanted: tuple[int, ...]
) -> Leading:
    """Projectors on leading Ritz vectors, the last of them converged; else `NotConverged`."""
    ritz, gram, overlap = await shares.rounded(
        Local(product(_transposed(basis), image), 2 * FRACTION + 2),
        Local(product(_transposed(image), image), 2 * FRACTION + 2),
        Local(product(_transposed(basis), basis), 2 * FRACTION + 2),
    )
    (ritz,) = await shares.rounded_symmetric(Local((ritz + ritz.T) % PRIME, FRACTION + 3, 1))
    top = await leading(shares, ritz, wanted)
    await _converged(shares, await _outside(shares, ritz, gram, overlap), top)
    return top


async def _start_seen(shares: SharedArithmetic, basis: Integers, task: Decomposition) -> Integers:
    start = fixed(start_block(task.start_seed, task.features, task.rank), _PUBLIC)
    (seen,) = await shares.rounded(Local(product(start, basis), _PUBLIC + FRACTION + _GROWTH, _PUBLIC))
    return seen


async def _noisy_vectors(
    shares: SharedArithmetic, basis: Integers, image: Integers, task: Decomposition, noise: Integers
) -> NDArray[np.float64]:
    """V, every vector towards its row of the start, with noise; shape (rank, features)."""
    parts = (await _projected(shares, basis, image, tuple(range(1, task.rank + 1)))).projectors
    alone = parts.copy()
    alone[1:] = (parts[1:] - parts[:-1]) % PRIME
    seen = await _start_seen(shares, basis, task)
    (along,) = await shares.rounded(
        Local(product(seen[:, None, :], alone)[:, 0], 2 * FRACTION + _GROWTH, 2 * FRACTION + _GROWTH - NORM_BITS)
    )
    unit = await unit_rows(shares, along)
    (vectors,) = await shares.rounded(
        Local(
            product(unit, _transposed(basis)),
            UNIT_FRACTION + FRACTION + 2,
            UNIT_FRACTION + FRACTION - FRACTION_BITS,
        )
    )
    await shares.check_lengths(vectors, (1 << 2 * FRACTION_BITS) + (1 << _STRAY), _STRAY + 1)
    # On the grid of the noise before it is added: nothing below a step of it is opened.
    return reals(await shares.opened((vectors + noise) % PRIME), FRACTION_BITS)


async def _outside(shares: SharedArithmetic, ritz: Integers, gram: Integers, overlap: Integers) -> Integers:
    square, half = await shares.rounded(
        Local(product(ritz, ritz), 2 * FRACTION + 2), Local(product(ritz, overlap), 2 * FRACTION + 2)
    )
    (outside,) = await shares.rounded(Local(product(half, ritz), 2 * FRACTION + 2))
    return np.asarray((gram - 2 * square + outside) % PRIME)


async def _converged(shares: SharedArithmetic, outside: Integers, top: Leading) -> None:
    """Open whether the run may be opened, given R^T R; where not (`NotConverged`), nothing else."""
    within = np.array([(top.projectors[-1] * outside).sum()], dtype=object)  # trace(P R^T R)
    least = top.thresholds[-1:]
    residual, bound = await shares.rounded(
        Local(within, 2 * FRACTION + 2), Local(least * least, 2 * FRACTION + 2, FRACTION + RESIDUAL_BITS)
    )
    good = await shares.negative((residual - bound) % PRIME, FRACTION + 4)
    for residues in top.separated:
        (good,) = await shares.rounded(Local(good * residues, 2, 0))
    if (await shares.opened(good))[0] != 1:
        raise NotConverged


def _orthonormal(spans: NDArray[np.float64], task: Decomposition) -> NDArray[np.float64]:
    return orthonormalise(spans, start_block(task.start_seed, task.features, task.rank))


def vectors_of(opened: OpenedSubspace, task: Decomposition, largest: float) -> dict[str, NDArray[np.float64]]:
    """`V` and, where it is revealed, `sigma`, from what was opened."""
    basis = _orthonormal(opened.basis, task)
    start = start_block(task.start_seed, task.features, task.rank)
    if opened.moments is not None:
        values, turn = np.linalg.eigh(opened.moments)
        sigma = np.sqrt(np.maximum(values[::-1], 0.0) * largest)
        return {"V": towards(settle_signs(turn[:, ::-1].T @ basis, sigma, start), start), "sigma": sigma}
    assert opened.projectors is not None
    rows, levels, before, last = list[NDArray[np.float64]](), list[float](), np.zeros((task.rank,) * 2), 0
    for rank in range(1, task.rank + 1):
        projector = np.eye(task.rank) if rank == task.rank else opened.projectors[rank - 1]
        if not projector.any():
            continue
        _, turn = np.linalg.eigh(projector - before)
        new = turn[:, ::-1][:, : rank - last].T
        rows += list(new @ basis)
        levels += [float(task.rank - last)] * (rank - last)
        before, last = projector, rank
    # Projectors were opened to 2^-30: their differences are orthonormal to no more.
    return {"V": towards(settle_signs(orthonormalise(np.array(rows), start), np.array(levels), start), start)}
