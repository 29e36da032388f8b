"""One p a document from all its statistics: permutations where they help, exact laws where they end.

Bonferroni over exact laws reaches any depth, and pays for statistics that see the same. `max_t` pays for what
differs, and ends at 1 / (B + 1). With S statistics that are nearly one, permutations gain up to a factor of S,
which decides at the edge and nowhere else. The edge moves with the documents: BY lets a single leaking one
through at level / (n H_n), so a hundred thousand permutations are enough for 701 documents (Holm: 5,000) and
find no lone leak among more; where half of all leak, BY only asks for level / (2 H_n), whatever n.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.array_types import Floats
from ksdp.audit.bisection import first_whole
from ksdp.audit.verdicts.multiplicity import (
    EXACT_SHARE,
    Procedure,
    bonferroni,
    strictest_log10_p,
    weighted_minimum,
)
from ksdp.audit.verdicts.permutation import max_t


def over_statistics(
    values: NDArray[np.floating],
    inclusion: NDArray[np.bool_],
    log10_p: Floats,
    permutations: int,
    rng: np.random.Generator,
    *,
    share: float = EXACT_SHARE,
    exceedances: int = 20,
) -> Floats:
    """Log10 p of each document: min(p_max-T / (1 - share), p_Bonferroni / share), at most 1.

    Bonferroni's part is over exact laws and reaches as deep as they do; where it is already below all that
    permutations could give, none are drawn. So a clear leak costs nothing, no leak costs a few permutations, and
    what lies between costs all of them.

    Parameters
    ----------
    values : shape (n_statistics, n_documents, n_runs)
    inclusion : bool, shape (n_documents, n_runs)
    log10_p : shape (n_documents, n_statistics)
        Of each statistic alone, by any exact test: the tails' too, which the permuted distances do not look at.
    permutations, rng, exceedances :
        As for `max_t`.
    share : float in (0, 1)
        Part of the level that Bonferroni has.

    Returns
    -------
    float64, shape (n_documents,)

    Raises
    ------
    ValueError
        As `max_t`, or if `share` is out of range.

    Examples
    --------
    >>> from ksdp.audit.verdicts.ks import ks_table
    >>> rng = np.random.default_rng(3)
    >>> inclusion = rng.random((2, 400)) < 0.5
    >>> leak = np.array([[0.35], [3.0]]) * inclusion
    >>> values = rng.normal(size=(2, 400)) + leak + 0.1 * rng.normal(size=(10, 2, 400))
    >>> each = np.stack([ks_table(v, inclusion).log10_p for v in values], axis=1)
    >>> bool((over_statistics(values, inclusion, each, 5000, rng) < bonferroni(each) + 0.7).all())
    True
    """
    if log10_p.shape != values.shape[1::-1]:
        raise ValueError(f"`log10_p` must be {values.shape[1::-1]}; got {log10_p.shape}.")
    if permutations < 1 or not 0 < share < 1:
        raise ValueError(f"`permutations` must be at least 1, `share` in (0, 1); got {permutations} and {share}.")
    plain = bonferroni(log10_p)
    floor = -math.log10(permutations + 1) - math.log10(1 - share)
    rows = np.flatnonzero(plain - math.log10(share) > floor)
    permuted = max_t(values, inclusion, permutations, rng, exceedances=exceedances, rows=rows)
    return weighted_minimum(permuted, plain, share)


def permutations_needed(level: float, documents: int, procedure: Procedure) -> int:
    """The fewest permutations with which a single leaking document among many can be rejected.

    1 / (B + 1) must reach the strictest p of the procedure: n H_n / level for BY, n / level for BH and Holm. For
    `over_statistics`, give the permutations' part of the level, level (1 - share).

    Examples
    --------
    >>> permutations_needed(0.05, 50, "by"), permutations_needed(0.05, 17_706, "by")
    (4499, 3668294)
    """
    strictest = 10 ** -strictest_log10_p(level, documents, 1, procedure)
    return max(math.ceil(strictest * (1 - 1e-12)) - 1, 1)


def documents_feasible(level: float, permutations: int, procedure: Procedure) -> int:
    """The most documents among which `permutations` permutations can reject a single leaking one; 0 if none.

    Examples
    --------
    >>> documents_feasible(0.05, 100_000, "by"), documents_feasible(0.05, 100_000, "holm")
    (701, 5000)
    """
    return first_whole(lambda documents: permutations_needed(level, documents, procedure) > permutations) - 1
