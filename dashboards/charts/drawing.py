"""What every chart is drawn with: checked numbers, a frame, ticks, and marks that carry a class and no style."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def numbers(values: NDArray[np.floating], name: str) -> Floats:
    """Return `values` as a flat float64 array."""
    array = np.asarray(values, dtype=np.float64).ravel()
    if len(array) == 0:
        raise ValueError(f"`{name}` must hold at least one value; got none.")
    if np.isnan(array).any():
        raise ValueError(f"`{name}` must not hold NaN.")
    return array


def number(value: float) -> str:
    """A coordinate: a tenth of a pixel is enough."""
    written = f"{value:.1f}"
    return written.removesuffix(".0") if written != "-0.0" else "0"


def picture(kind: str, width: float, height: float, sentence: str, body: Sequence[str], fit: str = "") -> Markup:
    """Return a whole chart: one image whose name is `sentence`."""
    return Markup(
        f'<svg class="chart {kind}" role="img" viewBox="0 0 {number(width)} {number(height)}"{fit} '
        f'aria-label="{escape(sentence)}">{"".join(body)}</svg>'
    )


def text(x: float, y: float, content: str, kind: str = "") -> str:
    """Return a label, escaped, of class `kind`."""
    return f'<text class="{kind}" x="{number(x)}" y="{number(y)}">{escape(content)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """Return a straight line of class `kind`."""
    return f'<path class="{kind}" d="M{number(x1)} {number(y1)}L{number(x2)} {number(y2)}"/>'


def rect(x: float, y: float, width: float, height: float, kind: str) -> str:
    """Return a filled rectangle of class `kind`."""
    return (
        f'<rect class="{kind}" x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}"/>'
    )


@dataclass(frozen=True)
class PlotArea:
    """Where data lies on the picture."""

    left: float
    top: float
    width: float
    height: float
    low: float
    high: float

    def x(self, value: float) -> float:
        """Return the place of a value on the x axis."""
        return self.left + self.width * (value - self.low) / (self.high - self.low)

    def y(self, share: float) -> float:
        """Return the place of a share on the y axis: 0 at the bottom, 1 at the top."""
        return self.top + self.height * (1 - share)

    @property
    def right(self) -> float:
        """Right edge."""
        return self.left + self.width

    @property
    def bottom(self) -> float:
        """Lower edge."""
        return self.top + self.height


def ticks(low: float, high: float, wanted: int = 3) -> list[tuple[float, str]]:
    """Return a few round values between the ends and their labels, of as many digits as tell them apart.

    >>> ticks(0, 602)
    [(0.0, '0'), (250.0, '250'), (500.0, '500')]
    """
    raw = max((high - low) / wanted, sys.float_info.min)
    unit = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * m for m in (1, 2, 2.5, 5, 10) if unit * m >= raw * 0.999)
    values = [float(k * step) for k in range(math.ceil(low / step), math.floor(high / step) + 1)][: wanted + 2]
    largest = max(abs(low), abs(high))
    if largest >= 1e5 or largest < 1e-3:
        digits = max(0, math.ceil(math.log10(largest / step)))
        return [(v, "0" if v == 0 else f"{v:.{digits}e}".replace("e-0", "e-").replace("e+0", "e")) for v in values]
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    decimals += not math.isclose(step * 10**decimals, round(step * 10**decimals), rel_tol=1e-6)
    return [(v, f"{v:.{decimals}f}".replace("-", "−")) for v in values]
