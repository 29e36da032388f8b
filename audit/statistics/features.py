"""What a learner looks at: some k + 6 numbers a document and run, computed as ordinary statistics are.

Columns by what a mechanism announces (B is the basis, T or V; x - mu in place of x where PCA announces mu):

==================  =========  =================================================================================
column              read from  meaning
==================  =========  =================================================================================
coefficient-t       T or V     <x, B_t> / |B_t|, signed (V comes with a fixed convention of signs); k columns
energy              T or V     squared length of x's projection on the row space of B (`row-space-energy`)
best-cosine         T or V     max_t |cos(x, B_t)|
missing-terms       T or V     features j of x that every row of B leaves out: V_tj = 0, T_tj = min_j T_tj
missing-weight      T or V     their part of |x|^2
log-support         T or V     sum_j x_j log max_t (T_tj - min_j T_tj), or sum_j x_j^2 log max_t |V_tj|
residual            T          squared distance from the cone of the topics (`nonnegative-residual`)
log-density         T          log density under x's own mixture of topics (`mixture-log-density`)
sigma               T, denom.  a . w^2 as the paper's sigma, a >= 0 without its upper bound
leverage            V, sigma   sum_t P_t^2 / sigma_t^2
mean-alignment      mean       <x, mu>
mean-missing        mean       the part of |x|^2 on features where mu is zero
==================  =========  =================================================================================

What the columns of the support mean, and why they are strong: `support.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.statistics.contract import Documents
from ksdp.audit.statistics.geometry import BestCosine, LeverageRevealed, RowSpaceEnergy
from ksdp.audit.statistics.geometry_nonnegative import (
    MixtureLogDensity,
    NonnegativeResidual,
    nonnegative_coefficients,
)
from ksdp.audit.statistics.products import (
    BASES,
    announced,
    basis_name,
    basis_products,
    gram,
    mean_products,
)
from ksdp.audit.statistics.support import mean_missing, support_columns

__all__ = ["feature_columns", "feature_names"]

Floats = NDArray[np.float64]


def feature_names(rank: int, announced: Iterable[str]) -> tuple[str, ...]:
    """Names of the columns that `feature_columns` gives, in order.

    Parameters
    ----------
    rank : int
        k, rows of the basis.
    announced : names of the mechanism's observables

    Raises
    ------
    InputError
        There is neither "T" nor "V" among them.

    Examples
    --------
    >>> feature_names(2, ["V"])
    ('coefficient-1', 'coefficient-2', 'energy', 'best-cosine', 'missing-terms', 'missing-weight', 'log-support')
    """
    seen = set(announced)
    basis = next((name for name in BASES if name in seen), None)
    if basis is None:
        raise InputError(f"`announced` must hold one of {', '.join(BASES)}; got {', '.join(sorted(seen))}.")
    names = [f"coefficient-{t}" for t in range(1, rank + 1)]
    names += ["energy", "best-cosine", "missing-terms", "missing-weight", "log-support"]
    if basis == "T":
        names += ["residual", "log-density"]
        if "denominators" in seen:
            names.append("sigma")
    elif "sigma" in seen:
        names.append("leverage")
    if "mean" in seen:
        names += ["mean-alignment", "mean-missing"]
    return tuple(names)


def feature_columns(observables: Observables, documents: Documents) -> Floats:
    """Every column of `feature_names` for every document in one run, shape (n_documents, n_features).

    Exact up to rounding; O(nnz k). Products, fits and densities are shared with the statistics of the same run.

    Raises
    ------
    InputError
        The run announces neither T nor V, or one of another shape than the documents'.
    """
    basis = basis_name(observables)
    rows = basis_products(observables, documents)
    lengths = np.sqrt(np.diag(gram(observables, basis)))
    inverse = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    columns = [rows * inverse]
    columns.append(_stack(RowSpaceEnergy().evaluate(observables, documents)))
    columns.append(_stack(BestCosine().evaluate(observables, documents)))
    columns.append(support_columns(observables, documents))
    if basis == "T":
        columns.append(_stack(NonnegativeResidual().evaluate(observables, documents)))
        columns.append(_stack(MixtureLogDensity().evaluate(observables, documents)))
        if "denominators" in observables:
            columns.append(_stack(_sigma(observables, documents)))
    elif "sigma" in observables:
        columns.append(_stack(LeverageRevealed().evaluate(observables, documents)))
    if "mean" in observables:
        columns.append(_stack(mean_products(observables, documents), mean_missing(observables, documents)))
    return np.concatenate(columns, axis=1)


def _stack(*columns: Floats) -> Floats:
    return np.stack(columns, axis=1)


def _sigma(observables: Observables, documents: Documents) -> Floats:
    weights = announced(observables, "denominators")
    coefficients = nonnegative_coefficients(observables, documents)
    return cast(Floats, coefficients @ (weights if weights.ndim == 1 else weights.mean(axis=1)))
