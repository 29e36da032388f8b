"""Files of a PEM run: the spec of one machine, and the protocol file of several hosts."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from ksdp.audit.errors import InputError, ProtocolError, SpecError
from ksdp.audit.mechanisms.pem.algorithm import PemAlgorithm
from ksdp.audit.mechanisms.pem.functions import PemApriori
from ksdp.audit.mechanisms.pem.mechanisms import (
    AprioriParameters,
    KMeansParameters,
    LogisticParameters,
    Number,
    Part,
    Positive,
)
from ksdp.audit.mechanisms.pem.noise import Budget, Sparse, tight_epsilon
from ksdp.audit.numeric.whole_numbers import Whole
from ksdp.audit.specs.models import Section
from ksdp.extras.pem.rounds import PemTerms
from ksdp.protocols.channel.keys import Participant
from ksdp.protocols.programs.protocol_file import PartySpec, TimeoutsSpec


class PemRecordsSpec(Section, frozen=True):
    """Form of a record; the same at every client."""

    columns: tuple[str, ...] = ()
    """Numbers, taken as they are."""
    edges: dict[str, Annotated[tuple[float, ...], Field(min_length=1)]] = Field(default_factory=dict)
    """Numbers that become bins: by column, where one bin ends and the next begins."""
    categories: dict[str, Annotated[tuple[str, ...], Field(min_length=1)]] = Field(default_factory=dict)
    """By column, all values that it may have; each becomes a column of 0 and 1."""
    label: str | None = None
    """Column of what logistic regression is to tell; it becomes the last one."""
    positive: str | None = None
    """The label's value that counts as 1; any other is 0."""

    @model_validator(mode="after")
    def _record_fits(self) -> PemRecordsSpec:
        if (self.label is None) != (self.positive is None):
            raise ValueError("`label` and `positive` go together.")
        named = self.named
        for name in named:
            if named.count(name) > 1:
                raise ValueError(f"column {name!r} is named twice.")
        for name, edges in self.edges.items():
            if list(edges) != sorted(set(edges)):
                raise ValueError(f"`edges` of {name!r} must ascend; got {list(edges)}.")
        for name, values in self.categories.items():
            if len(set(values)) != len(values):
                raise ValueError(f"`categories` of {name!r} hold a value twice.")
        return self

    @property
    def named(self) -> list[str]:
        """All columns that are read."""
        return [*self.columns, *self.edges, *self.categories, *filter(None, (self.label,))]

    @property
    def described(self) -> bool:
        """Whether the spec says what the columns of a table become."""
        return bool(self.columns or self.edges or self.categories)

    @property
    def width(self) -> int:
        """How many columns a record of a table becomes, the label's included."""
        bins = sum(len(edges) + 1 for edges in self.edges.values())
        return len(self.columns) + bins + sum(map(len, self.categories.values())) + (self.label is not None)


class PemDataSpec(PemRecordsSpec, frozen=True):
    """Where the records are, how they become numbers, and whose they are."""

    path: str
    """As that of `[corpus]`, relative to the spec's folder; `$NAME` is filled in from the environment."""
    encoding: str = "utf-8"
    """How the text of the file is encoded."""
    labels: str | None = None
    """Parquet or CSV with the column `client` of a matrix of counts, in the order of its rows."""
    client: str | None = None
    """Column that says which client a record belongs to."""
    clients: Number | None = None
    """Instead of `client`: number of clients to which the records are dealt out, in turns."""

    @model_validator(mode="after")
    def _fits(self) -> PemDataSpec:
        if (self.client is None) == (self.clients is None):
            raise ValueError("one of `client` and `clients` must be given, and not both.")
        if self.client is not None and self.client in self.named:
            raise ValueError(f"column {self.client!r} is named twice.")
        return self


class KMeansSpec(Section, KMeansParameters, frozen=True):
    """k-means; see `PemKMeans`."""

    name: Literal["k-means"]
    """Which algorithm."""


class LogisticSpec(Section, LogisticParameters, frozen=True):
    """Logistic regression; see `PemLogistic`. `label` is for a count matrix: a table's is named in `data`."""

    name: Literal["logistic"]
    """Which algorithm."""
    cap: Positive | None = None
    """Largest entry of one record's gradient; larger ones are cut."""

    def algorithm(self, features: int) -> PemAlgorithm:
        """The three functions, for records of so many columns."""
        return self.logistic(features, self.cap)


class AprioriSpec(Section, AprioriParameters, frozen=True):
    """Frequent itemsets; see `PemApriori`. It takes as many iterations as the longest itemset is long."""

    name: Literal["apriori"]
    """Which algorithm."""
    length: Number = 4
    """Most items of an itemset that is searched for."""
    keep: Number = 200_000
    """Most itemsets of one length from 2 on, and candidates from 3 on; those with the largest noisy counts."""

    @property
    def iterations(self) -> int:
        """One a length."""
        return self.length

    def algorithm(self, features: int) -> PemAlgorithm:
        """The three functions, for records of so many columns."""
        return PemApriori(features, self.longest, self.support, self.length, self.keep)


