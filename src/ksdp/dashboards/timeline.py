"""Charts over time: when audits were made, where some are missing, and how two of their numbers moved."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from markupsafe import Markup

from ksdp.dashboards.charts import PlotArea, line, number, picture, rect, text
from ksdp.dashboards.words import plural

_WIDTH = 720


@dataclass(frozen=True)
class Mark:
    """An audit, or an attempt, at its time."""

    at: datetime
    kind: str
    """`sensitive`, `quiet` (nothing sensitive), `void` or `failed`."""
    value: float | None = None


def gaps(times: Sequence[datetime]) -> list[tuple[datetime, datetime]]:
    """Where audits that come at a pace stayed out: intervals of at least 1.8 times the median one."""
    ordered = sorted(times)
    steps = [after - before for before, after in pairwise(ordered)]
    if len(ordered) < 4:
        return []
    usual = sorted(steps)[len(steps) // 2]
    if usual <= timedelta(0):
        return []
    return [(before, after) for before, after in pairwise(ordered) if after - before >= 1.8 * usual]


_PACES = ((0.2, "h", "%-d %b %H:%M"), (0.75, "3h", "%-d %b %H:%M"), (3, "12h", "%-d %b %H:%M"))
_SLOWER = ((10, "2D", "%-d %b"), (40, "7D", "%-d %b"), (200, "MS", "%b %Y"), (math.inf, "6MS", "%b %Y"))
"""Up to so many days: how often a date is marked, as pandas names it, and how it is written."""


def _dates(frame: PlotArea) -> list[tuple[float, str]]:
    """A few round dates: hours, days, months or years, whichever fits."""
    import pandas as pd

    first, last = (datetime.fromtimestamp(at, UTC) for at in (frame.low, frame.high))
    days = (last - first) / timedelta(days=1)
    often, name = next((often, name) for most, often, name in (*_PACES, *_SLOWER) if days <= most)
    start = first.replace(hour=0, minute=0, second=0, microsecond=0)
    marks = pd.date_range(start.replace(month=1, day=1) if often.endswith("MS") else start, last, freq=often)
    return [(when.timestamp(), when.strftime(name)) for when in marks if when >= first]


def _axis(frame: PlotArea) -> list[str]:
    body = [line(frame.left, frame.bottom, frame.right, frame.bottom, "axis")]
    before = -1e9
    for at, label in _dates(frame):
        x = frame.x(at)
        if x - before < 70 or x > frame.right - 20:
            continue
        body.append(line(x, frame.bottom, x, frame.bottom + 4, "axis"))
        body.append(text(x, frame.bottom + 16, label, "middle"))
        before = x
    return body


def _mark(x: float, y: float, kind: str) -> str:
    if kind == "sensitive":
        return rect(x - 4, y - 4, 8, 8, "mark sensitive")
    if kind in ("void", "failed"):
        return (
            f'<path class="mark {kind}" d="M{number(x - 4)} {number(y - 4)}L{number(x + 4)} {number(y + 4)}'
            f'M{number(x - 4)} {number(y + 4)}L{number(x + 4)} {number(y - 4)}"/>'
        )
    return f'<circle class="mark quiet" cx="{number(x)}" cy="{number(y)}" r="4"/>'


def timeline_svg(rows: Sequence[tuple[str, Sequence[Mark], Sequence[tuple[datetime, datetime]]]]) -> Markup:
    """Draw a line of marks a row on one scale of time."""
    times = [mark.at for _, marks, _ in rows for mark in marks]
    if not times:
        raise ValueError("`rows` must hold at least one mark.")
    height = 34
    room = max((max(times) - min(times)) * 0.03, timedelta(hours=1))
    first, last = (at.timestamp() for at in (min(times) - room, max(times) + room))
    frame = PlotArea(10, 0, _WIDTH - 20, height * len(rows) + 2, first, last)
    body = _axis(frame)
    sentences = []
    for at, (name, marks, missing) in enumerate(rows):
        own = PlotArea(frame.left, at * height + 14, frame.width, 20, frame.low, frame.high)
        y = own.top + 10
        body.append(text(own.left, own.top - 3, name, "name"))
        for before, after in missing:
            start, end = own.x(before.timestamp()), own.x(after.timestamp())
            edge = min(7.0, (end - start) / 4)
            body.append(rect(start + edge, own.top, end - start - 2 * edge, own.height, "missing"))
        series = sorted(marks, key=lambda mark: mark.at)
        broken = {before for before, _ in missing}
        for earlier, later in pairwise(series):
            if earlier.at not in broken:
                body.append(line(own.x(earlier.at.timestamp()), y, own.x(later.at.timestamp()), y, "thread"))
        body += [_mark(own.x(mark.at.timestamp()), y, mark.kind) for mark in series]
        parts = [
            f"{plural(len(series), 'audit', 'audits')} from {series[0].at:%-d %B %Y} to {series[-1].at:%-d %B %Y}"
        ]
        for kind, words in (("sensitive", "with sensitive documents"), ("void", "void"), ("failed", "not run")):
            count = sum(mark.kind == kind for mark in series)
            if count:
                parts.append(f"{count:,} {words}")
        if missing:
            parts.append(plural(len(missing), "gap", "gaps"))
        sentences.append(f"{name}: {', '.join(parts)}.")
    return picture("timeline", _WIDTH, frame.bottom + 24, " ".join(sentences), body)


def spark_svg(marks: Sequence[Mark], sentence: str) -> Markup:
    """Draw a number over all audits, the newest on the right, without any axis; void audits are crosses."""
    width, height = 140.0, 30.0
    values = [mark.value or 0.0 for mark in marks]
    step, scale = (width - 12) / max(len(marks) - 1, 1), (height - 12) / max(*values, 1e-9)
    first = 6 if len(marks) > 1 else width - 6
    places = [(first + at * step, height - 6 - value * scale) for at, value in enumerate(values)]
    drawn = list(zip(places, marks, strict=True))
    line_of = [f"{number(x)} {number(y)}" for (x, y), mark in drawn if mark.kind != "void"]
    body = [f'<path class="curve with" d="M{"L".join(line_of)}"/>'] if len(line_of) > 1 else []
    body += [
        _mark(x, y, m.kind) for at, ((x, y), m) in enumerate(drawn, 1) if m.kind == "void" or at == len(drawn)
    ]
    return picture("spark", width, height, sentence, body)
