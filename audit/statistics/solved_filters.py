"""Filters whose noise is known, solved among documents: where these are few, and noise hides little of them.

Of sums Z = sum of b_i a_i + noise the filter is C^-1 (Z - E Z), C = A^T A + R, a document a row of A and R the
noise. With u = (1 + A R^-1 A^T)^-1 A R^-1 (Z - E Z) it is R^-1 (Z - E Z - A^T u): a matrix as large as there are
documents. Steps look at what is largest first, and a ridge hides what is small: of rows of different sizes, the
small ones, whom the same sums tell apart where there is little noise.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, cast

import numpy as np
import scipy.linalg

from ksdp.audit.array_types import Floats
from ksdp.audit.statistics.additive import Additive
from ksdp.audit.statistics.rated_terms import RatedTerms
from ksdp.audit.statistics.solved_parts import few_enough
from ksdp.audit.statistics.term_numbers import TermNumbers
from ksdp.audit.statistics.term_products import LOST, products_of_terms
from ksdp.audit.statistics.term_scales import Scales

LEAST, LEAST_OF_RATINGS = 2.0**-46, 2.0**-36
"""Of what documents add, squared, that is noise in any case: terms are worked out from topics in single precision,
and a user's coefficients from few entries of these."""
LEAST_OF_FINE_RATINGS = 2.0**-50
"""The same where topics are known in double precision, for factors that are not products of terms."""
LITTLE = 1e-2
"""Of the mean variance of what documents add: noise below it hides little, and steps are not enough."""
MOST_TERMS = 2**24
"""Terms that are written out, at most: 128 MB."""
_KNOWN = 1e4
"""How well it is known how many documents are in: a number that each adds one to, over its variance."""
_BESIDE = 2.0**-4
"""Of the mean square of all numbers: what is beside the loss of one, that of what terms are worked out from."""


def lost(sums: Floats) -> Floats:
    """The variance of what single precision loses of announced sums, by number; shape (entries,)."""
    squares = np.square(sums)
    return np.asarray(LOST * (squares + _BESIDE * squares.mean()))


def hides_little(terms: Additive, noise: Floats) -> bool:
    """Whether the noise is known for every number, and some of it is small beside what documents add."""
    least = float(noise.min(initial=np.inf))
    return 0.0 < least < np.inf and least < LITTLE * float(terms.variances.mean())


def solved_filter(terms: Additive, apart: Floats, noise: Floats) -> Floats | None:
    """C^-1 apart, shape (entries,); None where it takes too much, rounding is in the way, or steps do.

    How many are in is known: C is of terms less their mean, up to what is the same for every document.

    Parameters
    ----------
    terms : of all that databases are drawn from
    apart : the announced sums less what is expected of them
    noise : shape (entries,)
        Its variance, over p (1 - p).

    References
    ----------
    Woodbury's identity: Golub and Van Loan, Matrix Computations, section 2.1.4.
    """
    if not few_enough(terms.rows.shape[0]) or not hides_little(terms, noise):
        return None
    noise = with_least(terms, noise)
    gram = _products(terms, noise)
    if gram is None:
        return None
    right = terms.along(apart / noise)
    found = _solved(gram, right)
    return None if found is None else np.asarray((apart - terms.summed(found)) / noise)


def with_least(terms: Additive, noise: Floats, *, fine: bool = False) -> Floats:
    """The noise, and what is noise in any case, over p (1 - p); shape (entries,).

    Parameters
    ----------
    fine : whether topics are known in double precision, and no products of terms are taken
    """
    if isinstance(terms, RatedTerms):
        return noise + (LEAST_OF_FINE_RATINGS if fine else LEAST_OF_RATINGS) * terms.variances
    return noise + LEAST * float(terms.variances.mean())


def _solved(gram: Floats, right: Floats) -> Floats | None:
    """(1 + gram + c 1 1^T)^-1 right; None where rounding leaves no root."""
    gram += _KNOWN
    gram[np.diag_indices_from(gram)] += 1.0
    try:
        factor = cast(Any, scipy.linalg.cho_factor(gram, check_finite=False))
    except scipy.linalg.LinAlgError:
        return None
    return np.asarray(scipy.linalg.cho_solve(factor, right, check_finite=False))


def _products(terms: Additive, noise: Floats) -> Floats | None:
    """Products of documents' terms over the noise, shape (n, n); None where they take too much."""
    if isinstance(terms, RatedTerms):
        return _of_ratings(terms, noise)
    if isinstance(terms, TermNumbers):
        rows, single = terms.apart(noise)
        if (rows == rows[:, :1]).all():
            scales = Scales(np.ones(rows.shape[1]), 1.0 / np.sqrt(rows[:, 0]), 1.0 / np.sqrt(single))
            return products_of_terms(terms, scales)[0]
    if terms.rows.shape[0] * len(noise) > MOST_TERMS:
        return None
    written = terms.written()
    written /= np.sqrt(noise)
    return np.asarray(written @ written.T)


def _of_ratings(terms: RatedTerms, noise: Floats) -> Floats:
    """The same of ratings, item by item: two users share numbers where both have rated."""
    each = terms.entered()
    factors = 1.0 / np.sqrt(noise.reshape(-1, terms.rows.shape[1]))
    order = np.argsort(terms.rows.indices, kind="stable")
    users = np.repeat(np.arange(terms.rows.shape[0]), np.diff(terms.rows.indptr))[order]
    starts = np.searchsorted(terms.rows.indices[order], np.arange(terms.rows.shape[1] + 1))
    found = np.zeros((terms.rows.shape[0],) * 2)
    for item, (first, last) in enumerate(pairwise(starts)):
        mine = each[order[first:last]] * factors[:, item]
        found[np.ix_(users[first:last], users[first:last])] += mine @ mine.T
    return found
