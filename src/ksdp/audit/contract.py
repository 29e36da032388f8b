"""What an author writes: the contract of mechanisms and of statistics, whole.

A **mechanism** (`Mechanism`) is a frozen dataclass of parameters: `releases` names the arrays that a run shows its
parties (`Release`), `run` makes them of a `Database`. What it says of itself beyond that are attributes: `traits`
(`Traits`), `guarantee` (`Guarantee`), `statistics` of its own; and the protocols after `Guarantee`, each for what
it allows: a claim of differential privacy that can be tested, a bound of every attack, arrays derived from others.

A **statistic** (`Statistic`) is a function of (observables, document) to a real number: what an adversary would
look at. It is evaluated for many `Documents` at once, one or more calls a run.

A document's value depends on the run and on the document, bit for bit: never on which others are evaluated beside
it, or in which place. An audit may measure a document beside others in the runs that held it than in those that
did not, and a difference in the last bit would then look like a leak. (BLAS rounds a row by its place, and so may
a sum that casts; `products.rows_times` and `products.row_squares` do not.)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, cast, runtime_checkable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.numeric.array_types import Vector
from ksdp.audit.numeric.sparse_rows import take_rows

if TYPE_CHECKING:
    from ksdp.audit.mechanisms.planted import ArrayLeak

Array = NDArray[Any]
Made = TypeVar("Made")
Equations = Callable[["Observables", "Pool", Callable[[str, Vector], float]], tuple[object, object]]
"""What documents add to the noisy sums of a run, and these sums (`statistics.linear.releases.Solvable`).

