"""Numbers with hardly any noise: a solution tells everybody by them, steps do not find it, so they are counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import Database, Documents, Observables, Pool
from ksdp.audit.corpus.matrix import Corpus, canonical
from ksdp.audit.coverage import MayBeIn, telling_numbers, unblurred
from ksdp.audit.mechanisms.factorisation.power_iteration import orthonormalise, start_block
from ksdp.audit.mechanisms.privacy.hardt_roth import HardtRoth
from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.registry import make_mechanism
from ksdp.audit.specs.models import parse_spec
from ksdp.audit.statistics.linear import solve
from ksdp.audit.statistics.linear.pilot import low_noise_numbers
from ksdp.audit.verdicts.laws import ks_table

COUNT, WIDE = 400, 120
FED = {"name": "fedpower", "rank": 3, "period": 1, "iterations": 3}


@pytest.fixture(autouse=True)
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if so few documents were more than are solved for, a row of sums more than is written out, steps dear."""
    monkeypatch.setattr("ksdp.audit.statistics.linear.solve.WORK", 1)
    monkeypatch.setattr("ksdp.audit.statistics.linear.solve.DENSE", 0)
    monkeypatch.setattr("ksdp.audit.statistics.linear.tilting.MOST_NOISY", 1)
    monkeypatch.setattr("ksdp.audit.statistics.linear.solve.MOST_SOLVED", 50)
    monkeypatch.setattr(solve, "MOST_WRITTEN", COUNT * WIDE * WIDE - 1)


def sparse_rows(spread: float = 1.0) -> sp.csr_array:
    """Of different sizes."""
    rng = np.random.default_rng(0)
    rows = rng.random((COUNT, WIDE)) * (rng.random((COUNT, WIDE)) < 0.2)
    return canonical(sp.csr_array(rows * np.exp(spread * rng.normal(size=(COUNT, 1)))))


def plan_of(mechanism: dict[str, Any], matrix: sp.csr_array, size: float = 0.1, margin: float = 0.2) -> Plan:
    corpus = Corpus(matrix, np.array([f"d{i}" for i in range(matrix.shape[0])]))
    design = {"party_size": size, "with_runs": 20}
    tables = {"seed": 1, "corpus": {"path": "x"}, "design": design, "decision": {"margin": margin}}
    return make_plan(parse_spec(tables | {"mechanism": mechanism}), corpus)


def counted(mechanism: dict[str, Any], matrix: sp.csr_array, size: float = 0.1) -> int:
    plan = plan_of(mechanism, matrix, size)
    return low_noise_numbers(plan.statistics, plan.announced, plan.pool)


def noise_of(size: float) -> dict[str, float]:
    return {"noise": size, "central_noise": size}


def by_a_solution(uploads: np.ndarray, means: np.ndarray, matrix: sp.csr_array, inside: int) -> np.ndarray:
    """Who is in by least squares, from what is announced alone: b of sum of b_i x_i <x_i, z> = the upload."""
    start, dense = start_block(0, WIDE, 3), matrix.toarray()
    blocks = [start, *(orthonormalise(mean, start) for mean in means[:-1])]
    terms = np.hstack([(dense @ z)[:, None] * dense for block in blocks for z in block])
    lengths = np.linalg.norm(terms, axis=1)
    return np.linalg.lstsq((terms / lengths[:, None]).T, inside * uploads.ravel(), rcond=1e-9)[0] / lengths


@pytest.mark.usefixtures("many_documents")
@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_a_solution_tells_whom_steps_do_not_and_nobody_is_clear(spread: float) -> None:
    rng, inside = np.random.default_rng(0), COUNT // 10
    alike = rng.random((COUNT, 8)) @ rng.random((8, WIDE)) + 0.1 * rng.random((COUNT, WIDE))
    matrix = sp.csr_array(alike * np.exp(spread * rng.normal(size=(COUNT, 1))))
    fed = make_mechanism("fedpower", {k: v for k, v in (FED | noise_of(1e-6)).items() if k != "name"})
    held = np.isin(np.arange(COUNT), np.random.default_rng(1).choice(COUNT, inside, replace=False))
    seen = fed.run(Database((sp.csr_array(matrix[held]),)), np.random.default_rng(2))
    documents = Documents(matrix, pool=Pool(matrix, 0.1, mechanism=fed))
    (match,) = (s for s in fed.statistics if s.name == "linear-releases")
    by_steps = match.evaluate(Observables(dict(seen)), documents)
    solved = by_a_solution(seen["uploads"], seen["means"], matrix, inside)
    steps, solution = ks_table(np.stack([by_steps, solved]).astype(np.float32), np.stack([held, held])).distance
    assert solution > 0.95
    assert steps < 0.8 * solution
    (said,) = plan_of(FED | noise_of(1e-6), matrix).coverage.unread
    assert said.startswith("who was in, by equations: ")
    assert f" for {COUNT} documents" in said


@pytest.mark.parametrize(
    "mechanism",
    [
        FED | {"epsilon": 1.0},
        {"name": "hardt-roth", "rank": 3, "epsilon": 1.0},
        {"name": "dp-nmf", "rank": 3, "epsilon": 1.0},
        {"name": "fedpower-private", "rank": 3, "period": 1, "iterations": 3, "epsilon": 1.0},
        {"name": "dpdispca", "rank": 3, "intermediate": 5, "epsilon": 1.0},
        {"name": "moments", "noise": 1.0},
        {"name": "noisy", "mechanism": "pd-svd", "noise": 0.1, "scale": 1.0, "parameters": {"rank": 3}},
    ],
    ids=lambda m: m["name"],
)
def test_noise_that_hides_leaves_everybody_to_be_decided(mechanism: dict[str, Any]) -> None:
    rows = sparse_rows(0.0)
    unit = sp.csr_array(sp.diags_array(1.0 / np.linalg.norm(rows.toarray(), axis=1)) @ rows)
    assert plan_of(mechanism, canonical(unit)).coverage.unread == ()


