"""Noise of the stated size on every array but the plain ones; what every statistic then makes of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.corpus import Corpus, canonical
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.contract import Database, Mechanism
from ksdp.audit.mechanisms.privacy.noisy import Noisy
from ksdp.audit.planning import make_plan
from ksdp.audit.registry import make_mechanism
from ksdp.audit.spec import parse_spec


def matrix(rows: int = 40, features: int = 60) -> sp.csr_array:
    rng = np.random.default_rng(5)
    return canonical(sp.csr_array(rng.poisson(0.4, (rows, features)).astype(float)))


def run(mechanism: Mechanism, seed: int) -> dict[str, np.ndarray]:
    seen = mechanism.run(Database((matrix(),)), np.random.default_rng(seed))
    return {name: np.asarray(seen[name]) for name in seen}


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("pd-svd", {"rank": 3, "reveal_sigma": True, "solver": "power", "iterations": 5}),
        ("pd-nmf", {"rank": 3, "announce": ["T", "numerators", "denominators"]}),
        ("pd-pca", {"rank": 2}),
    ],
)
def test_the_noise_has_the_stated_size_and_is_fresh(name: str, parameters: dict[str, Any]) -> None:
    exact = run(make_mechanism(name, parameters), 0)
    noisy = Noisy(name, noise=0.5, parameters=parameters)
    assert {a.name: a.shape for a in noisy.observables(60)} == {k: v.shape for k, v in exact.items()}
    runs = [run(noisy, seed) for seed in range(200)]
    for key, array in exact.items():
        stacked = np.stack([seen[key] for seen in runs])
        if key in ("sweeps", "iterations"):
            assert (stacked == array).all()
            continue
        deviation = 0.5 * np.sqrt((array**2).mean())
        if noisy.nonnegative:
            assert stacked.min() >= 0
            off = (stacked - array)[:, array > 4 * deviation]  # where clipping has no say
            if not off.size:
                continue
        else:
            off = stacked - array
        assert abs(off.mean()) < 5 * deviation / np.sqrt(off.size)
        assert off.std() == pytest.approx(deviation, rel=6 / np.sqrt(off.size))
    again = run(noisy, 0)
    assert all((again[key] == runs[0][key]).all() for key in exact)


def test_without_noise_it_is_the_other_mechanism() -> None:
    exact = run(make_mechanism("pd-nmf", {"rank": 3, "announce": ["T", "denominators"]}), 0)
    assert all(
        (array == exact[key]).all()
        for key, array in run(Noisy("pd-nmf", 0.0, {"rank": 3, "announce": ["T", "denominators"]}), 0).items()
    )


def test_the_key_of_its_runs_names_every_parameter_and_the_version() -> None:
    documents = Corpus(matrix(), np.array([f"d{i}" for i in range(40)]))
    asked = {"corpus": {"path": "x"}, "design": {"party_size": 10}}
    inner = {"mechanism": "pd-nmf", "noise": 1, "parameters": {"rank": 3}}
    plan = make_plan(parse_spec(asked | {"mechanism": {"name": "noisy"} | inner}), documents)
    written = plan.runs_identity["parameters"]
    assert written["parameters"]["sweeps"] == 20
    assert (written["mechanism"], written["mechanism_version"], written["noise"]) == ("pd-nmf", 2, 1.0)
    assert plan.mechanism.rank == 3  # type: ignore[attr-defined]
    assert "adversary_sigma" in plan.background
    assert plan.mechanism == make_mechanism("noisy", written)


@pytest.mark.parametrize("name", ["pd-nmf", "pd-svd"])
@pytest.mark.parametrize("noise", [0.02, 1.0, 16.0])
def test_every_statistic_stays_a_number(name: str, noise: float) -> None:
    documents = Corpus(matrix(), np.array([f"d{i}" for i in range(40)]))
    mechanism = {"name": "noisy", "mechanism": name, "noise": noise, "parameters": {"rank": 3}}
    asked = {"corpus": {"path": "x"}, "mechanism": mechanism, "design": {"party_size": 10}}
    plan = make_plan(parse_spec(asked), documents)
    assert len(plan.statistics) >= 5
    for draw in range(5):
        seen = plan.mechanism.run(plan.database(0, draw), np.random.default_rng(draw))
        for statistic in plan.statistics:
            values = statistic.evaluate(seen, plan.documents(0))
            assert np.isfinite(values).all(), statistic.name


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"noise": -0.1}, "`noise` must be a number of at least 0"),
        ({"noise": float("nan")}, "`noise` must be"),
        ({"noise": True}, "`noise` must be"),
        ({"parameters": 3}, "`parameters` must be a table"),
        ({"parameters": {"rank": 0}}, "`rank`"),
        ({"parameters": {"colour": 1}}, "`mechanism.colour` is not a parameter"),
        ({"mechanism": "nothing"}, "`mechanism.name` must be one of"),
        ({"mechanism": "noisy", "parameters": {}}, "must not be noisy itself"),
        ({"mechanism_version": 9}, "`mechanism_version` must be 2"),
    ],
)
def test_what_it_refuses(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        Noisy(**{"mechanism": "pd-svd", "parameters": {"rank": 3}} | changes)
