"""Copies tested together: the identity that it rests on, by counting every run; and what is made of its arms."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from ksdp.audit.decision_spec import DecisionSpec
from ksdp.audit.verdicts.arms import ArmTests
from ksdp.audit.verdicts.copies import count_laws, count_laws_independent
from ksdp.audit.verdicts.count_arms import SLACK, CountTests, thinning
from ksdp.audit.verdicts.decide import decide
from ksdp.audit.verdicts.ks import ks_table

RULE = DecisionSpec(level=0.05, margin=0.2, error="fwer")


def largest_gap(first: np.ndarray, second: np.ndarray) -> float:
    """sup |F - G| of two laws given as weights of ordered values."""
    return float(np.abs(np.cumsum(first) - np.cumsum(second)).max())


@pytest.mark.parametrize(("documents", "copies", "size"), [(7, 3, 3), (8, 4, 5), (9, 6, 4), (8, 2, 3)])
def test_the_d_of_a_copy_is_that_of_many_and_few(documents: int, copies: int, size: int) -> None:
    """Every run there is, each with a value of what it holds of each content, whichever copy that is."""
    rng = np.random.default_rng(documents)
    runs = list(itertools.combinations(range(documents), size))
    value_of: dict[tuple[int, ...], int] = {}
    values = []
    for run in runs:
        seen = tuple(0 if one < copies else one for one in run)  # the first `copies` documents are alike
        values.append(value_of.setdefault(seen, int(rng.integers(5) + 2 * (seen.count(0) > copies / 2))))
    value = np.array(values)
    holds = np.array([0 in run for run in runs])
    f, g = (np.bincount(value[arm], minlength=8) / arm.sum() for arm in (holds, ~holds))

    found = thinning(count_laws(copies, documents, size))
    count = np.array([sum(one < copies for one in run) for run in runs])
    h, low = (np.bincount(value, weights=taken[count], minlength=8) for taken in (found.many, found.few))
    together = found.told * largest_gap(h / h.sum(), low / low.sum())
    assert together == pytest.approx(largest_gap(f, g), abs=SLACK)
    assert largest_gap(f, g) > 0.01


@pytest.mark.parametrize("copies", [2, 6, 20, 60, 150])
def test_the_cut_moves_the_weights_by_no_more_than_it_says(copies: int) -> None:
    laws = count_laws_independent(copies, 0.03)
    found = thinning(laws)
    assert found.told == laws.told
    moved = 0.0
    for taken, sign in ((found.many, 1), (found.few, -1)):
        exact = np.maximum(sign * (laws.held - laws.left_out), 0)
        weights = taken * laws.all
        # Weights of the numbers that are not cut are in proportion: the first of them gives the scale.
        scale = exact[taken > 0][0] / weights[taken > 0][0]
        if taken[taken > 0][0] == 1:  # cut itself: no smaller one
            scale = (exact / np.where(weights > 0, weights, np.inf))[taken > 0].min()
        moved += np.abs(exact - weights * scale).sum()
        assert 0 < taken.max() <= 1
    assert moved <= SLACK * (1 + 1e-9)
    assert not (found.many * found.few).any()


def test_two_copies_are_not_worth_it_and_many_are() -> None:
    assert [thinning(count_laws(n, 17706, 531)).worth for n in (2, 3, 6, 60)] == [False, False, True, True]
    # What a run of each arm is worth, over what a document's own is.
    laws = count_laws(60, 17706, 531)
    found = thinning(laws)
    m, n = float(laws.all @ found.many), float(laws.all @ found.few)
    assert m * n / (m + n) / found.told**2 / (0.03 * 0.97) == pytest.approx(24, abs=1)


def test_arms_are_drawn_by_count_and_few_only_where_all_values_are() -> None:
    found = thinning(count_laws(20, 1000, 100))
    held = np.array([0, 0, 1, 2, 5, 8])
    open_ = np.array([True, False, True, True, False, False])
    many, few = found.arms(held, np.full(6, 1e-9), open_)
    assert many.tolist() == [False, False, False, False, True, True]
    assert few.tolist() == [True, False, True, False, False, False]
    assert not any(arm.any() for arm in found.arms(np.minimum(held, 3), np.full(6, 0.9999999), open_ & (held > 0)))


def test_p_values_and_bands_are_those_of_the_arms_over_what_the_number_tells() -> None:
    """By hand, from sup |H - L| and the margin over t, as a test of two arms reads them."""
    tests = CountTests(
        rows=np.array([1]),
        copies=np.array([9]),
        distance=np.array([[0.30, 0.05]]),
        told=np.array([0.4]),
        n_many=np.array([500]),
        n_few=np.array([2000]),
    )
    size = 500 * 2000 / 2500
    over = (0.30 - SLACK - 0.2) / 0.4
    assert tests.log10_above(RULE)[0, 0] == pytest.approx(math.log10(2.4 * math.exp(-2 * size * over**2)))
    assert tests.log10_above(RULE)[0, 1] == 0
    short = (0.2 - SLACK - 0.05) / 0.4
    assert tests.log10_below(RULE)[0, 1] == pytest.approx(math.log10(math.exp(-2 * size * short**2)))
    assert tests.log10_below(RULE)[0, 0] == 0
    low, high = tests.bands(0.01)
    width = 0.4 * math.sqrt(math.log(3.4 / 0.01) / (2 * size)) + SLACK
    assert (low[0, 0], high[0, 0]) == pytest.approx((0.30 - width, 0.30 + width))
    assert low[0, 1] == pytest.approx(0.05 - width)


def own_arms(distance: float) -> ArmTests:
    """Three documents of one column, whose own arms say this D and no more than a trace."""
    d = np.full((3, 1), distance)
    n = np.full(d.shape, 200)
    return ArmTests(n, n * 9, d, np.full(d.shape, -1.0), np.zeros(d.shape))


def counted(distance: float) -> CountTests:
    return CountTests(
        np.array([1]), np.array([9]), np.array([[distance]]), np.array([0.4]), np.array([900]), np.array([3000])
    )


def test_they_stand_in_place_of_the_own_arms_of_those_they_are_of_alone() -> None:
    own = own_arms(0.25)
    alone, found = decide(own, RULE), decide(own, RULE, copies=counted(0.32))
    assert alone.verdict.tolist() == ["undecided"] * 3
    assert found.verdict.tolist() == ["undecided", "sensitive", "undecided"]
    assert found.together.tolist() == [0, 9, 0]
    assert found.detected.tolist() == [False, True, False]
    clear = decide(own, RULE, copies=counted(0.05))
    assert clear.verdict.tolist() == ["undecided", "clear", "undecided"]
    others = [0, 2]
    for name in ("log10_above", "log10_below", "band_low", "band_high", "runs_to_decide"):
        assert (getattr(found, name)[others] == getattr(alone, name)[others]).all(), name
    assert found.log10_below[1] == 0
    assert found.band_high[1] - found.band_low[1] < 0.5 * (alone.band_high[1] - alone.band_low[1])


def test_a_leak_is_proved_by_either_at_half_the_level() -> None:
    own = own_arms(0.1)
    found = decide(own, RULE, copies=counted(0.1))
    assert found.log10_p[1] == pytest.approx(-1.0 + math.log10(2))
    assert found.log10_p[0] == -1.0
    found = decide(own, RULE, copies=counted(0.32))
    assert found.log10_p[1] == pytest.approx(found.log10_p_above[1] + math.log10(2))


def test_runs_to_decide_count_runs_of_the_audit() -> None:
    """Were as many runs made as it says, and D stayed the same, it would be about decided; and not with a half."""
    own, seen = own_arms(0.25), counted(0.21)
    first = decide(own, RULE, copies=seen)
    assert first.verdict[1] == "undecided"
    factor = first.runs_to_decide[1] / 2000
    assert 1 < factor < 100
    for times, verdict in ((1.1 * factor, "sensitive"), (factor / 2, "undecided")):
        more = CountTests(
            seen.rows, seen.copies, seen.distance, seen.told, (seen.n_many * times).astype(int),
            (seen.n_few * times).astype(int),
        )  # fmt: skip
        assert decide(own, RULE, copies=more).verdict[1] == verdict


def test_measured_distances_come_near_the_true_one_with_a_fraction_of_the_runs() -> None:
    """Values that rise with the number of copies: t sup |H - L| and the own arm's D estimate the same."""
    rng = np.random.default_rng(0)
    copies, share, runs = 60, 0.03, 200_000
    bits = rng.random((copies, runs)) < share
    held = bits.sum(axis=0)
    value = (rng.normal(size=runs) + 0.8 * held)[None]
    own = ks_table(value, bits[:1]).distance[0]
    found = thinning(count_laws_independent(copies, share))
    many, few = found.arms(held, rng.random(runs), np.ones(runs, np.bool_))
    taken = many | few
    together = found.told * ks_table(np.ascontiguousarray(value[:, taken]), many[None, taken]).distance[0]
    assert together == pytest.approx(own, abs=0.02)
    assert own > 0.15
