"""The parts of a summary: one frozen value a key of `audit.json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.dataclasses import dataclass

from ksdp.audit.verdicts.verdict import VERDICTS, ProvedBy, Verdict

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ksdp.audit.run_subsampling import RunSubsampling

FORMAT = ConfigDict(extra="forbid", ser_json_inf_nan="constants", defer_build=True)
"""Configuration of all values of a summary: unknown keys are refused, and validators are built when first used."""


@dataclass(frozen=True, config=FORMAT)
class VerdictCounts:
    """Documents, or groups, by verdict: a field a word."""

    sensitive: int
    clear: int
    undecided: int
    every_attack: int = 0
    """Number of clear documents that are so against every attack."""

    def as_dict(self) -> dict[str, int]:
        """By the verdict's word."""
        return {word: getattr(self, word) for word in VERDICTS}

    @property
    def words(self) -> str:
        """For people."""
        proved = f" ({self.every_attack} against every attack)" if self.every_attack else ""
        counts = self.as_dict()
        return ", ".join(f"{counts[word]} {word}{proved if word.may_enter else ''}" for word in Verdict)

    @property
    def left(self) -> tuple[int, str]:
        """How many are not proved safe enough, and what they are called."""
        counts = self.as_dict()
        waiting = {word: counts[word] for word in Verdict if counts[word] and not word.may_enter}
        return sum(waiting.values()), " or ".join(waiting)


def count_verdicts(verdict: NDArray[np.str_], every_attack: NDArray[np.bool_]) -> VerdictCounts:
    """Documents by verdict, and the clear ones that are so against every attack."""
    counts = {word: int((verdict == word).sum()) for word in VERDICTS}
    return VerdictCounts(**counts, every_attack=int(((verdict == Verdict.CLEAR) & every_attack).sum()))


@dataclass(frozen=True, config=FORMAT)
class StatisticSummary:
    """One statistic over all documents."""

    version: int
    family: str
    sentence: str
    """A sentence for people about what the adversary looks at; empty if its author wrote none."""
    median_D: float
    max_D: float
    sensitive: int
    """Documents that it alone would have called sensitive."""
    strongest_for: int


@dataclass(frozen=True, config=FORMAT)
class AnnouncedArray:
    """An array that the adversary sees."""

    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True, config=FORMAT)
class SamplerSummary:
    """The sampler of a mechanism's noise."""

    name: str
    description: Annotated[str, Field(alias="is")]


@dataclass(frozen=True, config=FORMAT)
class GuaranteeSummary:
    """The guarantee of the mechanism (`audit.contract.Guarantee`), as it was when the audit was made."""

    kind: str
    unit: str
    trust: str
    source: str
    epsilon: float | None
    delta: float | None
    sampler: SamplerSummary | None
    """None: no noise."""
    sound: bool
    protects: bool
    notes: str
    advantage: float | None

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> GuaranteeSummary:
        """Return the guarantee that `Guarantee.as_json` wrote."""
        return TypeAdapter(cls).validate_python(record)


@dataclass(frozen=True, config=FORMAT)
class PaperAlone:
    """The verdicts by the paper's own statistics alone."""

    statistics: tuple[str, ...]
    detected: int
    median_D: float
    mean_smallest_p: float
    uncorrected_below_level: int


@dataclass(frozen=True, config=FORMAT)
class PowerSummary:
    """Leaks that arms of the median size find or certify at the last look, 8 times in 10."""

    detectable_D: float
    certifiable_margin: float
    runs_to_decide_median: float | None


@dataclass(frozen=True, config=FORMAT)
class ChanceSummary:
    """D that a document measures by chance, where nothing leaks, in arms of the median size."""

    median_D: float
    """Half of the documents stay below."""
    most_D: float
    """19 in 20 documents stay below."""


@dataclass(frozen=True, config=FORMAT)
class LookSummary:
    """One planned look; one that was not needed tested no document."""

    runs: int
    level: float
    tested: int
    verdicts: VerdictCounts
    """Verdicts of the documents that were not tested later."""


