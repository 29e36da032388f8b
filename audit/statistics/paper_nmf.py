"""The paper's own statistic for PD-NMF (PD-ML-Lite, section 5.1): sigma = a . w^2."""

from __future__ import annotations

from ksdp.audit.array_types import Floats
from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.statistics.boxed import box_least_squares
from ksdp.audit.statistics.computed import Computed
from ksdp.audit.statistics.contract import Documents, Statistic
from ksdp.audit.statistics.products import announced, gram, products, rows_times


def sigma(observables: Observables, documents: Documents) -> Floats:
    """sigma = a . w^2 with a = argmin |x - u T|^2 over u in [0, 1]^k.

    w^2 are the announced denominators of Algorithm 1 (the squared lengths of the columns of W). It is the most
    discriminative of the seven that the paper tried, and weak: on real corpora its median D is 0.06-0.09 where
    `row-space-energy` has 0.5-0.9.

    The weighted form for ratings announces a denominator an entry (k x d): w^2 of a topic is then the mean over
    the d features, which is the same number where every entry is observed. The fit is over all entries, as
    printed, so that an unobserved rating counts as 0.

    One number a document, >= 0; `a` is exact to `boxed.TOLERANCE`.
    """
    forms = gram(observables, "T")
    weights = announced(observables, "denominators")
    if weights.ndim not in (1, 2) or weights.shape[0] != forms.shape[0]:
        raise InputError(
            f"`denominators` must have shape (k,) or (k, d) with k = {forms.shape[0]}; got {weights.shape}."
        )
    if weights.ndim == 2:
        weights = weights.mean(axis=1)
    coefficients = box_least_squares(products(observables, documents, "T"), forms)
    return rows_times(coefficients, weights)


PAPER_NMF: tuple[Statistic, ...] = (Computed("sigma", 1, "paper", sigma, needs=("T", "denominators")),)
