"""From values to verdicts in exact small cases: fast enough to run against every mutant of the verdict path.

Each expectation is written out by hand, by enumeration or by SciPy; nothing here needs a compiled kernel.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.stats import hypergeom

from ksdp.audit.canaries import judge_canaries
from ksdp.audit.interim_looks import Look
from ksdp.audit.interim_verdicts import after_look, open_documents
from ksdp.audit.plan import CONTROLS, NULL_CONTROLS
from ksdp.audit.spec import DecisionSpec
from ksdp.audit.testing import compare_arms, judge_controls, shuffled_log10_p
from ksdp.audit.verdicts.arms import ArmTests
from ksdp.audit.verdicts.bands import band_width, distance_band
from ksdp.audit.verdicts.decide import decide
from ksdp.audit.verdicts.ks import ks_table
from ksdp.audit.verdicts.multiplicity import adjust, bonferroni, weighted_minimum
from ksdp.audit.verdicts.tails import tail_sizes, tail_table
from ksdp.audit.verdicts.tied import tied_table

FWER = DecisionSpec(margin=0.3, error="fwer")
ANY_LEAK = DecisionSpec(margin=0, error="fwer")


def arms(distance: list[list[float]], p: list[list[float]], each: int = 100_000) -> ArmTests:
    table = np.array(distance, dtype=float)
    sizes = np.full(table.shape, each)
    return ArmTests(sizes, sizes.copy(), table, np.log10(np.array(p)), np.zeros(table.shape))


# Distances, the law given ties, tails


def slow_distance(values: np.ndarray, bits: np.ndarray) -> float:
    held, free = values[bits], values[~bits]
    return max(abs((held <= t).mean() - (free <= t).mean()) for t in values)


@pytest.mark.parametrize("decimals", [0, 1, 9])
@pytest.mark.parametrize("share", [0.3, 0.7])
def test_distance_is_the_largest_gap_of_the_two_arms(decimals: int, share: float) -> None:
    rng = np.random.default_rng(8)
    values = rng.normal(size=(12, 25)).round(decimals)
    bits = rng.random((12, 25)) < share
    values[:6] += bits[:6] * rng.choice([-1, 1], (6, 1))
    table = ks_table(values, bits)
    assert table.n_with.tolist() == bits.sum(axis=1).tolist()
    assert table.n_without.tolist() == (~bits).sum(axis=1).tolist()
    slow = [slow_distance(v, b) for v, b in zip(values, bits, strict=True)]
    np.testing.assert_allclose(table.distance, slow, atol=1e-12)


@pytest.mark.parametrize("held", [3, 6])
def test_p_given_ties_is_the_share_of_the_splits_that_reach_the_distance(held: int) -> None:
    rng = np.random.default_rng(9)
    for seed in range(6):
        values = rng.integers(0, 3 + seed, 9).astype(float)
        bits = np.zeros(9, dtype=bool)
        bits[np.argsort(values + rng.random(9), kind="stable")[-held:]] = True
        table = ks_table(values[None], bits[None])
        got = 10 ** tied_table(values[None], bits[None], table, worth=0.0)[0]
        splits = [np.isin(np.arange(9), some) for some in itertools.combinations(range(9), held)]
        slow = np.mean([slow_distance(values, s) >= table.distance[0] - 1e-12 for s in splits])
        assert got == pytest.approx(min(slow, 10 ** table.log10_p[0]), rel=1e-9)


def slow_tail(values: np.ndarray, bits: np.ndarray) -> float:
    """Twice the smaller side of Fisher's test of each tail, Bonferroni over the tails; no ties."""
    order, runs, found = np.argsort(values), len(values), []
    for size in tail_sizes(runs):
        for tail in (order[:size], order[-size:]):
            inside = int(bits[tail].sum())
            law = hypergeom(runs, int(bits.sum()), int(size))
            found.append(2 * min(law.sf(inside - 1), law.cdf(inside)))
    return min(1.0, min(found) * len(found))


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_tails_are_fishers_test_of_the_extremes(share: float) -> None:
    rng = np.random.default_rng(10)
    bits = rng.random((6, 200)) < share
    values = rng.normal(size=bits.shape)
    values[0] += 9 * (bits[0] & (rng.random(200) < 0.1))
    values[1] -= 9 * (bits[1] & (rng.random(200) < 0.1))
    values[2] += 9 * (~bits[2] & (rng.random(200) < 0.1))
    assert tail_sizes(200).tolist() == [3, 4, 10]
    table = tail_table(values, bits)
    slow = [slow_tail(v, b) for v, b in zip(values, bits, strict=True)]
    np.testing.assert_allclose(10 ** np.minimum(table.log10_p, 0.0), slow, rtol=1e-8)
    assert table.highest[:2].tolist() == [True, False]


