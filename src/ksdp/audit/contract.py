"""The contract of mechanisms: all that an author writes; statistics are in `ksdp.audit.statistic`.

A **mechanism** (`Mechanism`) is a frozen dataclass of parameters: `releases` names the arrays that a run shows its
parties (`Release`), `run` makes them of a `Database`. What it says of itself beyond that are attributes: `traits`
(`Traits`), `guarantee` (`Guarantee`) and `statistics` of its own. `Derives` and `Wrapper` are for mechanisms that
derive arrays from others, or run another mechanism.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, Protocol, TypeVar, cast, runtime_checkable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Array = NDArray[Any]
Made = TypeVar("Made")
Equations = Callable[..., tuple[object, object]]
"""Contributions of documents to the noisy sums of a run, and these sums (`statistics.linear.releases.Solvable`).

It is given what a run released, the pool of its databases, and the variance of what `noisy` added."""
OPENS = ("every round", "final")
"""Views of a party: all that every round announces, or the final output alone."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Noise that is added to every number of a release."""

    law: Literal["none", "normal", "laplace", "unknown"]
    by: Literal["", "each party", "one party", "server"] = ""
    """The party that adds it; in a secure sum, `each party` adds its own part."""
    deviation: float | None = None
    """Standard deviation of the total noise per entry; None if it varies with the run or the parties' sizes."""


EXACT = Noise("none", deviation=0.0)
UNKNOWN = Noise("unknown")
"""For a mechanism that does not say: nothing that it releases is taken as exact."""
Form = Literal["moments", "topics", "ratings", "sums", "steps"]
Alignment = Literal["none", "signs", "permutation", "rotation"]


@dataclass(frozen=True, slots=True)
class Terms:
    """How one document x enters a sum over documents."""

    form: Form
    """`moments`: x <x, v> for each row v of `basis`. `topics`: w (x - the other topics' part) and w^2, for the
    coefficients w of x in the topics of `basis`; `ratings`: the same over the entries that x has. `sums`: as
    `equations` says. `steps`: in a way that no statistic follows."""
    basis: str = ""
    """The release that holds the rows v, or the topics; a basis that names itself holds eigenvectors."""
    centre: str = ""
    """The mean, which is subtracted from every document first: a release, or a name of what stays hidden."""
    gamma: float = 0.0
    """Regularisers of w for topics: `gamma` of its size, `delta` of its square."""
    delta: float = 0.0
    equations: Equations | None = None
    """Contributions of documents to the noisy sums, and these sums; None if `form` and `basis` say it all."""
    depends_on: tuple[str, ...] = ()
    """Other releases that the `equations` read."""
    numbers: int = 0
    """Different exact numbers of this form that all rounds open; 0: as many as the release has."""
    exact_only: bool = False
    """Whether this holds only where nothing that the release is derived from has noise."""
    learner: Literal["", "small", "always"] = ""
    """Whether only a learner reads the release well: where it is few numbers, or whatever its size."""


@dataclass(frozen=True, slots=True)
class Release:
    """One named array that a mechanism releases, known before any run."""

    name: str
    shape: tuple[int, ...]
    """Where there are several rounds they are the first axis."""
    terms: Terms | None = field(default=None, compare=False)
    """How one document enters; None: it is no sum over documents, or the mechanism does not say."""
    noise: Noise = field(default=UNKNOWN, compare=False)
    derived_from: tuple[str, ...] = field(default=(), compare=False)
    """Releases that everybody works it out from: it says nothing that they do not say, and noise goes on them."""
    recorded: bool = field(default=True, compare=False)
    """Whether `run` returns it. Of what it does not return an audit sees what is derived from it, or nothing."""
    final: bool = field(default=False, compare=False)
    """Part of the final output: what somebody gets who is given the result and took no part."""
    early: bool = field(default=False, compare=False)
    """Raw sums, or of rounds before the last: large, and kept only where `store.observables` is `all`."""
    alignment: Alignment = field(default="none", compare=False)
    """Freedom between two runs that release the same: signs of its rows (along the last axis), their order, or any
    rotation of them."""
    dtype: str = ""
    """NumPy's name of its type, of which every run's array must be; empty: float64."""

    @property
    def numbers(self) -> int:
        """Numbers of its kind that all rounds open; at least those that it has."""
        return max(self.terms.numbers if self.terms else 0, math.prod(self.shape))


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
    """Named arrays that a coalition sees of one run, and results derived from them, computed once a run."""

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

    @property
    def version(self) -> int:
        """Version of what a run computes."""

    def releases(self, features: int) -> tuple[Release, ...]:
        """All that a run shows its parties, for a corpus of `features` columns."""

    def run(self, database: Database, rng: np.random.Generator) -> Observables:
        """Run once, and return what is recorded; `rng` is the mechanism's own randomness, not the database's.

        A mechanism that is not part of ksdp adds noise by `ksdp.noise`. Nobody is clear of one with other chance.
        """


