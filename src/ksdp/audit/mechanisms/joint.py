"""Several runs on the same data as one mechanism: what they give away together is not the sum of their parts.

One run may announce a document behind a mask, and another the mask: each alone says nothing, both say all. So two
audits that found nothing do not add up to a third. An audit of both runs as one view does, as everything that both
announce is in it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.contract import (
    OPENS,
    Certifiable,
    Database,
    Documents,
    Guarantee,
    Mechanism,
    Observables,
    Release,
    Statistic,
    Traits,
    measured,
    own_statistics,
    sentence_of,
    statistic_traits,
    traits_of,
)
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.parameters import given_fields
from ksdp.audit.mechanisms.schema import named_alone, opened, run_prefix, why_uncertified
from ksdp.audit.registry import make_mechanism, statistics
from ksdp.audit.statistics.linear.groups import WrappedStatistic
from ksdp.audit.verdicts.certificates import normal_advantage

_FAMILIES = ("paper", "geometry", "rounds")
_MANY = 2**20
"""Features of which names are asked, where none are known: more than any rank."""


@dataclass(frozen=True)
class OfRun(WrappedStatistic):
    """A statistic of one of the runs."""

    place: int
    """Of the run, from 1."""
    statistic: Statistic
    family: str = "together"

    @property
    def name(self) -> str:
        """Which run, and the statistic's name."""
        return f"run{self.place}-{self.statistic.name}"

    @property
    def sentence(self) -> str:
        """That of the statistic, for this run."""
        return f"Of run {self.place} alone: {sentence_of(self.statistic)}"

    @property
    def needs(self) -> tuple[str, ...]:
        """The run's arrays."""
        return _named(self.place, super().needs)

    @property
    def needs_any(self) -> tuple[str, ...]:
        """The run's arrays."""
        return _named(self.place, super().needs_any)

    @property
    def reads(self) -> tuple[str, ...]:
        """The run's arrays."""
        return _named(self.place, super().reads)

    def asks_for(self, arrays: Mapping[str, tuple[int, ...]], documents: int) -> str:
        """What this run lacks for the statistic to be worth its time."""
        asks = statistic_traits(self.statistic).asks_for
        return "" if asks is None else asks(named_alone(arrays, self.place), documents)

    def evaluate(self, observables: Observables, documents: Documents) -> NDArray[np.float64]:
        """One number a document, from this run alone."""

        def compute() -> NDArray[np.float64]:
            return self.statistic.evaluate(_of_run(observables, self.place), _documents_of(documents, self.place))

        # Memo: the sum over runs asks for it again.
        return observables.derive((self, documents), compute)


@dataclass(frozen=True)
class SumOverRuns:
    """The sum of a statistic over all runs that have it: of logarithms of a likelihood, that of all together."""

    parts: tuple[OfRun, ...]
    family: str = "together"

    @property
    def name(self) -> str:
        """The statistic's, and that it is a sum."""
        return f"runs-{self.parts[0].statistic.name}"

    @property
    def sentence(self) -> str:
        """That of the statistic, for all runs."""
        return f"The sum over all runs. Of each: {sentence_of(self.parts[0].statistic)}"

    @property
    def version(self) -> int:
        """That of the statistic."""
        return self.parts[0].version

    @property
    def needs(self) -> tuple[str, ...]:
        """Arrays of all runs."""
        return tuple(name for part in self.parts for name in part.needs)

    @property
    def needs_background(self) -> tuple[str, ...]:
        """What the adversary must know besides."""
        return self.parts[0].needs_background

    def evaluate(self, observables: Observables, documents: Documents) -> NDArray[np.float64]:
        """One number a document."""
        values = [part.evaluate(observables, documents) for part in self.parts]
        return np.asarray(np.sum(values, axis=0), dtype=np.float64)