def test_a_tail_never_splits_a_tie() -> None:
    values = np.concatenate([np.zeros(92), np.ones(8)])[None]
    bits = np.zeros((1, 100), dtype=bool)
    bits[0, 88:] = True
    # Of three and five wanted, whole blocks of eight remain: one tail. It holds eight of twelve.
    expected = 2 * hypergeom(100, 12, 8).sf(7)
    assert 10 ** tail_table(values, bits).log10_p[0] == pytest.approx(expected, rel=1e-9)


# Several tests, several documents


def test_corrections_by_hand() -> None:
    p = np.log10([0.01, 0.04, 0.03, 0.5])
    assert 10 ** adjust(p, "holm") == pytest.approx([0.04, 0.09, 0.09, 0.5])
    assert 10 ** adjust(p[::-1], "holm") == pytest.approx([0.5, 0.09, 0.09, 0.04])
    assert 10 ** adjust(p, "bh") == pytest.approx([0.04, 0.16 / 3, 0.16 / 3, 0.5])
    harmonic = 1 + 1 / 2 + 1 / 3 + 1 / 4
    assert 10 ** adjust(p, "by") == pytest.approx([0.04 * harmonic, 0.16 / 3 * harmonic, 0.16 / 3 * harmonic, 1.0])
    assert 10 ** bonferroni(np.log10([[0.01, 0.5, 0.2], [0.9, 0.8, 0.7]])) == pytest.approx([0.03, 1.0])
    both = weighted_minimum(np.log10([0.04, 0.5, 0.9]), np.log10([0.5, 0.001, 0.9]))
    assert 10**both == pytest.approx([0.05, 0.005, 1.0])


def test_a_test_is_of_the_distance_and_of_the_tails() -> None:
    rng = np.random.default_rng(11)
    bits = rng.random((3, 120)) < 0.4
    values = {"a": rng.normal(size=bits.shape) + bits, "b": rng.integers(0, 3, bits.shape).astype(float)}
    tests = compare_arms(values, bits)
    for column, array in enumerate(values.values()):
        table, tail = ks_table(array, bits), tail_table(array, bits).log10_p
        distance = tied_table(array, bits, table)
        expected = np.minimum(np.minimum(10**distance / 0.8, 10**tail / 0.2), 1)
        assert 10 ** tests.log10_p[:, column] == pytest.approx(expected)
        assert tests.log10_tail[:, column] == pytest.approx(tail)
        assert tests.n_with[:, column].tolist() == bits.sum(axis=1).tolist()
        assert tests.n_without[:, column].tolist() == (~bits).sum(axis=1).tolist()
        assert tests.distance[:, column].tolist() == table.distance.tolist()


def test_bands_are_the_best_split_of_two_dkw_bands() -> None:
    best = min(
        math.sqrt(math.log(2 / (0.01 * s)) / 80) + math.sqrt(math.log(2 / (0.01 * (1 - s))) / 600)
        for s in np.linspace(0.02, 0.98, 49)
    )
    assert band_width(np.array([40]), np.array([300]), 0.01)[0] == pytest.approx(best)
    low, high = distance_band(np.array([0.5, 0.9]), np.array([40, 0]), np.array([300, 300]), 0.01)
    assert low.tolist() == pytest.approx([max(0.5 - best, 0), 0])
    assert high.tolist() == pytest.approx([min(0.5 + best, 1), 1])


