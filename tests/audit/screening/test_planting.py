"""Leaks of known size for an audit to find."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import ks_2samp

from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.callables import function_mechanism
from ksdp.audit.opened import Opened
from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.registry import lent
from ksdp.audit.runs import run_observables
from ksdp.audit.screening.planting import ABOVE, planted_leaks, strength_of
from ksdp.audit.specs.models import parse_spec
from ksdp.audit.statistics.simulated import simulated_runs

MARGIN = 0.2
TABLES = {
    "corpus": {"path": "x.csv"},
    "mechanism": {"name": "own"},
    "design": {"party_size": 0.5, "with_runs": 100},
    "decision": {"margin": MARGIN},
}


def noise(rows: sp.csr_array, rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=60) @ np.triu(np.full((60, 60), 0.1) + np.eye(60))


def counts(rows: sp.csr_array, rng: np.random.Generator) -> np.ndarray:
    return rng.poisson(20.0, size=60).astype(float)


def plan_of(function: object, rows: np.ndarray, planted: tuple[object, ...] = (), each: int = 1) -> Plan:
    matrix = sp.csr_array(rows)
    mechanism = function_mechanism("own", function, matrix[:10])  # type: ignore[arg-type]
    ids, groups = np.array([f"r{at}" for at in range(len(rows))]), np.arange(len(rows)) // each
    names = np.array([f"d{at:03}" for at in groups])
    corpus = Corpus(matrix, names) if each == 1 else Corpus(matrix, ids, group=names)
    design = TABLES["design"] | ({} if each == 1 else {"unit": "group"})  # type: ignore[operator]
    with lent({"own": mechanism}):
        return make_plan(Opened.of(parse_spec({**TABLES, "design": design, "planted": planted}), corpus))


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(120, 4))


@pytest.mark.parametrize(("function", "each"), [(counts, 1), (noise, 3)])
def test_leaks_are_as_large_as_said_in_runs_that_nobody_has_seen(function: object, each: int) -> None:
    """Reference: whole runs of the plan that has the leaks, and SciPy's test of the numbers that each changes."""
    rows = np.random.default_rng(0).normal(size=(120 * each, 4))
    clear = np.arange(40, 104)
    planted = planted_leaks(plan_of(function, rows, (), each), clear, np.random.default_rng(1))
    assert len({leak.document for leak, _ in planted}) == len(planted) > 50
    assert {leak.kind for leak, _ in planted} == {"number", "numbers", "spread", "agreement"}
    assert {above for _, above in planted} == set(ABOVE)
    assert all(40 <= int(leak.document[1:]) < 104 for leak, _ in planted)
    plan = plan_of(function, rows, tuple(leak.model_dump() for leak, _ in planted), each)
    runs, drawn = 1000, []
    for run in range(runs):
        held = np.zeros(120, bool)
        held[plan.design.rows(0, run)] = True
        (array,) = [value for name, value in run_observables(plan, 0, run).items() if name != "_handed"]
        drawn.append((held, array.ravel().astype(float)))
    bits, numbers = (np.array(part) for part in zip(*drawn, strict=True))
    assert (numbers == np.round(numbers)).all() == (function is counts), "counts stay whole"
    off = []
    for leak, _ in planted:
        own = numbers[:, list(leak.places)]
        if leak.kind in ("spread", "agreement"):
            score = np.abs(np.prod(own - leak.centres, axis=1)) * np.sign(np.prod(own - leak.centres, axis=1))
            score = np.abs(score) if leak.kind == "spread" else score
        else:
            score = (own / numbers[:, list(leak.places)].std(axis=0) * np.sign(leak.amounts)).sum(axis=1)
        held = bits[:, int(leak.document[1:])]
        off.append(ks_2samp(score[held], score[~held]).statistic - leak.advantage)
    assert np.abs(off).max() < 0.13  # three standard errors of a difference of two shares of 500, and some
    assert abs(np.mean(off)) < 0.035


def test_a_leak_that_lies_on_the_margin_is_planted_too(rows: np.ndarray) -> None:
    planted = planted_leaks(plan_of(noise, rows), np.arange(64), np.random.default_rng(2))
    sizes = {above: np.mean([leak.advantage for leak, size in planted if size == above]) for above in ABOVE}
    for above, size in sizes.items():
        assert size == pytest.approx(MARGIN + above, abs=0.06)


def test_copies_are_left_aside(rows: np.ndarray) -> None:
    twice = rows.copy()
    twice[60] = twice[50]
    planted = planted_leaks(plan_of(noise, twice), np.arange(48, 64), np.random.default_rng(2))
    assert not {"d050", "d060"} & {leak.document for leak, _ in planted}
    with pytest.raises(InputError, match="every clear document has a copy"):
        planted_leaks(plan_of(noise, twice), np.array([50, 60]), np.random.default_rng(2))


def test_nothing_is_planted_in_what_does_not_vary(rows: np.ndarray) -> None:
    plan = plan_of(lambda x, rng: np.full(5, 1.5), rows)
    with pytest.raises(InputError, match="does not vary"):
        planted_leaks(plan, np.arange(20), np.random.default_rng(0))


def test_copies_of_groups_are_left_aside(rows: np.ndarray) -> None:
    twice = rows.copy()
    twice[[61, 60]] = twice[[50, 51]]
    planted = planted_leaks(plan_of(noise, twice, (), 2), np.arange(20, 36), np.random.default_rng(2))
    assert planted
    assert not {"d025", "d030"} & {leak.document for leak, _ in planted}


def test_simulated_runs_carry_the_leaks_of_their_groups() -> None:
    leak = {"document": "d007", "kind": "number", "array": "", "places": [3], "amounts": [1e6]}
    rows = np.random.default_rng(0).normal(size=(60, 4))
    leak["array"] = plan_of(noise, rows).releases.read[0].name
    plan = plan_of(noise, rows, (leak,), 3)
    seen = []
    for held, run in simulated_runs(plan.pool, {leak["array"]: (60,)}, 40, np.random.default_rng(1)):
        seen.append((7 in held, run[leak["array"]].ravel()[3] > 1e5))
    assert {(True, True), (False, False)} == set(seen)


def test_what_became_of_leaks_is_counted_by_kind_and_size(rows: np.ndarray) -> None:
    plan = plan_of(noise, rows)
    planted = planted_leaks(plan, np.arange(64), np.random.default_rng(3))
    words = ("sensitive", "undecided", "clear")
    verdicts = {leak.document: words[at % 3] for at, (leak, _) in enumerate(planted)}
    found = strength_of(plan, "a1", planted, verdicts, "2026-01-01T00:00:00+00:00")
    assert sum(sum(row.called.values()) for row in found.rows) == len(planted)
    above = [row for row in found.rows if row.above > 0 and row.advantage > MARGIN]
    counts = [sum(row.called[word] for row in above) for word in words]
    assert found.sentence() == (
        f"Of {sum(counts)} leaks above the margin of 0.2, planted for clear documents, an audit like this called "
        f"{counts[0]} sensitive and {counts[2]} clear; {counts[1]} stayed open."
    )
    assert type(found).from_json(found.to_json()) == found
    with pytest.raises(ValueError, match="a key is missing"):
        type(found).from_json({"audit": "a1"})
