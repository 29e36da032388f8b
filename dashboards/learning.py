"""The report of an advice."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from markupsafe import Markup, escape

from ksdp.dashboards.audits.report import standalone
from ksdp.dashboards.charts import PlotArea, line, number, picture, rect, text, ticks
from ksdp.storage.learning import read_advice
from ksdp.storage.store import Store

_WIDTH, _HEIGHT = 640.0, 360.0


def _described(setting: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.replace('-', ' ')} {value}" for name, value in setting.items()) or "as it stands"


def frontier_svg(advice: Mapping[str, Any]) -> Markup:
    """What each setting learns against what it gives away, and the baselines: who works alone gives nothing away.

    Across: D below which 95 % of the documents lie, chance taken out. Upwards: the measure on everybody's held-out
    documents.
    """
    points = [(place, one) for place, one in enumerate(advice["tried"]) if one["leak"] is not None]
    baselines = _baselines(advice)
    values = [*(value for _, value, _ in baselines), *(one["value"] for _, one in points)]
    low, high = min(values), max(values)
    spare = 0.08 * (high - low or 1.0)
    low, high = low - spare, high + spare
    seen = [*(leak for *_, leak in baselines), *(one["leak"]["net"] for _, one in points)]
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
    for at, label in ticks(low, high, 5):
        body.append(text(frame.left - 10, y(at) + 4, label, "tick end"))
    margin = frame.x(advice["margin"])
    body += [
        line(margin, frame.top, margin, frame.bottom, "rule"),
        text(margin + 4, frame.bottom - 6, "margin", "tick"),
        text(frame.left, _HEIGHT - 6, "D that 95 % of the documents stay below, chance taken out", "tick"),
    ]
    steps = sorted(
        (advice["tried"][place]["leak"]["net"], advice["tried"][place]["value"]) for place in advice["frontier"]
    )
    for (x1, up1), (x2, up2) in pairwise(steps):
        body.append(line(frame.x(x1), y(up1), frame.x(x2), y(up2), "edge"))
    for place, one in points:
        kind = "best" if place == advice["best"] else "frontier" if place in advice["frontier"] else "other"
        x, up = frame.x(one["leak"]["net"]), y(one["value"])
        title = f"<title>{escape(_described(one['setting']))}</title>"
        radius = 7 if kind == "best" else 4
        body.append(
            f'<circle class="point {kind}" cx="{number(x)}" cy="{number(up)}" r="{radius}">{title}</circle>'
        )
        if kind == "best":
            body.append(text(x + 11, up - 6, "recommended", "tick"))
    for name, value, leak in baselines:
        x, up = frame.x(leak), y(value)
        body.append(rect(x - 5, up - 5, 10, 10, "point baseline"))
        last = leak > 0.8 * frame.high
        body.append(text(x + (-10 if last else 10), up + 4, name, "tick end" if last else "tick"))
    caption = (
        f"{len(points)} settings and {len(baselines)} baselines: what they learn against what they give away."
    )
    return picture("frontier", _WIDTH, _HEIGHT, caption, body)


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
        dict(one) | {"text": _described(one["setting"]), "best": place == advice["best"]}
        for place, one in enumerate(advice["tried"])
    ]
    rows.sort(key=lambda one: (one["leak"] is None, -(one["value"] or 0.0)))  # refused ones last
    return standalone("advice.html.j2", advice=advice, rows=rows, chart=frontier_svg(advice))
