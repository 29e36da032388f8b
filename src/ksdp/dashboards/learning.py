"""The report of an advice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from markupsafe import Markup, escape

from ksdp.dashboards.audits.report import standalone
from ksdp.dashboards.charts import PlotArea, line, number, picture, rect, text, ticks
from ksdp.storage.learning import read_advice
from ksdp.storage.store import Store

_WIDTH, _HEIGHT = 640.0, 360.0


def frontier_svg(advice: Mapping[str, Any], names: Sequence[str] = ()) -> Markup:
    """Draw the gain of each setting against its leak, and the baselines: working alone gives nothing away."""
    given = [setting["leak"]["net"] if setting["leak"] else setting["promised"] for setting in advice["tried"]]
    points = [(place, setting) for place, setting in enumerate(advice["tried"]) if given[place] is not None]
    baselines = _baselines(advice)
    values = [*(value for _, value, _ in baselines), *(setting["value"] for _, setting in points)]
    low, high = min(values), max(values)
    spare = 0.08 * (high - low or 1.0)
    low, high = low - spare, high + spare
    bounds = {place: bound for place, setting in points if (bound := setting["promised"]) is not None}
    seen = [*(leak for *_, leak in baselines), *(given[place] for place, _ in points), *bounds.values()]
    frame = PlotArea(
        64, 12, _WIDTH - 120, _HEIGHT - 58, 0.0, max(advice["margin"] * 1.2, *(1.05 * d for d in seen))
    )

    def y(value: float) -> float:
        return frame.y((value - low) / (high - low))

    body = [
        line(frame.left, frame.bottom, frame.right, frame.bottom, "axis"),
        line(frame.left, frame.top, frame.left, frame.bottom, "axis"),
    ]
    for at, label in ticks(0.0, frame.high, 5):
        body.append(text(frame.x(at), frame.bottom + 16, label, "tick middle"))
    for at, label in _kept_ticks(advice["baselines"], low, high):
        body.append(text(frame.left - 10, y(at) + 4, label, "tick end"))
    margin = frame.x(advice["margin"])
    body += [
        line(margin, frame.top, margin, frame.bottom, "rule"),
        text(margin + 4, frame.bottom - 6, "margin", "tick"),
        text(frame.left, _HEIGHT - 6, _ACROSS, "tick"),
        text(4, frame.top + 2, "gain kept", "tick"),
    ]
    steps = sorted((given[place], advice["tried"][place]["value"]) for place in advice["frontier"])
    for (x1, up1), (x2, up2) in pairwise(steps):
        body.append(line(frame.x(x1), y(up1), frame.x(x2), y(up2), "edge"))
    labels = [(frame.x(leak) + 10, y(value) + 4, name) for name, value, leak in baselines]
    for place, setting in points:
        kind = "best" if place == advice["best"] else "frontier" if place in advice["frontier"] else "other"
        x, up = frame.x(given[place]), y(setting["value"])
        bound = frame.x(bounds[place]) if place in bounds else x
        title = f"<title>{escape(setting['name'])}</title>"
        radius = 7 if kind == "best" else 4
        if place in bounds:
            body.append(line(min(x, bound), up, max(x, bound), up, "rule"))
            body.append(_circle(bound, up, 4, "bound", title))
        body.append(_circle(x, up, radius, kind, title))
        texts = (names[place] if names else "", "recommended" if kind == "best" else "")
        name = ", ".join(filter(None, texts))
        labels.append((max(x, bound) + radius + 4, up + 4, name))
    body += [rect(frame.x(leak) - 5, y(value) - 5, 10, 10, "point baseline") for _, value, leak in baselines]
    dots = [(frame.x(leak), y(value)) for _, value, leak in baselines]
    dots += [(frame.x(given[place]), y(setting["value"])) for place, setting in points]
    body += _apart(labels, dots, frame.right + 50)
    caption = (
        f"{len(points)} settings and {len(baselines)} baselines: what they learn against what they give away."
    )
    return picture("frontier", _WIDTH, _HEIGHT, caption, body)


_ACROSS = "D that 95 % of the documents stay below, chance taken out; in a ring: the bound on every attack"
_LETTER, _LINE = 6.2, 12.0
"""Width and height of a letter of a label, at most."""


def _circle(x: float, y: float, radius: int, kind: str, title: str) -> str:
    return f'<circle class="point {kind}" cx="{number(x)}" cy="{number(y)}" r="{radius}">{title}</circle>'


def _kept_ticks(baselines: Mapping[str, Any], low: float, high: float) -> list[tuple[float, str]]:
    """Values, as shares of the exact run's gain over working alone; as they are, where it gains nothing."""
    alone, gained = baselines["alone"], baselines["exact"] - baselines["alone"]
    if gained <= 0:
        return ticks(low, high, 5)
    shares = ticks(100 * (low - alone) / gained, 100 * (high - alone) / gained, 5)
    return [(alone + share / 100 * gained, f"{label} %") for share, label in shares]


def _apart(
    labels: Sequence[tuple[float, float, str]], dots: Sequence[tuple[float, float]], right: float
) -> list[str]:
    """Labels, each moved down until it is on no dot and no other, and to the left where the picture ends."""
    placed = [(x - 6, y + 4, x + 6) for x, y in dots]
    shown = []
    for x, y, name in sorted((label for label in labels if label[2]), key=lambda label: (label[1], label[0])):
        wide = _LETTER * len(name)
        start = min(x, right - wide)
        while any(abs(y - other) < _LINE and start < end and first < start + wide for first, other, end in placed):
            y += 1.0
        placed.append((start, y, start + wide))
        shown.append(text(start, y, name, "tick"))
    return shown


def _baselines(advice: Mapping[str, Any]) -> list[tuple[str, float, float]]:
    """Name, value and D of each; those that announce nothing stand at 0."""
    baselines = advice["baselines"]
    lines = [
        (name, baselines[key], 0.0)
        for key, name in (("alone", "alone"), ("public", "public data alone"))
        if baselines[key] is not None
    ]
    if baselines["exact_leak"] is not None:
        lines.append(("exact run", baselines["exact"], baselines["exact_leak"]["net"]))
    return lines


def render_advice(store: Store, name: str) -> str:
    """Render the page of some advice from what the store holds of it."""
    advice = read_advice(store, name)
    rows = [
        dict(trial) | {"best": place == advice["best"], "nearest": place == advice["nearest"]}
        for place, trial in enumerate(advice["tried"])
    ]
    rows.sort(key=lambda row: (row["gain"] is None, -(row["gain"] or {"low": 0.0})["low"]))  # refused ones last
    return standalone("advice.html.j2", advice=advice, rows=rows, chart=frontier_svg(advice))
