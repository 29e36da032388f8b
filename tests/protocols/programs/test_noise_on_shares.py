"""Noise on shares: a run opens what the audited mechanism releases."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from ksdp.audit.contract import Database
from ksdp.audit.errors import ProtocolError, SpecError
from ksdp.audit.mechanisms.privacy.noise import draw, on_grid
from ksdp.audit.mechanisms.privacy.noisy import Noisy
from ksdp.protocols.channel.rounds import run_together
from ksdp.protocols.programs.final_rounds import final_rounds, largest_final_message
from ksdp.protocols.programs.rounds import RunOutcome, noised, vetted_noise
from ksdp.protocols.programs.run_terms import RunTerms, Statement
from ksdp.protocols.programs.share_terms import LARGEST_NOISE, noise_of_party

from ..conftest import seeded
from .test_final_rounds import FEATURES, NAMES, parts, terms_of

STEP = 2.0**-31
VECTORS = {"rank": 3, "opens": "final"}
TOPICS = {"rank": 2, "opens": "final", "sweeps": 2, "tolerance": 0.0, "beta": 0.1, "delta": 0.1}
SIMPLEX = {"rank": 2, "opens": "final", "sweeps": 2, "tolerance": 0.0}


def known(seed: int, drawn: list[np.ndarray[Any, Any]]) -> Callable[[tuple[int, ...], float], Any]:
    """Noise that a test can subtract again."""

    def source(shape: tuple[int, ...], deviation: float) -> np.ndarray[Any, Any]:
        noise = draw("fast", shape, deviation, np.random.default_rng(seed))
        drawn.append(on_grid(noise) * STEP)
        return noise

    return source


def played(terms: RunTerms, rows: list[sp.csr_array]) -> tuple[dict[str, RunOutcome], np.ndarray[Any, Any], int]:
    """What all learn, the noise in it, and the bytes of the largest message."""
    drawn: list[np.ndarray[Any, Any]] = []
    sides = {
        name: final_rounds(
            terms, name, part, Statement(cleared=False), random_bytes=seeded(name),
            noise=known(at, drawn),
        )
        for at, (name, part) in enumerate(zip(NAMES[: len(rows)], rows, strict=True))
    }  # fmt: skip
    results, sent = run_together(sides)
    assert len(drawn) == len(rows)
    return results, np.sum(drawn, axis=0), max(len(body) for _, r in sent for body in r.messages.values())


@pytest.mark.parametrize(("m", "parameters"), [(5, VECTORS | {"rank": 2}), (3, VECTORS | {"rank": 1})])
def test_vectors_are_those_of_the_mechanism_with_every_party_s_noise(m: int, parameters: dict[str, Any]) -> None:
    mechanism = Noisy("pd-svd", noise=0.5, scale=0.1, parameters=parameters)
    rows, terms = parts(m), terms_of(m, mechanism)
    results, noise, largest = played(terms, rows)
    exact = mechanism.inner.run(Database(tuple(rows)), np.random.default_rng(0))["V"]
    assert {outcome.digest for outcome in results.values()} == {results["ada"].digest}
    public = results["ada"].result.public
    assert public.keys() == {"V"}
    np.testing.assert_allclose(public["V"] - noise, exact, atol=1e-6)
    # Nothing below a step of the noise's grid is opened.
    np.testing.assert_array_equal(public["V"] / STEP, np.rint(public["V"] / STEP))
    assert "The result with its noise" in results["ada"].reveals.replace("the result", "The result")
    assert largest <= largest_final_message(terms)


@pytest.mark.parametrize("parameters", [SIMPLEX, TOPICS | {"weighted": True}])
def test_topics_are_those_of_the_mechanism_with_every_party_s_noise(parameters: dict[str, Any]) -> None:
    mechanism = Noisy("pd-nmf", noise=1.0, scale=0.003, parameters=parameters)
    terms, lengths = terms_of(3, mechanism, 0), [np.linalg.norm(part.toarray(), axis=1) for part in parts(3)]
    rows = [abs(part).multiply(1 / long[:, None]).tocsr() for part, long in zip(parts(3), lengths, strict=True)]
    results, noise, largest = played(terms, rows)
    exact = mechanism.inner.run(Database(tuple(rows)), np.random.default_rng(0))["T"]
    np.testing.assert_allclose(
        results["ada"].result.public["T"], np.maximum(exact + noise, 0.0), atol=2e-5 * np.abs(exact).max()
    )
    assert largest <= largest_final_message(terms)


def test_who_subtracts_its_own_noise_sees_the_law_that_was_audited() -> None:
    mechanism = Noisy("pd-svd", noise=0.5, scale=0.01, parameters=VECTORS)
    each, m = noise_of_party(mechanism, 3), 3
    shares = [noised(np.zeros(20_000), each, LARGEST_NOISE / m, vetted_noise).values for _ in range(m)]
    left = np.sum(shares[1:], axis=0) / mechanism.deviation("V")
    audited = draw("fast", (20_000,), 1.0, np.random.default_rng(1))
    assert stats.kstest(left, "norm").pvalue > 1e-9
    assert stats.ks_2samp(left, audited).pvalue > 1e-9
    assert abs(left.var() - 1.0) < 0.07  # seven standard errors
    assert abs(stats.kurtosis(left)) < 0.25
    assert np.var(np.sum(shares, axis=0)) > 1.1 * mechanism.deviation("V") ** 2


def test_a_real_run_draws_its_noise_itself() -> None:
    mechanism = Noisy("pd-svd", noise=0.5, scale=0.1, parameters=VECTORS | {"rank": 1})
    terms, rows = terms_of(3, mechanism), parts(3)
    sides = {
        name: final_rounds(terms, name, part, Statement(cleared=False), random_bytes=seeded(name))
        for name, part in zip(NAMES, rows, strict=False)
    }
    seen = run_together(sides)[0]["ada"].result.public["V"]
    exact = mechanism.inner.run(Database(tuple(rows)), np.random.default_rng(0))["V"]
    # 12 numbers of deviation sqrt(3/2) * 0.05.
    size = np.sqrt(np.mean((seen - exact) ** 2)) / (math.sqrt(1.5) * 0.05)
    assert 0.3 < size < 2.2


@pytest.mark.deviation("final output with noise: add no noise, or tell its own to somebody")
def test_a_party_that_adds_no_noise_takes_away_its_part_and_no_more() -> None:
    """Cyd's source gives zeros: nobody notices, and who subtracts its own noise has one party's left."""
    mechanism = Noisy("pd-svd", noise=0.5, scale=0.1, parameters=VECTORS | {"rank": 1})
    terms, rows, drawn = terms_of(3, mechanism), parts(3), list[np.ndarray[Any, Any]]()
    sources = [known(0, drawn), known(1, drawn), lambda shape, deviation: np.zeros(shape)]
    sides = {
        name: final_rounds(terms, name, part, Statement(cleared=False), noise=source)
        for name, part, source in zip(NAMES, rows, sources, strict=False)
    }
    seen = run_together(sides)[0]["ada"].result.public["V"]
    exact = mechanism.inner.run(Database(tuple(rows)), np.random.default_rng(0))["V"]
    np.testing.assert_allclose(seen - exact - drawn[0], drawn[1], atol=1e-6)
    assert noise_of_party(mechanism, 3) == pytest.approx(math.sqrt(1 / 2) * 0.05)


def test_two_values_too_close_open_nothing() -> None:
    rows = [sp.csr_array(np.vstack([3 * np.eye(FEATURES)[:2], 0.5 * np.eye(FEATURES)])) for _ in range(3)]
    with pytest.raises(ProtocolError, match="nothing but this was opened"):
        played(terms_of(3, Noisy("pd-svd", noise=1.0, scale=0.01, parameters=VECTORS | {"rank": 2})), rows)


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        (Noisy("sigma-svd", noise=1.0, scale=0.01, parameters=VECTORS), "must be pd-svd or pd-nmf"),
        (Noisy("pd-svd", noise=1.0, parameters=VECTORS), "`noise` and `scale` must be above 0"),
        (Noisy("pd-svd", noise=1.0, scale=1e-9, parameters=VECTORS), "must be from 2\\^-25 to 2\\^15"),
        (Noisy("pd-svd", noise=1.0, scale=0.01, parameters={"rank": 3}), '`parameters.opens` must be "final"'),
    ],
)
def test_noise_that_nobody_can_make_on_shares_is_refused(mechanism: Noisy, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        terms_of(3, mechanism)
