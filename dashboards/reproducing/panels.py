"""The lines of a repeated figure as a PNG, one panel beside the other; matplotlib is there for those who draw."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_ACROSS, _TICKS = 3, 8
_MARKS = "osv^D*xPh+<>"


def can_draw() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def draw_panels(lines: Sequence[Mapping[str, Any]], x: str, y: str, logarithmic: Sequence[str], to: Path) -> None:
    """Write the picture.

    Parameters
    ----------
    lines : sequence of mappings
        With `panel`, `name`, `x`, `y` and `paper`.
    logarithmic : sequence of str
        Any of "x" and "y".
    """
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(line["panel"] for line in lines))
    across = min(_ACROSS, len(names))
    down = -(-len(names) // across)
    figure = Figure(figsize=(4.6 * across, 3.6 * down), layout="constrained", dpi=110)
    grid = figure.subplots(down, across, squeeze=False)
    for place, name in enumerate(names):
        axes = grid[place // across][place % across]
        of = [line for line in lines if line["panel"] == name]
        for number, line in enumerate(of):
            style = {"linestyle": "--", "color": "0.4"} if line["paper"] else {}
            marker = _MARKS[number % len(_MARKS)]
            axes.plot(line["x"], line["y"], marker=marker, markersize=5, label=line["name"], **style)
        if "x" in logarithmic:
            axes.set_xscale("log")
            at = sorted({value for line in of for value in line["x"]})
            if len(at) <= _TICKS:
                axes.minorticks_off()
                axes.set_xticks(at, [f"{value:g}" for value in at])
        if "y" in logarithmic:
            axes.set_yscale("log")
        axes.set(title=name, xlabel=x, ylabel=y)
        axes.title.set_fontsize(9)
        axes.grid(visible=True, alpha=0.25)
        axes.legend(fontsize=7)
    for place in range(len(names), across * down):
        grid[place // across][place % across].axis("off")
    figure.savefig(to)