def test_it_counts_the_numbers_whose_noise_is_below_a_hundredth_of_what_documents_add() -> None:
    """Worked out number by number, from the run that is looked at."""
    matrix, mechanism = sparse_rows(), FED | noise_of(0.02)
    fed = make_mechanism("fedpower", {k: v for k, v in mechanism.items() if k != "name"})
    rng = np.random.default_rng(0)
    held = np.sort(rng.choice(COUNT, COUNT // 10, replace=False))
    seen = fed.run(Database((sp.csr_array(matrix[held]),)), rng)
    dense, start = matrix.toarray(), start_block(0, WIDE, 3)
    blocks = [start, *(orthonormalise(mean, start) for mean in seen["means"][:-1])]
    few = 0
    for block in blocks:
        noise = (0.02 * np.abs(block).max() * len(held)) ** 2
        for z in block:
            for j in range(WIDE):
                few += noise < 0.01 * 0.09 * float(np.square(dense @ z * dense[:, j]).sum())
    assert 50 < few < 3 * 3 * WIDE - 50
    assert counted(mechanism, matrix) == pytest.approx(few, abs=2)


def test_more_noise_leaves_fewer_numbers_and_exact_sums_have_none_here() -> None:
    matrix = sparse_rows()
    counts = [counted(FED | noise_of(size), matrix) for size in (1e-6, 1e-2, 1e-1, 10.0)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == 9 * WIDE
    assert counts[-1] == 0
    assert counted({"name": "pd-svd", "rank": 3}, matrix) == 0
    assert counted({"name": "pd-nmf", "rank": 3}, matrix) == 0


def test_products_with_one_matrix_are_no_more_numbers_than_it_has() -> None:
    rows = canonical(sp.csr_array(np.random.default_rng(0).random((COUNT, 10))))
    solve.MOST_WRITTEN = 1
    assert counted({"name": "fedpower", "rank": 3, "period": 1, "iterations": 20} | noise_of(1e-9), rows) == 55


def test_where_all_numbers_are_solved_for_none_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix, mechanism = sparse_rows(), FED | noise_of(1e-6)
    monkeypatch.setattr(solve, "MOST_WRITTEN", COUNT * (9 * WIDE) ** 2)
    assert counted(mechanism, matrix) == 0
    monkeypatch.setattr(solve, "MOST_WRITTEN", COUNT * (9 * WIDE) ** 2 - 1)
    assert counted(mechanism, matrix) == 9 * WIDE


def test_sweeps_that_are_not_looked_at_count_as_those_that_are() -> None:
    noisy = {"name": "noisy", "mechanism": "pd-nmf", "noise": 1e-9, "scale": 1.0, "parameters": {"rank": 12}}
    sums = {a.name: a for a in plan_of(noisy, sparse_rows()).announced}["sums"]
    assert sums.shape[0] < 20
    assert counted(noisy, sparse_rows()) > 0.9 * 20 * 12 * WIDE


def test_runs_together_add_up() -> None:
    fed = FED | noise_of(1e-6)
    exact = {"name": "pd-svd", "rank": 2, "opens": "final"}
    assert counted({"name": "together", "runs": [fed, exact, fed]}, sparse_rows()) == 2 * 9 * WIDE


def test_moments_count_where_they_are_looked_at_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix, numbers = sparse_rows(0.0), WIDE * (WIDE + 1) // 2
    assert counted({"name": "moments", "noise": 1e-6}, matrix) == 0, "written out"
    monkeypatch.setattr("ksdp.audit.statistics.linear.tilting.MOST_WRITTEN", 1)
    assert counted({"name": "moments", "noise": 1e-6}, matrix) == numbers
    assert counted({"name": "moments", "noise": 100.0}, matrix) == 0
    site = {"name": "dpdispca", "rank": 3, "intermediate": 5, "epsilon": 1e9}
    assert counted(site, matrix) == 5 * WIDE
    monkeypatch.setattr("ksdp.audit.statistics.linear.pilot.MOST_ENTRIES", numbers)
    assert counted({"name": "moments", "noise": 1e-6}, matrix) == 0, "their whole covariance is looked at"


def test_noise_that_no_seed_gives_back_is_counted_the_same_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    mechanism = {"name": "hardt-roth", "rank": 3, "epsilon": 1e9, "sampler": "discrete"}
    run, samplers = HardtRoth.run, set[str]()

    def noted(self: HardtRoth, *given: Any) -> Any:
        samplers.add(self.sampler)
        return run(self, *given)

    monkeypatch.setattr(HardtRoth, "run", noted)
    first, second = (counted(mechanism, sparse_rows()) for _ in range(2))
    assert first == second > 0
    assert samplers == {"fast"}


def test_nobody_is_clear_where_they_tell_more_than_the_margin() -> None:
    most = int(3200 / telling_numbers(0.5, 0.2))
    assert len(unblurred(3200, MayBeIn(most, 0.5, 0.2))) == 1
    assert unblurred(3200, MayBeIn(most + 1, 0.5, 0.2)) == ()
    assert unblurred(0, MayBeIn(3000, 0.5, 0.0)) == ()
    assert unblurred(3200, MayBeIn(6401, 0.5, 0.99)) == (), "who was in takes half as many"