class OwnSpec(Section, frozen=True):
    """Functions of one's own, which no file brings: each who needs them names them on the command line."""

    name: Literal["own"]
    iterations: Number
    says: str | None = None
    """`repr` of the functions; must be given where several hosts mean the same ones."""
    code: Annotated[str, Field(pattern=r"sha256:[0-9a-f]{64}")] | None = None
    """Hash of the file that they are in; must be given there too."""

    def algorithm(self, features: int) -> PemAlgorithm:
        """Nothing that a spec could make."""
        raise InputError("functions of one's own are named on the command line (`--functions module:object`)")


class SparseSpec(Section, frozen=True):
    """Clients send large entries only; see `Sparse`."""

    threshold: Annotated[float, Field(ge=0, allow_inf_nan=False, strict=True)]
    """Only entries above it are sent."""
    most: Number
    """Most entries that a client sends."""
    part: Part = 0.5
    """Share of an iteration's epsilon for choosing them."""


class BudgetSpec(Section, frozen=True):
    """Limits of a run's cost for a record."""

    epsilon: Positive
    """Epsilon of the whole run for one record."""
    sampling: Annotated[float, Field(gt=0, le=1, strict=True)] = 1.0
    """Chance with which a record takes part in an iteration."""
    batch: Number | None = None
    """Records are a stream: each iteration takes so many of each client, and each record once."""
    sparse: SparseSpec | None = None
    """The section `[budget.sparse]`."""


class PemBounds(Section, frozen=True):
    """Bounds of any run."""

    least_clients: Number = 1
    """With fewer clients the run ends."""


class PemRunSpec(PemBounds, frozen=True):
    """The servers and clients of a run."""

    servers: Annotated[int, Whole(2, 100)] = 2
    """Each adds all of the noise."""


_DELTA = 1e-5


def promise(servers: int) -> str:
    """Return the promise for a record, and against whom it holds."""
    return (
        "one record replaced by any other; how many each client has is public; trust: the aggregator, the other "
        f"clients and all but one of the {servers} servers together; everybody keeps to the protocol"
    )


def cost_of(budget: Budget, iterations: int, servers: int) -> dict[str, Any]:
    """Return the cost of so many iterations for a record, for `run.json`."""
    return {
        "iterations": iterations,
        "planned_iterations": budget.iterations,
        "claimed": {"epsilon": budget.spent(iterations), "delta": 0.0},
        "tight": {"epsilon": tight_epsilon(budget, _DELTA, iterations), "delta": _DELTA},
        "promise": promise(servers),
    }


AlgorithmSpec = Annotated[KMeansSpec | LogisticSpec | AprioriSpec | OwnSpec, Field(discriminator="name")]


def check_label(records: PemRecordsSpec, algorithm: AlgorithmSpec) -> None:
    """Refuse a label without logistic regression, and logistic regression without one."""
    if isinstance(algorithm, OwnSpec):
        return
    if (records.label is not None or isinstance(algorithm, LogisticSpec)) and not (
        isinstance(algorithm, LogisticSpec) and (records.label is None) != (algorithm.label is None)
    ):
        raise ValueError(
            "`data.label` and `positive`, or `algorithm.label` for a count matrix, go with logistic "
            "regression; one of the two, and with nothing else."
        )


class PemTask(Section, frozen=True):
    """The computation, wherever it is run."""

    algorithm: AlgorithmSpec
    budget: BudgetSpec

    def planned(self) -> Budget:
        """The budget of all iterations."""
        budget, sparse = self.budget, self.budget.sparse
        return Budget(
            budget.epsilon, self.algorithm.iterations,
            sampling=budget.sampling, stream=budget.batch is not None,
            sparse=None if sparse is None else Sparse(sparse.threshold, sparse.most, sparse.part),
        )  # fmt: skip

    def made(self, features: int, own: PemAlgorithm | None = None) -> PemAlgorithm:
        """The algorithm for records of so many columns."""
        if (own is not None) != isinstance(self.algorithm, OwnSpec):
            raise SpecError('`--functions module:object` and `algorithm.name = "own"` go together.')
        try:
            made = own or self.algorithm.algorithm(features)
        except InputError as error:
            raise SpecError(f"`algorithm` is refused for records of {features} columns: {error}") from error
        blocks = len(made.init().blocks)
        if self.budget.sparse is not None and blocks != 1:
            raise SpecError(f"`budget.sparse` needs vectors of one block; those of {made.name} have {blocks}.")
        return made


