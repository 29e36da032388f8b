"""What a mechanism's noise proves clears every document before any run, where it is at most the margin."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import norm

from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.mechanisms.privacy.hardt_roth import BrokenPower, HardtRoth
from ksdp.audit.mechanisms.privacy.moments import Moments
from ksdp.audit.mechanisms.privacy.spent import promise_of
from ksdp.audit.opened import Opened
from ksdp.audit.planning import make_plan
from ksdp.audit.specs.models import Spec, parse_spec
from ksdp.audit.verdicts.verdict import ProvedBy
from ksdp.dashboards.audits.report import render_report
from ksdp.dashboards.audits.result import audit_result
from ksdp.flows.audits.forecast import forecast
from ksdp.flows.audits.place import HERE
from ksdp.flows.audits.run import run_audit
from ksdp.flows.prepare import open_spec
from ksdp.storage.findings import read_verdicts
from ksdp.storage.store import Store

DOCUMENTS = 60


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = np.random.default_rng(3).normal(size=(DOCUMENTS, 5)) * [0.6, 0.4, 0.3, 0.2, 0.1]
    text = [",".join(("id", *"abcde")), *(f"K{n}," + ",".join(map(str, row)) for n, row in enumerate(rows))]
    (tmp_path / "table.csv").write_text("\n".join(text), encoding="utf-8")
    return tmp_path


def asked(margin: float, **more: object) -> Spec:
    tables: dict[str, object] = {
        "corpus": {"path": "table.csv"},
        "mechanism": {"name": "moments", "rank": 2, "advantage": 0.3},
        "design": {"party_size": 0.5, "with_runs": 100},
        "statistics": {"families": ["paper"]},
        "decision": {"margin": margin},
    }
    return parse_spec(tables | more)


@pytest.mark.parametrize(("margin", "clear"), [(0.3, DOCUMENTS), (0.29, None)])
def test_a_proof_at_the_margin_clears_everybody_and_above_it_nobody(
    table: Path, margin: float, clear: int | None
) -> None:
    spec = asked(margin, certificate={"pairs": 20})
    found = run_audit(open_spec(spec, table), table / "store", HERE)
    promise = found.bound(ProvedBy.NOISE)
    assert promise.largest == 0.3
    plan, page = forecast(open_spec(spec, table)), render_report(audit_result(found))
    if clear is None:
        assert not promise.certified
        assert found.bound(ProvedBy.PAIRS) is not None, "pairs are bought where the proof does not decide"
        assert found.runs == 200
        assert found.verdicts.clear < DOCUMENTS
        assert "above the margin of 0.29, so runs decide" in plan["promise"]
        assert "it decides nothing" in page
        return
    assert found.verdicts.clear == found.verdicts.every_attack == promise.certified == clear
    assert found.bound(ProvedBy.PAIRS) is None
    assert found.runs == 64, "a few check the program"
    verdicts = read_verdicts(Store.open(table / "store").audit(found.audit))
    assert set(verdicts["certified_bound"].to_pylist()) == {0.3}
    assert plan["runs"] == 64
    assert "all are clear at margin 0.3 whatever a run shows" in plan["promise"]
    assert "whatever the attacker knows" in page
    assert "An attacker who knows anything" in page


def test_a_bound_is_that_of_the_noise_that_is_left() -> None:
    """By the normal law: mu is sensitivity over deviation, of all runs together the root of the sum of squares."""
    one = promise_of(Moments(rank=2, noise=2.0), (95, 95), 12, known_parties=1)
    assert one.bound == pytest.approx(2 * norm.cdf(math.sqrt(2) / 2.0 / 2) - 1, abs=1e-6)
    assert one.every_size
    power = HardtRoth(rank=2, epsilon=1.0, colluders=1)
    twice = promise_of(power, (50, 50), 12, known_parties=1)
    assert 0.05 < twice.bound < 0.5


@pytest.mark.parametrize(
    ("mechanism", "known"),
    [
        (HardtRoth(rank=2, epsilon=1.0), 1),  # the observer's own noise is a part of what hides
        (HardtRoth(rank=2, epsilon=1.0, unit="entry-printed"), 0),
        (BrokenPower(rank=2, epsilon=1.0), 0),
        (type("Weak", (Moments,), {"noise_factor": 0.5})(rank=2), 0),
    ],
)
def test_what_is_not_proved_promises_nothing(mechanism: HardtRoth, known: int) -> None:
    assert promise_of(mechanism, (50, 50), 12, known) is None


@pytest.mark.parametrize(("colluders", "proved"), [(0, False), (1, True)])
def test_nothing_is_proved_against_outsiders_alone(colluders: int, proved: bool) -> None:
    """A party of the run sees the sums and knows its own noise, whether or not the audit has a coalition."""
    corpus = Corpus(
        sp.csr_array(np.random.default_rng(3).normal(size=(60, 5))), np.array([f"K{n}" for n in range(60)])
    )
    mechanism = {"name": "hardt-roth", "rank": 2, "epsilon": 0.5, "colluders": colluders}
    for parties in ({}, {"honest": 0.3}, {"coalition": 0.3}):
        plan = make_plan(Opened.of(asked(0.3, mechanism=mechanism, parties=parties), corpus))
        assert (plan.promise is not None) == plan.proved == proved


@pytest.mark.parametrize("of_design", [{"sampling": "poisson"}, {"unit": "group"}])
def test_what_is_not_one_replaced_record_has_no_such_proof(of_design: dict[str, object]) -> None:
    rows = sp.csr_array(np.random.default_rng(3).normal(size=(60, 5)))
    ids = np.array([f"K{n}" for n in range(60)])
    corpus = replace(Corpus(rows, ids), group=np.array([f"g{n // 2}" for n in range(60)]))
    plan = make_plan(Opened.of(asked(0.3, design={"party_size": 0.5} | of_design), corpus))
    assert plan.promise is None
    assert not plan.proved
