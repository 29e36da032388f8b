"""What few runs say of how much documents leak, against documents whose advantage is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.corpus import Corpus, canonical
from ksdp.audit.design import Block
from ksdp.audit.likely_leak import likely_leak, pooled_distance
from ksdp.audit.planning import make_plan
from ksdp.audit.sampling import BlockValues, measure, sample
from ksdp.audit.spec import parse_spec


@pytest.mark.parametrize("shift", [0.0, 0.5, 1.0, 2.0, 4.0])
def test_the_pooled_advantage_is_that_of_a_typical_document(shift: float) -> None:
    rng = np.random.default_rng(3)
    held = rng.random((400, 64)) < 0.1
    scale = rng.lognormal(size=(400, 1))  # documents differ in all but their advantage
    values = scale * (rng.normal(size=held.shape) + shift * held) + rng.normal(size=(400, 1)) * 10
    distance, spread = pooled_distance(values, held)
    assert distance == pytest.approx(math.erf(shift / math.sqrt(8)), abs=0.06)
    assert spread < 0.15


def test_documents_that_differ_are_spread() -> None:
    rng = np.random.default_rng(4)
    held = rng.random((400, 64)) < 0.1
    shift = np.where(np.arange(400) % 2, 3.0, 0.0)[:, None]
    distance, spread = pooled_distance(rng.normal(size=held.shape) + shift * held, held)
    assert 0.3 < distance < 0.6
    assert spread > 0.3


def test_what_was_not_measured_says_nothing() -> None:
    held = np.zeros((5, 8), dtype=bool)
    assert pooled_distance(np.zeros((5, 8)), held) == (0.0, 0.0)
    held[:, 0] = True
    assert pooled_distance(np.full((5, 8), np.nan), held) == (0.0, 0.0)


@pytest.mark.parametrize(("leaks", "opened"), [(True, 0.0), (False, 1.0)])
def test_whoever_leaks_plainly_is_decided_and_others_stay_open(leaks: bool, opened: float) -> None:
    rng = np.random.default_rng(5)
    matrix = canonical(sp.csr_array(rng.integers(0, 5, (40, 12))))
    tables = {"seed": 1, "corpus": {"path": "x"}, "mechanism": {"name": "pd-svd", "rank": 2, "opens": "final"}}
    tables |= {"design": {"party_size": 10, "with_runs": 60}, "decision": {"margin": 0.2}}
    plan = make_plan(parse_spec(tables), Corpus(matrix, np.arange(40).astype(str)))
    found = measure(plan, block := Block(0, 0, 48), sample(plan, block), plan.statistics)
    held = found.inclusion
    values = {name: rng.normal(size=held.shape) + 5.0 * held * leaks for name in found.values}
    leak = likely_leak(plan, [BlockValues(block, held, values)])
    assert leak.still_open[0] == 1.0
    assert leak.still_open[-1] == pytest.approx(opened, abs=0.05)
    assert leak.flagged == pytest.approx(1.0 - opened, abs=0.05)
