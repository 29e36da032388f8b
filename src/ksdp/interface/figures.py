"""A figure for what is found: matplotlib is there for those who draw."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from ksdp.audit.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def blank() -> tuple[Figure, Axes]:
    """A figure and its axes.

    Raises
    ------
    InputError
        If matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("`plot` needs matplotlib: pip install 'ksdp[plot]'.") from None

    class NotebookFigure(Figure):
        """A notebook knows how to show figures only where pyplot was imported, which this does not need."""

        def _repr_png_(self) -> bytes:
            drawn = io.BytesIO()
            self.savefig(drawn, format="png")
            return drawn.getvalue()

    figure = NotebookFigure(figsize=(6.4, 3.6), layout="constrained")
    return figure, figure.subplots()
