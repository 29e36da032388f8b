"""The page of advice: gain against leak, the settings that were tried, and what to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from ksdp.dashboards.audits.report import make_environment, stylesheet
from ksdp.dashboards.charts.drawing import PlotArea, line, number, picture, text, ticks
from ksdp.storage.learning.advice import read_advice
from ksdp.storage.store import Store

__all__ = ["frontier_svg", "render_advice"]

_WIDTH, _HEIGHT = 640.0, 300.0


@lru_cache(maxsize=1)
def _environment() -> Environment:
    return make_environment()


def _described(setting: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.replace('-', ' ')} {value}" for name, value in setting.items()) or "as it stands"


def frontier_svg(advice: Mapping[str, Any]) -> Markup:
    """What each setting learns against what it gives away; the baselines are lines, which give nothing to anybody.

    Across: D below which 95 % of the documents lie. Upwards: the measure on everybody's held-out documents.
    """
    points = [one for one in advice["tried"] if one["leak"] is not None]
    baselines = advice["baselines"]
    levels = {key: baselines[key] for key in ("alone", "public", "exact") if baselines[key] is not None}
    values = [*levels.values(), *(one["value"] for one in points)]
    low, high = min(values), max(values)
    spare = 0.08 * (high - low or 1.0)
    low, high = low - spare, high + spare
    far = max([advice["margin"] * 1.2, *(one["leak"]["high"] * 1.05 for one in points)])
    frame = PlotArea(60, 10, _WIDTH - 160, _HEIGHT - 50, 0.0, far)

    def y(value: float) -> float:
        return frame.y((value - low) / (high - low))

    body = [line(frame.left, frame.bottom, frame.right, frame.bottom, "axis")]
    for at, label in ticks(0.0, far):
        body.append(text(frame.x(at), frame.bottom + 16, label, "tick middle"))
    for at, label in ticks(low, high):
        body.append(text(frame.left - 8, y(at) + 4, label, "tick end"))
    for name, value in levels.items():
        body += [
            line(frame.left, y(value), frame.right, y(value), "rule"),
            text(frame.right + 6, y(value) + 4, name, "tick"),
        ]
    body += [
        line(frame.x(advice["margin"]), frame.top, frame.x(advice["margin"]), frame.bottom, "rule"),
        text(frame.x(advice["margin"]) + 4, frame.top + 12, "margin", "tick"),
        text(frame.left, _HEIGHT - 4, "D that 95 % of the documents stay below", "tick"),
    ]
    for place, one in enumerate(advice["tried"]):
        if one["leak"] is None:
            continue
        kind = "best" if place == advice["best"] else "frontier" if place in advice["frontier"] else "other"
        x, up = frame.x(one["leak"]["high"]), y(one["value"])
        radius = 6 if kind == "best" else 4
        body.append(f'<circle class="point {kind}" cx="{number(x)}" cy="{number(up)}" r="{radius}"/>')
    said = f"{len(points)} settings: what they learn against what they give away."
    return picture("frontier", _WIDTH, _HEIGHT, said, body)


def render_advice(store: Store, name: str) -> str:
    """Render the page of some advice from what the store holds of it.

    Raises
    ------
    StoreError
        If it is not there or cannot be read.
    """
    advice = read_advice(store, name)
    css, css_hash = stylesheet()
    rows = [
        dict(one) | {"text": _described(one["setting"]), "best": place == advice["best"]}
        for place, one in enumerate(advice["tried"])
    ]
    return (
        _environment()
        .get_template("advice.html.j2")
        .render(advice=advice, rows=_ordered(rows), chart=frontier_svg(advice), css=css, css_hash=css_hash)
    )


def _ordered(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Refused ones last, the others by what they learn."""
    return sorted(rows, key=lambda one: (one["leak"] is None, -(one["value"] or 0.0)))