It is given what a run released, the pool of its databases, and the variance of what `noisy` added."""
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
Form = Literal["moments", "topics", "ratings", "sums"]
Alignment = Literal["none", "signs", "permutation", "rotation"]


@dataclass(frozen=True, slots=True)
class Terms:
    """How one document x enters a sum over documents."""

    form: Form
    """`moments`: x <x, v> for each row v of `basis`. `topics`: w (x - the other topics' part) and w^2, for the
    coefficients w of x in the topics of `basis`; `ratings`: the same over the entries that x has. `sums`: as
    `equations` says."""
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
    absence: Literal["", "sum", "factor"] = field(default="", compare=False)
    """How its last axis shows a feature that no document of the run has, of non-negative ones: by exact zeros. A
    `sum` has no others; a leading `factor` has those of documents that hang together with few (`absence`)."""
    dtype: str = ""
    """NumPy's name of its type, of which every run's array must be; empty: float64."""


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


def traits_of(mechanism: object) -> Traits:
    """What the mechanism says of itself."""
    return mechanism.traits if isinstance(mechanism, HasTraits) else Traits()


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


def guarantee_of(mechanism: object) -> Guarantee:
    """The mechanism's `guarantee`, or `NOTHING`."""
    promise = mechanism.guarantee if isinstance(mechanism, Promising) else NOTHING
    return promise if isinstance(promise, Guarantee) else NOTHING


@runtime_checkable
class Wrapper(Protocol):
    """A mechanism that runs another one."""

    @property
    def inner(self) -> Mechanism:
        """What it runs."""


@runtime_checkable
class Derives(Protocol):
    """A mechanism some of whose recorded arrays are derived from other releases (`Release.derived_from`)."""

    def release(self, database: Database, rng: np.random.Generator) -> Observables:
        """Run once, and return all that is not derived."""

    def derive(self, released: Observables) -> Observables:
        """What is recorded, from what was released, with or without noise."""


Transcript = TypeVar("Transcript")
"""Everything that one run announces."""


@dataclass(frozen=True)
class PrivacyCost:
    """What a mechanism's releases cost together, by one way of counting."""

    way: str
    epsilon: float
    delta: float


@runtime_checkable
class Claims(Protocol[Transcript]):
    """A mechanism that claims differential privacy and can be run on its own worst case."""

    @property
    def name(self) -> str:
        """In specs and reports."""

    @property
    def guarantee(self) -> Guarantee:
        """What is promised."""

    @property
    def gaussian(self) -> bool:
        """Whether every release is a sum with normal noise."""

    def claim(self, sizes: Sequence[int], features: int) -> tuple[float, float]:
        """The (epsilon, delta) that is claimed for parties of these sizes."""

    def counts(self, sizes: Sequence[int], features: int) -> tuple[PrivacyCost, ...]:
        """The epsilon of all releases together, by several ways of counting."""

    def neighbours(self) -> tuple[Database, Database]:
        """Two databases that differ in one record, for which the claim is as tight as it gets."""

    def transcript(self, database: Database, rng: np.random.Generator) -> Transcript:
        """Everything that one run announces."""

    def log_likelihood_ratio(self, transcript: Transcript, pair: tuple[Database, Database]) -> float:
        """ln of P(transcript | first database) / P(transcript | second), by what `transcript` returned."""


@runtime_checkable
class Certifiable(Protocol):
    """A mechanism whose announcement has a density that is known, given the database."""

    def uncertified(self, features: int) -> str | None:
        """Why no bound on every attack is known all the same, as the end of a sentence; None where one is."""

    def paired(
        self, base: Database, coins: Callable[[], np.random.Generator], final: tuple[str, ...] | None = None
    ) -> Callable[[Database], float]:
        """Of another database: a number in [0, 1] whose mean, over `coins`, is at least the total variation of the
        laws of what is announced on the two.
        """


@runtime_checkable
class NoisyMoments(Protocol):
    """A mechanism that announces a sum of x x^T, or a part of it, with noise of public size."""

    def bounded(self, rows: sp.csr_array) -> sp.csr_array:
        """Documents as they enter the sum."""

    def moment_noise(self, size: int, features: int, parties: int) -> float:
        """The deviation of the noise in each number of the isometric triangle, for a victim of so many rows,
        where so many parties' noise is not known.
        """


class _Remembers:
    """What is worked out from a value, kept as long as the value is."""

    def derive(self, key: Hashable, compute: Callable[[], Made]) -> Made:
        """Return what `compute` gives, computed once for this value and key."""
        known = self.__dict__.setdefault("_derived", {})
        if key not in known:
            known[key] = compute()
        return cast(Made, known[key])


@dataclass(frozen=True, eq=False)
class Pool(_Remembers):
    """What the databases of an audit are made of: an adversary who can run the mechanism knows it."""

    drawn: sp.csr_array
    """Documents that the victim's part is drawn from, shape (n, n_features), canonical."""
    share: float = 0.5
    """Probability that a run holds one of them."""
    fixed: sp.csr_array | None = None
    """Documents of other parties, the same in every run (or half of them, where these are drawn)."""
    mechanism: Mechanism | None = None
    """What runs on them; None where nobody can run it."""
    fixed_share: float = 1.0
    """Probability that a run holds one of the `fixed`."""
    colluding: bool = False
    """Whether the `fixed` are the coalition's, who subtract their own share of a sum."""
    group: NDArray[np.int64] | None = None
    """Number of the group of each of `drawn`, from 0, shape (n,): in or out together; None: each by itself."""
    honest: sp.csr_array | None = None
    """Fixed documents of honest parties, only if a coalition also owns some; they remain in the sums."""
    coalition: sp.csr_array | None = None
    """The coalition's, where there are `honest` ones."""
    leaks: tuple[ArrayLeak, ...] = ()
    """Planted in what runs announce; their units are places in `drawn`, or numbers of groups."""
    corpus_rows: NDArray[np.int64] | None = None
    """Which rows of the corpus `drawn` are; None: all."""

    @property
    def subtracted(self) -> sp.csr_array | None:
        """Documents that the coalition subtracts from a sum, as they are its own."""
        return (self.fixed if self.coalition is None else self.coalition) if self.colluding else None

    @property
    def remaining(self) -> sp.csr_array | None:
        """Others' documents that stay in a sum that the coalition has subtracted its own from."""
        return self.honest if self.colluding else self.fixed

    @property
    def others(self) -> tuple[sp.csr_array, ...]:
        """Documents of other parties, party by party, the coalition's last."""
        if self.honest is not None and self.coalition is not None:
            return self.honest, self.coalition
        return () if self.fixed is None else (self.fixed,)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows of the victim's part in a run, and of others', where there are any."""
        parts = [(self.drawn, self.share), *((rows, self.fixed_share) for rows in self.others)]
        return tuple(max(round(share * rows.shape[0]), 1) for rows, share in parts)

    @property
    def units(self) -> int:
        """Documents that the victim's part is drawn from, or groups."""
        return self.drawn.shape[0] if self.group is None else int(self.group.max()) + 1

    @property
    def units_held(self) -> int:
        """How many of them a run holds."""
        return max(round(self.share * self.units), 1)

    def places_of(self, units: NDArray[np.int64]) -> NDArray[np.int64]:
        """Places in `drawn` of documents, or of all that some groups have."""
        return np.sort(units) if self.group is None else np.flatnonzero(np.isin(self.group, units))

    def one_choice(self, rng: np.random.Generator) -> tuple[NDArray[np.int64], tuple[sp.csr_array, ...]]:
        """Places in `drawn` of one database's documents, and the rows of all its parts, the victim's first."""
        parts = (self.drawn, *self.others)
        chosen = [
            np.sort(rng.choice(rows.shape[0], size, replace=False))
            for rows, size in zip(parts, self.sizes, strict=True)
        ]
        if self.group is not None:  # as many groups as a run holds, with all of their documents
            chosen[0] = self.places_of(rng.choice(self.units, self.units_held, replace=False))
        return chosen[0], tuple(take_rows(rows, places) for rows, places in zip(parts, chosen, strict=True))

    def one_draw(self, rng: np.random.Generator) -> tuple[sp.csr_array, ...]:
        """The rows of one database: of the victim's part, and of others', where there are any."""
        return self.one_choice(rng)[1]


@dataclass(frozen=True, eq=False)
class UsedColumns:
    """Columns in which some documents have entries."""

    used: NDArray[np.int64]
    places: NDArray[np.int32]
    """Of each column among these, shape (n_features,); 0 of the others."""


@dataclass(frozen=True, eq=False)
class Documents(_Remembers):
    """The audited documents (or groups), as the adversary who suspects them knows them."""

    matrix: sp.csr_array
    """float64 CSR of shape (n_documents, n_features), canonical."""
    background: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """What the adversary knows besides: `adversary_sigma` (its own singular values), `victim_rows`, ..."""
    rows: Documents | None = None
    """Where a row of `matrix` is a group: the documents of all groups, group after group."""
    starts: NDArray[np.int64] | None = None
    """Where each group begins in `rows`, and the end, shape (n_groups + 1,)."""
    pool: Pool | None = None
    """What databases are drawn from; None: these."""
    taken_from: tuple[Documents, NDArray[np.int64]] | None = None
    """Others that these are some of, and their places there; see `of_each`."""

    def at(self, places: NDArray[np.int64]) -> Documents:
        """Some of the documents, in this order, of the same pool. Not for groups."""
        matrix = take_rows(self.matrix, places)
        return Documents(matrix, self.background, pool=self.source_pool, taken_from=(self, places))

    def of_each(self, key: Hashable, compute: Callable[[Documents], NDArray[Any]]) -> NDArray[Any]:
        """What `compute` says of each document (first axis), once for all that these were taken from.

        For what depends on nothing but the document: not on a run, nor on who stands beside it.
        """
        if self.taken_from is None:
            return self.derive(key, lambda: compute(self))
        whole, places = self.taken_from
        return self.derive(key, lambda: whole.of_each(key, compute)[places])

    @cached_property
    def columns(self) -> UsedColumns | None:
        """What a pass over these, or over others of those they were taken from, reads; None: most columns."""
        if self.taken_from is not None:
            return self.taken_from[0].columns
        features = self.matrix.shape[1]
        is_used = np.zeros(features, np.bool_)
        is_used[self.matrix.indices] = True
        used = np.flatnonzero(is_used)
        if 2 * len(used) > features:
            return None
        places = np.zeros(features, np.int32)
        places[used] = np.arange(len(used))
        return UsedColumns(used, places)

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    @cached_property
    def source_pool(self) -> Pool:
        """What databases are drawn from; where nobody says, these."""
        return Pool(self.matrix) if self.pool is None else self.pool

    @cached_property
    def squared_norms(self) -> Vector:
        """Squared Euclidean norm of each document, shape (n_documents,)."""
        return self.of_each("squared norms", _squared_norms)


def _squared_norms(documents: Documents) -> Vector:
    matrix = documents.matrix
    return np.asarray(matrix.multiply(matrix).sum(axis=1), dtype=np.float64).ravel()


@runtime_checkable
class Statistic(Protocol):
    """What audits take for a statistic: a frozen dataclass with an `evaluate`; ours are rows of tables.

    One may also have attributes named as those of `StatisticTraits`.

    Versions never change meaning, and results of different versions are never compared.
    """

    @property
    def name(self) -> str:
        """Name in specs and reports."""

    @property
    def version(self) -> int:
        """Version of what `evaluate` computes."""

    @property
    def family(self) -> str:
        """Family in specs."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Observables it reads; where a mechanism does not announce them it is skipped, and the report says so."""

    def evaluate(self, observables: Observables, documents: Documents) -> Vector:
        """One number a document, shape (n_documents,)."""


@runtime_checkable
class Explained(Protocol):
    """A statistic with a sentence for people."""

    @property
    def sentence(self) -> str:
        """What somebody looks at who uses it, in one plain sentence."""


def sentence_of(statistic: Statistic) -> str:
    """The sentence that explains a statistic; empty where its author wrote none."""
    return statistic.sentence if isinstance(statistic, Explained) else ""


@dataclass(frozen=True, kw_only=True)
class StatisticTraits:
    """What a statistic may say of itself, by attributes of these names, and what holds where it has none."""

    needs_any: tuple[str, ...] = ()
    """It reads the first of these that the mechanism announces; one at least must be there."""
    reads: tuple[str, ...] = ()
    """Further arrays, where they are announced."""
    needs_background: tuple[str, ...] = ()
    """What it reads of the adversary's background."""
    weighs: bool = False
    """It reads every number, each by what a document would move it: an attack on the raw numbers, as norms, counts
    and energies are not. Without one of them nobody is called clear (`coverage`)."""
    ask: Callable[[Observables, Documents], None] | None = None
    """Called before any is evaluated, to say what it will look for in a pass over the documents that several share
    (`products.over_entries`). It changes no value."""
    asks_for: Callable[[Mapping[str, tuple[int, ...]], int], str] | None = None
    """What a run that announces arrays of these shapes, of so many documents, lacks for it to be worth its time.
    In words, empty where nothing. Audits leave it out then, unless it is named."""


@dataclass(frozen=True)
class TableStatistic(StatisticTraits):
    """A statistic as a row of its family's table."""

    name: str
    family: str
    score: Callable[[Observables, Documents], Vector]
    """One number a document, shape (n_documents,): a function, or a frozen dataclass that can be called."""
    sentence: str = field(compare=False)
    """What somebody looks at who uses it, for people; true of the formula."""
    needs: tuple[str, ...] = ()
    version: int = 1

    def evaluate(self, observables: Observables, documents: Documents) -> Vector:
        """One number a document, shape (n_documents,)."""
        return self.score(observables, documents)


def statistic_traits(statistic: object) -> StatisticTraits:
    """What the statistic says of itself."""
    names = (field.name for field in fields(StatisticTraits))
    return StatisticTraits(**{name: getattr(statistic, name) for name in names if hasattr(statistic, name)})


@runtime_checkable
class BringsStatistics(Protocol):
    """A mechanism with statistics of its own."""

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        """Tried besides those that a spec names."""


def own_statistics(mechanism: object) -> tuple[Statistic, ...]:
    """Statistics that a mechanism brings."""
    return tuple(mechanism.statistics) if isinstance(mechanism, BringsStatistics) else ()
