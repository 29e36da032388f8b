"""The picture of gain against leak, read back from its markup."""

from __future__ import annotations

from itertools import combinations
from typing import Any
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from ksdp.dashboards.learning import frontier_svg

SHARES = st.floats(0, 1, width=16)


def advice(points: list[tuple[float, float, float | None]]) -> dict[str, Any]:
    """What `ksdp advise` keeps, as far as the picture reads it; a bound beside some points."""
    tried = [
        {"leak": {"net": leak}, "value": value, "name": f"rank {place}", "promised": bound}
        for place, (leak, value, bound) in enumerate(points)
    ]
    baselines = {"alone": 0.0, "public": 0.1, "exact": 0.9, "exact_leak": {"net": 0.8}}
    return {"tried": tried, "baselines": baselines, "margin": 0.2, "frontier": [0], "best": None}


@given(st.lists(st.tuples(SHARES, SHARES, st.one_of(st.none(), SHARES)), min_size=1, max_size=8))
def test_every_setting_is_named_where_its_name_hides_no_dot_and_no_other_name(
    points: list[tuple[float, float, float | None]],
) -> None:
    names = [f"setting {place}" for place in range(len(points))]
    drawn = ElementTree.fromstring(frontier_svg(advice(points), names))
    dots = [
        (float(one.attrib["cx"]), float(one.attrib["cy"]))
        for one in drawn.iter()
        if one.tag.endswith("circle") and "bound" not in one.attrib["class"]
    ]
    assert len(dots) == len(points)
    labels = {
        str(one.text): (float(one.attrib["x"]), float(one.attrib["y"]))
        for one in drawn.iter()
        if one.tag.endswith("text") and str(one.text) in {*names, "alone", "exact run", "public data alone"}
    }
    assert {*names} < {*labels}
    for name, (x, y) in labels.items():
        assert not any(x < dot < x + 6.2 * len(name) and y - 8 < up < y for dot, up in dots), name
    for (one, (x, y)), (other, (right, down)) in combinations(labels.items(), 2):
        apart = abs(y - down) >= 11.5 or x + 6 * len(one) <= right or right + 6 * len(other) <= x
        assert apart, (one, other)
