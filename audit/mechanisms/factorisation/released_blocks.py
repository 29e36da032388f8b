"""The blocks that the first power iterations announce, one by one, and the space that blocks with noise span.

Without noise `factorisation.span` computes that space at once. Whoever adds noise adds it to the blocks, and what
they show together is worked out from the noisy ones.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ksdp.audit.array_types import Matrix, Vector
from ksdp.audit.mechanisms.factorisation.power_iteration import normalised, orthonormalise, share_of

DEPENDENT = 1e-10
"""A direction of at most this part of the longest is rounding."""


def power_blocks(
    matrix: sp.csr_array, start: Matrix, first: Matrix, rounds: int, mean: Vector | None
) -> tuple[Matrix, Matrix]:
    """The sums of iterations 1 to `rounds`, shape (rounds, rank, features), and the orthonormal block of each.

    Parameters
    ----------
    first : the start, orthonormal (`first_basis`)

    Examples
    --------
    >>> X = sp.csr_array(np.diag([3.0, 2.0, 1.0]))
    >>> start = np.array([[1.0, 1.0, 0.0]])
    >>> first = orthonormalise(start, start)
    >>> power_blocks(X, start, first, 2, None)[1].round(3)[:, 0]
    array([[0.914, 0.406, 0.   ],
           [0.981, 0.194, 0.   ]])
    """
    sums, blocks = np.zeros((2, rounds, *start.shape))
    block = first
    for at in range(rounds):
        sums[at] = share_of(matrix, block, mean)
        block = blocks[at] = orthonormalise(normalised(sums[at])[0], start)
    return sums, blocks


def span_of_blocks(blocks: Matrix) -> tuple[Matrix, Vector]:
    """An orthonormal basis of all rows of all blocks, and how much of them lies along each direction.

    Directions along which many blocks agree come first. Rows are brought to norm 1 before.

    Parameters
    ----------
    blocks : shape (rounds, rank, features)

    Returns
    -------
    rows : shape (rounds x rank, features)
        Zeros where the space is smaller; each has its largest entry positive.
    values : shape (rounds x rank,)
        Singular values of all rows, over the largest; 0 for rows of zeros.
    """
    flat, _ = normalised(blocks.reshape(-1, blocks.shape[-1]))
    _, lengths, directions = np.linalg.svd(flat, full_matrices=False)
    kept = int((lengths > DEPENDENT * lengths.max(initial=0.0)).sum())
    largest = np.take_along_axis(directions, np.abs(directions).argmax(axis=1)[:, None], axis=1)
    rows, values = np.zeros_like(flat), np.zeros(len(flat))
    rows[:kept] = (directions * np.where(largest < 0, -1.0, 1.0))[:kept]
    values[:kept] = lengths[:kept] / lengths[0] if kept else 0.0
    return rows, values