@dataclass(frozen=True, config=FORMAT)
class FreshSummary:
    """Measurements of fresh runs on the documents with a detected leak."""

    runs: int
    documents: int
    n_with_median: int
    confirmed: int
    median_advantage: float
    median_D: float
    advantage_low: float
    """Lower end for the document that the first runs showed most: their choice biases no fresh run."""
    epsilon_low: float
    """For the same document."""
    median_tpr_at_fpr_01: float | None
    """At 1 % false positives; None where no document had runs enough to measure it."""
    median_tpr_at_fpr_001: float | None
    """At 0.1 %."""


@dataclass(frozen=True, config=FORMAT)
class CorpusSummary:
    """The corpus in numbers."""

    documents: int
    features: int
    entries: int
    without_features: int
    """Rows that were kept out."""
    parties: Mapping[str, int] | None


@dataclass(frozen=True, config=FORMAT)
class DesignSummary:
    """Which documents were in which run. Rows are groups where the unit is the group."""

    kind: str
    unit: str
    sampling: str
    party_rows: int
    honest_rows: int
    coalition_rows: int
    share: float
    """Share of the runs that hold a document."""
    n_with: tuple[int, int, int]
    """Smallest, median and largest with arm."""
    every: int = 1
    """A document's tests read one in so many runs: all that held it, and a part of the others."""
    early: int = 0
    """But all of a lane's first runs, which an early look decides from."""

    def with_runs(self, runs: float) -> int:
        """The key of a spec that gives so many runs."""
        return self.reading.with_runs(runs, self.share)

    @property
    def reading(self) -> RunSubsampling:
        """Which part of the runs a document's tests read."""
        from ksdp.audit.run_subsampling import RunSubsampling  # numerics, which a list of audits does without

        return RunSubsampling(self.every, self.early)


@dataclass(frozen=True, config=FORMAT)
class StoredValues:
    """Where the values of a look are, relative to the store, for who reads them without a plan."""

    stage: str
    documents: int
    runs: int
    runs_a_block: int
    statistics: tuple[str, ...]
    values: str
    key: str
    kept: bool = True


@dataclass(frozen=True, config=FORMAT)
class Provenance:
    """Where the numbers come from."""

    finished: str
    """ISO 8601, UTC."""
    versions: Mapping[str, str]
    """Versions of Python, the libraries and the numerical code."""
    packages: Mapping[str, str]
    """Every package that was installed, with its version."""
    spec: str
    runs_folder: str
    seed: int
    blocks: int
    runs_a_block: int
    stages: Annotated[tuple[StoredValues, ...], Field(min_length=1)]
    """One a look that was made."""


@dataclass(frozen=True, config=FORMAT)
class ShareSummary:
    """Bounds of the share of all documents that leak, from those that were drawn; both hold at 1 - `level`."""

    drawn: int
    population: int
    """Size of the population that they were drawn from."""
    level: float
    low: float
    high: float


@dataclass(frozen=True, config=FORMAT)
class BoundSummary:
    """A bound on every attack, in numbers, against what was measured: `audit.proofs.Bound`."""

    by: ProvedBy
    """Ground of the bound: a secret `draw`, the mechanism's `noise`, `copies` of documents, or `pairs` of runs."""
    trust: str
    """Assumption of the bound."""
    any_knowledge: bool
    """Whether it also holds for somebody who knows all other documents of a run."""
    every_size: bool
    """Whether it is the same for parties of any size."""
    level: float
    """Probability that the bound of any document is wrong."""
    certified: int
    """Documents whose bound is at most the margin, sensitive ones included."""
    sensitive: int
    """Number of these that are called sensitive: one of the two errs."""
    contradicted: int
    """Documents measured to be above their bound, all errors accounted for: then the audit is void."""
    median: float
    """Half of the documents have at most this bound of the advantage."""
    largest: float
    largest_certified: float
    """Largest bound of a certified document."""
    fewest_copies: int | None = None
    """Copies that each of the certified has at least, itself included, if these prove it."""
    pairs: int | None = None
    """Pairs of runs, if these prove it."""
    median_knows_all: float | None = None
    """Half of the documents give at most this to somebody who knows all others, on average over databases."""
    largest_knows_all: float | None = None


@dataclass(frozen=True, config=FORMAT)
class AbsenceSummary:
    """Documents that are sensitive before any run, by the absence of their rarest feature: `audit.absence`."""

    documents: int
    median_bound: float
    """Half of them have at least this lower bound of D."""
    largest_bound: float
