"""The verdicts, a row each: what pages, commands and files ask of them. Who reads it imports no numerics.

A new word is a row here, a field of `VerdictCounts`, and the rule that gives it to documents.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Self


class Verdict(StrEnum):
    """Verdicts on a document, in the order of tables; of two exit codes, that of the first one holds."""

    exit_code: int
    """Exit code of a command whose audit has such documents; 0: no pipeline fails by them."""
    may_enter: bool
    """Whether such a document is proved safe enough to enter a run."""
    meaning: str
    remedy: str
    """Where more documents have it than an appetite accepts."""

    def __new__(cls, word: str, exit_code: int, may_enter: bool, meaning: str, remedy: str) -> Self:
        """One row."""
        row = str.__new__(cls, word)
        row._value_, row.exit_code, row.may_enter = word, exit_code, may_enter
        row.meaning, row.remedy = meaning, remedy
        return row

    SENSITIVE = (
        *("sensitive", 3, False),
        "Proved to leak more than the margin of {margin}.",
        "exclude them, or `ksdp advise`",
    )
    CLEAR = (
        *("clear", 0, True),
        "Proved to leak less than the margin of {margin} that the owner accepts, by every statistic tried.",
        "",
    )
    UNDECIDED = (
        *("undecided", 4, False),
        "Proved neither to leak more than the margin of {margin} nor to leak less. This is not the same as safe.",
        "`ksdp more-runs AUDIT`",
    )


class ProvedBy(StrEnum):
    """Grounds of a bound on every attack."""

    DRAW = "draw"
    """A secret draw: most documents that are held are in no run."""
    NOISE = "noise"
    """The mechanism's noise."""
    COPIES = "copies"
    """Documents that are alike, of which no run shows which was in."""
    PAIRS = "pairs"
    """Pairs of runs that differ in one document."""


class Proof(StrEnum):
    """Kind of proof of a clear document, or of a sensitive one that needed no run."""

    STATISTICS = "statistics"
    EVERY_ATTACK = "every attack"
    """A bound of every attack is at most the margin (`ksdp.audit.proofs`)."""
    ABSENCE = "absence"
    """So often does nobody else in a run have the document's rarest feature (`audit.absence`)."""


VERDICTS = tuple(verdict.value for verdict in Verdict)
FAILING = tuple(verdict.value for verdict in Verdict if verdict.exit_code)
"""Words that a pipeline may fail by."""


def verdicts_code(counts: Mapping[str, int], judged: Collection[str] = FAILING) -> int:
    """The exit code for so many documents of each verdict, where the judged ones count."""
    return next((word.exit_code for word in Verdict if word in judged and counts.get(word)), 0)
