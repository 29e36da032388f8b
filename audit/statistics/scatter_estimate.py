"""The adversary's estimate of everybody's scatter, S_hat = V^T diag(lambda) V (`paper_svd`)."""

from __future__ import annotations

from typing import cast

import numpy as np

from ksdp.audit.array_types import Floats
from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.statistics.contract import Documents
from ksdp.audit.statistics.products import announced, gram
from ksdp.audit.statistics.svd_form import BACKGROUND


def spectrum(observables: Observables, documents: Documents, *, revealed: bool) -> Floats:
    """Return lambda, the adversary's estimate of the squared singular values, shape (k,), all >= 0.

    Raises
    ------
    InputError
        sigma is not announced (revealed), the background lacks one of `BACKGROUND` (hidden), `adversary_rows` is
        not positive, or there are not k singular values.
    """
    rank = announced(observables, "V").shape[0]
    if revealed:
        name, sigma, scale = "sigma", announced(observables, "sigma").ravel(), 1.0
    else:
        missing = [known for known in BACKGROUND if known not in documents.background]
        if missing:
            raise InputError(f"`background` must hold `{missing[0]}` for the statistics with hidden sigma.")
        name = "adversary_sigma"
        sigma = np.asarray(documents.background[name], dtype=np.float64).ravel()
        own, victim = (
            float(np.asarray(documents.background[known]).item()) for known in ("adversary_rows", "victim_rows")
        )
        if not own > 0:
            raise InputError(f"`adversary_rows` must be at least 1; got {own:g}.")
        scale = (victim + own) / own
    if sigma.shape != (rank,):
        raise InputError(f"`{name}` must hold one value a row of V; got {sigma.size} for {rank}.")
    return scale * sigma**2


def feature_diagonal(observables: Observables, documents: Documents, *, revealed: bool) -> Floats:
    """Return the diagonal of S_hat, shape (d,): sum_t lambda_t V_ta^2."""

    def compute() -> Floats:
        return spectrum(observables, documents, revealed=revealed) @ announced(observables, "V") ** 2

    return cast(Floats, observables.derive(("feature diagonal", documents, revealed), compute))


def scatter_norm(observables: Observables, documents: Documents, *, revealed: bool) -> float:
    """Return |S_hat|_F; from the Gram matrix of V, so that rounding of a stored V does not count as structure."""
    eigenvalues = spectrum(observables, documents, revealed=revealed)
    return float(np.sqrt(eigenvalues @ gram(observables, "V") ** 2 @ eigenvalues))
