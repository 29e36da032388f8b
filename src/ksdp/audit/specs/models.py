"""The spec: everything that decides what an audit computes, checked before any work.

Unknown keys are refused and every default is written back into the store, so that a stored spec is complete.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from difflib import get_close_matches
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, cast, get_args, overload

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from ksdp.audit.errors import SpecError
from ksdp.audit.specs.urls import MEMORY, FileName, check_url

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Model = TypeVar("Model", bound=BaseModel)


class Section(BaseModel, extra="forbid", frozen=True, defer_build=True):
    """A table of a spec: unknown keys are refused."""


_TOLD = 20
"""Faults named; a stranger's file may have any number."""


def validated(model: type[Model], tables: Mapping[str, Any], what: str) -> Model:
    """Check tables against a model."""
    try:
        return model.model_validate(tables)
    except ValidationError as error:
        lines = []
        problems = error.errors(include_url=False)
        for where, problem_group in groupby(
            problems[:_TOLD], lambda problem: ".".join(_keys(tables, problem["loc"])) or what
        ):
            wanted, got = [], ""
            for problem in problem_group:
                hint = problem["type"] == "extra_forbidden" and _permitted(model, problem["loc"])
                words = hint or problem["msg"].removeprefix("Value error, ").replace(
                    "Field required", "must be given."
                )
                if words.startswith(_SHOULD_BE):
                    wanted.append(_in_words(words.removeprefix(_SHOULD_BE)))
                    got = f"; got {problem['input']!r}"[:46] if isinstance(problem["input"], int | float) else ""
                else:
                    lines.append(f"`{where}`{'' if words.startswith('must be a whole') else ':'} {words}")
            if wanted:
                lines.append(f"`{where}`: must be {', or '.join(dict.fromkeys(wanted))}{got}.")
        if len(problems) > _TOLD:
            lines.append(f"and {len(problems) - _TOLD:,} more")
        raise SpecError(f"the {what} is refused.\n  " + "\n  ".join(dict.fromkeys(lines))) from None


_SHOULD_BE = "Input should be "
_WORDS = {
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "greater than": "above",
    "less than": "below",
    "a valid number": "a number",
    "a valid integer": "a whole number",
    "a valid string": "text",
    "a valid boolean": "true or false",
}


def _in_words(wanted: str) -> str:
    for theirs, ours in _WORDS.items():
        if wanted.startswith(theirs):
            return ours + ("" if "valid" in theirs else wanted.removeprefix(theirs))
    return wanted


def _keys(tables: Mapping[str, Any], loc: tuple[int | str, ...]) -> list[str]:
    """The keys of a file in a place that pydantic names, without its own words for what they may hold."""
    keys, here = [], cast(Any, tables)
    for at, part in enumerate(loc):
        inside = isinstance(here, Mapping)
        last = at == len(loc) - 1
        if str(part).startswith(("constrained", "function", "tuple[", "dict[")) or (
            inside and part not in here and not last
        ):
            continue
        name = str(part)
        keys.append(name if name.isprintable() else ascii(name))
        here = here.get(part) if inside else None
    return keys


def _permitted(model: type[BaseModel], where: tuple[int | str, ...]) -> str:
    for part in where[:-1]:
        field = model.model_fields.get(str(part))
        types = (*get_args(field.annotation), field.annotation) if field else ()
        models = [kind for kind in types if isinstance(kind, type) and issubclass(kind, BaseModel)]
        if not models:
            return ""
        model = models[0]
    keys, wrong = [field.alias or name for name, field in model.model_fields.items()], str(where[-1])
    instead = meant(wrong, keys)
    return f"there is no such key; {instead}Permitted are {', '.join(keys)}."


def meant(wrong: str, names: Iterable[str]) -> str:
    """A question for the name that is nearest to a wrong one, with a space behind it; empty where none is near."""
    close = get_close_matches(wrong, names, n=1)
    return f"did you mean `{close[0]}`? " if close else ""


