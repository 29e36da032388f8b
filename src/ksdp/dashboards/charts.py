"""Charts as SVG, drawn by the server."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import NDArray

from ksdp.storage.findings import Gap

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


_POINTS = 150
"""Steps drawn of a curve at most: each is then lower than a pixel."""

_FAR = 1e150
"""Values beyond are drawn like infinity: past the edge."""


def _thin(points: Floats, shares: Floats, keep: float) -> tuple[Floats, Floats]:
    """At most `_POINTS` steps, even in height; the steps around `keep` stay, so that D does not move."""
    if len(points) <= _POINTS:
        return points, shares
    even = np.searchsorted(shares, np.linspace(0, 1, _POINTS - 3))
    at = int(np.searchsorted(points, keep, side="right"))
    chosen = np.unique(np.clip(np.concatenate([even, [0, at - 1, at]]), 0, len(points) - 1))
    return points[chosen], shares[chosen]


def _window(arms: Sequence[Floats], place: float) -> tuple[float, float, bool]:
    """Range of values to draw, and whether far tails are cut off because they would squeeze all the rest."""
    finite = [part for part in (a[np.abs(a) < _FAR] for a in arms) if len(part)]
    infinite = sum(map(len, finite)) < sum(map(len, arms))
    if not finite:
        return 0.0, 1.0, infinite
    low, high = min(float(a.min()) for a in finite), max(float(a.max()) for a in finite)
    inner = np.array([np.quantile(a, (0.01, 0.99)) for a in finite] + [[place, place]] * (abs(place) < _FAR))
    near, far = float(inner[:, 0].min()), float(inner[:, 1].max())
    cut = high - low > 3 * (far - near) > 0
    if cut:
        low, high = near, far
    margin = 0.04 * (high - low) if high > low else abs(low) * 0.05 or 1.0
    return low - margin, high + margin, cut or infinite


def _curve(frame: PlotArea, points: Floats, shares: Floats, kind: str) -> str:
    inside = (points > frame.low) & (points < frame.high)
    below = int(np.searchsorted(points, frame.low, side="right"))
    y = number(frame.y(float(shares[below - 1]) if below else 0.0))
    path = [f"M{number(frame.left)} {y}"]
    for value, share in zip(points[inside], shares[inside], strict=True):
        y = number(frame.y(float(share)))
        path.append(f"H{number(frame.x(float(value)))}V{y}")
    path.append(f"H{number(frame.right)}")
    return f'<path class="curve {kind}" d="{"".join(path)}"/>'


def ecdf_svg(
    with_values: NDArray[np.floating],
    without_values: NDArray[np.floating],
    gap: Gap,
    *,
    document: str,
    statistic: str,
) -> Markup:
    """Draw a statistic's distribution functions over the runs with and without a document, D at its place."""
    first, other = numbers(with_values, "with_values"), numbers(without_values, "without_values")
    place, share_with, share_without = gap.place, gap.share_with, gap.share_without
    distance = gap.distance
    low, high, cut = _window((first, other), place)
    frame = PlotArea(34, 24, 292, 128, low, high)
    sentence = (
        f"Distribution of {statistic} over {len(first):,} runs with document {document} and {len(other):,} runs "
        f"without it: the two curves are farthest apart at {place:.4g}, where D is {distance:.2f}."
    )
    body = [text(frame.left, 10, "share of runs at or below", "name")]
    for share, label in ((0.0, "0"), (0.5, "0.5"), (1.0, "1")):
        body.append(line(frame.left, frame.y(share), frame.right, frame.y(share), "grid" if share else "axis"))
        body.append(text(frame.left - 6, frame.y(share) + 4, label, "end"))
    for value, label in ticks(low, high, 4):
        body.append(line(frame.x(value), frame.bottom, frame.x(value), frame.bottom + 4, "axis"))
        body.append(text(frame.x(value), frame.bottom + 16, label, "middle"))
    name = f"value of {statistic}{' (far tails cut off)' if cut else ''}"
    body.append(text(frame.left + frame.width / 2, frame.bottom + 32, name, "middle name"))
    for values, kind in ((other, "without"), (first, "with")):
        points, counts = np.unique(values, return_counts=True)
        body.append(_curve(frame, *_thin(points, np.cumsum(counts) / len(values), place), kind))
    x = min(max(frame.x(place), frame.left), frame.right)
    body.append(line(x, frame.y(share_with), x, frame.y(share_without), "gap"))
    # Right of the gap's upper end, or left of its lower end, neither curve passes.
    upper, lower = frame.y(max(share_with, share_without)), frame.y(min(share_with, share_without))
    right = x < frame.right - 50
    at = (x + 6, upper + 16) if right else (x - 6, lower - 8)
    body.append(text(*at, f"D {distance:.2f}", "gap-label" if right else "gap-label end"))
    return picture("ecdf", 336, 190, sentence, body)


