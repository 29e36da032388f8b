"""The numbers, the page and the plot of one table or figure; and how one run of a mechanism is made."""

from __future__ import annotations

import importlib.util
import inspect
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import ksdp
from ksdp.audit.contract import Database, Mechanism, Observables

Cell = str | float | int | None


@dataclass(frozen=True)
class Line:
    """One line of a plot; lines of one panel share its axes."""

    panel: str
    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True)
class Outcome:
    """The paper's numbers stand in columns that say so; `None` where it prints none."""

    columns: str
    """Their names, as the head of a Markdown table."""
    rows: Sequence[tuple[Cell, ...]]
    notes: Sequence[str]
    lines: Sequence[Line] = ()
    x: str = ""
    y: str = ""
    logarithmic: tuple[str, ...] = ()
    """Which axes are: any of "x", "y"."""


def say(text: str) -> None:
    """Show how far a script is."""
    print(text, file=sys.stderr, flush=True)


def run(mechanism: Mechanism, parts: Sequence[sp.csr_array], rng: np.random.Generator | int = 0) -> Observables:
    """What one run of a mechanism on these parties' rows releases, with the noise of all."""
    every = {"made_by": len(parts)} if "made_by" in inspect.signature(mechanism.run).parameters else {}
    return mechanism.run(Database(tuple(parts)), np.random.default_rng(rng), **every)


def released(
    name: str, parts: Sequence[sp.csr_array], rng: np.random.Generator | int = 0, **parameters: Any
) -> Observables:
    """The same, of a mechanism by its name."""
    return run(ksdp.mechanism(name, **parameters), parts, rng)


_ACROSS, _TICKS = 3, 8
_MARKS = "osv^D*xPh+<>"


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def _draw(outcome: Outcome, to: Path) -> None:
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(line.panel for line in outcome.lines))
    across = min(_ACROSS, len(names))
    down = -(-len(names) // across)
    figure = Figure(figsize=(4.6 * across, 3.6 * down), layout="constrained", dpi=110)
    grid = figure.subplots(down, across, squeeze=False).ravel()
    for axes, name in zip(grid, names, strict=False):
        lines = [line for line in outcome.lines if line.panel == name]
        for line, marker in zip(lines, _MARKS * len(lines), strict=False):
            axes.plot(line.x, line.y, marker=marker, markersize=5, label=line.name)
        if "x" in outcome.logarithmic:
            axes.set_xscale("log")
            at = sorted({value for line in lines for value in line.x})
            if len(at) <= _TICKS:
                axes.minorticks_off()
                axes.set_xticks(at, [f"{value:g}" for value in at])
        if "y" in outcome.logarithmic:
            axes.set_yscale("log")
        axes.set(xlabel=outcome.x, ylabel=outcome.y)
        axes.set_title(name, fontsize=9)
        axes.grid(visible=True, alpha=0.25)
        axes.legend(fontsize=7)
    for axes in grid[len(names) :]:
        axes.axis("off")
    figure.savefig(to)


def markdown(
    title: str, outcome: Outcome, differs: Sequence[str], about: Mapping[str, Any], plot: str | None
) -> str:
    """The page: what came out first, then the table, then why the numbers are not the paper's."""
    lines = [f"| {outcome.columns} |", "|" + "---|" * len(outcome.rows[0])]
    lines += ["| " + " | ".join("" if cell is None else str(cell) for cell in row) + " |" for row in outcome.rows]
    parts = [f"# {title}", *outcome.notes, *([f"![{title}]({plot})"] if plot else []), "\n".join(lines)]
    if differs:
        parts += ["## Why the numbers differ", "\n".join(f"- {sentence}" for sentence in differs)]
    parts.append("; ".join(f"{key} {value}" for key, value in about.items()) + ".")
    return "\n\n".join(parts) + "\n"


def write(
    folder: Path, name: str, title: str, outcome: Outcome, differs: Sequence[str], about: Mapping[str, Any]
) -> Path:
    """Keep NAME.json, NAME.md and, with matplotlib, NAME.png; the page's path."""
    folder.mkdir(parents=True, exist_ok=True)
    plot = folder / f"{name}.png"
    plot.unlink(missing_ok=True)
    if outcome.lines and can_draw():
        _draw(outcome, plot)
    numbers = {"name": name, "title": title, **asdict(outcome), "differs": list(differs), "about": dict(about)}
    (folder / f"{name}.json").write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    page = folder / f"{name}.md"
    text = markdown(title, outcome, differs, about, plot.name if plot.exists() else None)
    page.write_text(text, encoding="utf-8")
    return page
