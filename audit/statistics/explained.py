"""Who was in, where documents that are in or out explain exact sums to the last of them.

A fit of parts between 0 and 1 (`one_by_one`) leaves few documents in doubt: those that look much alike. Others
count as in or out, whichever is nearer, and the equations are solved for those in doubt, some dozens in place of
all that may be in. Where numbers outnumber documents, who leaves nothing of the sums is the answer, however it was
found. Where something is left, more documents are in doubt: those of whom what is left speaks.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ksdp.audit.array_types import Floats
from ksdp.audit.statistics.distinct import Distinct
from ksdp.audit.statistics.term_products import LEFT, LOST, products_of_terms
from ksdp.audit.statistics.term_scales import Scales

DOUBT = (0.1, 0.02, 0.004, 0.0008)
"""How far from in or out a document is, or how much what is left speaks of it, to be in doubt: few, then more."""
MOST = 0.5
"""Part of the documents that are solved for at most."""
RIDGE = 2.0**-30
"""Part of what each adds, for those whom the equations do not tell apart."""


def explained(once: Distinct, apart: Floats, parts: Floats, scales: Scales, sizes: Floats) -> Floats | None:
    """How many of each content were in, less what is expected; None where none that is found explains the sums.

    Parameters
    ----------
    apart : the sums less what is expected of them, shape (entries,)
    parts : about how many were in, less what is expected, shape (contents,)
    scales : those of the sums
    sizes : |a|^2 of what one of each content adds, in these units

    Notes
    -----
    What is left of the sums must be less than a tenth of what the least document adds, squared. Sums of 0 tell
    parts up to a factor: where hardly anybody would be in, about as many as are expected are.
    """
    inside, adds = once.shares + parts, sizes > LOST * sizes.max(initial=0.0)
    if not adds.any() or not inside[adds].sum() > 0.0:
        return None
    least, factors = LEFT * float(sizes[adds].min()), scales.written()
    told = np.clip(np.rint(inside), 0.0, once.several)
    if not _enough(once, told, adds):
        inside = inside * (once.shares[adds].sum() / inside[adds].sum())
        told = np.clip(np.rint(inside), 0.0, once.several)
    doubted = adds & (np.abs(inside - told) > DOUBT[0])
    for doubt in (*DOUBT, None):
        left = apart - once.made.summed(told - once.shares)
        if np.square(left * factors).sum() < least:
            return told - once.shares if _enough(once, told, adds) else None
        if doubt is None:
            break
        along = once.made.along(left * np.square(factors))
        speaks = np.abs(np.divide(along, sizes, out=np.zeros_like(along), where=adds))
        doubted |= adds & (speaks > doubt)
        places = np.flatnonzero(doubted)
        if len(places) > MOST * len(told):
            break
        if len(places):
            told[places] = _solved(once, scales, places, told[places], along[places])
    return None


def _enough(once: Distinct, told: Floats, adds: NDArray[np.bool_]) -> bool:
    return bool(2.0 * told[adds].sum() > once.shares[adds].sum())


def _solved(once: Distinct, scales: Scales, places: NDArray[np.int64], told: Floats, along: Floats) -> Floats:
    """Those of whom so many were thought to be in, by what is left of the sums."""
    gram, _ = products_of_terms(once.made.of(places), scales)
    gram[np.diag_indices_from(gram)] *= 1.0 + RIDGE
    try:
        more = scipy.linalg.cho_solve(scipy.linalg.cho_factor(gram, check_finite=False), along, check_finite=False)
    except scipy.linalg.LinAlgError:
        return told
    return np.asarray(np.clip(np.rint(told + more), 0.0, once.several[places]))
