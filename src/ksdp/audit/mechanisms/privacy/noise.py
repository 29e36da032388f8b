"""Noise: its laws, its size for a promise, and what bounds one record's part."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.contract import SAMPLERS, Database
from ksdp.audit.errors import InputError, SpecError
from ksdp.audit.numeric.array_types import Floats


@dataclass(frozen=True)
class PrivacyCost:
    """Epsilon of all releases of a mechanism together, by one way of counting."""

    way: str
    epsilon: float
    delta: float


def check_adjacency(adjacency: str) -> None:
    """Refuse anything but the two relations of neighbours."""
    if adjacency not in ("replace-one", "add-remove"):
        raise SpecError(f"`adjacency` must be 'replace-one' or 'add-remove'; got {adjacency!r}.")


def adjacency_words(adjacency: str) -> str:
    """For a report."""
    return "one record replaced by any other" if adjacency == "replace-one" else "one record added or removed"


def second_moment_change(bound: float, adjacency: str) -> float:
    """Largest Frobenius norm of the change of X^T X by one row of norm at most `bound`.

    ||x x^T||_F = bound^2 for a row that comes or goes; ||x x^T - y y^T||_F <= sqrt(2) bound^2 for one that is
    replaced (reached where x and y are orthogonal), because <x x^T, y y^T> = <x, y>^2 is never negative. For Z
    with orthonormal columns, or of spectral norm at most 1, ||D Z||_F <= ||D||_F.
    """
    return bound**2 * (math.sqrt(2) if adjacency == "replace-one" else 1.0)


def worst_pair(
    features: int, rows: int, bound: float, adjacency: str, *, directions: Sequence[NDArray[np.float64]] = ()
) -> tuple[Database, Database]:
    """Two databases of one party, of the same size, that differ in their first row as much as they may."""
    first, second = directions if len(directions) else np.eye(features)[:2]
    base = bound * np.array([first, *(second if i % 2 else first for i in range(rows - 1))])
    other = base.copy()
    other[0] = bound * second if adjacency == "replace-one" else 0.0
    return Database((sp.csr_array(base),)), Database((sp.csr_array(other),))


FRACTION_BITS = 31
"""The grid of the secure sums: multiples of 2^-31."""
_LARGEST = 2.0**62
_COARSEST = 16.0
"""Grid steps in one deviation, at least: below, the discrete Gaussian is not the continuous one to rounding."""


@dataclass(frozen=True)
class Accounting:
    """Epsilon at a delta, by four ways of counting; `exact` is the one that is claimed."""

    delta: float
    exact: float
    pld: float
    rdp: float
    added: float
    """n releases at (epsilon_i, delta / n) each, their epsilons added up: the papers' composition."""

    def counts(self) -> tuple[PrivacyCost, ...]:
        """The four, by name."""
        ways = {"exactly": self.exact, "PLD": self.pld, "RDP": self.rdp, "added up": self.added}
        return tuple(PrivacyCost(way, epsilon, self.delta) for way, epsilon in ways.items())


def check_budget(epsilon: float, delta: float) -> None:
    """Refuse an epsilon that is not positive or too large to compute with, or a delta outside (0, 1)."""
    if isinstance(epsilon, bool) or not 0 < epsilon <= 1e100:
        raise SpecError(f"`epsilon` must be positive and at most 1e100; got {epsilon!r}.")
    if isinstance(delta, bool) or not 0 < delta < 1:
        raise SpecError(f"`delta` must be in (0, 1); got {delta!r}.")


@lru_cache(maxsize=256)
def analytic_multiplier(epsilon: float, delta: float, releases: int = 1) -> float:
    """Smallest deviation, in units of the L2 sensitivity, with which so many Gaussian releases are private."""
    check_budget(epsilon, delta)
    if releases < 1:
        raise SpecError(f"`releases` must be at least 1; got {releases}.")
    import dp_accounting

    return float(dp_accounting.get_sigma_gaussian(epsilon, delta)) * math.sqrt(releases)


