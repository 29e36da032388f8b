"""The sparse vector technique: which entries are large, without saying how large, for a fixed price.

Every query's answer q_i is an integer that changes by at most `sensitivity` when one record is replaced. With
rho ~ discrete Laplace(2 D / e) once and nu_i ~ discrete Laplace(4 c D / e) a query, query i is chosen if q_i +
nu_i >= tau + rho; after c choices it stops. That is e-private however many queries are asked (Lyu, Su, Li 2017,
Algorithm 1 with e1 = e2 = e / 2; Dwork, Roth 2014, section 3.6). Noise is integer throughout: the proof shifts
rho by D and nu by 2 D, which are integers.

In PEM the entries of a client's vector are the queries, in absolute value: |v_i| changes by no more than v_i.
Nobody but the client sees v before it is shared, so this is done at the client; the choice is what the servers
see beside shares. Clients have different records, so all their choices together cost a record what one costs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.errors import InputError

Signed = NDArray[np.int64]


def choose_large(
    answers: Signed,
    threshold: int,
    most: int,
    sensitivity: int,
    epsilon: float,
    draw: Callable[[float, int], Signed],
) -> NDArray[np.int64]:
    """Places of the answers that are above a threshold, noisily, ascending.

    Parameters
    ----------
    answers : array of int, shape (queries,)
        They are asked in this order.
    threshold : int
        tau.
    most : int
        c, at least 1: places that are named at most.
    sensitivity : int
        D: by how much one answer can change when one record is replaced.
    epsilon : float
        Price; infinity means no noise.
    draw : callable
        Given a scale and a number of entries, discrete Laplace noise.

    Examples
    --------
    >>> choose_large(np.array([9, -9, 7, 8]), 7, 2, 1, np.inf, lambda scale, n: np.zeros(n, dtype=np.int64))
    array([0, 2])
    """
    if most < 1 or sensitivity < 1:
        raise InputError(f"`most` and `sensitivity` must be at least 1; got {most} and {sensitivity}.")
    if not epsilon > 0:
        raise InputError(f"`epsilon` must be above 0; got {epsilon}.")
    rho = int(draw(2 * sensitivity / epsilon, 1)[0])
    noisy = np.asarray(answers, dtype=np.int64) + draw(4 * most * sensitivity / epsilon, len(answers))
    return np.flatnonzero(noisy >= threshold + rho)[:most]
