"""Progress on the terminal, on standard error."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from importlib import import_module
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from ksdp.audit.reviewing import visible
from ksdp.dashboards.words import counted, rate, stage_line, stage_so_far, words
from ksdp.flows.interruption import listening


class _Rate(ProgressColumn):
    """Units a second: lately while a stage is under way, and over all of it when it is done."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(
            "" if speed is None else rate(task.fields.get("stage", ""), speed, 1.0), style="progress.data.speed"
        )


class _Bars:
    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._bar: TaskID | None = None

    def stage(self, name: str, total: int) -> None:
        if self._bar is not None:
            self._progress.update(self._bar, completed=self._progress.tasks[self._bar].total)
        self._bar = self._progress.add_task(words(name), total=total, stage=name)

    def advance(self, units: int) -> None:
        if self._bar is not None:
            self._progress.advance(self._bar, units)

    def say(self, text: str) -> None:
        self._progress.console.print(visible(text, lines=True), highlight=False, soft_wrap=True)


@contextmanager
def terminal() -> Iterator[None]:
    """Show stages as bars while something runs; where there is no terminal, as one line each. SIGTERM ends it."""
    with _ended_by_sigterm():
        yield from _shown()


def _shown() -> Iterator[None]:
    if not Console(stderr=True).is_terminal:
        over = threading.Event()
        with listening(_StageLines()) as lines:
            threading.Thread(target=lines.beat, args=(over,), name="ksdp-progress", daemon=True).start()
            try:
                yield
                lines.end()
            finally:
                over.set()
        return
    with bars(Console(stderr=True)):
        yield


@contextmanager
def bars(console: Console, clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """A bar a stage: units done, units a second, and the time left."""
    columns = (
        TextColumn("{task.description:30}"),
        BarColumn(),
        MofNCompleteColumn(),
        _Rate(),
        TimeElapsedColumn(),
        TimeRemainingColumn(elapsed_when_finished=False),
    )
    with Progress(*columns, console=console, get_time=clock) as progress, listening(_Bars(progress)):
        yield


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """At SIGTERM say one line and be gone, with all children: what is in the store is whole at any moment."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    import psutil

    from ksdp.flows.interruption import at_sigterm

    def leave(number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_IGN)  # `timeout` and service managers send more than one
        os.write(2, b"\nstopped; the same command goes on, or begins again if nothing is stored.\n")
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):
                child.kill()
        os._exit(128 + number)

    with at_sigterm(leave):
        yield


_QUIET = 10.0
"""Seconds; whoever reads a log sees by then that something goes on."""


class _StageLines:
    """One line a stage, when it is over, and one every ten seconds: for logs and pipes, where no bar can move."""

    def __init__(self) -> None:
        self._stage: tuple[str, int] | None = None
        self._began, self._done, self._said = 0.0, 0, time.monotonic()

    def beat(self, over: threading.Event) -> None:
        """Until it is over: a line of the stage wherever nothing was said for a while."""
        while not over.wait(_QUIET / 10):
            stage, now = self._stage, time.monotonic()
            if stage is not None and now - self._said >= _QUIET:
                self.say(stage_so_far(stage[0], self._done, stage[1], now - self._began))

    def stage(self, name: str, total: int) -> None:
        self.end()
        self._stage, self._began, self._done = (name, total), time.monotonic(), 0

    def advance(self, units: int) -> None:
        self._done += units

    def say(self, text: str) -> None:
        self._said = time.monotonic()
        print(visible(text, lines=True), file=sys.stderr, flush=True)

    def end(self) -> None:
        """The last stage is done."""
        if self._stage is not None:
            self.say(stage_line(self._stage[0], self._done, self._stage[1], time.monotonic() - self._began))
        self._stage = None


class _Widget:
    """A bar in the output of a notebook's cell, which is empty when all is done."""

    def __init__(self) -> None:
        shown: Any = import_module("IPython.display")
        self._html, self._place = shown.HTML, shown.display(shown.HTML(""), display_id=True)
        self._name, self._done, self._total, self._shown = "", 0, 1, 0.0

    def stage(self, name: str, total: int) -> None:
        self._name, self._done, self._total = name, 0, max(total, 1)
        self._show()

    def advance(self, units: int) -> None:
        self._done += units
        if self._done >= self._total or time.monotonic() - self._shown > 0.2:
            self._show()

    def say(self, text: str) -> None:
        print(visible(text, lines=True), file=sys.stderr, flush=True)

    def _show(self) -> None:
        self._shown, what = time.monotonic(), counted(self._name)
        far = f", {self._done:,} of {self._total:,} {what}" if what else ""
        bar = f'<progress max="{self._total}" value="{self._done}"></progress> {words(self._name)}{far}'
        self._place.update(self._html(bar))

    def end(self) -> None:
        self._place.update(self._html(""))


@contextmanager
def _in_a_cell() -> Iterator[None]:
    with listening(_Widget()) as widget:
        try:
            yield
        finally:
            widget.end()


def following(verbose: int | None) -> AbstractContextManager[None]:
    """Progress of a Python call: by default in notebooks and on terminals."""
    notebook = "ipykernel" in sys.modules
    if not ((notebook or sys.stderr.isatty()) if verbose is None else verbose):
        return nullcontext()
    return _in_a_cell() if notebook else contextmanager(_shown)()


@contextmanager
def plain() -> Iterator[None]:
    """Show progress as lines, for runs of days whose output goes into a log."""
    with listening(_StageLines()):
        yield
