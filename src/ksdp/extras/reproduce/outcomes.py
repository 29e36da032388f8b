"""What a repeated table or figure came to: its numbers, its page, its plot."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ksdp.storage.codec import write_checked_json
from ksdp.storage.store import write_text

Cell = str | float | int | None


@dataclass(frozen=True)
class Line:
    """One line of a plot."""

    panel: str
    """Lines of one panel share its axes."""
    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    paper: bool = False
    """Printed in the paper, not measured here."""


@dataclass(frozen=True)
class Outcome:
    """Numbers of the paper stand in columns that say so; `None` where it prints none."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    found: tuple[str, ...]
    """Sentences, made of the numbers above."""
    lines: tuple[Line, ...] = ()
    x: str = ""
    y: str = ""
    logarithmic: tuple[str, ...] = ()
    """Which axes are: any of "x", "y"."""


_ACROSS, _TICKS = 3, 8
_MARKS = "osv^D*xPh+<>"


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def draw_panels(outcome: Outcome, to: Path) -> None:
    """Write the picture of all lines."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(line.panel for line in outcome.lines))
    across = min(_ACROSS, len(names))
    down = -(-len(names) // across)
    figure = Figure(figsize=(4.6 * across, 3.6 * down), layout="constrained", dpi=110)
    grid = figure.subplots(down, across, squeeze=False)
    for place, name in enumerate(names):
        axes = grid[place // across][place % across]
        of = [line for line in outcome.lines if line.panel == name]
        for number, line in enumerate(of):
            style = {"linestyle": "--", "color": "0.4"} if line.paper else {}
            marker = _MARKS[number % len(_MARKS)]
            axes.plot(line.x, line.y, marker=marker, markersize=5, label=line.name, **style)
        if "x" in outcome.logarithmic:
            axes.set_xscale("log")
            at = sorted({value for line in of for value in line.x})
            if len(at) <= _TICKS:
                axes.minorticks_off()
                axes.set_xticks(at, [f"{value:g}" for value in at])
        if "y" in outcome.logarithmic:
            axes.set_yscale("log")
        axes.set(title=name, xlabel=outcome.x, ylabel=outcome.y)
        axes.title.set_fontsize(9)
        axes.grid(visible=True, alpha=0.25)
        axes.legend(fontsize=7)
    for place in range(len(names), across * down):
        grid[place // across][place % across].axis("off")
    figure.savefig(to)


def markdown(
    title: str, outcome: Outcome, differs: Sequence[str], about: Mapping[str, Any], plot: str | None
) -> str:
    """What is found first, then the table, then why the numbers are not the paper's."""
    head = "| " + " | ".join(outcome.columns) + " |"
    table = [head, "|" + "---|" * len(outcome.columns)]
    table += ["| " + " | ".join("" if cell is None else str(cell) for cell in row) + " |" for row in outcome.rows]
    parts = [f"# {title}", *outcome.found]
    if plot is not None:
        parts.append(f"![{title}]({plot})")
    parts += ["\n".join(table)]
    if differs:
        parts += ["## Why the numbers differ", "\n".join(f"- {sentence}" for sentence in differs)]
    parts.append("; ".join(f"{key} {value}" for key, value in about.items()) + ".")
    return "\n\n".join(parts) + "\n"


class Repeated(dict[str, Any]):
    """What `NAME.json` holds, and where the page and the plot are."""

    page: Path
    plot: Path | None


def write_outcome(
    folder: Path, name: str, title: str, outcome: Outcome, differs: Sequence[str], about: Mapping[str, Any]
) -> Repeated:
    """Keep one: NAME.json, NAME.md and, with matplotlib, NAME.png."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    page, plot = folder / f"{name}.md", folder / f"{name}.png"
    plot.unlink(missing_ok=True)
    if outcome.lines and can_draw():
        draw_panels(outcome, plot)
    more = {"differs": list(differs), "about": dict(about)}
    found = Repeated({"name": name, "title": title} | asdict(outcome) | more)
    write_checked_json(folder / f"{name}.json", dict(found))
    found.page, found.plot = page, plot if plot.exists() else None
    write_text(page, markdown(title, outcome, differs, about, plot.name if found.plot else None))
    return found