_Level = Annotated[float, Field(ge=1e-12, lt=1)]
_LEAST_MARGIN = 1e-6
LOW_FPR = 0.01
"""The false positive rate of `decision.margin_at_low_fpr`."""


class DecisionSpec(Section, frozen=True):
    """How numbers become verdicts."""

    error: Literal["fdr", "fwer"] = "fdr"
    """Error that `level` limits: the expected share of wrong verdicts (`fdr`), or the probability of even one
    wrong verdict (`fwer`). Both hold however documents depend on one another."""
    level: _Level = 0.05
    """The error rate that the audit is held to, over all documents."""
    margin: Annotated[float, Field(ge=0, le=1)] = 0.2
    """The largest advantage that the owner of the data is willing to accept. 0: any proved leak is sensitive."""
    margin_at_low_fpr: Annotated[float, Field(gt=LOW_FPR, lt=1)] | None = None
    """A second limit, of true positives at 1 % false ones: for leaks that are rare, but certain."""
    clear_level: _Level | None = None
    """Level of "clear" and of the bands, if it is not that of the discoveries: schedules spend it apart."""

    @field_validator("margin")
    @classmethod
    def _no_tiny_margin(cls, margin: float) -> float:
        if 0 < margin < _LEAST_MARGIN:
            raise ValueError(f"must be 0, or {_LEAST_MARGIN:g} at least: no number of runs tells less from 0.")
        return margin

    @model_validator(mode="after")
    def _fits(self) -> DecisionSpec:
        if self.margin_at_low_fpr is not None and not self.margin:
            raise ValueError("`margin_at_low_fpr` must be left out with `margin = 0`: any leak is sensitive.")
        return self

    @overload
    def accepts(self, bound: float) -> bool: ...
    @overload
    def accepts(self, bound: NDArray[np.float64]) -> NDArray[np.bool_]: ...
    def accepts(self, bound: float | NDArray[np.float64]) -> bool | NDArray[np.bool_]:
        """Whether a bound of every attack's TPR - FPR makes a document clear; none does with margin 0."""
        low = self.margin_at_low_fpr
        accepted = self.margin if low is None else min(self.margin, low - LOW_FPR)
        return (bound <= accepted) & (self.margin > 0)

    @property
    def limits(self) -> str:
        """Both limits, for people."""
        low = self.margin_at_low_fpr
        return f"{self.margin:.4g}" + ("" if low is None else f" (true positives at 1 % false ones: {low:.4g})")

    @property
    def for_clear(self) -> float:
        """The level of "clear", the default filled in."""
        return self.level if self.clear_level is None else self.clear_level


_Count = Annotated[int, Field(ge=1)]


class LeversSpec(Section, frozen=True):
    """Applied in this order: terms, most frequent, units; then the weighting; then basis, clip.

    The same keys make the rows of an audit and of a run. Files are public: they must not come from the documents.
    """

    terms: FileName | None = None
    """A public list of columns to keep, one a line; the corpus must say its columns' names."""
    reference: FileName | None = None
    """Public document frequencies: a first line `documents<TAB>N`, then `term<TAB>documents` a line. Columns that
    it does not hold go. It decides `most_frequent`, and the weights where `idf = "public"`."""
    most_frequent: _Count | None = None
    """Keep the columns that most documents have: of the reference, or of this very corpus where there is none. In
    that case the choice is public, and nothing protects or audits it, so no run among parties accepts it: the
    mechanism `term-counts` counts documents with noise, and its result is a reference."""
    units: FileName | None = None
    """Public centre and scale of every column of a table: a CSV with `column,centre,scale`."""
    basis: FileName | None = None
    """A public basis (npy, one row a column that is left, r orthonormal columns): a row becomes its r products."""
    directions: _Count | None = None
    """Number of the basis' first directions that are kept."""
    clip: Annotated[float, Field(ge=1e-9, allow_inf_nan=False)] | None = None
    """Rows longer than this are scaled down to it."""
    drawn: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Every party enters a secret draw of its documents alone: each with this chance, decided once and for all
    runs by the party's private key. Sizes then count what is drawn; `decision.margin` is about what it has."""

    @property
    def enters(self) -> float:
        """The share of a party's documents that enters a run; 1 where there is no draw."""
        return 1.0 if self.drawn is None else self.drawn

    @property
    def any(self) -> bool:
        """Whether one is set that makes other columns or rows."""
        return any(value is not None for name, value in self.model_dump().items() if name != "drawn")


