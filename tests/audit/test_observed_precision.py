"""In which precision an audit looks at what is announced, and what single precision would hide."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import Database, Observables
from ksdp.audit.corpus.matrix import Corpus, canonical
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.runs import run_observables
from ksdp.audit.statistic import Documents, Pool
from ksdp.audit.statistics.linear.operator import LOST, LOST_ON_WIRE, lost_of
from ksdp.audit.statistics.linear.releases import LinearSums
from ksdp.audit.verdicts.laws import ks_table

from ..plans import planned

plan_of = partial(planned, design={"party_size": 0.5, "with_runs": 30})


@pytest.mark.parametrize("opens", ["every round", "final"])
@pytest.mark.parametrize("name", ["pd-svd", "pd-pca", "pd-nmf"])
def test_what_has_no_noise_is_looked_at_as_finely_as_it_is(corpus: Corpus, name: str, opens: str) -> None:
    plan = plan_of(corpus, {"name": name, "rank": 2, "opens": opens})
    assert plan.precision == "float64"
    seen = run_observables(plan, 0, 0)
    assert {a.dtype for n, a in seen.items() if n in plan.releases.seen} == {np.dtype(np.float64)}
    assert (
        seen["T" if name == "pd-nmf" else "V"] != seen["T" if name == "pd-nmf" else "V"].astype(np.float32)
    ).any()


@pytest.mark.parametrize(
    "mechanism",
    [
        {"name": "hardt-roth", "rank": 2},
        {"name": "noisy", "mechanism": "pd-svd", "parameters": {"rank": 2}, "noise": 1.0},
    ],
)
def test_noise_is_looked_at_in_the_precision_of_the_store(corpus: Corpus, mechanism: dict[str, Any]) -> None:
    plan = plan_of(corpus, mechanism)
    assert plan.precision == "float32"
    assert {a.dtype for n, a in run_observables(plan, 0, 0).items() if n in plan.releases.seen} == {
        np.dtype(np.float32)
    }
    assert plan_of(corpus, mechanism, store={"precision": "float64"}).precision == "float64"


def test_rows_that_differ_little_against_their_size_are_told_by_the_last_digits() -> None:
    """Places in one room: V is nearly the same in all runs in single precision."""
    places = np.array([48.2082, 16.3738]) + 4e-6 * np.random.default_rng(0).normal(size=(60, 2))
    places[0] += (6e-5, -6e-5)
    near = Corpus(canonical(sp.csr_array(places)), np.array([f"p{i}" for i in range(60)]))
    plan = plan_of(near, {"name": "pd-svd", "rank": 1, "opens": "final"})
    V = np.stack([run_observables(plan, 0, run)["V"] for run in range(20)])
    assert len(np.unique(np.abs(V).astype(np.float32), axis=0)) < 5
    assert len(np.unique(np.abs(V), axis=0)) > 10


def test_runs_that_were_looked_at_in_single_precision_are_others(corpus: Corpus) -> None:
    power = {"name": "hardt-roth", "rank": 2}
    now, asked = plan_of(corpus, power), plan_of(corpus, power, store={"precision": "float64"})
    assert now.runs_identity != asked.runs_identity
    assert 2 * now.kept_bytes == asked.kept_bytes
    assert (now.bytes_a_value, asked.bytes_a_value) == (4, 8)


def test_what_was_lost_is_told_by_the_numbers() -> None:
    numbers = np.random.default_rng(0).normal(size=(3, 5))
    assert lost_of(numbers) == LOST_ON_WIRE < LOST
    assert lost_of(numbers.astype(np.float32).astype(np.float64)) == LOST


@pytest.mark.parametrize(("users", "share", "least"), [(500, 0.2, 0.97), (900, 0.3, 0.55)])
def test_ratings_of_the_wire_are_solved_as_finely_as_they_are(users: int, share: float, least: float) -> None:
    """All of 500, and many of 900, where single precision tells 0.76 and 0.50."""
    rng = np.random.default_rng(1)
    ratings = np.where(rng.random((users, 20)) < share, rng.integers(1, 6, (users, 20)), 0)
    ratings[np.arange(users), rng.integers(20, size=users)] = 3  # nobody has none
    matrix = canonical(sp.csr_array(ratings.astype(np.float64)))
    mechanism = PDNMF(rank=1, weighted=True, beta=1.0, delta=1.0)
    documents = Documents(matrix, pool=Pool(matrix, 0.5, mechanism=mechanism))
    held = np.isin(np.arange(users), rng.choice(users, users // 2, replace=False))
    seen = mechanism.run(Database((sp.csr_array(matrix[held]),)), rng)
    on_wire = {name: np.rint(np.asarray(array) * 2.0**31) * 2.0**-31 for name, array in seen.items()}
    values = LinearSums().evaluate(Observables(on_wire), documents)
    assert ks_table(values[None].astype(np.float32), held[None]).distance[0] > least
