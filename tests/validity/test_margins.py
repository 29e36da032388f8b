"""Documents exactly at the margin are called sensitive, or clear, no more often than promised; and power.

Every replay decides some documents whose true advantage is the margin, one way or another: shifted normals, events
of two values, ties, arms of 3 % and 97 %. Each is false whatever is said of it, so that one verdict "sensitive"
(or "clear") among them is a false discovery rate of one: it may happen in at most the level of the replays.
"""

import math

import numpy as np
import pytest
from scipy.special import ndtri

from ksdp.audit.specs.models import DecisionSpec
from ksdp.audit.verdicts.decide import decide
from ksdp.audit.verdicts.effects import best_threshold, measure_effect
from ksdp.audit.verdicts.laws import ArmTests, ks_distances
from ksdp.audit.verdicts.looks import Look, LookScope, after_fresh, after_look, for_fresh_runs, open_documents

pytestmark = pytest.mark.validity

REPLAYS = 1000
LEVEL = 0.05
MARGIN = 0.2
DOCUMENTS = 4
MOST = math.ceil(REPLAYS * LEVEL + 3 * math.sqrt(REPLAYS * LEVEL * (1 - LEVEL)))

SHIFT = -2 * float(ndtri((1 - MARGIN) / 2))
"""Of two normals with D = margin."""


def shift(rng: np.random.Generator, bits: np.ndarray, advantage: float = MARGIN) -> np.ndarray:
    return rng.normal(size=bits.shape) - 2 * float(ndtri((1 - advantage) / 2)) * bits


def event(rng: np.random.Generator, bits: np.ndarray, advantage: float = MARGIN) -> np.ndarray:
    """Two values, at the rates that scatter most."""
    return (rng.random(bits.shape) < 0.5 - advantage / 2 + advantage * bits).astype(np.float64)


def rare(rng: np.random.Generator, bits: np.ndarray, advantage: float = MARGIN) -> np.ndarray:
    """An event that only happens with the document."""
    return (rng.random(bits.shape) < advantage * bits).astype(np.float64)


def ties(rng: np.random.Generator, bits: np.ndarray, advantage: float = MARGIN) -> np.ndarray:
    """Five values; the mass moves from the middle one up."""
    moved = (rng.random(bits.shape) < advantage / 0.4) & bits
    values = rng.choice(5, bits.shape, p=[0.2, 0.1, 0.4, 0.1, 0.2]).astype(np.float64)
    return np.where(moved & (values == 2), 4.0, values)


def flat(rng: np.random.Generator, bits: np.ndarray, advantage: float = MARGIN) -> np.ndarray:
    """The difference is the margin at every threshold between 0 and 1: the worst case of "above"."""
    extreme = rng.random(bits.shape) < advantage
    return np.where(extreme, np.where(bits, -1.0, 2.0), rng.random(bits.shape))


LEAKS = {"shift": shift, "event": event, "rare": rare, "ties": ties, "flat": flat}


def arms_of(columns: list[np.ndarray], bits: np.ndarray) -> ArmTests:
    """Distances and no p-values of "any leak": those cost the most and are proved elsewhere."""
    m = np.repeat(bits.sum(axis=1, keepdims=True), len(columns), axis=1)
    n = bits.shape[1] - m
    h = np.stack([ks_distances(values, bits) for values in columns], axis=1)
    return ArmTests(m, n, h / (m * n), *(np.full(h.shape, value) for value in (-99.0, 0.0)))


RULES = [DecisionSpec(margin=MARGIN, level=LEVEL, error=error) for error in ("fdr", "fwer")]