class PemSpec(PemTask, frozen=True):
    """A whole run."""

    data: PemDataSpec
    run: PemRunSpec = PemRunSpec()

    @model_validator(mode="after")
    def _fits(self) -> PemSpec:
        check_label(self.data, self.algorithm)
        return self


class PemRecords(PemRecordsSpec, frozen=True):
    """Form of a record."""

    features: Number | None = None
    """Columns of a count matrix; of a table they follow from the other keys."""

    @model_validator(mode="after")
    def _one_kind(self) -> PemRecords:
        if self.described == (self.features is not None):
            raise ValueError("`features` of a count matrix, or `columns`, `edges` and `categories` of a table.")
        return self

    @property
    def wide(self) -> int:
        """Columns that a record becomes."""
        return self.features or self.width


class PemTermsSpec(PemBounds, frozen=True):
    """Bounds of a run between hosts."""

    rows: Number
    """Most records of one client; of a stream the `batch` counts instead."""
    patience: Positive = 60.0
    """Seconds that a host with clients may let the others wait; who is later is out of the run."""


class PemProtocol(PemTask, frozen=True):
    """A run between hosts."""

    pem: Literal[1]
    """Version of what is sent."""
    servers: Annotated[tuple[str, ...], Field(min_length=2, max_length=100)]
    """Names of those who add up; they hold no records."""
    aggregator: str
    """Name of who makes the model; it holds none either."""
    records: PemRecords
    run: PemTermsSpec
    parties: Annotated[tuple[PartySpec, ...], Field(min_length=4, max_length=256)]
    """All hosts: servers, the aggregator, and those that hold clients, which is everybody else."""
    timeouts: TimeoutsSpec = TimeoutsSpec()

    @model_validator(mode="after")
    def _says_all(self) -> PemProtocol:
        check_label(self.records, self.algorithm)
        own = self.algorithm
        if isinstance(own, OwnSpec) and (own.says is None or own.code is None):
            raise ValueError("`algorithm.says` and `code` must say which functions all mean.")
        if len({*self.servers, self.aggregator}) != len(self.servers) + 1:
            raise ValueError("`servers` and `aggregator` must be different hosts.")
        return self

    @model_validator(mode="after")
    def _everybody_is_there(self) -> PemProtocol:
        names = [node.name for node in self.parties]
        for what, values in (("name", names), ("address", [node.address for node in self.parties])):
            if len(set(values)) != len(values):
                raise ValueError(f"`parties.{what}` must differ from host to host.")
        missing = sorted({*self.servers, self.aggregator} - set(names))
        if missing:
            raise ValueError(f"`parties` must list {', '.join(missing)}, too.")
        if not set(names) - {*self.servers, self.aggregator}:
            raise ValueError("`parties` must list at least one host that holds clients.")
        return self

    def functions(self, own: PemAlgorithm | None, code: str) -> PemAlgorithm:
        """The three functions."""
        chosen = self.algorithm
        if isinstance(chosen, OwnSpec) and own is not None and (repr(own), code) != (chosen.says, chosen.code):
            raise SpecError(
                "the functions are not those that the protocol file means. Here they are:\n"
                f"says = {json.dumps(repr(own))}\ncode = {json.dumps(code)}"
            )
        made = self.made(self.records.wide, own)
        if isinstance(chosen, OwnSpec):
            made.init()
        return made

    def agreed(self, who: tuple[Participant, ...]) -> PemTerms:
        """The terms that all hosts agree on."""
        if len({p.identity for p in who}) != len(who):
            raise SpecError("`parties.key` must differ from host to host.")
        chosen, rest = self.algorithm, {*self.servers, self.aggregator}
        own = chosen.says if isinstance(chosen, OwnSpec) else None
        made = None if own is not None else self.made(self.records.wide)
        terms = PemTerms(
            tuple(sorted({p.name for p in who} - rest)), tuple(sorted(self.servers)), self.aggregator,
            self.planned(), self.budget.batch or self.run.rows, own or repr(made), self.run.least_clients,
            self._said(who),
        )  # fmt: skip
        try:
            terms.check_room(made.init().blocks if made else (), 1)
        except ProtocolError as error:
            raise SpecError(f"the protocol file is refused: {error}") from error
        return terms

    def _said(self, who: tuple[Participant, ...]) -> dict[str, Any]:
        """Every line by its name, but where hosts are and how long they wait for each other."""
        lines: dict[str, Any] = {}
        for name, value in self.model_dump(mode="json", exclude={"parties": True, "timeouts": True}).items():
            table = value if isinstance(value, dict) else None
            lines |= {name: value} if table is None else {f"{name}.{key}": item for key, item in table.items()}
        return lines | {"parties": [[each.name, each.identity.hex()] for each in who]}