@dataclass(frozen=True, slots=True)
class Traits:
    """Properties of a mechanism, as its attribute `traits`."""

    opens: str = OPENS[0]
    """Whether a run shows every round or its final output alone, one of `OPENS`."""
    noise_free: bool = False
    """Nothing is random but the database."""
    order_free: bool = False
    """Whether the order of the documents does not change the law of the releases: copies are exchangeable."""
    nonnegative: bool = False
    """It refuses negative entries."""
    weighted: bool = False
    """Entries that are not stored are unknown, not zero."""
    rank: int | None = None
    """Topics or directions that it learns, where it learns any."""
    counts: bool = False
    """Its rows are counts, which it weighs by tf-idf itself."""
    tells_rows: bool = False
    """A run tells everybody how many documents each party enters, or all parties together."""


@runtime_checkable
class HasTraits(Protocol):
    """A mechanism that says something of itself."""

    @property
    def traits(self) -> Traits:
        """Properties of this mechanism."""


def traits_of(mechanism: object) -> Traits:
    """Return the properties of a mechanism; the defaults if it states none."""
    return mechanism.traits if isinstance(mechanism, HasTraits) else Traits()


Kind = Literal["none", "KSDP", "(epsilon, delta)"]
SAMPLERS = {
    "discrete": "OpenDP's exact integer noise, from the operating system's randomness",
    "fast": "NumPy's noise from the run's seed, a simulation, which `ksdp party` refuses in a real run",
}
"""Samplers of noise by name, each with the words for a report."""


@dataclass(frozen=True)
class Guarantee:
    """The promise of a mechanism, its unit, and whom one must trust for it.

    `KSDP` means measured, not promised: an audit says how much each document gives away, under the statistics that
    were tried. `(epsilon, delta)` is differential privacy.
    """

    kind: Kind
    unit: str = ""
    """The unit that may change: a record, replaced by another, or an entry of a matrix."""
    trust: str = ""
    """Parties that must be honest, then those from whom it protects, as behind "Whom one must trust"."""
    source: str = ""
    epsilon: float | None = None
    """None where it depends on the parties' sizes, or nothing is promised."""
    delta: float | None = None
    sampler: str = ""
    """Empty: no noise."""
    sound: bool = True
    """False: a claim that is printed in a paper and does not hold; `notes` say why."""
    notes: str = ""
    advantage: float | None = None
    """Advantage that no attack on one unit exceeds, whatever the attacker knows; None without such a bound."""

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
            "advantage": self.advantage,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Guarantee:
        """Return the guarantee that `as_json` wrote."""
        sampler = stored["sampler"]["name"] if stored["sampler"] else ""
        return cls(**{f.name: stored[f.name] for f in fields(cls) if f.name != "sampler"}, sampler=sampler)


NOTHING = Guarantee("none", notes="No claim is stated.")
"""For mechanisms that state no claim."""


def measured(source: str, notes: str = "") -> Guarantee:
    """KSDP: no noise is added for privacy; what is given away is measured, document by document."""
    return Guarantee(
        "KSDP",
        unit="one document, against the distribution that the others come from",
        trust="the secure sums; measured is what the coalition of the audit sees",
        source=source,
        notes=notes or "A measurement on the audited corpus, under the statistics tried; not a promise.",
    )


@runtime_checkable
class Promising(Protocol):
    """A mechanism that promises something."""

    @property
    def guarantee(self) -> Guarantee:
        """The promise of this mechanism."""


def guarantee_of(mechanism: object) -> Guarantee:
    """The mechanism's `guarantee`, or `NOTHING`."""
    promise = mechanism.guarantee if isinstance(mechanism, Promising) else NOTHING
    return promise if isinstance(promise, Guarantee) else NOTHING


@runtime_checkable
class Wrapper(Protocol):
    """A mechanism that runs another one."""

    @property
    def inner(self) -> Mechanism:
        """The mechanism that it runs."""


@runtime_checkable
class Derives(Protocol):
    """A mechanism some of whose recorded arrays are derived from other releases (`Release.derived_from`)."""

    def release(self, database: Database, rng: np.random.Generator) -> Observables:
        """Run once, and return all that is not derived."""

    def derive(self, released: Observables) -> Observables:
        """Return the recorded arrays, worked out from the released ones, with or without noise."""
