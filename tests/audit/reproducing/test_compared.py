"""The comparison of mechanisms on a small corpus, and what noise certifies."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.corpus import Corpus, canonical
from ksdp.audit.registry import make_mechanism
from ksdp.audit.reproducing.compared import MECHANISMS, certified_advantage, compare


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
