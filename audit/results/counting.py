"""Documents by verdict, counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ksdp.audit.results.parts import VerdictCounts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def count_verdicts(verdict: NDArray[np.str_], every_attack: NDArray[np.bool_]) -> VerdictCounts:
    """Documents by verdict, and the clear ones that are so against every attack."""
    sensitive, clear, undecided = (int((verdict == word).sum()) for word in ("sensitive", "clear", "undecided"))
    return VerdictCounts(sensitive, clear, undecided, int(((verdict == "clear") & every_attack).sum()))


def clear_words(counts: VerdictCounts) -> str:
    """The clear ones, and how many of them against every attack, where there are any.

    Examples
    --------
    >>> clear_words(VerdictCounts(1, 2, 3)), clear_words(VerdictCounts(0, 6, 0, 4))
    ('2 clear', '6 clear (4 against every attack)')
    """
    proved = f" ({counts.every_attack} against every attack)" if counts.every_attack else ""
    return f"{counts.clear} clear{proved}"