class StoreSpec(Section, frozen=True):
    """Data that the store keeps."""

    observables: Literal["all", "last", "none"] = "last"
    """Observables (what a run publishes) to keep of every run: all, or those of the last round, so that
    `ksdp test` with statistics of these needs no new runs. `none`: they are computed again from the seed. All
    rounds take 5 to 11 times as many bytes as the last."""
    values: Literal["small", "all", "none"] = "small"
    """Keep what every statistic gave in every run, so that any document's distributions are drawn at once. `none`
    computes one document's again when it is asked for. `small` keeps them where all take at most 512 MiB."""
    precision: Literal["float32", "float64"] = "float32"
    """Precision of stored observables and values. Observables of a run without noise are in double precision in
    any case: single hides some of what it publishes. So are arrays and values of somebody's own mechanism."""


_CLASS = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+\Z")

Count = Annotated[int, Field(ge=1, le=100_000)]


class ClusterSpec(Section, frozen=True):
    """A Dask cluster: a class that starts one, or the address of one that runs."""

    cluster_class: str | None = Field(default=None, alias="class")
    """Dask's name of a class of an installed package: `distributed.LocalCluster`, `distributed.SSHCluster`,
    `dask_jobqueue.SLURMCluster`, `dask_kubernetes.operator.KubeCluster` and others."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Arguments that the class is called with."""
    workers: Count | tuple[Annotated[int, Field(ge=0)], Count] | None = None
    """How many to ask the class for. Two numbers: as many as there is work for, between them. Default: what the
    class starts with."""
    address: str | None = None
    """Instead of a class: of a scheduler that runs, as `--dask`."""
    blocks: str | None = None
    """URL where workers find the corpus and leave blocks (`s3://bucket/folder`): nothing else need be shared. The
    store keeps its blocks there from then on. Default: every worker sees the store's folder under the same
    path."""
    insecure: bool = False
    """Allow a scheduler without TLS and a URL without encryption: only where nobody else can reach either."""

    @field_validator("cluster_class")
    @classmethod
    def _class(cls, value: str | None) -> str | None:
        if value is not None and not _CLASS.match(value):
            raise ValueError(f"must be a package and a class, such as `distributed.LocalCluster`; got {value!r}.")
        return value

    @model_validator(mode="after")
    def _fits(self) -> ClusterSpec:
        if self.cluster_class is not None and self.address is not None:
            raise ValueError("`class` starts a cluster, `address` names one that runs: give one of them.")
        if self.cluster_class is None and (self.arguments or self.workers is not None):
            raise ValueError("`arguments` and `workers` go with a `class`.")
        if self.cluster_class is None and self.address is None and self.blocks is None:
            raise ValueError("must name a `class`, an `address`, or where `blocks` are.")
        if isinstance(self.workers, tuple) and self.workers[0] > self.workers[1]:
            raise ValueError(f"`workers` must ascend; got {list(self.workers)}.")
        if self.blocks is not None:
            remedy = "; `insecure = true` says that nobody else can listen"
            check_url(self.blocks, "`blocks`", insecure=self.insecure, remedy=remedy)
        return self


_Size = Annotated[float, Field(gt=0, lt=1)] | Annotated[int, Field(ge=1)]


