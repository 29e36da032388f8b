"""How numbers become verdicts: a section of the spec."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ksdp.audit.spec_tables import Section

_Fraction = Annotated[float, Field(gt=0, lt=1)]


class DecisionSpec(Section, frozen=True):
    """How numbers become verdicts."""

    error: Literal["fdr", "fwer"] = "fdr"
    """What the level bounds, under any dependence: the expected share of wrong verdicts (Benjamini-Yekutieli), or
    the probability of any wrong one (Holm)."""
    level: _Fraction = 0.05
    margin: Annotated[float, Field(ge=0, le=1)] = 0.2
    """The largest advantage that the owner of the data is willing to accept. 0: any proved leak is sensitive."""
    clear_level: _Fraction | None = None
    """Of "clear" and of the bands, where it is not that of the discoveries: schedules spend it apart."""

    @property
    def for_clear(self) -> float:
        """The level of "clear", the default filled in."""
        return self.level if self.clear_level is None else self.clear_level
