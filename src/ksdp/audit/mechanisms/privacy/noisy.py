"""Another mechanism's announcement with noise on it: what measured privacy costs in learning quality."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from ksdp.audit.contract import (
    EXACT,
    OPENS,
    Database,
    Derives,
    Guarantee,
    Mechanism,
    Noise,
    Observables,
    Release,
    Traits,
    measured,
    traits_of,
)
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.parameters import given_fields
from ksdp.audit.mechanisms.schema import opened, released
from ksdp.audit.registry import make_mechanism
from ksdp.audit.statistic import Statistic, own_statistics
from ksdp.audit.statistics.linear.releases import LINEAR, first_rounds
from ksdp.audit.verdicts.certificates import pair_advantage

_MANY = 2**20
"""Features of which names are asked: more than any rank."""


@dataclass(frozen=True)
class Noisy:
    """Releases what another mechanism releases, with normal noise: each array A as A + noise * scale * Z.

    Z is standard normal, independent for every entry and run; `scale` is public and fixed before the run. What is
    derived from releases (`Release.derived_from`) is derived from the noisy ones. The final output of a mechanism
    that takes and gives nonnegative numbers is clipped at 0, as whoever uses it would. Sums are opened as they
    are, of either sign.

    This is measured privacy, not differential privacy: the noise is not calibrated to what one document can
    change. Its density is known, so paired runs bound every attack (`ksdp.audit.proofs`).

    Parameters
    ----------
    mechanism, parameters, mechanism_version : the other mechanism; defaults and version are filled in
    noise : at least 0; in units of `scale`
    scale : typical size of an entry, from public data or by decree; may be a table by the names of releases. None:
        the root mean square of this run's A, a function of the data that nobody protects: the guarantee is then
        marked unsound, and nothing is certified
    plain : arrays that are announced without noise. Everybody sees when a protocol ends; where its number of
        rounds depends on the data it tells of documents, and a fixed number is better

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from ksdp.audit.registry import make_mechanism
    >>> rng = np.random.default_rng(0)
    >>> matrix = sp.csr_array(rng.random((20, 5)))
    >>> mechanism = Noisy("pd-svd", noise=0.1, parameters={"rank": 2})
    >>> exact = make_mechanism("pd-svd", {"rank": 2}).run(Database((matrix,)), rng)["V"]
    >>> off = mechanism.run(Database((matrix,)), rng)["V"] - exact
    >>> bool(0.05 < np.sqrt((off**2).mean() / (exact**2).mean()) < 0.2)
    True
    """

    name: ClassVar[str] = "noisy"
    version: ClassVar[int] = 1
    guarantee: ClassVar[Guarantee] = measured(
        "this package",
        "A measurement. The noise is not calibrated to what one document changes: no differential privacy.",
    )

    mechanism: str = "pd-svd"
    noise: float = 0.1
    parameters: Mapping[str, Any] = field(default_factory=dict, hash=False)
    plain: tuple[str, ...] = ("sweeps", "init_sweeps", "iterations")
    mechanism_version: int | None = None
    scale: float | Mapping[str, float] | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        given = self.scale.values() if isinstance(self.scale, Mapping) else [self.scale]
        for size in given if self.scale is not None else ():
            if not isinstance(size, Real) or isinstance(size, bool) or not 0 < size < np.inf:
                raise SpecError(f"`scale` must be a positive number, or one for each array; got {size!r}.")
        if not isinstance(self.noise, Real) or isinstance(self.noise, bool) or not 0 <= self.noise < np.inf:
            raise SpecError(f"`noise` must be a number of at least 0; got {self.noise!r}.")
        if not isinstance(self.parameters, Mapping):
            raise SpecError("`parameters` must be a table: those of the other mechanism.")
        inner = self.inner
        if isinstance(inner, Noisy):
            raise SpecError("`mechanism` must not be noisy itself; add up the noise instead.")
        if isinstance(inner, PDNMF) and inner.start == "nnsvd" and inner.opens != OPENS[1]:
            raise SpecError(
                '`start` must not be "nnsvd" with noise: what makes that start has entries of both signs.'
            )
        if self.mechanism_version not in (None, inner.version):
            raise SpecError(f"`mechanism_version` must be {inner.version}; got {self.mechanism_version!r}.")
        # All of the other's parameters are part of what this is, so that another version is never taken for it.
        object.__setattr__(self, "parameters", given_fields(inner) or dict(self.parameters))
        object.__setattr__(self, "mechanism_version", inner.version)
        object.__setattr__(self, "noise", float(self.noise))
        if self.scale is None and self.noise:
            notes = "The size of the noise depends on the data of the run, which is itself a channel: set `scale`."
            object.__setattr__(self, "guarantee", dataclasses.replace(self.guarantee, sound=False, notes=notes))

    @cached_property
    def inner(self) -> Mechanism:
        """The other mechanism."""
        return make_mechanism(self.mechanism, self.parameters)

    @property
    def traits(self) -> Traits:
        """Traits of the inner mechanism, with noise."""
        return replace(traits_of(self.inner), noise_free=False)

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        """Statistics of the inner mechanism, and filters of rounds by the first round alone."""
        brought = own_statistics(self.inner)
        shown = set(opened(self, _MANY)) if self.noise else set[str]()
        early = first_rounds((*LINEAR, *brought))
        return (*brought, *(statistic for statistic in early if set(statistic.needs) <= shown))

    def releases(self, features: int) -> tuple[Release, ...]:
        """Releases of the inner mechanism, without those that follow from exact arrays alone."""
        if not self.noise:
            return self.inner.releases(features)
        noisy = {array.name for array in released(self.inner, features)}
        return tuple(
            replace(array, noise=self._noise_of(array)) if array.name in noisy else array
            for array in self.inner.releases(features)
            if not (array.terms and array.terms.exact_only)
        )

    def _noise_of(self, array: Release) -> Noise:
        if array.name in self.plain:
            return array.noise
        has_deviation = array.noise == EXACT and (not isinstance(self.scale, Mapping) or array.name in self.scale)
        return Noise("normal", deviation=self.deviation(array.name) if has_deviation else None)

    def run(self, database: Database, rng: np.random.Generator) -> Observables:
        """Run the other mechanism, add the noise, work out the rest; all draw from `rng`."""
        if not self.noise:
            return self.inner.run(database, rng)
        seen = self.without_noise(database, rng)
        noisy = Observables({name: self._disturbed(name, np.asarray(seen[name]), rng) for name in sorted(seen)})
        if isinstance(self.inner, Derives):
            noisy = self.inner.derive(noisy)
        if not self.traits.nonnegative:
            return noisy
        final = {array.name for array in self.releases(database.parties[0].shape[1]) if array.final}
        return Observables({n: np.maximum(a, 0.0) if n in final else a for n, a in noisy.items()})

    def without_noise(self, database: Database, rng: np.random.Generator) -> Observables:
        """Return the releases of the other mechanism."""
        return (
            self.inner.release(database, rng) if isinstance(self.inner, Derives) else self.inner.run(database, rng)
        )

    def deviation(self, name: str) -> float | None:
        """Standard deviation of an array's noise; 0 if it has none, None if its size depends on the data."""
        if name in self.plain or not self.noise:
            return 0.0
        if isinstance(self.scale, Mapping):
            if name not in self.scale:
                raise SpecError(f"`scale` must name every array that gets noise; {name!r} is missing.")
            return self.noise * float(self.scale[name])
        return None if self.scale is None else self.noise * float(self.scale)

    def uncertified(self, features: int) -> str | None:
        """Why no bound on every attack is known; None where one is."""
        if not self.noise or any(self.deviation(array.name) is None for array in released(self.inner, features)):
            return "adds no noise whose size is public and fixed before the run"
        missing = set(opened(self, features)) - {a.name for a in self.releases(features) if a.recorded}
        return f"leaves out what a run shows its parties ({', '.join(sorted(missing))})" if missing else None

    def paired(
        self, base: Database, coins: Callable[[], np.random.Generator], final: tuple[str, ...] | None = None
    ) -> Callable[[Database], float]:
        """The advantage of the best attack that knows two databases and must tell which of them was used."""
        features = base.parties[0].shape[1]
        names = [a.name for a in released(self.inner, features) if final is None or a.name in final]
        sizes = {name: self.deviation(name) or 0.0 for name in names}
        here = self.without_noise(base, coins())

        def against(other: Database) -> float:
            return float(pair_advantage(_apart(here, self.without_noise(other, coins()), sizes)))

        return against

    def _disturbed(self, name: str, array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if name in self.plain or not array.size:
            return array
        exact, deviation = array.astype(np.float64), self.deviation(name)
        if deviation is None:
            deviation = self.noise * float(np.sqrt(np.mean(exact**2)))
        return exact + deviation * rng.standard_normal(exact.shape)


def _apart(first: Observables, second: Observables, sizes: Mapping[str, float]) -> float:
    total = 0.0
    for name, deviation in sizes.items():
        gap = float(np.linalg.norm(np.asarray(first[name], np.float64) - np.asarray(second[name], np.float64)))
        if gap and not deviation:
            return math.inf
        total += (gap / deviation) ** 2 if gap else 0.0
    return math.sqrt(total)
