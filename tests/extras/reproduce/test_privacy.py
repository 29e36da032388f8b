"""Table 2 and Figure 6 of PD-ML-Lite on small data: documents that leak are found, and it is told."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import ks_2samp

from ksdp.audit.corpus.matrix import Corpus, canonical
from ksdp.audit.planning import make_plan
from ksdp.audit.registry import make_mechanism
from ksdp.audit.specs.models import parse_spec
from ksdp.extras.reproduce.privacy import (
    MECHANISMS,
    arm_tables,
    certified_advantage,
    compare,
    documents_arms,
    figure_6,
    largest,
    table_2,
)


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    rows = np.random.default_rng(3).gamma(0.6, size=(120, 12))
    return Corpus(canonical(sp.csr_array(rows)), np.array([f"d{i}" for i in range(120)]))


def test_documents_of_several_lots_are_all_tested(corpus: Corpus) -> None:
    found = documents_arms(corpus, {"name": "pd-svd", "rank": 2, "opens": "final"}, 0.25, documents=7, runs=10)
    assert {len(column) for column in found.distance.values()} == {7}
    least = 10.0 ** np.min(list(found.log10_p.values()), axis=0)
    np.testing.assert_allclose(found.corrected, np.minimum(1, least * len(found.log10_p)))
    assert (largest(found.distance) >= found.distance["first-order-basis"]).all()


def test_distance_and_p_are_those_of_scipy(corpus: Corpus) -> None:
    tables = {
        "seed": 0,
        "corpus": {"path": "x"},
        "mechanism": {"name": "pd-svd", "rank": 2, "opens": "final"},
        "design": {"kind": "balanced", "party_size": 0.25, "with_runs": 12, "documents": ["d4"]},
        "statistics": {"families": ["geometry"]},
    }
    plan = make_plan(parse_spec(tables), corpus)
    values: list[float] = []
    row = corpus.matrix.toarray()[4]
    bits, found = arm_tables(plan, lambda stored: values.append(float(np.linalg.norm(stored["V"] @ row))))
    held = bits[0]
    slow = ks_2samp(np.array(values)[held], np.array(values)[~held], method="exact")
    assert found["row-space-energy"].distance[0] == pytest.approx(slow.statistic)
    assert 10 ** found["row-space-energy"].log10_p[0] == pytest.approx(slow.pvalue)


def test_table_2_says_what_its_p_values_mean(corpus: Corpus) -> None:
    mechanism = {"name": "pd-nmf", "rank": 2, "sweeps": 3}
    outcome = table_2({"topics": (corpus, mechanism)}, documents=2, runs=40, shares=(0.03, 0.1))
    assert [row[2] for row in outcome.rows] == ["0.044 +- 0.02", "0.113 +- 0.07"]
    found = [int(str(row[-1]).rstrip("%")) for row in outcome.rows]
    assert found[0] >= 50  # three of 120 documents in a run: what it announces is nearly the document
    assert "reject that nothing leaks" in outcome.found[-1]
    assert "0.5% and 3.0%" in outcome.found[-1]


def test_figure_6_compares_hidden_and_revealed_sigma(corpus: Corpus) -> None:
    outcome = figure_6({"rows": (corpus, 2)}, documents=4, runs=15, shares=(0.1, 0.3))
    assert [line.name for line in outcome.lines] == ["Sigma hidden", "Sigma revealed"]
    assert all(0 < p <= 1 for line in outcome.lines for p in line.y)
    assert len(outcome.rows) == 2


def test_what_is_certified() -> None:
    assert certified_advantage(make_mechanism("pd-svd", {}), [100], 10) is None
    assert certified_advantage(make_mechanism("moments", {"advantage": 0.2}), [100], 10) == pytest.approx(0.2)
    private = make_mechanism("hardt-roth", {"epsilon": 1.0, "delta": 1e-5})
    assert certified_advantage(private, [100], 10) == pytest.approx(math.tanh(0.5), abs=1e-4)
    # A record that is replaced goes and comes: epsilon counts twice.
    comes = make_mechanism("dp-nmf", {"epsilon": 1.0, "delta": 1e-5})
    assert certified_advantage(comes, [100], 10) == pytest.approx(math.tanh(1.0), abs=1e-4)
    # As printed FedPower's claim is unsound: it certifies nothing.
    assert certified_advantage(make_mechanism("fedpower", {"epsilon": 1.0}), [100, 100], 10) is None


def test_every_mechanism_can_be_made() -> None:
    for keys in MECHANISMS.values():
        make_mechanism(keys["name"], {key: value for key, value in keys.items() if key != "name"})


def test_a_small_comparison() -> None:
    rng = np.random.default_rng(7)
    rows = rng.gamma(0.3, size=(700, 4)) @ rng.gamma(0.3, size=(4, 40)) + 0.01
    unit = rows / np.linalg.norm(rows, axis=1)[:, None]
    corpus = Corpus(canonical(sp.csr_array(unit)), np.array([f"d{i}" for i in range(700)]))
    wanted = {name: MECHANISMS[name] for name in ("PD-SVD, V alone", "moments, advantage 0.2")}
    outcome = compare(corpus, "small", documents=4, runs=10, rank=2, splits=2, wanted=wanted)
    assert [row[0] for row in outcome.rows] == list(wanted)
    assert [row[6] for row in outcome.rows] == [None, 0.2]
    assert outcome.rows[0][7] == "80"
    assert {line.panel for line in outcome.lines} == {"small: measured", "small: certified"}
