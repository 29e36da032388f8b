"""Documents by verdict, counted."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from ksdp.audit.results.parts import VerdictCounts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def count_verdicts(verdict: NDArray[np.str_]) -> VerdictCounts:
    """Documents by verdict."""
    counts = {field.name: int((verdict == field.name.replace("_", " ")).sum()) for field in fields(VerdictCounts)}
    return VerdictCounts(**counts)


def clear_words(counts: VerdictCounts) -> str:
    """Those that are certified apart, where there are any.

    Examples
    --------
    >>> clear_words(VerdictCounts(1, 2, 3)), clear_words(VerdictCounts(0, 0, 0, 4))
    ('2 clear', '0 clear, 4 certified clear')
    """
    certified = f", {counts.certified_clear} certified clear" if counts.certified_clear else ""
    return f"{counts.clear} clear{certified}"
