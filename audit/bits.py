"""Bits of who was in: how many a run announces, and from how many lattice reduction finds it all.

A document is in or it is not. Whoever uses that needs far fewer exact numbers than there are documents: the means
of 30 columns tell who of 120 patients were in, within two seconds. So exact numbers of few documents clear nobody.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from ksdp.audit.errors import KsdpError
from ksdp.audit.mechanisms.contract import Mechanism, Release, exact_throughout
from ksdp.audit.numeric.array_types import Floats
from ksdp.audit.statistics.contract import Pool
from ksdp.audit.statistics.linear.pilot import drawn_database, repeatable

DIGITS = 52
"""Bits of a number in double precision."""
REDUCED = math.log2(1.009)
"""Of the root Hermite factor that lattice reduction reaches in a day or so (Gama & Nguyen, Predicting lattice
reduction, 2008, doi.org/10.1007/978-3-540-78967-3_3: 1.0219 by LLL, 1.0109 by BKZ-28)."""
_DATABASES, _REPEATS = 8, 8
"""Databases that are drawn, and runs of each, where there may be noise."""
_CLOSEST = 3
"""The pair of runs of one database by which noise is told from a choice among few answers."""
_HIDDEN = 4.0
"""Deviations of the noise, within which who is in does not show."""


def found_by_lattice(documents: int, share: float, bits: float) -> bool:
    """Whether lattice reduction finds who was in.

    Equations with B bits in n unknowns of which each is 0 or 1 make a lattice of dimension n and determinant 2^B.
    Who was in is its one short vector where B is more than the n H(p) bits that say who was in (Lagarias & Odlyzko,
    Solving low-density subset sum problems, 1985, doi.org/10.1145/2455.2461), and reduction finds it where

        n H(p) + n^2 log2(f) < B, f the root Hermite factor.

    Parameters
    ----------
    documents : n, that may be in
    share : p, of these that is in
    bits : B, announced of them

    Examples
    --------
    >>> found_by_lattice(200, 0.5, 30 * DIGITS), found_by_lattice(400, 0.5, 30 * DIGITS)
    (True, False)
    """
    entropy = -sum(p * math.log2(p) for p in (share, 1.0 - share) if p > 0.0)
    return documents * entropy + documents**2 * REDUCED < bits


def announced_bits(mechanism: Mechanism, arrays: Sequence[Release], pool: Pool) -> float:
    """Bits of who was in that a run announces, as runs of some databases show.

    Of each number log2 of its deviation over databases to its noise or its last digit, whichever is larger: those
    of whole numbers are few. Numbers within their noise count as nothing.

    Parameters
    ----------
    mechanism : of the audit
    arrays : that are seen of it
    pool : what databases are drawn from

    Returns
    -------
    float
        `DIGITS` a number where the mechanism cannot be run.
    """
    again = cast(Any, repeatable(mechanism))
    repeats = 1 if exact_throughout(mechanism) else _REPEATS
    runs = []
    for place in range(_DATABASES):
        database, _ = drawn_database(pool, place)
        for repeat in range(repeats):
            try:
                seen = again.run(database, np.random.default_rng([place, repeat]))
                runs.append(np.concatenate([np.ravel(np.asarray(seen[a.name], np.float64)) for a in arrays]))
            except (KsdpError, KeyError):
                return DIGITS * float(sum(math.prod(a.shape) for a in arrays))
    values = np.reshape(runs, (_DATABASES, repeats, -1))
    spread = values.std(axis=(0, 1))
    noise = _noise(values) if repeats > 1 else np.zeros(values.shape[2])
    with np.errstate(divide="ignore", invalid="ignore"):
        bits = np.log2(spread / np.maximum(noise, _last_digit(values)))
    shown = (spread > _HIDDEN * noise) & (spread > 0.0)
    many = np.array([max(a.in_all / math.prod(a.shape), 1.0) for a in arrays])
    counted = np.where(shown, np.clip(bits, 0.0, DIGITS), 0.0)
    return float(counted @ np.repeat(many, [math.prod(a.shape) for a in arrays]))


def _noise(values: Floats) -> Floats:
    """Deviation of normal noise whose pairs would be as close as the closest; 0 of a choice among few answers."""
    ordered = np.sort(values, axis=1)
    one, other = np.triu_indices(values.shape[1], 1)
    gaps = np.sort((ordered[:, other] - ordered[:, one]).reshape(-1, values.shape[2]), axis=0)
    return np.asarray(gaps[_CLOSEST - 1] * len(gaps) / (_CLOSEST * math.sqrt(math.pi)))


def _last_digit(values: Floats) -> Floats:
    """The largest power of 2 of which all values are multiples, of each number; of 0 the least there is."""
    fraction, exponent = np.frexp(values.reshape(-1, values.shape[2]))
    whole = (fraction * 2.0**53).astype(np.int64)
    digit = np.where(whole == 0, np.inf, np.ldexp((whole & -whole).astype(np.float64), exponent - 53))
    least = digit.min(axis=0)
    return np.where(np.isfinite(least), least, np.finfo(np.float64).tiny)
