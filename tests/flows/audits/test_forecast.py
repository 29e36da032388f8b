"""What an audit keeps is what was said before, and what it moves follows from that."""

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import Database, Observables, Release
from ksdp.audit.corpus.matrix import Corpus, canonical
from ksdp.audit.plan import Plan
from ksdp.audit.registry import mechanism_names
from ksdp.audit.specs.models import Spec
from ksdp.flows.audits.costs import MECHANISMS, costs_of, is_known
from ksdp.flows.audits.forecast import bill, forecast, forecast_words
from ksdp.flows.audits.place import processes_here
from ksdp.flows.prepare import open_spec, prepare_stored
from ksdp.storage.readers.spec_files import read_spec_file
from ksdp.tasks.blocks import compute_block

from ...plans import planned


@pytest.mark.parametrize("party_size", [100, 12])
def test_bytes_kept_are_those_that_were_said(party_size: int, tmp_path: Path) -> None:
    """All runs of every document, and a part of those without it."""
    rng = np.random.default_rng(3)
    counts = rng.poisson(0.2, size=(400, 60)).astype(float)
    counts[:, 0] += 1
    corpus = Corpus(canonical(sp.csr_array(counts)), np.array([f"document {n}" for n in range(400)]))
    names = {"families": [], "names": ["row-space-energy", "span-energy"]}
    plan = planned(corpus, seed=4, design={"party_size": party_size, "with_runs": 10}, statistics=names)
    ready = prepare_stored(plan, tmp_path, may_sample=True)
    for block in ready.plan.blocks:
        compute_block(ready.ref, block)
    said = bill(ready.plan)
    kept = {name: sum(f.stat().st_size for f in tmp_path.glob(f"runs/*/{name}/**/*.parquet")) for name in NAMES}
    assert said.values == pytest.approx(kept["values"], rel=0.1)
    assert said.observables == pytest.approx(kept["observables"], rel=0.4)  # so small that headers count
    stored = sum(file.stat().st_size for file in tmp_path.glob("corpora/*/*.*"))
    assert said.corpus == pytest.approx(stored, rel=0.5)  # names of documents compress
    assert said.kept == said.values + said.observables + said.corpus


NAMES = ("values", "observables")


def plan_of(**sections) -> Plan:
    rng = np.random.default_rng(1)
    matrix = canonical(sp.csr_array(rng.integers(0, 5, (40, 12))))
    final, design = {"name": "pd-svd", "rank": 2, "opens": "final"}, {"party_size": 4, "with_runs": 30}
    return planned(Corpus(matrix, np.arange(40).astype(str)), final, **{"design": design} | sections)


def test_every_mechanism_of_the_package_has_constants() -> None:
    assert {name.partition(",")[0] for name in MECHANISMS} == {*mechanism_names(), "recorded"}


def test_work_grows_with_runs_documents_rank_and_what_is_read() -> None:
    every, final, more = (
        costs_of(plan_of(mechanism={"name": "pd-svd", "rank": rank, "opens": opens}))
        for rank, opens in ((2, "every round"), (2, "final"), (3, "every round"))
    )
    assert more.run > every.run
    assert every.once < final.once, "of the final output rules are learnt from runs of its own"
    named = costs_of(plan_of(design={"party_size": 4, "with_runs": 30, "documents": 10}))
    assert named.test == pytest.approx(final.test / 4)
    longer = costs_of(plan_of(design={"party_size": 4, "with_runs": 300}))
    assert longer.test > 5 * final.test
    assert longer.fresh > 5 * final.fresh
    none = costs_of(plan_of(design={"party_size": 4, "with_runs": 30, "fresh_runs": 0}))
    assert none.fresh == 0.0


def test_code_of_ones_own_costs_what_one_run_of_it_took() -> None:
    plan = plan_of(mechanism={"name": f"{__name__}:Mean"})
    assert is_known(plan_of())
    assert not is_known(plan)
    assert costs_of(plan).run == math.inf
    cores = os.cpu_count() or 1
    assert (processes_here([plan]), processes_here([plan], 1e-5)) == (cores, 1)
    costs = costs_of(plan, 0.5)
    assert costs.run == pytest.approx(0.5, rel=0.01)
    assert costs.fresh == pytest.approx(0.5 * plan.fresh_runs, rel=0.1)
    assert costs.once > 0.5 * min(plan.design.runs, 100), "rules are learnt from as many runs"


@dataclass(frozen=True)
class Mean:
    """A mechanism of somebody's own."""

    name: str = "mean"
    version: int = 1

    def releases(self, features: int) -> tuple[Release, ...]:
        return (Release("mean", (1, features), final=True),)

    def run(self, database: Database, rng: np.random.Generator) -> Observables:
        return Observables({"mean": np.mean([p.mean(axis=0) for p in database.parties], axis=0)[None]})


@pytest.mark.usefixtures("many_documents")
def test_forecast_agrees_with_the_plan_and_writes_nothing(spec: Callable[..., Path]) -> None:
    path = spec("forecast", with_runs=60)
    before = sorted(path.parent.iterdir())
    said = forecast(open_spec(*read_spec_file(path)))
    assert sorted(path.parent.iterdir()) == before
    assert (said["documents"], said["runs"]) == (120, 300)
    assert (said["n_with"], said["n_without"]) == (60, 240)
    assert "row-space-energy" in said["statistics"]
    assert said["skipped_statistics"]["sigma"] == "needs T, denominators"
    assert 0 < said["detectable_D"] < 1
    assert said["opens"] == "every round"
    assert said["unread"] == []
    assert said["coverage"]["span"] == ["span-energy", "span-leverage"]
    assert (
        said["bytes"] > 300 * (3 * 60 + 30 + (120 + 32) * len(said["statistics"])) * 4
    )  # and canaries, bits, corpus
    assert said["seconds_a_run"] > 0
    assert (said["safe"], said["useful"]) == (None, None)  # nothing is safe below a margin of 0
    assert set(said["cpu_seconds"]) == {"start", "sample", "test", "confirm"}
    assert said["cpu_hours"] * 3600 == pytest.approx(sum(said["cpu_seconds"].values()))


@pytest.mark.usefixtures("many_documents")
def test_a_trial_says_how_many_documents_would_be_safe(spec: Callable[..., Path]) -> None:
    said = forecast(open_spec(*at_margin(spec("forecast", with_runs=60), 0.2)))
    assert (said["safe"]["leak"]["documents"], said["useful"]) == (60, None)
    assert said["safe"]["documents"] > 120
    assert f"it takes about {said['safe']['documents']:,} documents" in forecast_words(said)
    assert "(`first_blocks`) of 120 documents tell the average one apart" in said["expect"]
    assert forecast_words(said).splitlines()[1].startswith("expect    most documents to be sensitive")


def at_margin(path: Path, margin: float) -> tuple[Spec, Path]:
    read, base = read_spec_file(path)
    return read.model_copy(update={"decision": read.decision.model_copy(update={"margin": margin})}), base


def test_more_runs_find_less_and_certify_less(spec: Callable[..., Path]) -> None:
    few, many = (forecast(open_spec(*at_margin(spec("forecast", with_runs=runs), 0.05))) for runs in (60, 600))
    assert many["detectable_D"] < few["detectable_D"]
    assert many["certifiable_margin"] < few["certifiable_margin"]
    assert many["runs_for_margin"] == few["runs_for_margin"] > many["runs"] > few["runs"]
