"""Looks decide what is open, keep what was said, and count everybody."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ksdp.audit.interim_looks import Look
from ksdp.audit.interim_verdicts import after_look, open_documents, without_clear
from ksdp.audit.spec import DecisionSpec
from ksdp.audit.testing import compare_arms
from ksdp.audit.verdicts.arms import ArmTests
from ksdp.audit.verdicts.decide import Decisions, decide
from ksdp.audit.verdicts.multiplicity import adjust, bonferroni

RULE = DecisionSpec(margin=0.5, error="fwer")


@pytest.fixture(scope="module")
def looks() -> tuple[np.ndarray, list[np.ndarray]]:
    """A document that shouts, two that whisper, three that are silent."""
    rng = np.random.default_rng(4)
    inclusion = rng.random((6, 3000)) < 0.4
    shift = np.array([3.0, 0.25, 0.3, 0, 0, 0])[:, None] * inclusion
    return inclusion, [rng.normal(size=(6, 3000)) + shift, rng.normal(size=(6, 3000))]


def arms_at(looks: tuple[np.ndarray, list[np.ndarray]], runs: int, rows: np.ndarray) -> ArmTests:
    inclusion, values = looks
    some = {str(n): np.ascontiguousarray(v[rows, :runs]) for n, v in enumerate(values)}
    return compare_arms(some, np.ascontiguousarray(inclusion[rows, :runs]))


def test_each_look_tests_what_is_open_and_keeps_the_rest(looks: tuple) -> None:
    everybody = np.arange(6)
    first = after_look(None, arms_at(looks, 150, everybody), 0, Look(150, 0.001), RULE, [1])
    assert first.decisions.verdict[0] == "sensitive"
    rest = open_documents(first)
    assert rest.tolist() == [1, 2, 3, 4, 5]
    second = after_look(first, arms_at(looks, 3000, rest), 1, Look(3000, 0.049), RULE, [1])
    assert second.look.tolist() == [0, 1, 1, 1, 1, 1]
    assert second.tests.n_with[0, 0] == first.tests.n_with[0, 0]
    assert second.decisions.verdict.tolist() == ["sensitive", "sensitive", "sensitive", "clear", "clear", "clear"]
    assert second.alone[:, 0].tolist() == [True, True, True, False, False, False]
    assert not second.paper.any()


def test_a_later_look_counts_the_documents_that_are_decided(looks: tuple) -> None:
    """By hand: those decided before stand in the correction with p = 1."""
    rows = np.array([1, 2])
    tests = arms_at(looks, 1000, rows)
    got = decide(tests, RULE, level=0.02, among=6).log10_adjusted
    padded = np.concatenate([bonferroni(tests.log10_p), np.zeros(4)])
    assert got == pytest.approx(adjust(padded, "holm")[:2])


def test_adjusted_p_is_on_the_scale_of_the_whole_audit(looks: tuple) -> None:
    standing = after_look(None, arms_at(looks, 400, np.arange(6)), 0, Look(400, 0.005), RULE, [])
    sensitive = standing.decisions.verdict == "sensitive"
    assert ((standing.decisions.log10_adjusted <= math.log10(RULE.level)) == sensitive).all()


def test_nothing_is_clear_where_an_announced_array_was_looked_at_by_nobody() -> None:
    decisions = Decisions(
        verdict=np.array(["sensitive", "clear", "undecided"]),
        log10_p=np.array([-9.0, -0.1, -1.0]),
        log10_adjusted=np.array([-8.0, 0.0, 0.0]),
        strongest=np.zeros(3, dtype=np.int64),
        band_low=np.zeros((3, 1)),
        band_high=np.ones((3, 1)),
        runs_to_decide=np.array([np.nan, np.nan, 500.0]),
    )
    found = without_clear(decisions)
    assert found.verdict.tolist() == ["sensitive", "undecided", "undecided"]
    assert found.runs_to_decide[1:].tolist() == [np.inf, 500.0]
    assert np.isnan(found.runs_to_decide[0])
