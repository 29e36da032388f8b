"""One party of PD-SVD, the Sigma-revealing SVD and PD-PCA: block power iteration by sums.

PD-ML-Lite, Algorithm 4. An iteration asks for one sum: the rows X_m^T X_m v of all `rank` vectors. PD-SVD wants
every row normed (NormedSecSum: its norm, a singular value, stays hidden); `reveal_sigma` is the plain sum. PD-PCA
first asks for the column sums and the number of rows (SecSum), and announces the mean.

Parties orthonormalise what was announced by themselves, to the same bits. The stop rule uses a BLAS product, whose
last bits may differ from machine to machine; a party that stops a round earlier than another ends the run.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.factorisation.pd_svd import PDPCA, PDSVD
from ksdp.audit.mechanisms.factorisation.power_iteration import (
    normalised,
    orthonormalise,
    share_of,
    start_block,
    subspace_sine,
    values_from,
)
from ksdp.audit.mechanisms.party_side import NormedSecSum, PartyProgram, PartyResult, SecSum


def check_svd(mechanism: PDSVD) -> None:
    """Refuse what no parties can run."""
    if mechanism.solver != "power":
        raise SpecError(
            f"`solver` must be 'power' in a run among parties; got {mechanism.solver!r}: parties iterate, and "
            "show when they stop, which an audit of 'limit' has not looked at."
        )


def svd_program(mechanism: PDSVD, matrix: sp.csr_array) -> PartyProgram:
    """One party of `PDSVD`, `SigmaSVD` or `PDPCA`.

    Parameters
    ----------
    mechanism : PDSVD
        Public, the same at every party; its `solver` must be `power`.
    matrix : canonical CSR, shape (n, d)
        This party's rows.

    Returns
    -------
    PartyProgram
        Ends with what the mechanism announces: `V`, `iterations`, `sigma` where it is revealed, `mean`.

    Raises
    ------
    SpecError
        If `solver` is another, or `rank` is not below the number of features.

    Notes
    -----
    A vector that X^T X maps to zero has no direction: NormedSecSum refuses it and the run ends, where the ideal
    functionality puts the start in its place.

    Examples
    --------
    >>> from ksdp.audit.mechanisms.party_side import drive
    >>> rows = sp.csr_array(np.diag([3.0, 2.0, 1.0]))
    >>> mechanism = PDSVD(rank=2, solver="power")
    >>> one, other = drive([svd_program(mechanism, rows[:1]), svd_program(mechanism, rows[1:])])
    >>> np.abs(one.public["V"]).round(3)
    array([[1., 0., 0.],
           [0., 1., 0.]])
    """
    check_svd(mechanism)
    features = matrix.shape[1]
    mechanism.releases(features)  # refuses a rank that is too large
    public = {}
    mean = None
    if isinstance(mechanism, PDPCA):
        sums = yield SecSum(np.append(np.asarray(matrix.sum(axis=0), dtype=np.float64), float(matrix.shape[0])))
        public["mean"] = mean = sums[:-1] / max(round(float(sums[-1])), 1)
    start = start_block(mechanism.start_seed, features, mechanism.rank)
    block = orthonormalise(start, start)
    done, movement = 0, np.inf
    norms = np.zeros(len(start))
    while done < mechanism.iterations and movement >= mechanism.tolerance:
        share = share_of(matrix, block, mean)
        announced = yield SecSum(share) if mechanism.reveal_sigma else NormedSecSum(share)
        if mechanism.reveal_sigma:
            announced, norms = normalised(announced)
        moved = orthonormalise(announced, start)
        movement = subspace_sine(moved, block)
        block, done = moved, done + 1
    public |= {"V": block, "iterations": np.array([float(done)])}
    if mechanism.reveal_sigma:
        public["sigma"] = values_from(norms, features)
    return PartyResult(public)
