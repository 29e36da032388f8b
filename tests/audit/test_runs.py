"""Blocks of values: the same from the store as from sampling, controls in place, faults named."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import norm

from ksdp.audit.contract import Observables, Release
from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.errors import KsdpError
from ksdp.audit.opened import Opened
from ksdp.audit.plan import CONTROLS, NULL_CONTROLS, Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.registry import mechanism_names
from ksdp.audit.runs import as_stored, measure, run_observables, sample
from ksdp.audit.specs.design import Block
from ksdp.audit.specs.models import parse_spec
from ksdp.audit.statistics.simulated import unlearnt
from ksdp.audit.testing import compare_arms, judge_controls


def plan_of(corpus: Corpus, **sections) -> Plan:
    tables = {"seed": 1, "corpus": {"path": "x"}, "mechanism": {"name": "pd-svd", "rank": 2}}
    tables["design"] = {"party_size": 20, "with_runs": 60}
    return make_plan(Opened.of(parse_spec(tables | sections), corpus))


def whole(plan: Plan, lane: int = 0):
    block = Block(lane, 0, plan.design.runs)
    return measure(plan, block, sample(plan, block), plan.statistics)


@pytest.fixture(scope="module")
def measured(corpus: Corpus):
    """A whole audit of the plain plan."""
    return whole(plan_of(corpus))


@pytest.mark.parametrize("mechanism", ["pd-svd", "sigma-svd", "pd-pca", "pd-nmf"])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_values_are_the_same_from_stored_observables(corpus: Corpus, mechanism: str, precision: str) -> None:
    store = {"precision": precision, "observables": "all"}
    plan = plan_of(corpus, mechanism={"name": mechanism, "rank": 2}, store=store)
    assert plan.from_store
    block = Block(0, 2, 7)
    kept: list = []
    fresh = measure(plan, block, sample(plan, block), plan.statistics, kept.append)
    again = measure(plan, block, iter(kept), plan.statistics)
    assert fresh.values.keys() == again.values.keys()
    for name, values in fresh.values.items():
        assert values.dtype == precision
        assert values.shape == (90 + CONTROLS, 5)
        assert (values == again.values[name]).all()


def test_values_are_what_the_statistic_says_run_by_run(corpus: Corpus) -> None:
    plan = plan_of(corpus)
    block = Block(0, 3, 6)
    measured = measure(plan, block, sample(plan, block), plan.statistics)
    dense = corpus.matrix.toarray()
    for at, run in enumerate(range(3, 6)):
        v = np.linalg.svd(dense[plan.design.rows(0, run)])[2][:2]
        energy = ((dense @ v.T) ** 2).sum(axis=1)
        assert measured.values["row-space-energy"][:90, at] == pytest.approx(energy, rel=1e-5)
        assert measured.inclusion[:90, at].sum() == 20


def test_controls_do_what_they_say(corpus: Corpus) -> None:
    """Controls are of the runs alone: what else is tested in these makes no difference to them."""
    one = {"families": [], "names": ["row-space-energy"], "sees": "final"}
    plan = plan_of(corpus, design={"party_size": 45, "with_runs": 150}, statistics=one)
    measured = whole(plan)
    tests = compare_arms(measured.values, measured.inclusion)
    controls = tests[90:]
    judged = judge_controls([controls], [])
    assert judged.valid, judged.reason
    planted = controls.distance[NULL_CONTROLS:, 0]
    assert planted.mean() == pytest.approx(2 * norm.cdf(3.289707253902945 / 2) - 1, abs=0.03)
    assert planted.mean() == pytest.approx(0.9, abs=0.03)


def test_a_shuffled_store_is_noticed(measured) -> None:
    """Values that belong to other runs than their bits: the planted leaks are missed and the audit is void."""
    order = np.random.default_rng(0).permutation(measured.inclusion.shape[1])
    wrong = compare_arms({n: v[:, order] for n, v in measured.values.items()}, measured.inclusion)
    judged = judge_controls([wrong[90:]], [])
    assert not judged.valid
    assert "planted leak" in str(judged.reason)


def test_documents_that_took_each_other_s_place_are_noticed_by_null_controls(measured) -> None:
    """Bits of planted leaks where null controls should be."""
    shifted = {n: np.roll(v, 8, axis=0) for n, v in measured.values.items()}
    bits = np.roll(measured.inclusion, 8, axis=0)
    judged = judge_controls([compare_arms(shifted, bits)[90:]], [])
    assert not judged.valid


@dataclass(frozen=True)
class Broken:
    array: tuple[float, ...]
    name: str = "broken"
    version: int = 1

    def releases(self, features: int) -> tuple[Release, ...]:
        return (Release("mean", (2,)),)

    def run(self, database, rng) -> Observables:
        return Observables({"mean": np.array(self.array)})


@pytest.mark.parametrize(
    ("array", "message"), [((1.0,), "announced 'mean' of shape"), ((1.0, np.nan), "announced NaN or infinity")]
)
def test_a_mechanism_that_breaks_its_promise_is_named(corpus: Corpus, array: tuple, message: str) -> None:
    import dataclasses

    plan = plan_of(corpus)
    releases = dataclasses.replace(plan.releases, recorded=(Release("mean", (2,)),))
    broken = dataclasses.replace(
        plan, opened=dataclasses.replace(plan.opened, mechanism=Broken(array)), releases=releases
    )
    with pytest.raises(KsdpError, match=message):
        run_observables(broken, 0, 4)


def test_no_zero_is_stored_with_a_sign(corpus: Corpus) -> None:
    plan = plan_of(corpus)
    seen = {array.name: np.full(array.shape, -0.0) for array in plan.releases.recorded}
    stored = as_stored(plan, seen, 0, 0)
    assert stored.keys() == seen.keys()
    assert not any(np.signbit(array).any() for array in stored.values())


NUMBERS = Path(__file__).with_name("numbers.json")
"""Sums of what runs and statistics gave, by version: stored ones are used again while the version is the same."""
AUDITED = [(name, "shared") for name in mechanism_names()] + [("pd-svd", "balanced"), ("pd-svd", "literal")]


@pytest.mark.parametrize(("name", "kind"), AUDITED)
def test_who_changes_what_a_run_or_a_statistic_computes_raises_its_version(name: str, kind: str) -> None:
    rows = np.random.default_rng(4).poisson(0.6, (30, 24)).astype(float)
    corpus = Corpus(sp.csr_array(np.minimum(rows, 1)), np.arange(30).astype(str))
    documents = {"kind": kind} | ({} if kind == "shared" else {"documents": 6})
    design = {"party_size": 10, "with_runs": 8} | documents
    plan = plan_of(corpus, mechanism={"name": name}, design=design, store={"precision": "float64"})
    block, statistics = Block(0, 0, 3), unlearnt(plan.statistics)
    runs = list(sample(plan, block))
    sums = {array: float(sum(np.abs(run[array]).sum() for run in runs)) for array in runs[0]}
    of_run = f"{name} {plan.mechanism.version}, {kind} {plan.runs_identity['format']}"
    values = measure(plan, block, runs, statistics).values
    found = {f"{of_run}: {array}": total for array, total in sums.items()} | {
        f"{of_run}: {s.name} {s.version}": float(np.abs(values[s.name]).sum()) for s in statistics
    }
    known = json.loads(NUMBERS.read_text(encoding="utf-8"))
    assert {of: known.get(of) for of in found} == pytest.approx(found, rel=1e-3), f"raise the version: {found}"
