"""The spec: everything that decides what an audit computes, checked before any work.

Unknown keys are refused and every default is written back into the store, so that a stored spec is complete.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ksdp.audit.cluster_spec import ClusterSpec
from ksdp.audit.decision_spec import DecisionSpec
from ksdp.audit.gain_spec import GainSpec
from ksdp.audit.levers_spec import LeversSpec
from ksdp.audit.parties_spec import PartiesSpec
from ksdp.audit.spec_tables import Section, validated
from ksdp.audit.store_spec import StoreSpec
from ksdp.audit.urls import FileName

Fraction = Annotated[float, Field(gt=0, lt=1)]
Share = Annotated[float, Field(gt=0, le=1)]
Rows = Annotated[int, Field(ge=1)]
MOST_RUNS = 1_000_000
"""Runs in an arm: more is a slip of the keyboard, and would take years."""


class CorpusSpec(Section, frozen=True):
    """Where the documents are and how they become rows. Files are paths, or URLs (`s3://`, `gs://`, `file://`) for
    all commands but a party's: see [clusters](clusters.md)."""

    path: FileName
    """A file, relative to the spec's folder, `$NAME` filled in from the environment; or the word `demo`."""
    format: Literal["auto", "text", "counts", "docword", "ratings", "table", "demo"] = "auto"
    """`text`, `table` and `ratings` read Parquet, CSV or JSON lines; `counts` reads npz or mtx."""
    text: str | None = None
    """Column that holds the text."""
    id: str | None = None
    """Column that holds the document id; the row number where there is none."""
    party: str | None = None
    group: str | None = None
    columns: tuple[str, ...] | None = None
    """Numeric columns of a table; all numeric ones where there is none."""
    user: str = "user_id"
    item: str = "item_id"
    rating: str = "rating"
    labels: FileName | None = None
    """Parquet or CSV, one row a matrix row in the same order, that holds a count matrix's id, party, group."""
    vocabulary: FileName | None = None
    """One term a line, in column order. For text: only these terms are counted, whatever `min_documents` says. For
    ratings: the items, whether rated or not; ratings of others are left out."""
    encoding: str = "utf-8"
    stemming: str | None = None
    """A Snowball language (`english`); none by default."""
    stop_words: Literal["english"] | None = "english"
    token_pattern: str = r"(?u)\b[^\W\d_]{3,20}\b"
    min_documents: Annotated[int, Field(ge=1)] = 2
    """Terms found in fewer documents are dropped."""
    max_features: Annotated[int, Field(ge=1)] | None = None
    weighting: Literal["counts", "tf-idf", "standardised"] | None = None
    """Default: tf-idf for text, counts, docword; counts (as they are) for ratings, tables; or `standardised`."""
    idf: Literal["global", "party", "public"] = "global"
    """Whose documents the inverse document frequency counts: everybody's, each party's own, or those of
    `levers.reference`."""
    rows: Literal["l2", "none"] | None = None
    """Default: l2 where the weighting is tf-idf, none elsewhere."""
    levers: LeversSpec = Field(default_factory=LeversSpec)


class MechanismSpec(BaseModel):
    """Name of the mechanism; every other key is one of its parameters."""

    model_config = ConfigDict(extra="allow", frozen=True, defer_build=True)
    name: str

    @property
    def parameters(self) -> dict[str, Any]:
        """The mechanism's own parameters."""
        return dict(self.model_extra or {})


class DesignSpec(Section, frozen=True):
    """Which documents are in which run."""

    kind: Literal["shared", "balanced", "literal"] = "shared"
    unit: Literal["document", "group"] = "document"
    """What is in or out as a whole, is counted by sizes, and has a verdict: a document, or all of a group's."""
    party_size: Fraction | Rows = 0.03
    with_runs: Annotated[int, Field(ge=2, le=MOST_RUNS)] = 200
    """Runs in the smaller arm, a document (its mean, where arms are random)."""
    looks: Literal["planned", "end"] = "planned"
    """`planned`: decide at 0.1, 0.17 and 0.3 of the runs, too, where documents times runs are a million or more.
    Only documents that are still undecided are measured further, and the audit ends where there is none. `end`:
    decide once, with every document measured in all runs."""
    fresh_runs: Annotated[int, Field(ge=0, le=MOST_RUNS)] | None = None
    """The same number for the fresh runs that measure detected leaks once more; default: a quarter; 0: none."""
    without_runs: Literal["needed", "all"] = "needed"
    """`needed`: where few runs hold a document, its tests read a part of the others, drawn from the seed, and some
    more runs make up for it; `all`: every run is looked at for every document."""
    sampling: Literal["fixed", "poisson"] = "fixed"
    """`fixed`: replace-one neighbours of equal size; `poisson`: add/remove neighbours, size leaks too."""
    documents: tuple[str, ...] | Annotated[int, Field(ge=1)] | None = None
    """Ids to audit, or how many to draw from the seed; every document where there is none (`shared` only).
    Names of groups, or their number, where the unit is the group."""

    @property
    def fresh_with_runs(self) -> int:
        """Fresh runs in the smaller arm, the default filled in."""
        return self.with_runs // 4 if self.fresh_runs is None else self.fresh_runs


