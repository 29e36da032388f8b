"""What is forecast of an audit's stages, by a clock that counts how often it is looked at."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.corpus.matrix import Corpus, canonical
from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.spec.models import parse_spec
from ksdp.flows.audits.calibration import Calibration, calibrate
from ksdp.flows.audits.place import import_seconds, start_seconds


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


def test_a_server_and_workers_take_more_than_a_process_alone() -> None:
    little = Calibration(sample=0.01, test=0.01, fresh=0.5, once=0.5, trial=1.0)
    much = replace(little, fresh=90.0)
    alone = start_seconds(plan_of(), little, 2.0, 1.0)
    assert alone == pytest.approx(2.0 * 2.0 + 1.0 + 1.0)
    assert start_seconds(plan_of(), much, 2.0, 1.0) > alone + 2.0 * 3.5
    assert import_seconds() > 0.1
