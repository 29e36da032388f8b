r"""Privacy loss of several runs on the same records together.

Gaussian releases add up exactly: runs with :math:`\mu_1, \ldots, \mu_n` (one over the noise multiplier of all
releases of a run together), each chosen after seeing the earlier ones, are as private as one Gaussian release
with :math:`\mu^2 = \sum_i \mu_i^2` (Dong, Roth & Su 2019, https://arxiv.org/abs/1905.02383, corollary 3.3). To
replace a record is to remove one and to add one: :math:`\mu` for "added or removed" counts twice (group privacy,
there). So epsilon at any delta, and the largest advantage of any attack that tells one record from another,
:math:`2 \Phi(\mu / 2) - 1`, follow without loss. Runs that promise nothing of a record do not add up: they are
counted, and nothing bounds what several of them give away.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import ndtri

from ksdp.audit.contract import Mechanism, guarantee_of
from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.privacy.noise import epsilon_together
from ksdp.audit.mechanisms.privacy.transcript import GaussianReleases

UNIT = "one record replaced by any other"
_COMES_OR_GOES = "one record added or removed"
_MANY = 2**31


@dataclass(frozen=True)
class SecretDraw:
    """Draw of a party's documents that alone enter its runs."""

    share: float
    """Probability that a document enters."""
    name: str
    """What decides who enters; two names are two independent draws."""


@dataclass(frozen=True)
class Price:
    """Privacy loss of a record in one run."""

    mu: float | None
    """For a record that is replaced; None where nothing is promised of a record."""
    why: str
    """The promise, or the reason why there is none."""
    draw: SecretDraw | None = None
    """The secret draw of the documents that entered; None where all entered."""


@dataclass(frozen=True)
class Spent:
    """Privacy loss of a record in several runs together."""

    runs: int
    mu: float
    """mu of the runs that all documents entered and that promise something."""
    unbounded: int
    """Runs that promise nothing of a record: nothing bounds what several of them give away."""
    drawn: float = 0.0
    r"""Probability that the party's secret draws let a document into some run: :math:`1 - \prod_d (1 - q_d)`.
    :math:`q_d` is the largest share of all runs of a draw, which lets in whatever smaller shares let in."""

    def epsilon(self, delta: float) -> float:
        """Epsilon of the runs that promise something; infinite if a draw lets in more than delta."""
        if self.drawn > delta:
            return math.inf
        return epsilon_together([1 / self.mu], delta - self.drawn) if self.mu > 0 else 0.0

    @property
    def advantage(self) -> float:
        r"""The largest of any attack on the runs that promise something.

        With a = erf(mu / sqrt(8)) and the drawn share q it is a + (1 - a) q. A document that no draw lets in is
        in none of the drawn runs, and nothing is opened of one that is let in that could tell more than all.
        """
        noisy = math.erf(self.mu / math.sqrt(8))
        return noisy + (1 - noisy) * self.drawn


def pure_price(epsilon: float, why: str) -> Price:
    r"""Return the privacy loss of a replaced record by an epsilon at delta 0.

    Errors of the two kinds of any test lie on or above two lines, from (0, 1) to (c, c) and from there to (1, 0),
    with :math:`c = 1 / (1 + e^\epsilon)` (Wasserman & Zhou 2010). A Gaussian trade-off is convex and has the ends
    (0, 1) and (1, 0); the one through (c, c), of :math:`\mu = 2 \Phi^{-1}(1 - c)`, is nowhere above its chords,
    which are these lines. So what is epsilon-private is :math:`\mu`-Gaussian private, and adds up like it.
    """
    return Price(-2 * float(ndtri(1 / (1 + math.exp(epsilon)))), why)


def price_of(mechanism: Mechanism, sizes: Sequence[int], features: int) -> Price:
    """Return the privacy loss of a record in one run among parties with so many records."""
    promise = guarantee_of(mechanism)
    if promise.kind != "(epsilon, delta)" or not isinstance(mechanism, GaussianReleases):
        return Price(None, "no promise: what it gives away is measured by its audit")
    if not promise.sound or mechanism.noise_factor < 1:
        return Price(None, "what is promised does not hold as printed")
    if not promise.unit.startswith((UNIT, _COMES_OR_GOES)):
        return Price(None, "what is promised is not of a whole record")
    try:
        multipliers = mechanism.multipliers(sizes, features)
    except InputError:
        return Price(None, "nothing is promised with these parameters")
    mu = math.sqrt(math.fsum(1 / m**2 for m in multipliers))
    unit = f"{promise.unit}; trust: {promise.trust}"
    return Price(2 * mu if promise.unit.startswith(_COMES_OR_GOES) else mu, unit)


def worst_price(mechanism: Mechanism, own: int, parties: int, features: int) -> Price:
    """The price before the others' sizes are known: the highest of one, as many, and very many records each."""
    prices = [price_of(mechanism, (own, *(other,) * (parties - 1)), features) for other in (1, own, _MANY)]
    unbounded = next((price for price in prices if price.mu is None), None)
    return unbounded or max(prices, key=lambda price: price.mu or 0.0)


@dataclass(frozen=True)
class Promise:
    """Bound that the noise of a mechanism proves for every record and every attack, before any run."""

    bound: float
    """Bound of the advantage, also of somebody who knows all other records."""
    trust: str
    """Parties that must be honest, and those from whom it then protects."""
    every_size: bool
    """Whether it is the same for parties of any size."""


_DECIMALS = 12
"""Decimals of a bound: beyond them the normal law and its inverse do not cancel."""


def promise_of(mechanism: Mechanism, sizes: Sequence[int], features: int, known_parties: int) -> Promise | None:
    """Return the bound that a mechanism's noise proves in a run of these sizes; None if it proves none."""
    if not isinstance(mechanism, GaussianReleases) or mechanism.holds_against < known_parties:
        return None

    def bound(*entering: int) -> float | None:
        spent = spent_together([price_of(mechanism, entering, features)])
        return None if spent.unbounded else round(spent.advantage, _DECIMALS)

    here = bound(*sizes)
    if here is None:
        return None
    every_size = all(bound(*(size,) * len(sizes)) == here for size in (1, _MANY))
    return Promise(here, guarantee_of(mechanism).trust, every_size)


def spent_together(prices: Sequence[Price]) -> Spent:
    """Return the privacy loss of all runs on the same records."""
    undrawn = [price for price in prices if price.draw is None]
    noises = [price.mu for price in undrawn if price.mu is not None]
    shares: dict[str, float] = {}
    for draw in (price.draw for price in prices if price.draw is not None):
        shares[draw.name] = max(shares.get(draw.name, 0.0), draw.share)
    mu = math.sqrt(math.fsum(mu**2 for mu in noises))
    entered = 0.0
    for share in shares.values():
        entered += (1 - entered) * share
    return Spent(len(prices), mu, len(undrawn) - len(noises), entered)
