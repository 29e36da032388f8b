"""The direction of largest entropy by conjugate gradients: against the one by an orthonormal basis."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.array_types import Floats
from ksdp.audit.statistics import log_odds as module
from ksdp.audit.statistics.log_odds import few_numbers, log_odds
from ksdp.audit.statistics.max_entropy import span_of
from ksdp.audit.statistics.solved_parts import open_direction
from ksdp.audit.statistics.term_numbers import TermNumbers


def problem(n: int = 120, m: int = 20) -> tuple[Floats, Floats, Floats]:
    """Terms of columns of different sizes, what a run's numbers are beside what is expected, the shares."""
    rng = np.random.default_rng(4)
    terms, shares = rng.normal(size=(n, m)) * np.geomspace(0.1, 10.0, m), rng.uniform(0.1, 0.6, n)
    return terms, (rng.random(n) < shares) @ terms - shares @ terms, shares


@pytest.mark.parametrize("noise", [1e-10, 1e-2])
def test_it_is_the_direction_of_the_span(noise: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of numbers with much noise and with hardly any; a direction that nobody has entries in changes nothing."""
    monkeypatch.setattr(module, "SETTLED", 1e-8)
    terms, apart, shares = problem()
    found = log_odds(np.hstack([terms, terms[:, :1]]), np.append(apart, apart[0]), shares, np.full(21, noise))
    whole = np.hstack([terms, terms[:, :1]])
    wanted, usual = span_of(whole, noise).direction(np.append(apart, apart[0]), shares)
    assert found is not None
    np.testing.assert_allclose(whole @ found[0] + found[1], whole @ wanted + usual, atol=0.02)


def test_steps_end_near_the_least_value() -> None:
    """As settled as they are: a step that takes little is the last."""
    terms, apart, shares = problem()
    found = log_odds(terms, apart, shares, np.full(20, 1e-10))
    wanted, usual = span_of(terms, 1e-10).direction(apart, shares)
    assert found is not None
    assert np.abs(terms @ found[0] + found[1] - terms @ wanted - usual).max() < 0.1


def test_matrices_are_factored_anew_where_gradients_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same guess from a matrix of every step and from the first one alone."""
    monkeypatch.setattr(module, "SETTLED", 1e-8)
    terms, apart, shares = problem()
    said, factored, factor = [], [], module._Guess._factor

    def counted(guess: module._Guess, varied: Floats) -> Floats | None:
        factored.append(many)
        return factor(guess, varied)

    monkeypatch.setattr(module._Guess, "_factor", counted)
    for many in (0, 1000):
        monkeypatch.setattr(module, "_MANY", many)
        found = log_odds(terms, apart, shares, np.full(20, 1e-10))
        assert found is not None
        said.append(terms @ found[0] + found[1])
    np.testing.assert_allclose(*said, atol=0.02)
    assert factored.count(1000) == 1 < factored.count(0)


def test_a_number_that_nobody_adds_to_says_nothing() -> None:
    """A column of zeros leaves a matrix that only its noise makes one that can be factored."""
    terms, apart, shares = problem()
    alone = log_odds(terms, apart, shares, np.full(20, 1e-10))
    beside = log_odds(np.hstack([terms, np.zeros((120, 1))]), np.append(apart, 0.0), shares, np.full(21, 1e-10))
    assert alone is not None
    assert beside is not None
    np.testing.assert_allclose(terms @ beside[0][:20], terms @ alone[0], atol=1e-3)


def test_sums_as_expected_move_nobody() -> None:
    """Nothing is left of the gradient, and nothing is divided by it."""
    terms, apart, shares = problem()
    found = log_odds(terms, np.zeros_like(apart), shares, np.full(20, 1e-10))
    assert found is not None
    assert not found[0].any()
    assert found[1] == 0.0


def test_what_this_arithmetic_cannot_tell_is_left() -> None:
    """A document whose squares are rounding beside others' is left; one that adds nothing is none."""
    terms, apart, shares = problem()
    small = terms.copy()
    small[0] *= 1e-6
    assert log_odds(small, apart, shares, np.full(20, 1e-10)) is None
    nobody = terms.copy()
    nobody[0] = 0.0
    assert log_odds(nobody, apart, shares, np.full(20, 1e-10)) is not None


def test_only_few_numbers_leave_it_open() -> None:
    """Up to three for four documents."""
    assert few_numbers(30, 40)
    assert not few_numbers(31, 40)
    rng = np.random.default_rng(1)
    rows = sp.csr_array(rng.uniform(size=(40, 31)))
    made, shares = TermNumbers.plain(rows, np.ones((40, 1))), np.full(40, 0.5)
    apart = made.summed((rng.random(40) < 0.5) - shares)
    assert open_direction(made, apart, shares) is None
    fewer = TermNumbers.plain(sp.csr_array(rows[:, :20]), np.ones((40, 1)))
    assert open_direction(fewer, apart[:20], shares) is not None