@dataclass(frozen=True)
class JointMechanism:
    """Runs several mechanisms on the same databases and announces all that they announce.

    Every statistic is tried on every run by itself, and its sum over runs; what the runs say together in any other
    way is seen by "combined", and by "simulated" with as many training runs as there are announced numbers.
    Nothing is clear without either.

    Parameters
    ----------
    runs : each a mechanism with its parameters, as in `[mechanism]`; two or more. Versions and defaults are filled
        in, so that runs of another version are never taken for these.

    Examples
    --------
    >>> together = JointMechanism(({"name": "pd-nmf", "rank": 2}, {"name": "pd-svd", "rank": 3}))
    >>> [array.name for array in together.releases(9)][:2]
    ['run1_T', 'run1_numerators']
    """

    name: ClassVar[str] = "together"
    version: ClassVar[int] = 1
    guarantee: ClassVar[Guarantee] = measured(
        "this package", "A measurement of all runs as one view. Nothing is promised of any of them."
    )

    runs: tuple[Mapping[str, Any], ...] = field(
        default=({"name": "pd-nmf"}, {"name": "pd-svd"}), hash=False
    )  # what two organisations run first

    def __post_init__(self) -> None:
        if len(self.runs) < 2:
            raise SpecError(f"`runs` must hold at least two mechanisms; got {len(self.runs)}.")
        for run in self.runs:
            if not isinstance(run, Mapping) or not isinstance(run.get("name"), str):
                raise SpecError("`runs` must be tables, each with the `name` of a mechanism and its parameters.")
            if run["name"] == self.name:
                raise SpecError("`runs` must not hold runs that are together themselves; list them one by one.")
        object.__setattr__(self, "runs", tuple(dict(run) for run in self.runs))
        object.__setattr__(self, "runs", tuple(map(_filled, self.runs, self.inner)))

    @cached_property
    def inner(self) -> tuple[Mechanism, ...]:
        """The mechanisms, in their order."""
        return tuple(
            make_mechanism(run["name"], {k: value for k, value in run.items() if k not in ("name", "version")})
            for run in self.runs
        )

    @property
    def traits(self) -> Traits:
        """What holds of all; it is `final` only where all are, and refuses what one of them refuses."""
        every = [traits_of(one) for one in self.inner]
        return Traits(
            opens=OPENS[1] if all(one.opens == OPENS[1] for one in every) else OPENS[0],
            order_free=all(one.order_free for one in every),
            nonnegative=any(one.nonnegative for one in every),
        )

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        """Every statistic of every run, and the sums of those that several have."""
        every = [s for s in statistics().values() if s.family in _FAMILIES]
        found: list[Statistic] = []
        by_name: dict[str, list[OfRun]] = {}
        for place, one in self._numbered:
            for statistic in (*every, *own_statistics(one)):
                part = OfRun(place, statistic)
                found.append(part)
                by_name.setdefault(statistic.name, []).append(part)
        sums = (SumOverRuns(tuple(parts)) for parts in by_name.values() if self._have_all(parts))
        return (*found, *sums)

    def releases(self, features: int) -> tuple[Release, ...]:
        """Those of every run, each with the run's number before it."""
        return tuple(
            replace(
                array,
                name=run_prefix(place) + array.name,
                depends_on=_named(place, array.depends_on),
                derived_from=_named(place, array.derived_from),
            )
            for place, one in self._numbered
            for array in one.releases(features)
        )

    def run(self, database: Database, rng: np.random.Generator) -> Observables:
        """Run them one after the other; all draw from `rng`."""
        return Observables(
            {
                run_prefix(place) + name: array
                for place, one in self._numbered
                for name, array in one.run(database, rng).items()
            }
        )

    @property
    def normal_pairs(self) -> bool:
        """Where those of all runs are."""
        return all(isinstance(one, Certifiable) and one.normal_pairs for one in self.inner)

    def uncertified(self, features: int) -> str | None:
        """Why nothing bounds every attack on one of the runs; None where something does on all."""
        for place, one in self._numbered:
            if (why := why_uncertified(one, features)) is not None:
                return f"has run {place}, {one.name}, which {why}"
        return None

    def paired(
        self, base: Database, coins: Callable[[], np.random.Generator], final: tuple[str, ...] | None = None
    ) -> Callable[[Database], float]:
        """Of all announcements of a pair: the noise of each run is its own.

        Distances of normals add up in squares; else somebody who cannot tell by any run cannot tell.
        """
        each, normal = [], self.normal_pairs
        for place, one in self._numbered:
            own = None if final is None else tuple(named_alone({name: name for name in final}, place))
            assert isinstance(one, Certifiable)
            each.append(one.paired(base, partial(_own, coins, place), own))

        def against(other: Database) -> float:
            found = np.array([apart(other) for apart in each])
            return normal_advantage(found) if normal else float(1 - np.prod(1 - found))

        return against

    @property
    def _numbered(self) -> list[tuple[int, Mechanism]]:
        return list(enumerate(self.inner, start=1))

    def _have_all(self, parts: list[OfRun]) -> bool:
        """Whether every run announces what the statistic needs; of no alternatives, which may differ in units."""
        shown = {name for place, one in self._numbered for name in _named(place, opened(one, _MANY))}
        whole = all(part.needs and set(part.needs) <= shown and not part.needs_any for part in parts)
        return whole and len(parts) == len(self.inner)


def _filled(run: Mapping[str, Any], mechanism: Mechanism) -> dict[str, Any]:
    if run.get("version", mechanism.version) != mechanism.version:
        raise SpecError(f"`version` of {mechanism.name} must be {mechanism.version}; got {run['version']!r}.")
    return {"name": run["name"], "version": mechanism.version} | given_fields(mechanism)


def _own(coins: Callable[[], np.random.Generator], place: int) -> np.random.Generator:
    return coins().spawn(place)[-1]


def _named(place: int, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(run_prefix(place) + name for name in names)


def _documents_of(documents: Documents, place: int) -> Documents:
    """The same documents, in databases that this run's mechanism alone is run on."""
    pool = documents.pool
    if pool is None or not isinstance(pool.mechanism, JointMechanism):
        return documents
    one = pool.mechanism.inner[place - 1]
    own = pool.derive(("run", place), lambda: dataclasses.replace(pool, mechanism=one))

    def made() -> Documents:
        taken = documents.taken_from
        whole = None if taken is None else (_documents_of(taken[0], place), taken[1])
        return dataclasses.replace(documents, pool=own, taken_from=whole)

    return documents.derive(own, made)


def _of_run(observables: Observables, place: int) -> Observables:
    """One run's announcement, under its own names; one object for all statistics, which share what they derive."""

    def cut() -> Observables:
        return Observables(named_alone(observables, place))

    found: Observables = observables.derive(("together", place), cut)
    return found
