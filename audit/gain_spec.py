"""How what is gained by a run is measured: a section of the spec that no audit depends on."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ksdp.audit.spec_tables import Section


class GainSpec(Section, frozen=True):
    """Splits, parties and baselines."""

    splits: Annotated[int, Field(ge=2, le=1000)] = 5
    """Random ones."""
    held_out: Annotated[float, Field(gt=0, lt=1)] = 0.1
    """Share of the documents that nobody learns from, in each split."""
    parties: Annotated[int, Field(ge=2, le=64)] | None = None
    """Drawn alike, in place of those that `corpus.party` names. Default: those; three where it names none."""
    public: Annotated[int, Field(ge=2)] | None = None
    """Documents that are taken as public in each split, and from every party: who learns from them alone is a
    baseline. With `corpus.levers.basis` it is the first directions of that basis, whatever this says."""
    time: str | None = None
    """Column of a ratings file that says when, as a number. Of every user the latest fifth of the ratings is
    predicted, and nobody learns from it; of ratings without a time a fifth at random."""
    target: str | None = None
    """Numeric column of a table: the error of a regression on what is learnt is measured, too."""
