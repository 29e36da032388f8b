"""Who else holds documents: a section of the spec."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from ksdp.audit.spec_tables import Section

_Size = Annotated[float, Field(gt=0, lt=1)] | Annotated[int, Field(ge=1)]


class PartiesSpec(Section, frozen=True):
    """Other parties' data in every run, as a fraction of the corpus or a number of rows; or parties by name."""

    honest: _Size | None = None
    """Data of parties outside the coalition: it hides the victim's."""
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
