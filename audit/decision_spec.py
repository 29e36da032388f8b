"""How numbers become verdicts: a section of the spec."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from ksdp.audit.spec_tables import Section

_Fraction = Annotated[float, Field(gt=0, lt=1)]


class DecisionSpec(Section, frozen=True):
    """How numbers become verdicts."""

    error: Literal["fdr", "fwer"] = "fdr"
    procedure: Literal["by", "bh", "e-bh", "holm"] | None = None
    """Default: `by` (any dependence) for fdr, `holm` for fwer."""
    over_statistics: Literal["bonferroni", "max-t"] = "bonferroni"
    """`max-t` permutes whole runs: exact whatever the statistics share, for audits of some hundred documents."""
    stopping: Literal["planned", "anytime"] = "planned"
    """`anytime`: p-values and bands that hold at every number of runs together, for audits that are topped up
    without a plan; they need four to five times the runs."""
    spending: Literal["obrien-fleming", "pocock"] = "obrien-fleming"
    """How planned looks spend the level: nearly all of it at the end, or evenly."""
    level: _Fraction = 0.05
    margin: Annotated[float, Field(ge=0, le=1)] = 0.2
    """The largest advantage that the owner of the data is willing to accept. 0: any proved leak is sensitive."""
    clear_level: _Fraction | None = None
    """Of "clear" and of the bands, where it is not that of the discoveries: schedules spend it apart."""

    @model_validator(mode="after")
    def _fits(self) -> DecisionSpec:
        if self.procedure is not None and (self.procedure == "holm") != (self.error == "fwer"):
            raise ValueError(f"`procedure` {self.procedure!r} does not control `error` {self.error!r}.")
        if self.stopping == "anytime" and self.over_statistics == "max-t":
            raise ValueError("`over_statistics` max-t goes with `stopping` planned only.")
        return self

    @property
    def for_clear(self) -> float:
        """The level of "clear", the default filled in."""
        return self.level if self.clear_level is None else self.clear_level

    @property
    def joint(self) -> bool:
        """Whether the statistics of a document are tested together, by permutation."""
        return self.over_statistics == "max-t"

    @property
    def correction(self) -> Literal["by", "bh", "e-bh", "holm"]:
        """The procedure over documents, the default filled in."""
        return self.procedure or ("by" if self.error == "fdr" else "holm")
