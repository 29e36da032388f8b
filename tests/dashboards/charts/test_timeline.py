"""Time drawn to scale: marks where they belong, lines that stop in gaps and at void audits."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksdp.dashboards.timeline import Mark, gaps, timeline_svg, trend_svg

START = datetime(2026, 11, 1, tzinfo=UTC)


def days(*numbers: float) -> list[datetime]:
    return [START + timedelta(days=number) for number in numbers]


def test_a_gap_is_where_an_audit_stayed_out() -> None:
    assert gaps(days(0, 1, 2, 3, 7, 8)) == [tuple(days(3, 7))]
    assert gaps(days(0, 1, 2, 3.5)) == []
    assert gaps(days(0, 1, 9)) == []  # too few to have a pace
    assert gaps(days(5, 5, 5, 5)) == []
    assert gaps(days(8, 0, 7, 1, 3, 2)) == [tuple(days(3, 7))]


@given(st.lists(st.floats(0, 400), min_size=1, max_size=40), st.booleans())
def test_any_history_can_be_drawn(numbers: list[float], void: bool) -> None:
    marks = [Mark(at, "void" if void else "quiet", None if void else 3.0) for at in days(*numbers)]
    drawn = timeline_svg([("one", marks, gaps([mark.at for mark in marks]))])
    assert drawn.count('class="mark') == len(numbers)
    assert "nan" not in drawn
    assert 'role="img"' in trend_svg(marks, [], name="sensitive documents")


def test_a_line_stops_in_gaps_and_at_void_audits() -> None:
    values = [1.0, 2.0, None, 4.0, 5.0, 6.0]
    marks = [Mark(at, "quiet", value) for at, value in zip(days(0, 1, 2, 3, 8, 9), values, strict=True)]
    drawn = trend_svg(marks, [tuple(days(3, 8))], name="sensitive documents")  # type: ignore[list-item]
    (path,) = re.findall(r'class="curve with" d="([^"]*)"', drawn)
    assert re.sub(r"[-0-9. ]", "", path) == "MLMML"
    assert drawn.count('class="missing"') == 1
    assert drawn.count('class="mark void"') == 1
    assert "1 at first, 6 at last" in drawn


def test_places_are_to_scale() -> None:
    drawn = timeline_svg([("a <b>", [Mark(at, "quiet") for at in days(0, 1, 3)], [])])
    x = [float(at) for at in re.findall(r'class="mark quiet" cx="([^"]*)"', drawn)]
    assert (x[2] - x[0]) / (x[1] - x[0]) == pytest.approx(3, abs=0.01)
    assert "<b>" not in drawn


def test_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one mark"):
        timeline_svg([])
    with pytest.raises(ValueError, match="at least one mark"):
        trend_svg([], [], name="x")
