"""Documents by verdict, counted."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from ksdp.audit.results.parts import VerdictCounts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["count_verdicts"]


def count_verdicts(verdict: NDArray[np.str_]) -> VerdictCounts:
    """Documents by verdict."""
    counts = {field.name: int((verdict == field.name.replace("_", " ")).sum()) for field in fields(VerdictCounts)}
    return VerdictCounts(**counts)
