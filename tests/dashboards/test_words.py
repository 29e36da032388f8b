"""How numbers and names are written."""

import pytest

from ksdp.dashboards.words import at_most, duration, label, p_value


@pytest.mark.parametrize(
    ("log10_p", "written"),
    [
        (0.0, "1.000"),
        (-2.999, "0.001"),
        (-3.05, '<span class="p" title="10^−3.0">1 in 1,120</span>'),
        (-6.0, '<span class="p" title="10^−6.0">1 in 1,000,000</span>'),
        (-388.04, '<span class="p" title="10^−388.0">less than 1 in a million</span>'),
        (-1234567.0, '<span class="p" title="10^−1234567.0">less than 1 in a million</span>'),
    ],
)
def test_a_p_value_never_underflows(log10_p: float, written: str) -> None:
    assert p_value(log10_p) == written


@pytest.mark.parametrize(
    ("seconds", "written"),
    [(0.04, "0.0 s"), (59.6, "1 min 0 s"), (59.4, "59 s"), (3599.7, "1 h 0 min"), (90061, "25 h 1 min")],
)
def test_durations_carry_over(seconds: float, written: str) -> None:
    assert duration(seconds) == written


def test_a_name_is_escaped_cut_and_kept_in_its_direction() -> None:
    assert label("a&b") == "<bdi>a&amp;b</bdi>"
    long = "<i>" + "x" * 5000 + '"end'
    written = label(long)
    assert len(written) < 400
    assert written.startswith('<bdi title="&lt;i&gt;xxx')
    assert written.endswith("xxxxx&#34;end</bdi>")
    assert label("a\0b\x1bc") == "<bdi>a�b�c</bdi>"


def test_a_bound_is_rounded_up() -> None:
    assert [at_most(bound) for bound in (0.0149, 0.3, 1.0)] == ["0.02", "0.30", "1.00"]
