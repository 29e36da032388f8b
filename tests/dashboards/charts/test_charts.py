"""Charts, read back number by number from their markup."""

import re
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp

from ksdp.audit.verdicts.laws import Gap, widest_gap
from ksdp.dashboards.charts import counts_svg, ecdf_svg, shares_svg, strip_svg

FINITE = st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=40)


def parse(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def marks(svg: str, kind: str) -> list[ElementTree.Element]:
    return [mark for mark in parse(svg).iter() if mark.get("class") == kind]


def steps(svg: str, kind: str) -> list[tuple[float, float]]:
    """(x of the step, y after it) of a curve, its start first."""
    (curve,) = marks(svg, f"curve {kind}")
    path = curve.get("d") or ""
    start = re.match(r"M([\d.-]+) ([\d.-]+)", path)
    assert start
    return [(float(x), float(y)) for x, y in [start.groups(), *re.findall(r"H([\d.-]+)V([\d.-]+)", path)]]


def levels(svg: str) -> tuple[float, float]:
    """The heights of share 0 and of share 1."""
    (zero,) = [m for m in marks(svg, "axis") if re.match(r"M34 .*L326 ", m.get("d") or "")]
    return height(zero), height(marks(svg, "grid")[-1])


def height(mark: ElementTree.Element) -> float:
    found = re.match(r"M[\d.]+ ([\d.]+)", mark.get("d") or "")
    assert found
    return float(found.group(1))


def draw(one: list[float], other: list[float], **names: str) -> str:
    return svg_of(np.array(one), np.array(other), **({"document": "d", "statistic": "s"} | names))


def svg_of(one: Any, other: Any, **names: str) -> str:
    return ecdf_svg(one, other, widest_gap(one, other) or Gap(0.0, 0.0, 0.0), **names)


def test_a_curve_has_one_step_a_distinct_value_and_ends_at_the_top() -> None:
    svg = draw([1.0, 2.0, 2.0, 3.0], [0.0, 4.0])
    zero, one = levels(svg)
    curve = steps(svg, "with")
    assert len(curve) == 1 + 3
    assert curve[0][1] == zero
    heights = [(zero - y) / (zero - one) for _, y in curve[1:]]
    assert heights == pytest.approx([0.25, 0.75, 1.0], abs=0.01)


@pytest.mark.filterwarnings("ignore::RuntimeWarning:scipy")  # about its p-value, which is not used
@settings(max_examples=60, deadline=None)
@given(FINITE, FINITE)
def test_the_marked_gap_is_the_distance_of_the_oracle(one: list[float], other: list[float]) -> None:
    svg = draw(one, other)
    expected = ks_2samp(one, other, method="asymp").statistic
    (label,) = [m for m in parse(svg).iter() if (m.get("class") or "").startswith("gap-label")]
    assert float((label.text or "").removeprefix("D ")) == pytest.approx(expected, abs=0.0051)
    (gap,) = marks(svg, "gap")
    y = [float(v) for v in re.findall(r"[ML][\d.-]+ ([\d.-]+)", gap.get("d") or "")]
    zero, top = levels(svg)
    assert abs(y[0] - y[1]) / (zero - top) == pytest.approx(expected, abs=0.01)


def test_thinning_keeps_the_curve_the_top_and_the_place_of_the_gap() -> None:
    rng = np.random.default_rng(3)
    one, other = rng.normal(1.5, 1, 5000), rng.normal(size=60_000)
    svg = svg_of(one, other, document="d", statistic="s")
    _, top = levels(svg)
    (gap,) = marks(svg, "gap")
    ends = [float(v) for v in re.findall(r"[\d.-]+", gap.get("d") or "")]
    for kind in ("with", "without"):
        curve = steps(svg, kind)
        assert 100 < len(curve) <= 151
        assert curve[-1][1] == top
        x, y = np.array(curve).T
        # The height of the drawn curve where D is marked is that of the whole curve.
        drawn = y[np.searchsorted(x, ends[0] + 0.05, side="right") - 1]
        assert min(abs(drawn - ends[1]), abs(drawn - ends[3])) <= 0.11
    assert len(svg) < 5000


def test_far_tails_are_cut_and_said_so_and_infinity_is_one() -> None:
    rng = np.random.default_rng(1)
    near = rng.normal(size=400)
    plain = svg_of(near, near + 1, document="d", statistic="s")
    assert "cut off" not in plain
    wild = np.append(near, 1e9)
    cut = svg_of(wild, near + 1, document="d", statistic="s")
    assert "far tails cut off" in cut
    assert len(steps(cut, "with")) > 100
    for odd in ([np.inf, 1.0, 2.0], [-np.inf], [np.inf]):
        svg = svg_of(np.array(odd), near, document="d", statistic="s")
        assert "far tails cut off" in svg
        assert "nan" not in svg.replace("document", "")


@settings(max_examples=100, deadline=None)
@given(*[st.lists(st.floats(allow_nan=False), min_size=1, max_size=9)] * 2)
def test_whatever_numbers_come_a_picture_comes_out(one: list[float], other: list[float]) -> None:
    for mark in parse(draw(one, other)).iter():
        for name in ("d", "x", "y"):
            assert not re.search("nan|inf|e", mark.get(name) or "")


def test_labels_are_escaped() -> None:
    hostile = '<script>alert("1")</script>&\''
    svg = draw([1.0], [2.0], document=hostile, statistic=hostile)
    assert "<script" not in svg
    assert hostile in (parse(svg).get("aria-label") or "")
    for other in (
        counts_svg(np.array([0, 1]), statistic=hostile),
        strip_svg([0, 0, 0, 0, 1], noise=0.1, statistic=hostile),
    ):
        assert "<script" not in other
        assert hostile in (parse(other).get("aria-label") or "")


def test_bars_are_as_high_as_their_counts() -> None:
    p = np.array([0.0, 1e-300, 0.01, 0.049, 0.06, 0.3, 0.31, 1.0])
    counts, _ = np.histogram(p, bins=20, range=(0, 1))
    svg = counts_svg(counts, statistic="s")
    bars = list(parse(svg).iter("rect"))
    heights = np.array([float(b.get("height") or 0) for b in bars])
    assert heights / heights[0] == pytest.approx(counts[counts > 0] / 4, abs=0.01)
    assert bars[0].get("class") == "bar first"
    assert "4 are below 0.05, where 0.4 would be" in (parse(svg).get("aria-label") or "")
    (uniform,) = [m for m in marks(svg, "uniform") if "M44 " in (m.get("d") or "")]
    level = height(uniform)
    bottom = float(bars[0].get("y") or 0) + heights[0]
    assert (bottom - level) / heights[0] == pytest.approx(0.4 / 4, abs=0.01)


def test_a_strip_marks_its_quantiles() -> None:
    svg = strip_svg([0.0, 0.25, 0.5, 0.75, 1.0], noise=0.1, statistic="s")
    (dot,) = marks(svg, "dot")
    (whisker,), (box,), (noise,) = (marks(svg, kind) for kind in ("whisker", "box", "noise"))
    left, right = (float(v) for v in re.findall(r"[ML]([\d.]+) ", whisker.get("d") or ""))
    inner = [float(v) for v in re.findall(r"[ML]([\d.]+) ", box.get("d") or "")]
    assert float(dot.get("cx") or 0) == pytest.approx((left + right) / 2)
    assert inner == pytest.approx([left + (right - left) / 4, right - (right - left) / 4])
    assert float(noise.get("width") or 0) == pytest.approx((right - left) / 10, abs=0.1)


def test_shares_add_up() -> None:
    svg = shares_svg([("sensitive", 30), ("clear", 0), ("undecided", 10)])
    widths = {m.get("class"): float(m.get("width") or 0) for m in parse(svg).iter("rect")}
    assert widths == {"share ground": 1000, "share sensitive": 750, "share undecided": 250}
    assert parse(svg).get("aria-label") == "30 sensitive, 0 clear, 10 undecided, of 40 documents."
