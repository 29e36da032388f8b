"""Coefficients against one product a document and row; what all statistics say of themselves."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.mechanisms.contract import Observables, Release
from ksdp.audit.mechanisms.pem.mechanisms import PEMKMeans
from ksdp.audit.mechanisms.privacy.hardt_roth import HardtRoth
from ksdp.audit.registry import statistics
from ksdp.audit.statistics.contract import Documents, sentence_of
from ksdp.audit.statistics.linear.counts import COUNTS
from ksdp.audit.statistics.linear.groups import GroupMean
from ksdp.audit.statistics.plain import coefficients, statistics_of_arrays


@pytest.mark.parametrize("names", [["T"], ["V", "sigma"], ["V", "sigma", "mean"]])
def test_each_is_the_shadow_on_its_row(names: list[str]) -> None:
    rng = np.random.default_rng(5)
    x = rng.poisson(0.5, (7, 20)) * rng.random((7, 20))
    run = {"T": rng.random((3, 20)), "V": np.linalg.svd(rng.normal(size=(9, 20)))[2][:3]}
    run |= {"sigma": np.array([3.0, 2.0, 1.0]), "mean": rng.random(20)}
    run[names[0]][2] *= "T" not in names  # a topic of length zero
    seen = {name: run[name] for name in names}
    for t, statistic in enumerate(coefficients(3, names)):
        got = statistic.evaluate(Observables(seen), Documents(sp.csr_array(x)))
        row = seen[names[0]][t]
        for i, document in enumerate(x):
            centred = document - seen["mean"] if "mean" in seen else document
            length = float(np.sqrt(row @ row))
            assert got[i] == pytest.approx(float(centred @ row) / length if length else 0.0, abs=1e-12)


def test_no_basis_no_coefficients() -> None:
    assert coefficients(4, ["sums"]) == ()


def test_every_statistic_of_ours_has_one_plain_sentence() -> None:
    brought = [s for mechanism in (PEMKMeans(), HardtRoth()) for s in mechanism.statistics]
    arrays = statistics_of_arrays([Release("mean", (5,)), Release("offset", (3,))], 5)
    rows = {s.name: s for s in (*statistics().values(), *brought, *arrays, *COUNTS, coefficients(1, ["V"])[0])}
    rows |= {row.name: row for row in (GroupMean(rows["row-space-energy"]), GroupMean(rows["sigma"]))}
    said = {name: sentence_of(row) for name, row in rows.items()}
    assert [name for name, sentence in said.items() if not sentence.endswith(".")] == []
    assert len(set(said.values())) == len(said)
    assert "announced array mean" in said["projection:mean"]