class PartiesSpec(Section, frozen=True):
    """Other parties' data in every run, as a fraction of the corpus or a number of rows; or parties by name.

    A spec has one adversary: several coalitions take a spec each, with `decision.level` divided by their number.
    """

    honest: _Size | None = None
    """Data of parties outside the coalition, among which the audited documents hide, too."""
    coalition: _Size | None = None
    """Data of the coalition, whose share is subtracted from every announced sum."""
    me: str | None = None
    """A party of `corpus.party`: databases are drawn from its documents alone, and sizes given as fractions refer
    to them. The other parties that the corpus names stand beside them."""
    others: Literal["fixed", "drawn", "colluding"] = "fixed"
    """Beside `me`: all of the others' documents in every run; half of them, drawn anew for each, where nobody
    knows what they hold; or all of them in a coalition that subtracts its share."""

    @model_validator(mode="after")
    def _one_or_the_other(self) -> PartiesSpec:
        if self.me is not None and (self.honest is not None or self.coalition is not None):
            raise ValueError("`me` excludes `honest` and `coalition`: the others are those that the corpus names.")
        if self.me is None and self.others != "fixed":
            raise ValueError("`others` goes with `me`.")
        return self


class GainSpec(Section, frozen=True):
    """Splits, parties and baselines."""

    splits: Annotated[int, Field(ge=2, le=1000)] | None = None
    """Number of random splits. Default: 20; 5 if the corpus has more than 300,000 entries."""
    parties: Annotated[int, Field(ge=2, le=64)] | None = None
    """Number of parties, drawn alike. Default: those that `corpus.party` names; three if it names none."""
    public: Annotated[int, Field(ge=2)] | None = None
    """Documents that are taken as public in each split, and from every party: learning from
    these alone is one of the baselines. With `corpus.levers.basis` it is the first directions of that basis,
    whatever this says."""
    time: str | None = None
    """Column of a ratings file that says when, as a number. The latest fifth of every user's ratings is predicted,
    and nobody learns from it; without a time, a fifth at random."""
    target: str | None = None
    """Numeric column of a table: the error of a regression on what is learnt is measured, too."""


Fraction = Annotated[float, Field(gt=0, lt=1)]
Share = Annotated[float, Field(gt=0, le=1)]
Rows = Annotated[int, Field(ge=1)]
MOST_RUNS = 1_000_000
"""Runs in an arm: more is a slip of the keyboard, and would take years."""


