"""Repeat one table: read the data, run the experiment, draw, and keep it with the reasons why it differs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ksdp.audit.errors import InputError
from ksdp.audit.reproducing.outcome import Outcome
from ksdp.dashboards.reproducing.panels import can_draw, draw_panels
from ksdp.flows.reproducing.catalogue import entry
from ksdp.flows.reproducing.experiments import RUNS, Effort
from ksdp.storage.reproducing.data import missing
from ksdp.storage.reproducing.kept import write_outcome


class Repeated(dict[str, Any]):
    """What `NAME.json` holds, and where the page and the plot are."""

    page: Path
    plot: Path | None


def reproduce(
    name: str, folder: Path, out: Path, *, short: bool = False, say: Callable[[str], None] = lambda _: None
) -> Repeated:
    """Run it here, in this process.

    Parameters
    ----------
    folder : Path
        Where the data sets are.
    out : Path
        Where NAME.json, NAME.md and, with matplotlib, NAME.png are written.
    short : bool
        A smaller one.
    """
    asked = entry(name)
    if absent := missing(folder, asked.data):
        raise InputError(f"{name} needs {', '.join(absent)}, which {folder} lacks (`--data` or KSDP_DATA).")
    begin, clock = time.process_time(), time.monotonic()
    outcome: Outcome = RUNS[name](folder, Effort(short), say)
    about: dict[str, Any] = {
        "size": "short" if short else "whole",
        "CPU seconds": round(time.process_time() - begin),
        "seconds": round(time.monotonic() - clock),
    }
    content = asdict(outcome)
    out.mkdir(mode=0o700, parents=True, exist_ok=True)
    drawn = out / f"{name}.png"
    drawn.unlink(missing_ok=True)
    if outcome.lines and can_draw():
        draw_panels(content["lines"], outcome.x, outcome.y, outcome.logarithmic, drawn)
    title = f"{asked.paper}, {asked.title}"
    page, plot = write_outcome(out, name, title, outcome, asked.differs, about)
    found = Repeated(content | {"name": name, "title": title, "differs": list(asked.differs), "about": about})
    found.page, found.plot = page, plot if plot.exists() else None
    return found
