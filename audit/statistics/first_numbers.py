"""Who was in, of more documents than are solved for: what the first numbers of their sums say, solved for.

Documents are too many for a matrix of documents by documents, but a few hundred numbers are not for one of numbers
by numbers. Steps, and a ridge of the mean variance, see what is largest first; where hardly any noise is in the
sums, the small documents, whom the same numbers tell apart, then seem hidden. So the first rows of the sums, as
many as are written out, give the most even draw (`max_entropy`); later ones are left out. Of noise that is not
small beside what documents add, all numbers are taken, by steps: there it is their number that counts.
"""

from __future__ import annotations

import math

import numpy as np

from ksdp.audit.array_types import Floats
from ksdp.audit.kernels import one_thread
from ksdp.audit.statistics.additive import Additive
from ksdp.audit.statistics.max_entropy import Direction, span_of
from ksdp.audit.statistics.solved_filters import LEAST, hides_little, lost
from ksdp.audit.statistics.solved_parts import few_enough
from ksdp.audit.statistics.term_numbers import TermNumbers

MOST_WRITTEN = 2**31
"""Documents times the square of the numbers, at most: a second or two a run."""
MOST_EXACT = 2**28
"""The same of exact sums, all of whose numbers are then solved for: steps, which take all of them, tell more of
these than half of the numbers do (5,611 docstrings of 60 terms, PD-SVD of rank 2: D by steps 0.14, by 218 of 1,320
numbers 0.10, by 618 of them 0.21, by all 0.25, which takes six seconds a run)."""


def first_numbers_say(
    made: Additive, apart: Floats, shares: Floats, noise: Floats | None, varied: float
) -> Direction | None:
    """The direction of largest entropy by the first rows of the sums; None where it is not asked for.

    That is where documents are few enough to be solved for, where noise is not small, where not even one row is
    written out, and where these are not all rows of exact sums.

    Parameters
    ----------
    made : terms of all that may be in
    apart : the announced sums less what is expected of them, shape (entries,)
    shares : how likely each is in, shape (n,)
    noise : its variance over p (1 - p), shape (entries,); None of exact sums, of which single precision loses some
    varied : p (1 - p)
    """
    if few_enough(made.rows.shape[0]) or not isinstance(made, TermNumbers):
        return None
    exact = noise is None
    if noise is None:
        noise = lost(_plain(made).summed(shares)) / varied
    if not hides_little(made, noise):
        return None
    wide = made.rows.shape[1]
    numbers = written_out(made, exact=exact)
    first, whole = numbers // max(wide, 1), _rows_of_sums(made)
    if first < (whole if exact else 1):
        return None
    least = (noise[:numbers] + LEAST * float(made.variances[:numbers].mean())) * varied
    units = 1.0 / np.sqrt(least)
    with one_thread():
        span = span_of(made.first(first).written() * units, 1.0)
        found, usual = span.direction(apart[:numbers] * units, shares)
    return Direction(np.concatenate([found * units, np.zeros(made.entries - numbers)]), usual)


def written_out(made: Additive, *, exact: bool = False) -> int:
    """How many numbers of the first rows are solved for, of sums with little noise."""
    if not isinstance(made, TermNumbers):
        return 0
    n, wide = made.rows.shape
    most = MOST_EXACT if exact else MOST_WRITTEN
    return int(min(math.isqrt(most // max(n, 1)) // max(wide, 1), _rows_of_sums(made)) * wide)


def _rows_of_sums(made: TermNumbers) -> int:
    return int(made.entries - made.scalars.shape[1]) // max(int(made.rows.shape[1]), 1)


def _plain(made: TermNumbers) -> TermNumbers:
    """The sums of which terms are what is left: what single precision loses is a part of these."""
    return TermNumbers.plain(made.rows, made.weights, made.scalars)