class CorpusSpec(Section, frozen=True):
    """Where the documents are and how they become rows. Files are paths, or URLs (`s3://`, `gs://`, `file://`) for
    all commands but a party's: see [clusters](clusters.md).
    """

    path: FileName
    """A file, relative to the spec's folder, `$NAME` filled in from the environment; or the word `demo`."""
    format: Literal["auto", "text", "counts", "docword", "ratings", "table", "demo"] = "auto"
    """`text`, `table`, `ratings` read Parquet, CSV, JSON, xlsx, npy or dense npz; `counts` sparse npz or mtx."""
    text: str | None = None
    """Column that holds the text."""
    id: str | None = None
    """Column with the ids of the documents. Default: the row number."""
    party: str | None = None
    """Column that names the party whose document it is."""
    group: str | None = None
    """Column that names whose documents belong together, such as one person's."""
    columns: tuple[str, ...] | None = None
    """Numeric columns of a table that are used. Default: all. With `format = "ratings"`: the user (one
    document), the item (one feature) and the rating, a number; default `user_id`, `item_id`, `rating`."""
    labels: FileName | None = None
    """Parquet or CSV with the id, party and group of each row of a matrix of counts, in the order of its rows."""
    vocabulary: FileName | None = None
    """File with one term a line, in the order of the columns. Of texts, only these terms are counted, whatever
    `min_documents` says. Of ratings, it lists all items; ratings of other items are left out."""
    encoding: str = "utf-8"
    """How the text of a CSV or JSON lines file is encoded."""
    na_values: tuple[str, ...] = ()
    """Values of a CSV that stand for a missing number, besides the usual ones (`NA`, `NaN`, `null`)."""
    decimal: Literal[".", ","] | None = None
    """Mark before the decimals of a CSV. Default: a point, and a comma too if no comma separates columns."""
    thousands: Literal[".", ",", " ", "'"] | None = None
    """Mark between thousands of a CSV."""
    missing: Literal["refuse", "drop", "median"] = "refuse"
    """If a number is missing in a table: `refuse` the table, `drop` the row, or take the column's `median`."""
    categories: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Columns of a table that become one column of 0 and 1 for each of these values, named `column_value`."""
    stop_words: Literal["english", "none"] = "english"
    """Words that texts are read without. A word is 3 to 20 letters, in lower case."""
    min_documents: Annotated[int, Field(ge=1)] = 2
    """Terms that are in fewer documents are dropped."""
    max_features: Annotated[int, Field(ge=1)] | None = None
    """Number of terms that are kept: the most frequent ones."""
    weighting: Literal["counts", "tf-idf", "standardised"] | None = None
    """How numbers are weighed. Default: tf-idf for text, counts, docword; as they are for ratings and tables."""
    idf: Literal["global", "party", "public"] = "global"
    """Documents that the inverse document frequency counts: everybody's, each party's own, or those of
    `levers.reference`."""
    rows: Literal["l2", "none"] | None = None
    """`l2` scales each row to length 1. Default: `l2` if the weighting is tf-idf, otherwise `none`."""
    levers: LeversSpec = Field(default_factory=LeversSpec)
    """The next section."""

    @model_validator(mode="after")
    def _three_of_ratings(self) -> CorpusSpec:
        if self.format == "ratings" and self.columns is not None and len(set(self.columns)) != 3:
            raise ValueError("`columns` of ratings must name the columns of the user, the item and the rating.")
        return self

    @property
    def in_memory(self) -> bool:
        """Whether a Python program handed the corpus over."""
        return self.path == MEMORY

    @property
    def triplet(self) -> tuple[str, ...]:
        """Names of the columns of the user, the item and the rating."""
        return self.columns if self.format == "ratings" and self.columns else ("user_id", "item_id", "rating")

    def __hash__(self) -> int:
        """Hash all keys; one of them is a dictionary, which has no hash of its own."""
        return hash(self.model_dump_json())


class MechanismSpec(BaseModel):
    """Name of the mechanism; every other key is one of its parameters. `noise` adds normal noise to what any of
    them releases: the standard deviation of the total noise per entry, public and the same in every run."""

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True)
    name: str

    @property
    def parameters(self) -> dict[str, Any]:
        """The mechanism's own parameters."""
        return dict(self.model_extra or {})