# Controls and canaries


def controls_of(seed: int = 12, runs: int = 120) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    bits = rng.random((CONTROLS, runs)) < 0.4
    values = rng.normal(size=bits.shape)
    values[NULL_CONTROLS:] += 3.29 * bits[NULL_CONTROLS:]
    return values, bits


def test_controls_come_out_or_the_audit_is_void() -> None:
    values, bits = controls_of()
    sound = compare_arms({"a": values, "b": values}, bits)
    judged = judge_controls([sound, sound], [np.zeros((3, 2))])
    assert judged.valid
    assert (judged.null, judged.planted, judged.shuffled) == (2 * NULL_CONTROLS, 2 * (CONTROLS - NULL_CONTROLS), 6)
    leaking = values.copy()
    leaking[5] += 3.0 * bits[5]
    found = judge_controls([sound, compare_arms({"a": values, "b": leaking}, bits)], [np.zeros((3, 2))])
    assert "null control" in str(found.reason)
    missed = values.copy()
    missed[-1] = np.random.default_rng(1).normal(size=bits.shape[1])
    found = judge_controls([compare_arms({"a": missed, "b": values}, bits), sound], [np.zeros((3, 2))])
    assert "planted leak" in str(found.reason)
    dealt = np.zeros((3, 2))
    dealt[1, 1] = -7
    assert "dealt at random" in str(judge_controls([sound], [np.zeros((2, 2)), dealt]).reason)


def test_the_control_level_counts_every_control() -> None:
    values, bits = controls_of()
    sound = compare_arms({"a": values}, bits)
    level = math.log10(1e-5 / NULL_CONTROLS)
    for off, valid in ((0.01, True), (-0.01, False)):
        log10_p = sound.log10_p.copy()
        log10_p[:NULL_CONTROLS] = 0.0
        log10_p[3] = level + off
        made = ArmTests(sound.n_with, sound.n_without, sound.distance, log10_p, sound.log10_tail)
        assert judge_controls([made], []).valid is valid


def test_learned_columns_must_be_quiet_on_null_controls_only() -> None:
    values, bits = controls_of()
    sound = compare_arms({"a": values}, bits)
    quiet = compare_arms({"l": np.random.default_rng(3).normal(size=values.shape)}, bits)
    assert judge_controls([ArmTests.beside([sound, quiet])], [], [1]).valid
    assert not judge_controls([ArmTests.beside([sound, quiet])], []).valid


def test_shuffled_bits_are_those_of_other_runs() -> None:
    values, bits = controls_of()
    order = np.random.default_rng(4).permutation(bits.shape[1])
    found = shuffled_log10_p({"a": values}, bits, order)
    dealt = bits[:, order]
    assert found[:, 0] == pytest.approx(tied_table(values, dealt, ks_table(values, dealt)))


def test_canaries_void_the_audit_as_soon_as_one_bit_is_wrong() -> None:
    rng = np.random.default_rng(5)
    bits = rng.random((9, 90)) < 0.4
    values = rng.normal(size=bits.shape) + 16 * bits
    sound = compare_arms({"c": values}, bits)
    found = judge_canaries([sound, sound[:2]], FWER, [0.02, 0.03])
    assert (found.reason, found.count, found.sensitive, found.smallest_distance) == (None, 11, 11, 1.0)
    wrong = bits.copy()
    wrong[4, 2] ^= True
    found = judge_canaries([sound, compare_arms({"c": values}, wrong)], FWER, [0.02, 0.03])
    assert "the bits of 1 of 18" in str(found.reason)
    assert found.smallest_distance < 1
    values, ctl = controls_of()
    assert not judge_controls([compare_arms({"a": values}, ctl)], [], canaries=found).valid
    empty = compare_arms({"c": values[:1]}, np.zeros((1, values.shape[1]), dtype=bool))
    assert judge_canaries([empty], FWER, [0.05]).count == 0
    blind = ArmTests(sound.n_with, sound.n_without, sound.distance, np.zeros((9, 1)), sound.log10_tail)
    assert "not called sensitive" in str(judge_canaries([blind], FWER, [0.05]).reason)