@pytest.mark.parametrize(("share", "runs"), [(0.5, 600), (0.03, 3000), (0.97, 3000), (0.5, 60)], ids=str)
@pytest.mark.parametrize("leak", LEAKS)
def test_at_the_margin(leak: str, share: float, runs: int) -> None:
    """By BY and by Holm on the same replays."""
    rng = np.random.default_rng([len(leak), runs, round(100 * share)])
    wrong = np.zeros((len(RULES), 2), np.int64)
    for _ in range(REPLAYS):
        bits = rng.random((DOCUMENTS, runs)) < share
        tested = arms_of([LEAKS[leak](rng, bits), rng.normal(size=bits.shape)], bits)
        for at, rule in enumerate(RULES):
            said = decide(tested, rule).verdict
            wrong[at] += (said == "sensitive").any(), (said == "clear").any()
    print(f"{leak} {share} {runs}: sensitive, clear of {REPLAYS} by BY {wrong[0]}, by Holm {wrong[1]}")
    assert (wrong <= MOST).all()


@pytest.mark.parametrize("leak", ["shift", "event"])
def test_at_the_margin_over_looks_and_fresh_runs(leak: str) -> None:
    """Five looks, then fresh runs of what was detected and measured above the margin."""
    rng = np.random.default_rng(11)
    rule = DecisionSpec(margin=MARGIN, level=LEVEL)
    fractions = [0.2, 0.4, 0.6, 0.8, 1.0]
    looks = [Look(round(1500 * fraction), LEVEL / len(fractions)) for fraction in fractions]
    sensitive = clear = chosen = 0
    for _ in range(REPLAYS):
        bits = rng.random((DOCUMENTS, 1500)) < 0.4
        values = LEAKS[leak](rng, bits)
        interim = None
        for number, look in enumerate(looks):
            rows = np.arange(DOCUMENTS) if interim is None else open_documents(interim)
            if not len(rows):
                break
            some = [np.ascontiguousarray(part[rows, : look.runs]) for part in (values, bits)]
            counted = LookScope(DOCUMENTS, fresh=True)
            interim = after_look(interim, arms_of([some[0]], some[1]), number, look, rule, [], counted)
        assert interim is not None
        rows = for_fresh_runs(interim, rule)
        chosen += len(rows)
        again = rng.random((DOCUMENTS, 400)) < 0.4
        fresh = LEAKS[leak](rng, again)
        found = []
        for row in rows:
            attack = best_threshold(values[row][bits[row]], values[row][~bits[row]])
            held, free = fresh[row][again[row]], fresh[row][~again[row]]
            found.append(measure_effect(int(row), "s", attack, held, free, LEVEL, MARGIN).log10_p_above)
        said = after_fresh(interim, np.array(found), rule).decisions.verdict
        sensitive += bool((said == "sensitive").any())
        clear += bool((said == "clear").any())
    print(f"looks {leak}: {sensitive} sensitive, {clear} clear of {REPLAYS}; {chosen} tested afresh")
    assert chosen > REPLAYS
    assert sensitive <= MOST
    assert clear <= MOST


@pytest.mark.parametrize(("true", "least"), [(0.0, 0.99), (0.1, 0.8)])
def test_power_with_the_arms_of_a_real_audit(true: float, least: float) -> None:
    """1,240 runs with and 2,400 without, eight statistics, 17,661 documents of which most are like these."""
    rng = np.random.default_rng(8)
    rule = DecisionSpec(margin=MARGIN)
    shares = []
    for _ in range(5):
        bits = rng.random((200, 3640)) < 1240 / 3640
        columns = [shift(rng, bits, true) if k == 0 else rng.normal(size=bits.shape) for k in range(8)]
        shares.append((decide(arms_of(columns, bits), rule).verdict == "clear").mean())
    print(f"clear at D = {true}: {np.mean(shares):.3f} of 200 documents")
    assert np.mean(shares) >= least


@pytest.mark.parametrize(("true", "least"), [(0.4, 0.95), (0.3, 0.3)])
def test_power_above_the_margin(true: float, least: float) -> None:
    rng = np.random.default_rng(9)
    bits = rng.random((200, 3640)) < 1240 / 3640
    columns = [shift(rng, bits, true) if k == 0 else rng.normal(size=bits.shape) for k in range(8)]
    share = (decide(arms_of(columns, bits), DecisionSpec(margin=MARGIN), fresh=True).verdict == "sensitive").mean()
    print(f"sensitive at D = {true}: {share:.3f} of 200 documents")
    assert share >= least