class DesignSpec(Section, frozen=True):
    """Which documents are in which run."""

    kind: Literal["shared", "balanced", "literal"] = "shared"
    """`shared`: every run serves every document. `balanced`: each audited document is in a run with a chance of
    one half. `literal`: runs of its own for each document, as in the paper."""
    unit: Literal["document", "group"] = "document"
    """Unit that is in or out as a whole, counted by sizes, and judged: a document, or all of a group's. Groups
    must be of equal size where a run tells how many documents enter (`pd-pca` or a final `pd-nmf`, say)."""
    party_size: Fraction | Rows = 0.03
    """Documents (or groups) in a run: a fraction of the corpus, or a number."""
    with_runs: Annotated[int, Field(ge=2, le=MOST_RUNS)] = 200
    """Runs with a given document or, if these are fewer, without it. If chance decides how many, their mean."""
    looks: Literal["planned", "end"] = "planned"
    """`planned`: decide at 0.1, 0.17 and 0.3 of the runs, too, where a document is in eight of these, and
    documents times runs are a million or more.
    Only documents that are still undecided are measured further, and the audit ends where there is none. `end`:
    decide once, with every document measured in all runs."""
    fresh_runs: Annotated[int, Field(ge=0, le=MOST_RUNS)] | None = None
    """As `with_runs`, for the fresh runs that measure detected leaks again. Default: a quarter of it; 0: none."""
    without_runs: Literal["needed", "all"] = "needed"
    """`needed`: where few runs hold a document, its tests read a part of the others, drawn from the seed. Some
    more runs make up for it. `all`: every run is looked at for every document."""
    sampling: Literal["fixed", "poisson"] = "fixed"
    """`fixed`: replace-one neighbours of equal size; `poisson`: add/remove neighbours, size leaks too."""
    documents: tuple[str, ...] | Annotated[int, Field(ge=1)] | None = None
    """Ids to audit, or how many to draw from the seed. Default: every document.
    Names of groups, or their number, where the unit is the group."""
    absent: Literal["proved", "measured"] = "proved"
    """Documents that their rarest feature alone gives away, which follows before any run: `proved` sensitive and
    not measured, or `measured` as all others are."""
    pool: Fraction | Rows | None = None
    """Runs are drawn from this many random documents alone; the adversary knows which."""

    @property
    def fresh_with_runs(self) -> int:
        """Fresh runs in the smaller arm, the default filled in."""
        return self.with_runs // 4 if self.fresh_runs is None else self.fresh_runs


class StatisticsSpec(Section, frozen=True):
    """Statistics that stand for the adversary."""

    families: tuple[str, ...] = ("paper", "geometry", "rounds")
    """Families of statistics to test; `ksdp mechanisms` and reports name what each holds."""
    names: tuple[str, ...] = ()
    """Statistics by name, besides the families."""
    sees: Literal["all", "final"] = "all"
    """Part of the releases that they may read: everything, or the mechanism's final output alone."""
    explored: bool = False
    """Whether they were named after the runs had been seen (`ksdp test`): then the audit has no verdict."""
    runs_of: str | None = None
    """Hash of the corpus whose runs are read, where documents are edited versions of those (`ksdp test`)."""


class CertificateSpec(Section, frozen=True):
    """Pairs of runs that bound every attack, where noise of a known law is added."""

    pairs: Annotated[int, Field(ge=2)] = 200
    """Pairs for each document; each costs a run of the mechanism. Without this section there is no certificate.
    The level of all certificates is a tenth of that of "clear", on top of it."""


