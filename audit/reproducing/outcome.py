"""What a repeated experiment came to: a table, the lines of a plot, and what is seen in them."""

from __future__ import annotations

from dataclasses import dataclass

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
