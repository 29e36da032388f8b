"""Corrections against SciPy's and against step-by-step definitions."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from ksdp.audit.verdicts.multiplicity import CLEARING, adjust, bonferroni, strictest_log10_p, wrong_share

p_values = st.lists(st.floats(1e-12, 1.0), min_size=1, max_size=40)


def prior(count: int, uniform: float) -> np.ndarray:
    """Of how many are rejected: a part of it uniform, the rest as 1 / k."""
    inverse = np.array([1 / k for k in range(1, count + 1)])
    return uniform / count + (1 - uniform) * inverse / inverse.sum()


@given(p_values)
@settings(deadline=None)
def test_false_discovery_rates_equal_scipy(p: list[float]) -> None:
    ours = 10 ** adjust(np.log10(p), "fdr")
    assert ours == pytest.approx(false_discovery_control(p, method="by"), rel=1e-9)


@given(p_values, st.floats(0, 1), st.floats(0.001, 0.3))
@settings(deadline=None)
def test_the_reshaped_step_up_rejects_what_its_definition_rejects(
    p: list[float], uniform: float, level: float
) -> None:
    """Count down from all of them, with beta as an expectation under the prior."""
    ours = 10 ** adjust(np.log10(p), "fdr", uniform)
    weights, ordered = prior(len(p), uniform), sorted(p)
    for at in (level * (1 - 1e-9), level * (1 + 1e-9)):
        most = 0
        for k in range(len(p), 0, -1):
            beta = sum(x * weights[x - 1] for x in range(1, k + 1))
            if ordered[k - 1] <= at * beta / len(p):
                most = k
                break
        rejected = int((ours <= level).sum())
        assert (rejected >= most) if at < level else (rejected <= most)


@pytest.mark.parametrize("uniform", [0.0, CLEARING, 1.0])
def test_the_step_up_keeps_its_level_under_the_worst_dependence_and_reaches_it(uniform: float) -> None:
    """All hypotheses are true, each p is uniform, and k of them fall together under the bar of k, for one k."""
    rng = np.random.default_rng(5)
    count, level, audits = 12, 0.3, 3_000
    weights = prior(count, uniform)
    bars = level * np.concatenate([[0], (np.arange(1, count + 1) * weights).cumsum()]) / count
    wrong, below = 0, 0.0
    for _ in range(audits):
        k = rng.choice(count + 1, p=[1 - level, *(level * weights)])  # 0: none together
        p = rng.uniform(bars[-1], 1, count)
        p[rng.permutation(count)[:k]] = rng.uniform(bars[k - 1], bars[k], k) if k else 0
        wrong += bool((adjust(np.log10(p), "fdr", uniform) <= np.log10(level)).any())
        below += (p <= bars[-1] / 2).mean() / audits
    assert below == pytest.approx(bars[-1] / 2, rel=0.15)  # each p is uniform
    assert wrong / audits == pytest.approx(level, abs=3 * np.sqrt(level * (1 - level) / audits))


@pytest.mark.parametrize(("rank", "uniform"), [(1, 0.0), (3, CLEARING), (8, CLEARING), (30, CLEARING)])
def test_the_bar_of_a_rank_is_what_decides_so_many(rank: int, uniform: float) -> None:
    bar = strictest_log10_p(0.05, 8, 1, "fdr", rank=rank, uniform=uniform)
    held = np.arange(8) < rank
    assert (adjust(np.where(held, bar - 1e-9, 0), "fdr", uniform) <= np.log10(0.05)).tolist() == held.tolist()
    assert not (adjust(np.where(held, bar + 1e-9, 0), "fdr", uniform) <= np.log10(0.05)).any()


def test_clear_asks_for_less_where_most_are_and_for_ten_times_as_much_where_one_is() -> None:
    bars = {u: [strictest_log10_p(0.05, 1000, 1, "fdr", rank=k, uniform=u) for k in (1, 1000)] for u in (0, 0.9)}
    assert 10 ** (bars[0.9][1] - bars[0][1]) == pytest.approx(3.47, rel=0.01)
    assert 10 ** (bars[0.9][0] - bars[0][0]) == pytest.approx(0.1 + 0.9 * 7.485 / 1000, rel=0.01)


def slow_shares(p: list[float], level: float, count: int) -> dict[frozenset[int], float]:
    """The bound of every part of what is rejected, over every set of hypotheses, from the definition."""
    weights, evidence = prior(count, CLEARING), []
    for one in [*p, *[1.0] * (count - len(p))]:
        bars = [level * sum(x * weights[x - 1] for x in range(1, k + 1)) / count for k in range(1, count + 1)]
        evidence.append(next((count / (level * k) for k, bar in enumerate(bars, 1) if one <= bar), 0.0))
    sets = [frozenset(s) for size in range(1, count + 1) for s in combinations(range(count), size)]
    rejected = frozenset(np.flatnonzero(adjust(np.log10(p), "fdr", CLEARING) <= np.log10(level)).tolist())
    return {
        part: max(
            len(part & s) * len(s) / total / len(part) if (total := sum(evidence[i] for i in s)) else np.inf
            for s in sets
            if part & s
        )
        for part in sets
        if part <= rejected
    }


@given(st.lists(st.sampled_from([1e-9, 1e-4, 0.003, 0.02, 0.04, 0.08, 0.2, 1.0]), min_size=1, max_size=8))
@settings(deadline=None, max_examples=25)
def test_the_share_of_any_part_is_that_of_the_worst_of_all_sets(p: list[float]) -> None:
    for part, share in slow_shares(p, 0.2, len(p)).items():
        ours = wrong_share(np.log10(p), np.isin(np.arange(len(p)), list(part)), 0.2, len(p))
        assert ours == pytest.approx(min(max(share, 0.2), 1.0), rel=1e-9)


@pytest.mark.parametrize("level", [0.2, 0.3, 0.5])
def test_documents_that_are_not_here_count_against_a_part(level: float) -> None:
    p, found = [level * 0.0104, *[level * 0.07] * 2, level * 0.08], []  # just under the bars of 1 and 4
    for part, share in slow_shares([*p, *[1.0] * 7], level, 11).items():
        found.append(share)
        ours = wrong_share(np.log10(p), np.isin(np.arange(4), list(part)), level, 11)
        assert ours == pytest.approx(min(max(share, level), 1.0), rel=1e-9)
    assert sum(share > level for share in found) > 4
    assert (max(found) > 1) == (level == 0.5)


def test_whoever_picks_the_wrong_ones_alone_is_told_so() -> None:
    """Half is true, under the worst dependence, and somebody who knows which picks the worst part there is."""
    rng = np.random.default_rng(8)
    count, true, level, audits = 8, 4, 0.3, 3000
    weights = prior(count, CLEARING)
    bars = level * np.concatenate([[0], (np.arange(1, count + 1) * weights).cumsum()]) / count
    worst = []
    for _ in range(audits):
        p = np.full(count, 1e-3)
        p[:true] = rng.uniform(bars[-1], 1, true)
        k = rng.choice(count + 1, p=[1 - level, *(level * weights)])
        if k:  # so many fall together, where there are so many
            together = rng.permutation(count)[:k]
            p[together[together < true]] = rng.uniform(bars[k - 1], bars[k])
        rejected = adjust(np.log10(p), "fdr", CLEARING) <= np.log10(level)
        ratios = [0.0]
        for part in range(1, 2**true):
            picked = np.array([bool(part >> at & 1) for at in range(true)] + [False] * true)
            if not (picked & ~rejected).any():
                ratios.append(1 / wrong_share(np.log10(p), picked, level, count))
        worst.append(max(ratios))
    assert np.mean(worst) <= 1 + 3 * np.std(worst) / np.sqrt(audits)
    assert np.mean(worst) > 0.2  # it does happen


@given(p_values, st.floats(0.001, 0.3))
@settings(deadline=None)
def test_holm_rejects_what_stepping_down_rejects(p: list[float], level: float) -> None:
    rejected = set()
    for step, row in enumerate(np.argsort(p, kind="stable")):
        if p[row] * (len(p) - step) > level * (1 + 1e-9):
            break
        rejected.add(int(row))
    ours = adjust(np.log10(p), "fwer")
    sure = {int(r) for r in np.flatnonzero(ours <= np.log10(level) - 1e-9)}
    assert sure <= rejected <= {int(r) for r in np.flatnonzero(ours <= np.log10(level) + 1e-6)}


def test_survives_numbers_that_floats_cannot_hold() -> None:
    adjusted = adjust(np.array([-1000.0, -2.0, -0.1]), "fdr")
    assert adjusted[0] < -999
    assert bonferroni(np.array([[-500.0, -1.0]]))[0] == pytest.approx(-500 + np.log10(2))


def test_refuses_an_unknown_error_rate() -> None:
    with pytest.raises(ValueError, match="must be fdr or fwer"):
        adjust(np.zeros(2), "sidak")
