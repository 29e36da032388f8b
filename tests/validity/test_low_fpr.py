"""Documents at the limit of true positives at 1 % false ones are called clear, or sensitive, as rarely as said.

Every document of a replay is at the limit, in one way or another, and far below the margin: whatever verdict it
has is false, so that one among them is a false discovery rate of one.
"""

import math

import numpy as np
import pytest

from ksdp.audit.specs.models import DecisionSpec
from ksdp.audit.testing import compare_arms
from ksdp.audit.verdicts.looks import Look, LookScope, after_look, open_documents
from ksdp.audit.verdicts.low_fpr import LowFpr

pytestmark = pytest.mark.validity

REPLAYS, DOCUMENTS, LEVEL, LIMIT, MARGIN = 1000, 4, 0.05, 0.05, 0.2
MOST = math.ceil(REPLAYS * LEVEL + 3 * math.sqrt(REPLAYS * LEVEL * (1 - LEVEL)))


def certain(rng: np.random.Generator, bits: np.ndarray) -> np.ndarray:
    """In a part of the runs everything, nothing in the others."""
    told = bits & (rng.random(bits.shape) < (LIMIT - 0.01) / 0.99)
    return np.where(told, 9.0, rng.normal(size=bits.shape))


def tied(rng: np.random.Generator, bits: np.ndarray) -> np.ndarray:
    """Two values."""
    return (rng.random(bits.shape) < np.where(bits, LIMIT, 0.01)).astype(np.float64)


def outside(rng: np.random.Generator, bits: np.ndarray) -> np.ndarray:
    """A margin's worth of runs lies where one more in a thousand is falsely accused: the worst case of "above"."""
    chance = rng.random(bits.shape)
    held = np.select([chance < LIMIT, chance < MARGIN - 0.02], [2.0, 0.989], rng.random(bits.shape) * 0.98)
    return np.where(bits, held, rng.random(bits.shape))


@pytest.mark.parametrize("share", [0.5, 0.2])
@pytest.mark.parametrize("leak", [certain, tied, outside])
def test_at_the_limit_over_looks(leak: object, share: float) -> None:
    rng = np.random.default_rng(21)
    rule = DecisionSpec(margin=MARGIN, level=LEVEL, margin_at_low_fpr=LIMIT)
    looks = [Look(runs, LEVEL / 3) for runs in (800, 1600, 3000)]
    low = LowFpr.of(rule, LEVEL / 3, DOCUMENTS)
    sensitive = clear = 0
    for _ in range(REPLAYS):
        bits = rng.random((DOCUMENTS, 3000)) < share
        columns = [leak(rng, bits), rng.normal(size=bits.shape)]  # type: ignore[operator]
        interim = None
        for number, look in enumerate(looks):
            rows = np.arange(DOCUMENTS) if interim is None else open_documents(interim)
            if not len(rows):
                break
            values = {str(k): np.ascontiguousarray(one[rows, : look.runs]) for k, one in enumerate(columns)}
            tests = compare_arms(values, np.ascontiguousarray(bits[rows, : look.runs]), low)
            interim = after_look(interim, tests, number, look, rule, [], LookScope(DOCUMENTS))
        assert interim is not None
        sensitive += bool((interim.decisions.verdict == "sensitive").any())
        clear += bool((interim.decisions.verdict == "clear").any())
    print(f"{leak.__name__} {share}: {sensitive} sensitive, {clear} clear of {REPLAYS}")  # type: ignore[attr-defined]
    assert sensitive <= MOST
    assert clear <= MOST