class StatisticsSpec(Section, frozen=True):
    """What the adversary looks at."""

    families: tuple[str, ...] = ("paper", "geometry", "rounds", "pem")
    names: tuple[str, ...] = ()
    """Statistics by name, besides the families.

    The family `learned` (or `learned-lda`, `learned-lira`, `learned-matched-filter`, `learned-chosen`, and by name
    only `learned-boosted`) combines all the other columns, trained on runs that it is not tested on. By name only,
    `learned-raw` combines the announced arrays themselves.
    """
    sees: Literal["all", "final"] = "all"
    """What of the announcement they may read: everything, or the mechanism's final output alone."""


class ViewsSpec(Section, frozen=True):
    """Several views of the same runs, each audited at an equal part of the level."""

    coalitions: tuple[Annotated[float, Field(ge=0, lt=1)] | Annotated[int, Field(ge=0)], ...] = ()
    """Sizes of coalitions, as `parties.coalition`; 0 is an outsider. What the largest holds and a smaller one does
    not is honest parties' data in the smaller one's view. None: what `parties` says is the only one."""
    final: bool = False
    """Also the final output alone, in the runs of the smallest coalition: sampled once."""

    @model_validator(mode="after")
    def _fits(self) -> ViewsSpec:
        if not self.coalitions and not self.final:
            raise ValueError("`views` must name `coalitions`, or `final = true`.")
        return self


class CertificateSpec(Section, frozen=True):
    """Paired runs that bound every attack, where noise of a density that is known is added."""

    pairs: Annotated[int, Field(ge=2)] = 200
    """Each costs a run of the mechanism for every document: no certificate unless it is asked for."""
    level: Fraction | None = None
    """That any bound of any document is wrong; default: a tenth of that of "clear", which it comes on top of."""


class Spec(Section, frozen=True):
    """A whole audit."""

    seed: Annotated[int, Field(ge=0)] = 0
    corpus: CorpusSpec
    mechanism: MechanismSpec
    parties: PartiesSpec = Field(default_factory=PartiesSpec)
    design: DesignSpec = Field(default_factory=DesignSpec)
    statistics: StatisticsSpec = Field(default_factory=StatisticsSpec)
    decision: DecisionSpec = Field(default_factory=DecisionSpec)
    store: StoreSpec = Field(default_factory=StoreSpec)
    views: ViewsSpec | None = None
    """None: one audit of one view."""
    certificate: CertificateSpec | None = None
    """None: nothing is certified."""
    gain: GainSpec = Field(default_factory=GainSpec)
    cluster: ClusterSpec | None = Field(default=None, exclude=True)
    """None: worker processes of this machine."""

    @model_validator(mode="after")
    def _fits(self) -> Spec:
        if self.views is not None and self.statistics.sees == "final":
            raise ValueError("`statistics.sees` must be left out where there are `views`: set `views.final`.")
        if self.views is not None and self.views.coalitions and (self.parties.coalition or self.parties.me):
            raise ValueError("`parties.coalition` and `me` must be left out where `views.coalitions` are given.")
        if self.design.kind != "shared" and self.design.documents is None:
            raise ValueError(f"`design.documents` must be given for the {self.design.kind} design.")
        return self

    def tables(self) -> dict[str, Any]:
        """The sections by name, as `parse_spec` takes them: what `model_dump` gives, and who computes it.

        No store keeps `[cluster]`, and no number depends on it; a spec that is made from this one keeps it.
        """
        cluster = None if self.cluster is None else self.cluster.model_dump(mode="json", by_alias=True)
        return self.model_dump(mode="json") | {"cluster": cluster}

    @property
    def rule(self) -> DecisionSpec:
        """How numbers of runs become verdicts: `decision`, its margin as it stands within a run.

        Where every party enters a secret draw of its documents (`corpus.levers.drawn`), what anybody learns of a
        document being held is at most that share of what is learnt of its being in a run: who compares the run
        with x and the one with another document in its place compares the same runs, unless the draw took that
        place. So a margin c of what is held is c / drawn within a run, at most 1.
        """
        drawn = self.corpus.levers.drawn
        if drawn is None:
            return self.decision
        return self.decision.model_copy(update={"margin": min(1.0, self.decision.margin / drawn)})

    @property
    def proved_by_draw(self) -> bool:
        """Whether no attack of any kind can have an advantage above the margin, as so few documents enter."""
        drawn = self.corpus.levers.drawn
        return drawn is not None and 0 < drawn <= self.decision.margin

    @property
    def draw_sentence(self) -> str | None:
        """What a secret draw makes of all numbers of an audit; None where all documents enter."""
        drawn = self.corpus.levers.drawn
        if drawn is None:
            return None
        return (
            f"Every party enters a secret draw of its documents, each with a chance of {drawn:g}, the same in all "
            f"of its runs. Numbers are of a document that is in a run; of one that is held anybody learns at most "
            f"{drawn:g} times that, so that the margin of {self.decision.margin:g} is {self.rule.margin:g} here. "
            "Who is drawn is as exposed as the numbers say, and who learns the draw knows that."
            + (f" No attack of any kind tells more than {drawn:g} of who is held." if self.proved_by_draw else "")
        )

    @property
    def certificate_level(self) -> float:
        """The level of the certificate, the default filled in."""
        given = None if self.certificate is None else self.certificate.level
        return self.decision.for_clear / 10 if given is None else given

    @property
    def hash(self) -> str:
        """`sha256:` over the complete spec, defaults included, but for `gain`, on which no audit depends."""
        text = json.dumps(self.model_dump(mode="json", exclude={"gain"}), sort_keys=True, separators=(",", ":"))
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def parse_spec(tables: Mapping[str, Any]) -> Spec:
    """Check the tables of a spec; `SpecError` as by `validated`."""
    return validated(Spec, tables, "spec")