class PlantedSpec(Section, frozen=True):
    """A leak of known size in what runs with a document announce: `ksdp power` writes these."""

    document: str
    kind: Literal["number", "numbers", "spread", "agreement"]
    """One number moves, or several together; one strays further from its centre; two agree in sign."""
    array: str
    places: tuple[Annotated[int, Field(ge=0)], ...]
    """Places of the numbers in the array, row by row."""
    amounts: tuple[float, ...]
    """Added to each; of `spread` the factor; of `agreement` how often two that differ are made to agree."""
    centres: tuple[float, ...] = ()
    advantage: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Advantage of an attacker who knows the leak and looks at these numbers alone."""


_Words = Annotated[str, Field(max_length=2000)]
FACTS = (
    *("controller", "parties", "purpose", "legal_basis", "dpia", "recipients", "data_subjects", "harm"),
    *("release", "how_often", "released_before", "main_attacks", "auditor", "measures", "dpo_advice"),
    *("measures_approved_by", "residual_risk_accepted_by", "review_triggers"),
)
"""What a dossier states in words, beside the numbers and the date of `DeclaredSpec`."""


class DeclaredSpec(BaseModel, extra="allow", frozen=True, defer_build=True):
    """Facts that no audit can measure and a dossier must state (`ksdp dossier`); others are named as missing.

    Other facts are texts, lists of texts, or tables of names and texts. They say who it is about: `controller`,
    `parties` (name to role), `recipients`, `data_subjects`, `auditor`. They say what leaves: `release`,
    `how_often`, `released_before`, `main_attacks`, `harm`, `measures`. They say why, and who answers for it:
    `purpose`, `legal_basis`, `dpia`, `dpo_advice`, `measures_approved_by`, `residual_risk_accepted_by`,
    `review_triggers`.
    """

    __pydantic_extra__: dict[str, _Words | tuple[_Words, ...] | dict[str, _Words]] = Field(init=False)
    people: Annotated[int, Field(ge=1)] | None = None
    """Number of people whose data it is."""
    prior: Annotated[float, Field(gt=0, lt=1)] | None = None
    """How sure an attacker is beforehand that somebody took part."""
    review_date: date | None = None
    """Day of the next review."""

    @model_validator(mode="after")
    def _facts(self) -> DeclaredSpec:
        for name in self.model_extra or {}:
            if name not in FACTS:
                raise ValueError(
                    f"there is no such key `{name}`; {meant(name, FACTS)}Facts are {', '.join(FACTS)}."
                )
        return self

    def text(self, fact: str) -> str:
        """The words of a fact in one line; empty if it is not declared."""
        said = (self.model_extra or {}).get(fact, "")
        return said if isinstance(said, str) else "; ".join(said)

    @property
    def all(self) -> dict[str, Any]:
        """Every fact by its name, those that are not declared included."""
        return dict.fromkeys((*FACTS, "people", "prior", "review_date")) | self.model_dump()


SAID_ALONE = frozenset({"title", "declared"})
"""Keys of a spec that people read and no number depends on: they change no hash, trend or schedule."""


class Spec(Section, frozen=True):
    """A whole audit."""

    title: Annotated[str, Field(max_length=80)] = ""
    """Name of this audit for people; no number depends on it."""
    seed: Annotated[int, Field(ge=0)] = 0
    corpus: CorpusSpec
    mechanism: MechanismSpec
    parties: PartiesSpec = Field(default_factory=PartiesSpec)
    design: DesignSpec = Field(default_factory=DesignSpec)
    statistics: StatisticsSpec = Field(default_factory=StatisticsSpec)
    decision: DecisionSpec = Field(default_factory=DecisionSpec)
    store: StoreSpec = Field(default_factory=StoreSpec)
    certificate: CertificateSpec | None = None
    """None: nothing is certified."""
    gain: GainSpec = Field(default_factory=GainSpec)
    declared: DeclaredSpec = Field(default_factory=DeclaredSpec)
    planted: tuple[PlantedSpec, ...] = Field(default=(), exclude_if=lambda given: not given)
    """Leaks that an audit has to find, planted beside the mechanism's own; no clearance rests on such an audit."""
    cluster: ClusterSpec | None = Field(default=None, exclude=True)
    """None: worker processes of this machine."""

    @model_validator(mode="after")
    def _fits(self) -> Spec:
        if self.design.kind != "shared" and self.design.documents is None:
            raise ValueError(f"`design.documents` must be given for the {self.design.kind} design.")
        if self.planted and self.certificate is not None:
            raise ValueError(
                "`certificate` must be left out where leaks are `planted`: it bounds the mechanism alone."
            )
        return self

    def tables(self) -> dict[str, Any]:
        """The sections by name, as `parse_spec` takes them: what `model_dump` gives, and who computes it."""
        cluster = None if self.cluster is None else self.cluster.model_dump(mode="json", by_alias=True)
        return self.model_dump(mode="json") | {"cluster": cluster}

    def tables_at_level(self, part: Callable[[float], float]) -> dict[str, Any]:
        """`tables` with this part of every level: of discoveries and of "clear"."""
        tables = self.tables()
        tables["decision"]["level"] = part(self.decision.level)
        if self.decision.clear_level is not None:
            tables["decision"]["clear_level"] = part(self.decision.clear_level)
        return tables

    @property
    def decision_in_run(self) -> DecisionSpec:
        """How numbers of runs become verdicts: `decision`, its margins as they stand within a run.

        Where every party enters a secret draw of its documents (`corpus.levers.drawn`), what anybody learns of a
        document being held is at most that share of what is learnt of its being in a run: who compares the run
        with x and the one with another document in its place compares the same runs, unless the draw took that
        place. So a margin c of what is held is c / drawn within a run, at most 1. A true positive rate T within a
        run, at f false positives, is drawn T + (1 - drawn) f of what is held.
        """
        drawn = self.corpus.levers.drawn
        if drawn is None:
            return self.decision
        low = self.decision.margin_at_low_fpr
        within = 1.0 if low is None else (low - (1 - drawn) * LOW_FPR) / drawn
        changed = {
            "margin": min(1.0, self.decision.margin / drawn),
            "margin_at_low_fpr": within if within < 1 else None,
        }
        return self.decision.model_copy(update=changed)

    @property
    def decides(self) -> bool:
        """Whether verdicts may be used: no statistic was named after looking, and no leak is planted."""
        return not (self.statistics.explored or self.planted)

    @property
    def audits_all(self) -> bool:
        """Whether every document of the corpus, or of `parties.me`, is audited."""
        sizes = (self.design.documents, self.design.pool, self.parties.honest, self.parties.coalition)
        return all(size is None for size in sizes)

    @property
    def proved_by_draw(self) -> bool:
        """Whether no attack of any kind can have an advantage above the margin, as so few documents enter."""
        drawn = self.corpus.levers.drawn
        return drawn is not None and self.decision.accepts(drawn)

    @property
    def draw_sentence(self) -> str | None:
        """A sentence about the effect of a secret draw on all numbers of an audit; None if all documents enter."""
        drawn = self.corpus.levers.drawn
        if drawn is None:
            return None
        return (
            f"Every party enters a secret draw of its documents, each with a chance of {drawn:g}, the same in all "
            "of its runs. Whoever learns the draw knows which. Numbers say how well anybody can tell that a "
            f"document was in a run; that a party has it, anybody can tell at most {drawn:g} times as well. So "
            f"the margin of {self.decision.limits} is {self.decision_in_run.limits} here."
            + (f" No attack of any kind tells more than {drawn:g} of that." if self.proved_by_draw else "")
        )

    @property
    def certificate_level(self) -> float:
        """The level of the certificate."""
        return self.decision.for_clear / 10

    @property
    def level_of_clear(self) -> float:
        """The probability that any "clear" is wrong: the level of the tests and that of the certificate."""
        return self.decision.for_clear + (0.0 if self.certificate is None else self.certificate_level)

    @property
    def hash(self) -> str:
        """`sha256:` over all, defaults included, but for `gain`, `title`, `declared`, which change no number."""
        tables = self.model_dump(mode="json", exclude={"gain", *SAID_ALONE})
        text = json.dumps(tables, sort_keys=True, separators=(",", ":"))
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()

    @property
    def binding(self) -> str:
        """Hash without `store` and `cluster`: a clearance is bound to it, wherever and however runs are kept."""
        tables = self.model_dump(mode="json", exclude={"gain", "store", "cluster", *SAID_ALONE})
        text = json.dumps(tables, sort_keys=True, separators=(",", ":"))
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()

    @property
    def series(self) -> str:
        """Hash without seed, runs, documents, levels and storage: what the audits of one trend share."""
        tables = self.model_dump(mode="json", exclude={"seed", "store", *SAID_ALONE})
        for name in ("with_runs", "documents"):
            tables["design"].pop(name)
        for name in ("level", "clear_level"):
            tables["decision"].pop(name)
        text = json.dumps(tables, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:20]


def parse_spec(tables: Mapping[str, Any]) -> Spec:
    """Check the tables of a spec; `SpecError` as by `validated`."""
    return validated(Spec, tables, "spec")
