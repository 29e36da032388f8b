"""Progress on the terminal, on standard error."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from ksdp.flows.progress import listening

__all__ = ["plain", "terminal"]

_WORDS = {
    "prepare": "reading the corpus",
    "sample": "running the mechanism",
    "test": "testing documents",
    "confirm": "measuring detected leaks",
    "certify": "pairs of runs",
    "curves": "drawing",
    "claim": "runs on the worst case",
    "start": "starting the parties",
    "iterate": "iterations",
}


def _words(stage: str) -> str:
    """`sample look-2` is the second look's."""
    verb, _, where = stage.partition(" ")
    return _WORDS.get(verb, verb) + (f", {where.replace('-', ' ')}" if where else "")


class _Bars:
    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._bar: TaskID | None = None

    def stage(self, name: str, total: int) -> None:
        if self._bar is not None:
            self._progress.update(self._bar, completed=self._progress.tasks[self._bar].total)
        self._bar = self._progress.add_task(_words(name), total=total)

    def advance(self, units: int) -> None:
        if self._bar is not None:
            self._progress.advance(self._bar, units)

    def say(self, text: str) -> None:
        self._progress.console.print(text, highlight=False, soft_wrap=True)


@contextmanager
def terminal() -> Iterator[None]:
    """Show stages as bars while something runs."""
    columns = (
        TextColumn("{task.description:30}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress, listening(_Bars(progress)):
        yield


class _Lines:
    def stage(self, name: str, total: int) -> None:
        pass

    def advance(self, units: int) -> None:
        pass

    def say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


@contextmanager
def plain() -> Iterator[None]:
    """Show progress as lines, for runs of days whose output goes into a log."""
    with listening(_Lines()):
        yield
