"""Noise of the stated size on every array but the plain ones; what every statistic then makes of it."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import Database, Mechanism
from ksdp.audit.corpus.matrix import Corpus, canonical
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.privacy.noisy import Noisy
from ksdp.audit.mechanisms.schema import final_output, recorded, released
from ksdp.audit.registry import make_mechanism

from ....plans import planned


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
        ("pd-nmf", {"rank": 3, "opens": "final"}),
        ("pd-pca", {"rank": 2}),
    ],
)
def test_the_noise_has_the_stated_size_and_is_fresh(name: str, parameters: dict[str, Any]) -> None:
    exact = run(make_mechanism(name, parameters), 0)
    noisy = Noisy(name, noise=0.5, parameters=parameters)
    exact_only = ("block_sums",) if name == "pd-pca" else ()
    shapes = {k: v.shape for k, v in exact.items() if k not in exact_only}
    assert {a.name: a.shape for a in recorded(noisy, 60)} == shapes
    runs = [run(noisy, seed) for seed in range(60)]
    for key in shapes:
        array = exact[key]
        stacked = np.stack([seen[key] for seen in runs])
        if key in ("span", "span_sigma", "first_blocks", "block_sums", "topics"):
            continue  # worked out from what has noise
        if key in ("sweeps", "iterations"):
            assert (stacked == array).all()
            continue
        deviation = 0.5 * np.sqrt((array**2).mean())
        if key in final_output(noisy, 60) and noisy.traits.nonnegative:
            assert stacked.min() >= 0
            off = (stacked - array)[:, array > 4 * deviation]  # where clipping has no say
            if not off.size:
                continue
        else:
            off = stacked - array
        assert abs(off.mean()) < 5 * deviation / np.sqrt(off.size)
        assert off.std() == pytest.approx(deviation, rel=6 / np.sqrt(off.size))
    again = run(noisy, 0)
    assert all((again[key] == runs[0][key]).all() for key in shapes)


def test_sums_are_opened_with_the_sign_that_they_have() -> None:
    """PD-NMF's sums of what other topics leave are of either sign: cut at 0, they would hide what parties see."""
    parameters = {"rank": 3, "tolerance": 0.0}
    exact, seen = (run(one, 0) for one in (PDNMF(**parameters), Noisy("pd-nmf", 1.0, parameters, scale=1e-9)))
    for name in ("sums", "total", "numerators"):
        assert exact[name].min() < -0.1
        np.testing.assert_allclose(seen[name], exact[name], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", ["pd-svd", "sigma-svd", "pd-pca"])
@pytest.mark.parametrize("solver", [{}, {"solver": "power", "iterations": 4, "tolerance": 0.0}])
def test_blocks_almost_without_noise_span_what_the_exact_ones_do(name: str, solver: dict[str, Any]) -> None:
    parameters = {"rank": 2} | solver
    exact, seen = (
        run(made, 0) for made in (make_mechanism(name, parameters), Noisy(name, 1.0, parameters, scale=1e-13))
    )
    if name != "sigma-svd":
        del exact["block_sums"]  # their lengths stay unknown where the blocks have noise
    assert {key: array.shape for key, array in exact.items()} == {key: array.shape for key, array in seen.items()}
    space, noisy = exact["span"], seen["span"]
    strong = seen["span_sigma"] > 1e-6  # along the others, blocks differ by rounding and noise alone
    assert strong.sum() >= 4
    np.testing.assert_allclose(noisy[strong] @ space.T @ space, noisy[strong], atol=1e-5)
    np.testing.assert_allclose(noisy[strong] @ noisy[strong].T, np.eye(strong.sum()), atol=1e-9)


def test_the_span_of_noisy_blocks_is_worked_out_from_them_and_hides_what_they_hide() -> None:
    """With noise far above the blocks, spans of two runs have no more in common than random ones."""
    mechanism = Noisy("pd-svd", 1.0, {"rank": 2}, scale=100.0)
    one, other = (run(mechanism, seed)["span"] for seed in (1, 2))
    shared = np.square(one @ other.T).sum() / len(one)
    assert shared == pytest.approx(len(one) / 60, abs=0.15)


@pytest.mark.parametrize("start", ["random", "pd-nmf-init"])
def test_sums_over_sweeps_are_worked_out_from_the_sums_of_every_sweep(start: str) -> None:
    parameters = {"rank": 2, "sweeps": 3, "tolerance": 0.0, "start": start}
    exact = run(make_mechanism("pd-nmf", parameters), 0)
    seen = [run(Noisy("pd-nmf", 1.0, parameters, scale=0.05), seed) for seed in range(25)]
    assert {key: array.shape for key, array in exact.items()} == {k: a.shape for k, a in seen[0].items()}
    for found in seen:
        positive = (found["sums"] > 0).all(axis=0)
        np.testing.assert_allclose(found["total"][positive], found["sums"].sum(axis=0)[positive])
        np.testing.assert_array_equal(found["numerators"], found["sums"][2])
        np.testing.assert_array_equal(found["denominators"], found["weights"][2])
    large = exact["total"] > 3
    off = np.stack([found["total"] - exact["total"] for found in seen])[:, large]
    assert off.std() == pytest.approx(0.05 * np.sqrt(3), rel=0.1)


def test_how_long_a_protocol_takes_is_plain_to_see_whatever_ends_first() -> None:
    parameters = {"rank": 2, "start": "pd-nmf-init", "tolerance": 0.05}
    exact = run(make_mechanism("pd-nmf", parameters), 0)
    seen = run(Noisy("pd-nmf", 1.0, parameters, scale=0.5), 0)
    for name in ("sweeps", "init_sweeps"):
        np.testing.assert_array_equal(seen[name], exact[name])
    assert exact["sweeps"][0] < 20
    assert all(np.isfinite(array).all() for array in seen.values())


def test_what_is_released_without_noise_gives_the_observables() -> None:
    """For sums exactly; where a run ends early the last sweep is repeated."""
    made = make_mechanism("pd-nmf", {"rank": 2, "tolerance": 0.2, "sweeps": 9})
    database, rng = Database((matrix(),)), np.random.default_rng(0)
    exact, sent = made.run(database, rng), made.release(database, rng)
    assert {a.name: a.shape for a in released(made, 60)} == {name: array.shape for name, array in sent.items()}
    found = made.derive(sent)
    assert set(found) == set(exact)
    for name, array in exact.items():
        np.testing.assert_allclose(found[name], array, atol=1e-12)


def test_without_noise_it_is_the_other_mechanism() -> None:
    exact = run(make_mechanism("pd-nmf", {"rank": 3}), 0)
    assert all((array == exact[key]).all() for key, array in run(Noisy("pd-nmf", 0.0, {"rank": 3}), 0).items())


def test_the_key_of_its_runs_names_every_parameter_and_the_version() -> None:
    documents = Corpus(matrix(), np.array([f"d{i}" for i in range(40)]))
    noisy = {"name": "noisy", "mechanism": "pd-nmf", "noise": 1, "parameters": {"rank": 3}}
    plan = planned(documents, noisy, seed=0, design={"party_size": 10})
    written = plan.runs_identity["parameters"]
    assert written["parameters"]["sweeps"] == 20
    assert (written["mechanism"], written["mechanism_version"], written["noise"]) == ("pd-nmf", 1, 1.0)
    assert plan.mechanism.traits.rank == 3  # type: ignore[attr-defined]
    assert "adversary_sigma" in plan.background
    assert plan.mechanism == make_mechanism("noisy", written)


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
        ({"mechanism_version": 9}, "`mechanism_version` must be 1"),
        *(({"scale": scale}, "`scale`") for scale in (0.0, -1.0, True, {"V": 0.0})),
    ],
)
def test_what_it_refuses(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        Noisy(**{"mechanism": "pd-svd", "parameters": {"rank": 3}} | changes)
