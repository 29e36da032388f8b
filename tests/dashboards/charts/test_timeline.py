"""Time drawn to scale: marks where they belong, lines that stop in gaps and at void audits."""

import re
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksdp.dashboards.timeline import Mark, gaps, spark_svg, timeline_svg

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
    assert 'role="img"' in spark_svg(marks, "sensitive documents")


def test_a_spark_passes_void_audits_by_and_marks_the_newest() -> None:
    kinds, values = ["quiet", "quiet", "void", "sensitive"], [1.0, 2.0, None, 4.0]
    marks = [Mark(at, kind, value) for at, kind, value in zip(days(0, 1, 2, 3), kinds, values, strict=True)]
    drawn = spark_svg(marks, "1 at first, 4 at last")
    (path,) = re.findall(r'class="curve with" d="M([^"]*)"', drawn)
    x, y = np.array([point.split() for point in path.split("L")], dtype=float).T
    assert np.diff(x).tolist() == pytest.approx([(140 - 12) / 3, 2 * (140 - 12) / 3], abs=0.1)
    assert (y[0] - y[2]) / (y[0] - y[1]) == pytest.approx(3, abs=0.05)
    assert (drawn.count("mark void"), drawn.count("mark sensitive"), drawn.count("mark quiet")) == (1, 1, 0)
    assert 'aria-label="1 at first, 4 at last"' in drawn
