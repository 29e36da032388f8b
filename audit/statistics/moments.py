"""What announced second moments say of a document: quadratic forms x^T Q x, Q made of the announced S once a run.

S is the sum of z z^T over the run's documents, with or without noise. A document in the run adds x x^T to it.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import cast

import numpy as np
import scipy.sparse as sp

from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.numeric.array_types import Floats
from ksdp.audit.statistics.contract import Documents, TableStatistic
from ksdp.audit.statistics.linear.moments import MomentFilter, NoisyMoments, moment_filter
from ksdp.audit.statistics.linear.operator import at_even_steps
from ksdp.audit.statistics.linear.system import own_mechanism
from ksdp.audit.statistics.products import announced, row_dots, rows_times

_FLOOR = 1e-6
"""Of the largest eigenvalue: smaller ones, and the negative ones that noise makes, count as this."""
_SHRINK = 0.05
"""Part of the mean variance that is added to every one: noise that the adversary does not know the size of."""
_MOST_ROWS = 2**14
"""Documents that databases are drawn from, which are looked at, at most."""


def moment_energy(observables: Observables, documents: Documents) -> Floats:
    """x^T S x: how much of what was announced lies along the document."""
    return _form(documents, _symmetric(observables))


def moment_leverage(observables: Observables, documents: Documents) -> Floats:
    """x^T S^-1 x: the document's leverage among the run's, eigenvalues floored."""
    values, vectors = np.linalg.eigh(_symmetric(observables))
    floor = max(float(np.abs(values).max(initial=0.0)) * _FLOOR, np.finfo(np.float64).tiny)
    return _form(documents, (vectors / np.maximum(values, floor)) @ vectors.T)


def moment_match(observables: Observables, documents: Documents) -> Floats:
    """The matched filter <C^-1 (triu(x x^T) - mean), triu(S)>, C the covariance over databases and noise.

    The best linear test of whether x is in the sum, for an adversary who knows what databases are drawn from: it
    looks where the other documents vary least. Of few documents it is their log odds of being in, by the most even
    draw that agrees with S (`max_entropy`). Rows are bounded, and noise is as large, as the mechanism says in
    public; of a mechanism that says nothing, noise is taken for a part of the mean variance.
    """
    return _matched(_symmetric(observables), documents)


def site_match(observables: Observables, documents: Documents) -> Floats:
    """As `moment_match`, of P^T P: what is left of a site's noisy second moments in the root that it sends."""
    root = announced(observables, "P")
    return _matched(documents.source_pool.sizes[0] * (root.T @ root), documents, alone=True)


def _matched(moments: Floats, documents: Documents, alone: bool = False) -> Floats:
    """What the filter says of each document; `alone` where the sum is over the victim's documents."""
    pool = documents.source_pool
    own = own_mechanism(pool.mechanism)

    def bounded(rows: sp.csr_array) -> Floats:
        return np.asarray((own.bounded(rows) if isinstance(own, NoisyMoments) else rows).toarray())

    def compute() -> MomentFilter:
        rows, noise = at_even_steps(pool.drawn, _MOST_ROWS), None
        if isinstance(own, NoisyMoments):
            parties = 1 + (pool.remaining is not None)
            noise = own.moment_noise(pool.sizes[0], rows.shape[1], parties)
        return moment_filter(bounded(rows), pool.share, noise, _SHRINK)

    def expected() -> Floats:
        total = np.zeros_like(moments)
        for rows, share in ((pool.drawn, pool.share), (None if alone else pool.remaining, pool.fixed_share)):
            if rows is not None:
                dense = bounded(rows)
                total += share * (dense.T @ dense)
        return total

    apart = moments - cast(Floats, pool.derive(("expected moments", alone), expected))
    form, usual = cast(MomentFilter, pool.derive("moment filter", compute)).form(apart)
    rows = cast(Floats, documents.derive("bounded", lambda: bounded(documents.matrix)))
    return row_dots(rows_times(rows, form), rows) - usual


def _features(entries: int) -> int:
    return (math.isqrt(8 * entries + 1) - 1) // 2


def _symmetric(observables: Observables) -> Floats:
    def compute() -> Floats:
        triangle = announced(observables, "moments").ravel()
        features = _features(len(triangle))
        found = np.zeros((features, features))
        found[np.triu_indices(features)] = triangle
        return found + np.triu(found, 1).T

    return cast(Floats, observables.derive(("moments",), compute))


@lru_cache(maxsize=4)
def _dense(documents: Documents) -> Floats:
    return np.asarray(documents.matrix.toarray())


def _form(documents: Documents, form: Floats) -> Floats:
    rows = _dense(documents)
    return row_dots(rows_times(rows, form), rows)


MOMENTS = (
    TableStatistic(
        "moment-energy",
        "geometry",
        moment_energy,
        "How much of the announced second moments lies along the document.",
        needs=("moments",),
    ),
    TableStatistic(
        "moment-leverage",
        "geometry",
        moment_leverage,
        "How unusual the document is for the announced second moments.",
        needs=("moments",),
    ),
    TableStatistic(
        "linear-moments",
        "geometry",
        moment_match,
        "How well the announced second moments match the document’s own, best weighed.",
        needs=("moments",),
        weighs=True,
    ),
    TableStatistic(
        "linear-site",
        "geometry",
        site_match,
        "How well the square of a site’s root matches the document’s own second moments, best weighed.",
        needs=("P",),
        weighs=True,
    ),
)