def counts_svg(counts: NDArray[np.int64], *, statistic: str) -> Markup:
    """Draw the p-values of one statistic against the uniform law of "nothing leaks"."""
    total, bins = int(counts.sum()), len(counts)
    if total == 0:
        raise ValueError("`counts` must count at least one document.")
    expected = total / bins
    top = max(float(counts.max()), 2 * expected)
    frame = PlotArea(44, 24, 356, 128, 0, 1)
    sentence = (
        f"Histogram of the p-values of {total:,} documents under {statistic}: {counts[0]:,} are below "
        f"{1 / bins:g}, where {expected:,.4g} would be if nothing leaked."
    )
    body = [text(frame.left, 10, "documents", "name")]
    for value in sorted({round(tick) for tick, _ in ticks(0, top)}):
        body.append(line(frame.left, frame.y(value / top), frame.right, frame.y(value / top), "grid"))
        body.append(text(frame.left - 6, frame.y(value / top) + 4, f"{value:,}", "end"))
    width = frame.width / bins
    for at, count in enumerate(counts):
        height = frame.height * count / top
        if count:
            x = frame.left + at * width + 0.75
            body.append(rect(x, frame.bottom - height, width - 1.5, height, "bar" if at else "bar first"))
    body.append(line(frame.left, frame.bottom, frame.right, frame.bottom, "axis"))
    level = frame.y(expected / top)
    body.append(line(frame.left, level, frame.right, level, "uniform"))
    body.append(text(frame.right, 10, "if nothing leaked", "end"))
    body.append(line(frame.right - 126, 6, frame.right - 102, 6, "uniform"))
    for quarter in (0.0, 0.25, 0.5, 0.75, 1.0):
        body.append(text(frame.x(quarter), frame.bottom + 16, f"{quarter:g}", "middle"))
    body.append(text(frame.left + frame.width / 2, frame.bottom + 32, "p-value of a document", "middle name"))
    return picture("histogram", 410, 190, sentence, body)


_STRIP = PlotArea(8, 0, 264, 28, 0, 1)


def strip_svg(quantiles: Sequence[float], *, noise: float, statistic: str) -> Markup:
    """Draw five quantiles of D on the scale from 0 to 1: a line, a thicker one in it, a dot at the median."""
    q = numbers(np.asarray(quantiles), "quantiles")
    if len(q) != 5 or (np.diff(q) < 0).any() or q[0] < 0 or q[-1] > 1:
        raise ValueError(f"`quantiles` must be five ascending numbers in [0, 1]; got {list(quantiles)}.")
    middle = _STRIP.height / 2
    sentence = (
        f"D under {statistic}: median {q[2]:.2f}, half of the documents between {q[1]:.2f} and {q[3]:.2f}, "
        f"nine in ten between {q[0]:.2f} and {q[4]:.2f}."
    )
    x = [_STRIP.x(float(value)) for value in q]
    body = [
        rect(_STRIP.left, 0, _STRIP.width * min(noise, 1.0), _STRIP.height, "noise"),
        *(line(_STRIP.x(v), 0, _STRIP.x(v), _STRIP.height, "grid") for v in (0.0, 0.5, 1.0)),
        line(x[0], middle, x[4], middle, "whisker"),
        line(x[1], middle, x[3], middle, "box"),
        f'<circle class="dot" cx="{number(x[2])}" cy="{number(middle)}" r="4.5"/>',
    ]
    return picture("strip", 280, _STRIP.height, sentence, body)


def scale_svg() -> Markup:
    """Draw the scale that `strip_svg` uses, for the head of a column; decoration, so without a name."""
    labels = "".join(
        text(_STRIP.x(v), 11, f"{v:g}", kind) for v, kind in ((0.0, "middle"), (0.5, "middle"), (1.0, "middle"))
    )
    return Markup(f'<svg class="chart strip" aria-hidden="true" viewBox="0 0 280 14">{labels}</svg>')


def shares_svg(counts: Sequence[tuple[str, int]]) -> Markup:
    """Draw counts as one bar of parts; each part's class is its word, and the label says all numbers."""
    total = sum(count for _, count in counts)
    letters = all(word.replace(" ", "").isalpha() for word, _ in counts)
    if total <= 0 or any(count < 0 for _, count in counts) or not letters:
        raise ValueError(f"`counts` must be words with counts, not all zero; got {list(counts)}.")
    sentence = ", ".join(f"{count:,} {word}" for word, count in counts) + f", of {total:,} documents."
    body, x = [], 0.0
    for word, count in counts:
        width = 1000 * count / total
        if count:
            body.append(rect(x, 0, max(width, 1.5), 12, f"share {word.replace(' ', '-')}"))
        x += width
    body.insert(0, rect(0, 0, 1000, 12, "share ground"))
    return picture("shares", 1000, 12, sentence, body, ' preserveAspectRatio="none"')
