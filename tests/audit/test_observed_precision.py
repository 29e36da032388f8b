"""In which precision an audit looks at what is announced, and what single precision would hide."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.contract import Database, Observables
from ksdp.audit.corpus.matrix import Corpus, canonical
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.factorisation.pd_svd import PDSVD
from ksdp.audit.opened import Opened
from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.runs import run_observables
from ksdp.audit.specs.models import parse_spec
from ksdp.audit.statistic import Documents, Pool
from ksdp.audit.statistics.linear.operator import LOST, LOST_ON_WIRE, lost_of
from ksdp.audit.statistics.linear.releases import LinearBlocks, LinearSums
from ksdp.audit.verdicts.laws import ks_table

ROUNDS = {"name": "pd-svd", "rank": 2}

Table = NDArray[np.float64]
Arrays = dict[str, Table]


def plan_of(corpus: Corpus, mechanism: dict[str, Any], **sections: Any) -> Plan:
    tables = {"seed": 1, "corpus": {"path": "x"}, "design": {"party_size": 0.5, "with_runs": 30}}
    return make_plan(Opened.of(parse_spec(tables | {"mechanism": mechanism} | sections), corpus))


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


CASES = [
    (PDNMF(rank=1), LinearSums(), "texts", 0.04),
    (PDSVD(rank=1), LinearBlocks(), "texts", 0.04),
    (PDSVD(rank=1, reveal_sigma=True), LinearBlocks(), "numbers", 0.03),
    (PDNMF(rank=1, weighted=True, beta=1.0, delta=1.0), LinearSums(), "ratings", 0.04),
]


def _ratings(users: int, items: int, share: float, rng: np.random.Generator) -> Table:
    """From 1 to 5, each there with this probability, and one of 3 of every user."""
    rated = np.where(rng.random((users, items)) < share, rng.integers(1, 6, (users, items)), 0)
    rated[np.arange(users), rng.integers(items, size=users)] = 3
    return rated.astype(np.float64)


def _drawn(kind: str, rng: np.random.Generator) -> Table:
    if kind == "texts":
        return rng.poisson(0.6, (500, 40)).astype(np.float64)
    return rng.normal(size=(300, 15)) if kind == "numbers" else _ratings(500, 12, 0.4, rng)


def _run(matrix: sp.csr_array, inside: int, mechanism: Any, rng: np.random.Generator) -> tuple[Any, Arrays]:
    """Who of the documents is in a run, so many, and what it announces."""
    n = matrix.shape[0]
    held = np.isin(np.arange(n), rng.choice(n, inside, replace=False))
    return held, dict(mechanism.run(Database((sp.csr_array(matrix[held]),)), rng))


def _in_single(seen: Arrays) -> Arrays:
    return {name: np.asarray(a, np.float32).astype(np.float64) for name, a in seen.items()}


def _on_the_wire(seen: Arrays) -> Arrays:
    """In multiples of 2^-31."""
    return {name: np.rint(np.asarray(a) * 2.0**31) * 2.0**-31 for name, a in seen.items()}


@pytest.mark.parametrize(("mechanism", "statistic", "kind", "more"), CASES)
def test_single_precision_hides_what_the_wire_shows(
    mechanism: Any, statistic: Any, kind: str, more: float
) -> None:
    """D of those in a run against those not, by what it announces as the wire writes it."""
    rng = np.random.default_rng(0)
    matrix = canonical(sp.csr_array(_drawn(kind, rng)))
    documents = Documents(matrix, pool=Pool(matrix, 0.5, mechanism=mechanism))
    distances = []
    for _ in range(4):
        held, seen = _run(matrix, matrix.shape[0] // 2, mechanism, rng)
        ways = (_in_single(seen), _on_the_wire(seen), seen)
        values = np.stack([statistic.evaluate(Observables(arrays), documents) for arrays in ways])
        distances.append(ks_table(values.astype(np.float32), np.stack([held] * 3)).distance)
    single, wire, double = np.mean(distances, axis=0)
    assert wire > single + more
    assert double > wire - 0.03


@pytest.mark.parametrize(("users", "share", "least"), [(500, 0.2, 0.97), (900, 0.3, 0.55)])
def test_ratings_of_the_wire_are_solved_as_finely_as_they_are(users: int, share: float, least: float) -> None:
    """All of 500, and many of 900, where single precision tells 0.76 and 0.50."""
    rng = np.random.default_rng(1)
    matrix = canonical(sp.csr_array(_ratings(users, 20, share, rng)))
    mechanism = PDNMF(rank=1, weighted=True, beta=1.0, delta=1.0)
    documents = Documents(matrix, pool=Pool(matrix, 0.5, mechanism=mechanism))
    held, seen = _run(matrix, users // 2, mechanism, rng)
    values = LinearSums().evaluate(Observables(_on_the_wire(seen)), documents)
    assert ks_table(values[None].astype(np.float32), held[None]).distance[0] > least
