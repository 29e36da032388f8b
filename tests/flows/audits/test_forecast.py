"""What an audit keeps is what was said before, and what it moves follows from that."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.corpus.matrix import Corpus, canonical
from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.specs.models import MechanismSpec, Spec, parse_spec
from ksdp.flows.audits.calibration import Calibration, calibrate
from ksdp.flows.audits.forecast import Bill, bill, forecast, forecast_words
from ksdp.flows.audits.place import import_seconds, start_seconds
from ksdp.flows.prepare import prepare_stored
from ksdp.storage.readers.spec_files import read_spec_file
from ksdp.tasks.blocks import compute_block


@pytest.mark.parametrize("party_size", [100, 12])
def test_bytes_kept_are_those_that_were_said(party_size: int, tmp_path: Path) -> None:
    """All runs of every document, and a part of those without it."""
    rng = np.random.default_rng(3)
    counts = rng.poisson(0.2, size=(400, 60)).astype(float)
    counts[:, 0] += 1
    corpus = Corpus(canonical(sp.csr_array(counts)), np.array([f"document {n}" for n in range(400)]))
    tables = {"corpus": {"path": "x"}, "mechanism": {"name": "pd-svd", "rank": 2}, "seed": 4}
    tables |= {"design": {"party_size": party_size, "with_runs": 20}}
    tables |= {"statistics": {"families": [], "names": ["row-space-energy", "span-energy"]}}
    ready = prepare_stored(make_plan(parse_spec(tables), corpus), tmp_path, may_sample=True)
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


def test_values_travel_twice_and_the_corpus_to_every_machine() -> None:
    assert Bill(100, 10, 1).moved(0) == 100 + 100 + 10 + 1
    assert Bill(100, 10, 1).moved(20) == 100 + 100 + 10 + 21


def test_the_words_name_units() -> None:
    said = {
        **{"documents": 3, "unit": "document", "runs": 5, "blocks": 1, "statistics": ["a"]},
        **{"certificate_runs": 0, "cpu_hours": 0.5, "seconds_a_run": 0.002, "unread": [], "margin": 0.0},
        **{"bytes": 2.34e9, "moved_bytes": 4.5e12, "corpus_bytes": 1200, "cpu_seconds": {"sample": 1.0}},
        **{"detectable_D": 0.2, "certifiable_margin": 0.1, "runs_for_margin": None},
    }
    words = forecast_words(said)
    assert "2.3 GB kept\n" in words
    assert "with blocks at a URL 4.5 TB moved, and 1.2 kB more for each machine\n" in words


def plan_of(**sections) -> Plan:
    rng = np.random.default_rng(1)
    matrix = canonical(sp.csr_array(rng.integers(0, 5, (40, 12))))
    tables = {"seed": 1, "corpus": {"path": "x"}, "mechanism": {"name": "pd-svd", "rank": 2, "opens": "final"}}
    tables["design"] = {"party_size": 4, "with_runs": 30}
    return make_plan(parse_spec(tables | sections), Corpus(matrix, np.arange(40).astype(str)))


@pytest.mark.parametrize(("observables", "again"), [("all", 0.25), ("none", 0.5)])
def test_what_hangs_on_no_document_is_paid_for_each_part_and_not_for_each_document(observables, again) -> None:
    plan = plan_of(store={"observables": observables})
    costs = calibrate(plan, 0.0, itertools.count().__next__)
    # Four runs between two looks at the clock; the mechanism and the statistics of few documents the same.
    assert costs.again == again
    assert costs.fresh == plan.fresh_runs * 0.5 + 40  # and what is said of each document
    assert costs.sample == pytest.approx(0.25, abs=1e-3)


def test_parts_of_the_documents_share_no_filter() -> None:
    costs, plan = Calibration(sample=2.0, test=0.0, fresh=0.0, start=0.0, again=0.5), plan_of()
    assert costs.stages(plan, 10)["sample"] == 20.0
    assert costs.stages(plan, 10, parts=3)["sample"] == 30.0


def test_where_documents_decide_who_is_drawn_all_of_them_are_looked_at() -> None:
    plan = plan_of(design={"party_size": 4, "with_runs": 30, "kind": "literal", "documents": 3})
    costs = calibrate(plan, 0.0, itertools.count().__next__)
    assert costs.fresh == plan.fresh_runs * plan.design.lanes * 0.25 + 3


def test_workers_take_more_than_a_process_alone_and_a_server_still_more() -> None:
    little = Calibration(sample=0.001, test=0.001, fresh=0.5, once=0.5, trial=1.0)
    cores = os.cpu_count() or 1
    some, much = replace(little, fresh=12.0), replace(little, fresh=90.0 * cores)
    alone, forked, served = (start_seconds(plan_of(), costs, 2.0, 1.0) for costs in (little, some, much))
    assert alone == pytest.approx(2.0 * 2.0 + 1.0 + 1.0)
    assert forked == pytest.approx(alone + 2.0 * 0.5 * (cores + 1) + 0.5 * cores)
    assert served > alone + 2.0 * 3.0
    assert import_seconds() > 0.1


@pytest.mark.usefixtures("many_documents")
def test_forecast_agrees_with_the_plan_and_writes_nothing(spec: Callable[..., Path]) -> None:
    path = spec("forecast", with_runs=60)
    before = sorted(path.parent.iterdir())
    said = forecast(*read_spec_file(path))
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
    said = forecast(*at_margin(spec("forecast", with_runs=60), 0.2))
    assert (said["safe"]["leak"]["documents"], said["useful"]) == (60, None)
    assert said["safe"]["documents"] > 120
    assert f"it takes about {said['safe']['documents']:,} documents" in forecast_words(said)
    assert "(`first_blocks`) of 120 documents tell the average one apart" in said["expect"]
    assert forecast_words(said).splitlines()[1].startswith("expect    most documents to be sensitive")


@pytest.mark.usefixtures("many_documents")
def test_what_a_trial_shows_is_expected(spec: Callable[..., Path]) -> None:
    read, base = at_margin(spec("forecast", with_runs=60), 0.2)
    inner = {"mechanism": "pd-svd", "parameters": {"rank": 3, "opens": "final"}}

    def said(scale: float) -> dict[str, Any]:
        asked = MechanismSpec(name="noisy", **inner, scale=scale)
        return forecast(read.model_copy(update={"mechanism": asked}), base)

    little, much = said(0.001), said(100.0)
    assert f"half of them had a D above {little['safe']['leak']['median']:.2f}" in little["expect"]
    assert much["expect"] is None


def test_values_that_do_not_stay_are_said(spec: Callable[..., Path]) -> None:
    read, base = read_spec_file(spec("forecast", with_runs=60))
    gone = read.model_copy(update={"store": read.store.model_copy(update={"values": "none"})})
    kept, said = forecast(read, base), forecast(gone, base)
    assert (kept["passing_bytes"], said["parts"]) == (0, 1)
    assert said["bytes"] + said["passing_bytes"] == kept["bytes"]
    assert "GB of values that pass" in forecast_words(said)
    assert "pass" not in forecast_words(kept)
    parts = forecast_words(said | {"parts": 4, "runs_again": True})
    assert "documents in 4 parts, which run the mechanism anew" in parts


def at_margin(path: Path, margin: float) -> tuple[Spec, Path]:
    read, base = read_spec_file(path)
    return read.model_copy(update={"decision": read.decision.model_copy(update={"margin": margin})}), base


def test_more_runs_find_less_and_certify_less(spec: Callable[..., Path]) -> None:
    few, many = (forecast(*at_margin(spec("forecast", with_runs=runs), 0.05)) for runs in (60, 600))
    assert many["detectable_D"] < few["detectable_D"]
    assert many["certifiable_margin"] < few["certifiable_margin"]
    assert many["runs_for_margin"] == few["runs_for_margin"] > many["runs"] > few["runs"]