def classical_multiplier(epsilon: float, delta: float) -> float:
    """sqrt(2 ln(1.25 / delta)) / epsilon, as printed in the papers; proved for epsilon < 1 only."""
    check_budget(epsilon, delta)
    return math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def account(multipliers: Sequence[float], delta: float) -> Accounting:
    """Epsilon at `delta` of Gaussian releases; a multiplier is deviation over L2 sensitivity."""
    _check_multipliers(multipliers, delta)
    return _accounted(tuple(sorted(multipliers)), delta)


def epsilon_together(multipliers: Sequence[float], delta: float) -> float:
    """The `exact` epsilon of `account` alone, which costs next to nothing however little noise there is."""
    _check_multipliers(multipliers, delta)
    import dp_accounting

    together = 1 / math.sqrt(math.fsum(1 / m**2 for m in multipliers))
    return float(dp_accounting.get_epsilon_gaussian(together, delta))


def _check_multipliers(multipliers: Sequence[float], delta: float) -> None:
    check_budget(1.0, delta)
    if not multipliers or not all(math.isfinite(m) and m > 0 for m in multipliers):
        raise SpecError("`multipliers` must be positive numbers, at least one.")


@lru_cache(maxsize=256)
def _accounted(multipliers: tuple[float, ...], delta: float) -> Accounting:
    import dp_accounting
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.rdp import RdpAccountant

    events: Any = dp_accounting.ComposedDpEvent(
        [
            dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(m), multipliers.count(m))
            for m in sorted(set(multipliers))
        ]
    )
    epsilons = {}
    for name, accountant in (("pld", PLDAccountant()), ("rdp", RdpAccountant())):
        accountant.compose(events)
        epsilons[name] = float(accountant.get_epsilon(delta))
    share = delta / len(multipliers)
    each = {m: float(dp_accounting.get_epsilon_gaussian(m, share)) for m in set(multipliers)}
    added = math.fsum(each[m] for m in multipliers)
    return Accounting(delta, epsilon_together(multipliers, delta), epsilons["pld"], epsilons["rdp"], added)


def rounded_sensitivity(sensitivity: float, entries: int, fraction_bits: int = FRACTION_BITS) -> float:
    """L2 sensitivity after every one of `entries` numbers was rounded to the grid: at most a step more each."""
    return sensitivity + math.sqrt(entries) * 2.0**-fraction_bits


def on_grid(values: Floats, fraction_bits: int = FRACTION_BITS) -> NDArray[np.int64]:
    """The nearest multiples of 2^-fraction_bits, as whole numbers of steps."""
    steps = np.asarray(values, dtype=np.float64) * 2.0**fraction_bits
    if not np.all(np.abs(steps) < _LARGEST):
        raise InputError(f"every value must be finite and below {_LARGEST / 2.0**fraction_bits:g} in size.")
    return np.rint(steps).astype(np.int64)


def draw(sampler: str, shape: tuple[int, ...], deviation: float, rng: np.random.Generator) -> Floats:
    """Gaussian noise of mean 0; with ``discrete``, multiples of 2^-31."""
    check_sampler(sampler)
    if not (math.isfinite(deviation) and deviation >= 0):
        raise SpecError(f"`deviation` must be a finite number of at least 0; got {deviation}.")
    if deviation == 0:
        return np.zeros(shape)
    if sampler == "fast":
        return deviation * rng.standard_normal(shape)
    scale = deviation * 2.0**FRACTION_BITS
    if scale < _COARSEST:
        raise SpecError(f"a deviation of {deviation:g} is too small for the grid of 2^-{FRACTION_BITS}.")
    steps = np.array(_opendp(scale)([0] * math.prod(shape)), dtype=np.int64)
    return np.asarray(steps.reshape(shape) * 2.0**-FRACTION_BITS)


def check_sampler(sampler: str) -> None:
    """Refuse an unknown sampler."""
    if sampler not in SAMPLERS:
        raise SpecError(f"`sampler` must be one of {', '.join(SAMPLERS)}; got {sampler!r}.")


@lru_cache(maxsize=64)
def _opendp(scale: float) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    return dp.m.make_gaussian(*space, scale=scale)
