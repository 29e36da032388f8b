"""What a mechanism is, what its runs announce, and what it guarantees."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, cast, runtime_checkable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.errors import SpecError

if TYPE_CHECKING:
    from ksdp.audit.statistics.contract import Pool
    from ksdp.audit.statistics.linear.releases import Added, Adds
    from ksdp.audit.statistics.linear.system import LinearSystem

Array = NDArray[Any]
Made = TypeVar("Made")
Equations = Callable[["Observables", "Pool", "Added"], "tuple[Adds, LinearSystem]"]
"""What documents add to the noisy sums of a run, and these sums, where databases are made of a pool."""

OPENS = ("every round", "final")
"""What a run may show its parties: what every round announces, or its final output alone."""


@dataclass(frozen=True, slots=True)
class Noise:
    """What is added to every number of a release."""

    law: Literal["none", "normal", "laplace", "unknown"]
    by: Literal["", "each party", "one party", "server"] = ""
    """Who adds it; of a secure sum, `each party` adds its own part."""
    deviation: float | None = None
    """Of all that is added to one number; None where it depends on the run or on the parties' sizes."""


EXACT = Noise("none", deviation=0.0)
UNKNOWN = Noise("unknown")
"""Of a mechanism that does not say: nothing that it releases is taken for exact."""

Form = Literal["moments", "topics", "ratings", "counts", "sums"]
Alignment = Literal["none", "signs", "permutation", "rotation"]


@dataclass(frozen=True, slots=True)
class Terms:
    """How one document x enters a sum over documents."""

    form: Form
    """`moments`: x <x, v> for each row v of `basis`. `topics`: w (x - the other topics' part) and w^2, for the
    coefficients w of x in the topics of `basis`; `ratings`: the same over the entries that x has. `counts`: 1 in
    each column where x has an entry. `sums`: as `equations` says."""
    basis: str = ""
    """The release that holds the rows v, or the topics."""
    centre: str = ""
    """The release that is subtracted from every document first."""
    gamma: float = 0.0
    """Of topics: the regularisers of w, of its size and of its square."""
    delta: float = 0.0
    equations: Equations | None = None
    """What documents add to the noisy sums of a run, and these sums; None where `form` and `basis` say it all."""


@dataclass(frozen=True, slots=True)
class Release:
    """One named array that a mechanism releases, known before any run."""

    name: str
    shape: tuple[int, ...]
    terms: Terms | None = field(default=None, compare=False)
    """How one document enters; None: it is no sum over documents, or the mechanism does not say."""
    noise: Noise = field(default=UNKNOWN, compare=False)
    depends_on: tuple[str, ...] = field(default=(), compare=False)
    """Other releases that its terms depend on."""
    derived_from: tuple[str, ...] = field(default=(), compare=False)
    """Releases that everybody works it out from: it says nothing that they do not say, and noise goes on them."""
    recorded: bool = field(default=True, compare=False)
    """Whether `run` returns it. Of what it does not return an audit sees what is derived from it, or nothing."""
    final: bool = field(default=False, compare=False)
    """Part of the final output: what somebody gets who is given the result and took no part."""
    per_round: bool = field(default=False, compare=False)
    """Whether the first axis is the round."""
    early: bool = field(default=False, compare=False)
    """Raw sums, or of rounds before the last: large, and kept only where `store.observables` is `all`."""
    hidden_rounds: bool = field(default=False, compare=False)
    """Whether it holds several rounds of a party on its own documents, without noise between them."""
    exact_only: bool = field(default=False, compare=False)
    """Whether it cannot be worked out once there is noise on what it is derived from."""
    alignment: Alignment = field(default="none", compare=False)
    """What may differ between two runs that release the same: the signs of its rows (along the last axis), their
    order, or any rotation of them."""
    learner: Literal["", "small", "always"] = field(default="", compare=False)
    """Whether only a learner reads it well: where it is few numbers, or whatever its size."""
    in_all: int = field(default=0, compare=False)
    """Where these are of the first rounds: different exact numbers of their kind that all rounds open."""
    dtype: str = ""
    """NumPy's name of its type, of which every run's array must be; empty: float64."""
    minus_zeros: bool = field(default=False, compare=False)
    """Whether it may hold -0.0, whose sign is then looked at."""


