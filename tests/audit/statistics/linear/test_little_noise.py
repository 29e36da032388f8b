"""Numbers with hardly any noise: a solution tells everybody by them, steps do not find it, so they are counted."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import Database
from ksdp.audit.corpus.matrix import Corpus, canonical
from ksdp.audit.coverage import MayBeIn, coverage_of, telling_numbers, unblurred
from ksdp.audit.mechanisms.factorisation.power_iteration import orthonormalise, start_block
from ksdp.audit.mechanisms.privacy.hardt_roth import HardtRoth
from ksdp.audit.plan import Plan
from ksdp.audit.registry import make_mechanism
from ksdp.audit.statistics.linear.pilot import low_noise_numbers

from ....plans import planned

COUNT, WIDE = 2100, 120
"""More documents than least squares are solved for, and more numbers than are written out."""
FED = {"name": "fedpower", "rank": 3, "period": 1, "iterations": 3}


def sparse_rows(spread: float = 1.0) -> sp.csr_array:
    rng = np.random.default_rng(0)
    rows = rng.random((COUNT, WIDE)) * (rng.random((COUNT, WIDE)) < 0.2)
    return canonical(sp.csr_array(rows * np.exp(spread * rng.normal(size=(COUNT, 1)))))


def plan_of(mechanism: dict[str, Any], matrix: sp.csr_array, size: float = 0.1, margin: float = 0.2) -> Plan:
    corpus = Corpus(matrix, np.array([f"d{i}" for i in range(matrix.shape[0])]))
    design = {"party_size": size, "with_runs": 20}
    return planned(corpus, mechanism, design=design, decision={"margin": margin})


def counted(mechanism: dict[str, Any], matrix: sp.csr_array, size: float = 0.1) -> int:
    plan = plan_of(mechanism, matrix, size)
    return low_noise_numbers(plan.statistics, plan.releases.recorded, plan.pool)


def noise_of(size: float) -> dict[str, float]:
    return {"noise": size, "central_noise": size}


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
    assert coverage_of(plan_of(mechanism, canonical(unit))).unread == ()


def test_noise_that_hides_hardly_anything_is_named() -> None:
    (said,) = (
        one for one in coverage_of(plan_of(FED | noise_of(1e-6), sparse_rows())).unread if "equations" in one
    )
    assert "numbers have hardly any noise, for 2,100 documents" in said


def test_it_counts_the_numbers_whose_noise_is_below_a_hundredth_of_what_documents_add() -> None:
    """Worked out number by number, from the run that is looked at and every second document."""
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
                few += noise < 0.01 * 0.09 * 2.0 * float(np.square(dense[::2] @ z * dense[::2, j]).sum())
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


def test_sweeps_that_are_not_looked_at_count_as_those_that_are() -> None:
    noisy = {"name": "noisy", "mechanism": "pd-nmf", "noise": 1e-9, "scale": 1.0, "parameters": {"rank": 12}}
    sums = {a.name: a for a in plan_of(noisy, sparse_rows()).releases.recorded}["sums"]
    assert sums.shape[0] < 20
    assert counted(noisy, sparse_rows()) > 0.9 * 20 * 12 * WIDE


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


def test_numbers_that_are_all_written_out_are_not_counted() -> None:
    assert counted(FED | noise_of(1e-6) | {"iterations": 2}, sparse_rows()) == 0


def test_moments_count_where_they_are_looked_at_one_by_one() -> None:
    numbers = WIDE * (WIDE + 1) // 2
    assert counted({"name": "moments", "noise": 1e-6}, sparse_rows(0.0)) == numbers
    assert counted({"name": "moments", "noise": 1e-6}, canonical(sparse_rows(0.0)[:, :40])) == 0, "written out"
    assert counted({"name": "moments", "noise": 1e4}, sparse_rows(0.0)) == 0
    site = {"name": "dpdispca", "rank": 3, "intermediate": 5, "epsilon": 1e9}
    assert counted(site, sparse_rows(0.0)) == 5 * WIDE