# Verdicts


def test_clear_asks_every_statistic() -> None:
    """One statistic at the margin keeps a document from being clear; one above it makes it sensitive."""
    tested = arms([[0.05, 0.3], [0.05, 0.06], [0.3, 0.05], [0.05, 0.6]], [[1, 1]] * 4)
    assert decide(tested, FWER).verdict.tolist() == ["undecided", "clear", "undecided", "sensitive"]
    assert decide(tested, ANY_LEAK).verdict.tolist() == ["undecided"] * 4


def test_the_corrected_p_is_compared_with_the_level() -> None:
    tested = arms([[0.5, 0.5]] * 4, [[0.0062, 1], [0.0063, 1], [0.5, 1], [1, 1]])
    decisions = decide(tested, ANY_LEAK)
    # 0.0062 x 2 statistics x 4 documents = 0.0496, and 0.0063 x 2 x 3 = 0.0378 follows it.
    assert decisions.verdict.tolist()[:2] == ["sensitive", "sensitive"]
    assert 10 ** decisions.log10_adjusted[0] == pytest.approx(0.0496)
    assert decisions.detected.tolist() == [True, True, False, False]
    assert decide(tested, ANY_LEAK, level=0.0495).verdict.tolist() == ["undecided"] * 4
    assert decide(tested, ANY_LEAK, among=5).verdict[0] == "undecided"


def test_bands_hold_over_documents_and_statistics() -> None:
    tested = arms([[0.1, 0.2], [0.3, 0.1]], [[1, 1], [1, 1]], each=500)
    decisions = decide(tested, FWER, level=0.04, among=5)
    width = band_width(np.array([500]), np.array([500]), 0.04 / 10)[0]
    np.testing.assert_allclose(decisions.band_high, tested.distance + width)
    np.testing.assert_allclose(decisions.band_low, np.maximum(tested.distance - width, 0))


def test_an_empty_arm_is_never_cleared() -> None:
    empty = ArmTests(np.array([[0]]), np.array([[50]]), np.array([[np.nan]]), np.zeros((1, 1)), np.zeros((1, 1)))
    assert decide(empty, DecisionSpec(margin=0.9)).verdict[0] == "undecided"


def test_a_later_look_counts_everybody_and_keeps_what_was_said() -> None:
    first = arms([[0.9, 0.1], [0.1, 0.5], [0.05, 0.02]], [[1e-9, 1], [0.5, 0.9], [0.5, 0.5]], each=1000)
    standing = after_look(None, first, 0, Look(2000, 0.01), ANY_LEAK, [1])
    assert standing.decisions.verdict.tolist() == ["sensitive", "undecided", "undecided"]
    assert open_documents(standing).tolist() == [1, 2]
    # 0.005 x 2 statistics x 3 documents of the audit, 0.03, is below the look's 0.04; for one of two it is not.
    for p, verdict in ((0.0066, "sensitive"), (0.0067, "undecided")):
        tests = arms([[0.1, 0.5], [0.05, 0.02]], [[1, p], [1, 1]])
        later = after_look(standing, tests, 1, Look(4000, 0.04), ANY_LEAK, [1])
        assert later.decisions.verdict.tolist() == ["sensitive", verdict, "undecided"]
        assert later.look.tolist() == [0, 1, 1]
        assert 10 ** later.decisions.log10_adjusted[1] == pytest.approx(p * 6 * 0.05 / 0.04)
        assert later.alone[:2].tolist() == [[True, False], [False, True]]
        assert later.paper.tolist() == [False, True, False]
        assert later.tests.n_with[:, 0].tolist() == [1000, 100_000, 100_000]