@dataclass(frozen=True, eq=False)
class Database:
    """The parties' matrices of one run; the victim's, which holds the audited document, comes first."""

    parties: tuple[sp.csr_array, ...]
    """One canonical float64 CSR (documents by features) a party."""
    coalition: frozenset[int] = field(default=frozenset())
    """Indices of the parties that pool what they see; never the victim (index 0)."""
    held: NDArray[np.int64] | None = None
    """Rows of the corpus that were stacked into the victim's matrix, in its order; None where there is no corpus.
    For the audit's canaries: no mechanism reads it."""
    chosen: tuple[NDArray[np.int64], int] | None = None
    """Which columns these are of how many candidates, where fewer are left: what is drawn in public for a column
    is drawn for all candidates, so that it is the same whichever are left."""

    def __post_init__(self) -> None:
        if not self.parties:
            raise ValueError("a database needs at least one party.")
        if not self.coalition <= set(range(1, len(self.parties))):
            raise ValueError(f"`coalition` must name parties other than the victim; got {sorted(self.coalition)}.")

    @property
    def outside(self) -> tuple[int, ...]:
        """Indices of the parties whose shares the coalition cannot subtract."""
        return tuple(i for i in range(len(self.parties)) if i not in self.coalition)

    @property
    def rows(self) -> int:
        """Documents of all parties together."""
        return sum(p.shape[0] for p in self.parties)


class Observables(Mapping[str, Array]):
    """What a coalition sees of one run: named arrays, and what is derived from them, computed once a run."""

    __slots__ = ("_arrays", "_derived")

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._arrays = dict(arrays)
        self._derived: dict[Hashable, Any] = {}

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name]

    def __contains__(self, name: object) -> bool:
        return name in self._arrays  # `Mapping` tries and catches, and this is asked hundreds of times a run

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def derive(self, key: Hashable, compute: Callable[[], Made]) -> Made:
        """Return what `compute` gives, computed once for this run.

        Statistics of one family share costly intermediate results this way (the product of all documents
        with the basis, say). `key` must name everything the result depends on besides the run itself.
        """
        if key not in self._derived:
            self._derived[key] = compute()
        return cast(Made, self._derived[key])


@runtime_checkable
class Mechanism(Protocol):
    """A mechanism: a frozen dataclass of parameters with a `run`.

    It may also have, as attributes, `traits` (`Traits`); a `guarantee` (`Guarantee`); and `statistics` of its own,
    a tuple, tried besides those that the spec names. An audit that has not looked at all that a run opens clears
    nothing.

    `name` and `version` never change meaning: a change of what a run computes is a new version, and cached
    runs of another version are never reused.
    """

    @property
    def name(self) -> str:
        """Name in specs and reports."""
        ...

    @property
    def version(self) -> int:
        """Version of what a run computes."""
        ...

    def releases(self, features: int) -> tuple[Release, ...]:
        """All that a run shows its parties, for a corpus of `features` columns."""
        ...

    def run(self, database: Database, rng: np.random.Generator) -> Observables:
        """Run once, and return what is recorded; `rng` is the mechanism's own randomness, not the database's."""
        ...


@dataclass(frozen=True, slots=True)
class Traits:
    """What a mechanism says of itself, as its attribute `traits`."""

    opens: str = OPENS[0]
    """What a run shows its parties, one of `OPENS`."""
    noise_free: bool = False
    """Nothing is random but the database."""
    order_free: bool = False
    """What it announces has the same law whichever order documents stand in, so that copies are exchangeable."""
    nonnegative: bool = False
    """It refuses negative entries."""
    weighted: bool = False
    """Entries that are not stored are unknown, not zero."""
    rank: int | None = None
    """Topics or directions that it learns, where it learns any."""


@runtime_checkable
class HasTraits(Protocol):
    """A mechanism that says something of itself."""

    @property
    def traits(self) -> Traits:
        """What holds of it."""
        ...


def traits_of(mechanism: object) -> Traits:
    """What the mechanism says of itself."""
    return mechanism.traits if isinstance(mechanism, HasTraits) else Traits()


@runtime_checkable
class Wrapper(Protocol):
    """A mechanism that runs another one, or several."""

    @property
    def inner(self) -> Mechanism | tuple[Mechanism, ...]:
        """What it runs."""
        ...


def inner_of(mechanism: object) -> tuple[Mechanism, ...]:
    """The mechanisms that this one runs; none where it runs by itself."""
    inner = mechanism.inner if isinstance(mechanism, Wrapper) else ()
    return inner if isinstance(inner, tuple) else (inner,)


def exact_throughout(mechanism: object) -> bool:
    """Whether neither the mechanism nor one that it runs adds noise."""
    return all(traits_of(one).noise_free for one in (mechanism, *inner_of(mechanism)))


def moments_alone(mechanism: Mechanism, features: int) -> bool:
    """Whether all sums that it releases are products with one symmetric matrix, X^T X."""
    return {a.terms.form for a in mechanism.releases(features) if a.terms} == {"moments"}


@runtime_checkable
class Derives(Protocol):
    """A mechanism some of whose recorded arrays are derived from other releases (`Release.derived_from`)."""

    def release(self, database: Database, rng: np.random.Generator) -> Observables:
        """Run once, and return all that is not derived."""
        ...

    def derive(self, released: Observables) -> Observables:
        """What is recorded, from what was released, with or without noise."""
        ...


Kind = Literal["none", "KSDP", "(epsilon, delta)"]

SAMPLERS = {
    "discrete": "OpenDP's exact integer noise, from the operating system's randomness",
    "fast": "NumPy's noise from the run's seed: a simulation, it protects nobody",
}
"""Of noise, by name, with what a report says of each."""


@dataclass(frozen=True)
class Guarantee:
    """What is promised, about what, and whom one must trust for it.

    `KSDP` means measured, not promised: an audit says how much each document gives away, under the statistics that
    were tried. `(epsilon, delta)` is differential privacy.
    """

    kind: Kind
    unit: str = ""
    """What may change: a record, replaced by another, or an entry of a matrix."""
    trust: str = ""
    """From whom it protects, and who must be honest."""
    source: str = ""
    epsilon: float | None = None
    """None where it depends on the parties' sizes, or nothing is promised."""
    delta: float | None = None
    sampler: str = ""
    """Empty: no noise."""
    sound: bool = True
    """False: a claim that is printed in a paper and does not hold; `notes` say why."""
    notes: str = ""

    def as_json(self) -> dict[str, Any]:
        """For machines; `protects` is true only where noise is drawn by the vetted sampler."""
        sampler = {"name": self.sampler, "is": SAMPLERS[self.sampler]} if self.sampler else None
        protects = self.kind == "(epsilon, delta)" and self.sound and self.sampler == "discrete"
        return {
            "kind": self.kind,
            "unit": self.unit,
            "trust": self.trust,
            "source": self.source,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "sampler": sampler,
            "sound": self.sound,
            "protects": protects,
            "notes": self.notes,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Guarantee:
        """What `as_json` gave."""
        sampler = stored["sampler"]["name"] if stored["sampler"] else ""
        return cls(**{f.name: stored[f.name] for f in fields(cls) if f.name != "sampler"}, sampler=sampler)


NOTHING = Guarantee("none", notes="No claim is stated.")
"""Of mechanisms that state none."""


def measured(source: str, notes: str = "") -> Guarantee:
    """KSDP: no noise is added for privacy; what is given away is measured, document by document."""
    return Guarantee(
        "KSDP",
        unit="one document, against the distribution that the others come from",
        trust="the coalition of the audit; the secure sums",
        source=source,
        notes=notes or "A measurement on the audited corpus, under the statistics tried; not a promise.",
    )


@runtime_checkable
class Promising(Protocol):
    """A mechanism that promises something."""

    @property
    def guarantee(self) -> Guarantee:
        """What is promised."""
        ...


def guarantee_of(mechanism: object) -> Guarantee:
    """The mechanism's `guarantee`, or `NOTHING`."""
    promise = mechanism.guarantee if isinstance(mechanism, Promising) else NOTHING
    return promise if isinstance(promise, Guarantee) else NOTHING


def as_it_runs(mechanism: Made) -> Made:
    """The mechanism with the vetted sampler, which real parties draw from whatever a spec simulates with."""
    return with_sampler(mechanism, "discrete")


def with_sampler(mechanism: Made, sampler: str) -> Made:
    """The same mechanism with a sampler of `SAMPLERS`; as it is where it has no choice of one."""
    if not is_dataclass(mechanism) or isinstance(mechanism, type):
        return mechanism
    if "sampler" not in {f.name for f in fields(mechanism) if f.init}:
        return mechanism
    changed: dict[str, Any] = {"sampler": sampler}
    return cast(Made, replace(mechanism, **changed))


_Value = TypeVar("_Value")


@dataclass(frozen=True)
class ReleaseSchema:
    """What a run shows a party, what statistics read of it, and what is stored."""

    recorded: tuple[Release, ...]
    opened: tuple[str, ...]
    """Names of everything that a run shows the party whose view this is."""
    seen: tuple[str, ...]
    """Names of those that statistics may read: all that are recorded, or the final output."""
    kept: tuple[Release, ...]
    """Those that go to the store, where any do."""

    @property
    def read(self) -> tuple[Release, ...]:
        """Those that statistics may read."""
        return tuple(array for array in self.recorded if array.name in self.seen)

    @property
    def numbers(self) -> int:
        """How many numbers of a run these hold."""
        return sum(math.prod(array.shape) for array in self.read)


def release_schema(
    mechanism: Mechanism, features: int, *, sees: Literal["all", "final"], keeps: str
) -> ReleaseSchema:
    """What a mechanism releases, as one party sees it and as a store keeps it.

    Parameters
    ----------
    sees : {"all", "final"}; what the party whose view is audited sees
    keeps : `store.observables` of the spec
    """
    try:
        found = tuple(mechanism.releases(features))
    except TypeError as error:
        raise SpecError(f"`releases` of {mechanism.name!r} must give a tuple of `Release`.") from error
    wrong = [type(array).__name__ for array in found if not isinstance(array, Release)]
    if wrong or not any(array.recorded for array in found):
        got = f"one holds a {wrong[0]}" if wrong else "none is recorded"
        raise SpecError(f"`releases` of {mechanism.name!r} must give a tuple of `Release`; {got}.")
    arrays = tuple(array for array in found if array.recorded)
    shown = final_output(mechanism, features) if sees == "final" else opened(mechanism, features)
    names = {array.name for array in arrays}
    return ReleaseSchema(arrays, shown, tuple(name for name in shown if name in names), kept_of(arrays, keeps))


def recorded(mechanism: Mechanism, features: int) -> tuple[Release, ...]:
    """What `run` of a mechanism returns."""
    return tuple(array for array in mechanism.releases(features) if array.recorded)


def released(mechanism: Mechanism, features: int) -> tuple[Release, ...]:
    """What everything else is derived from: noise goes on these."""
    if not isinstance(mechanism, Derives):
        return recorded(mechanism, features)
    every = mechanism.releases(features)
    bases = _bases(every)
    return tuple(a for a in every if not a.derived_from and (a.recorded or a.name in bases))


def _bases(every: Iterable[Release]) -> set[str]:
    """Names of what recorded arrays are derived from."""
    return {name for array in every if array.recorded for name in array.derived_from}


def final_output(mechanism: Mechanism, features: int) -> tuple[str, ...]:
    """Names of the releases that are a mechanism's final output."""
    final = tuple(array.name for array in recorded(mechanism, features) if array.final)
    if not final:
        raise SpecError(f"{mechanism.name} announces no final output (`final`), which is to be audited by itself.")
    return final


def opened(mechanism: Mechanism, features: int) -> tuple[str, ...]:
    """Names of everything that a run shows its parties; recorded releases stand for what they derive from."""
    every = mechanism.releases(features)
    bases = _bases(every)
    return tuple(array.name for array in every if array.recorded or array.name not in bases)


def run_prefix(place: int) -> str:
    """What stands before the names of arrays of one of several runs (`mechanisms.joint`), from 1."""
    return f"run{place}_"


@runtime_checkable
class Certifiable(Protocol):
    """A mechanism whose announcement has a density that is known, given the database."""

    @property
    def normal_pairs(self) -> bool:
        """Whether what `paired` says is the total variation of two normals of one covariance."""
        ...

    def uncertified(self, features: int) -> str | None:
        """Why no bound on every attack is known all the same, as the end of a sentence; None where one is."""
        ...

    def paired(
        self, base: Database, coins: Callable[[], np.random.Generator], final: tuple[str, ...] | None = None
    ) -> Callable[[Database], float]:
        """Of another database: a number in [0, 1] whose mean, over `coins`, is at least the total variation of the
        laws of what is announced on the two.
        """
        ...


def why_uncertified(mechanism: Mechanism, features: int) -> str | None:
    """Why nothing bounds every attack on a mechanism, as the end of a sentence; None where pairs of runs do."""
    if isinstance(mechanism, Certifiable):
        return mechanism.uncertified(features)
    return "adds no noise of a density that is known"


def named_alone(arrays: Mapping[str, _Value], place: int) -> dict[str, _Value]:
    """What one of several runs shows, under the names that it has alone."""
    before = run_prefix(place)
    return {name.removeprefix(before): arrays[name] for name in arrays if name.startswith(before)}


def prefixed_runs(mechanism: Mechanism) -> list[tuple[str, Mechanism]]:
    """The mechanism, or all that run together, with what stands before the names of each one's arrays."""
    runs = inner_of(mechanism)
    if len(runs) < 2:
        return [("", mechanism)]
    return [(run_prefix(place), one) for place, one in enumerate(runs, start=1)]


def kept_of(announced: tuple[Release, ...], observables: str) -> tuple[Release, ...]:
    """What a store keeps of a run: all of it, or what the last round announced."""
    return announced if observables == "all" else tuple(a for a in announced if not a.early)
