"""Columns kept by counts of documents, beside an obvious way to count and to run what follows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import Database
from ksdp.audit.corpus.matrix import canonical
from ksdp.audit.errors import CorpusError, SpecError
from ksdp.audit.learning.learners import exact_of, learn, quickly
from ksdp.audit.mechanisms.counted import CAN_FOLLOW, Counted, document_counts
from ksdp.audit.mechanisms.factorisation.nmf_starts import random_topics
from ksdp.audit.mechanisms.parameters import parameters_of
from ksdp.audit.mechanisms.privacy.noisy import Noisy
from ksdp.audit.mechanisms.schema import final_output, opened, recorded
from ksdp.audit.registry import make_mechanism
from ksdp.audit.screening.advice import at_setting, lever_space
from ksdp.audit.specs.models import parse_spec

CASES: list[tuple[str, dict[str, Any]]] = [
    *((name, {"rank": 2}) for name in CAN_FOLLOW),
    ("pd-svd", {"rank": 2, "solver": "power", "iterations": 30}),
    ("pd-pca", {"rank": 2, "reveal_sigma": True}),
    ("pd-nmf", {"rank": 2, "start": "nnsvd"}),
    ("pd-nmf", {"rank": 2, "start": "random-2x", "tolerance": 0.0}),
    ("pd-nmf", {"rank": 3, "beta": 0.1, "gamma": 0.1}),
]


def parties() -> tuple[sp.csr_array, ...]:
    """Columns of many and of few documents."""
    rng = np.random.default_rng(3)
    chances = np.linspace(0.7, 0.05, 20)
    return tuple(
        canonical(sp.csr_array(rng.random((n, 20)) * (rng.random((n, 20)) < chances))) for n in (14, 9, 11)
    )


def counted_obviously(rows: tuple[sp.csr_array, ...]) -> np.ndarray:
    """Document after document, by pandas."""
    frames = [pd.DataFrame(part.toarray()) for part in rows]
    return pd.concat(frames, ignore_index=True).ne(0).sum(axis=0).to_numpy(dtype=float)


@pytest.mark.parametrize(("name", "parameters"), CASES)
@pytest.mark.parametrize("coalition", [frozenset[int](), frozenset({2})])
def test_it_is_the_other_mechanism_on_the_columns_that_are_left(
    name: str, parameters: dict[str, Any], coalition: frozenset[int]
) -> None:
    rows = parties()
    counted = Counted(name, at_least=10, parameters=parameters)
    seen = counted.run(Database(rows, coalition), np.random.default_rng(0))
    counts = counted_obviously(rows)
    kept = counts >= 10
    assert 5 < kept.sum() < 18
    outside = tuple(part for party, part in enumerate(rows) if party not in coalition)
    np.testing.assert_array_equal(seen["document_counts"], counted_obviously(outside))
    np.testing.assert_array_equal(seen["kept_columns"], kept)
    narrow = tuple(sp.csr_array(part[:, np.flatnonzero(kept)]) for part in rows)
    other = make_mechanism(name, parameters)
    chosen = (np.flatnonzero(kept), 20)
    there = other.run(Database(narrow, coalition, None, chosen), np.random.default_rng(0))
    for announced in recorded(counted, 20)[2:]:
        found = np.asarray(seen[announced.name])
        assert found.shape == announced.shape
        if found.shape == np.shape(there[announced.name]):
            np.testing.assert_array_equal(found, there[announced.name])
        else:
            np.testing.assert_array_equal(found[..., kept], there[announced.name])
            assert not found[..., ~kept].any()
    assert set(opened(counted, 20)) == set(seen)


@pytest.mark.parametrize(("name", "parameters"), CASES)
def test_where_all_columns_stay_nothing_else_changes(name: str, parameters: dict[str, Any]) -> None:
    rows = parties()
    seen = Counted(name, at_least=1, parameters=parameters).run(Database(rows), np.random.default_rng(0))
    there = make_mechanism(name, parameters).run(Database(rows), np.random.default_rng(0))
    assert seen["kept_columns"].all()
    for array in there:
        np.testing.assert_allclose(seen[array], there[array], rtol=1e-12, atol=1e-12)


def test_a_topic_starts_where_it_would_whichever_columns_are_left() -> None:
    rows, mechanism = parties(), Counted("pd-nmf", at_least=10, parameters={"rank": 2, "start_seed": 5})
    seen = mechanism.run(Database(rows), np.random.default_rng(0))
    kept = seen["kept_columns"] > 0
    start = np.where(kept, random_topics(20, 2, 5), 0.0)
    np.testing.assert_allclose(seen["topics"][0], start / start.sum(axis=1, keepdims=True), rtol=1e-12)


def test_stored_zeros_count_for_nothing() -> None:
    rows = sp.csr_array((np.array([0.0, 2.0, 1.0]), np.array([0, 1, 1]), np.array([0, 2, 3])), shape=(2, 3))
    np.testing.assert_array_equal(document_counts(rows), [0.0, 2.0, 0.0])


def test_its_final_output_is_the_vocabulary_and_what_was_learnt() -> None:
    assert final_output(Counted("pd-svd", parameters={"rank": 2}), 9) == ("kept_columns", "V")
    assert final_output(Counted("pd-pca", parameters={"rank": 2}), 9) == ("kept_columns", "mean", "V")


def test_defaults_are_written_out_so_that_other_runs_are_not_taken_for_these() -> None:
    written = parameters_of(Counted("pd-nmf", at_least=3, parameters={"rank": 2}))
    assert written["at_least"] == 3
    assert written["parameters"]["sweeps"] == 20
    assert written["mechanism_version"] == make_mechanism("pd-nmf", {}).version


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"mechanism": "moments"}, "`mechanism` must be pd-nmf, pd-pca, pd-svd, sigma-svd after counts"),
        ({"mechanism": "counted"}, "`mechanism` must be"),
        ({"at_least": 2.5}, "`at_least` must be a whole number of at least 1; got 2.5"),
        ({"at_least": True}, "`at_least` must be a whole number"),
        ({"at_least": 0}, "`at_least` must be a whole number of at least 1; got 0"),
        ({"mechanism": "pd-svd", "parameters": {"opens": "final"}}, "`opens` must be 'every round' after counts"),
        ({"parameters": {"weighted": True, "beta": 1.0, "delta": 1.0}}, "`weighted` must be false"),
        ({"parameters": {"start": "best-of-m"}}, "`start` must be one of random, random-2x, nnsvd"),
        ({"parameters": {"start": "pd-nmf-init"}}, "`start` must be one of"),
        ({"mechanism_version": 99}, "`mechanism_version` must be"),
        ({"parameters": 3}, "`parameters` must be a table"),
    ],
)
def test_what_does_not_go_together_is_said(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        Counted(**wrong)


def test_noise_on_what_follows_is_refused() -> None:
    with pytest.raises(SpecError, match="must not be counted"):
        Noisy("counted", scale=1.0)


def test_a_vocabulary_that_is_too_small_ends_the_run() -> None:
    counts = counted_obviously(parties())
    most = int(counts.max())
    for least, words in ((35, "leaves none of 20 columns"), (most, "too few for pd-svd")):
        counted = Counted("pd-svd", at_least=least, parameters={"rank": int((counts == most).sum())})
        with pytest.raises(CorpusError, match=words):
            counted.run(Database(parties()), np.random.default_rng(0))


def test_what_is_gained_is_held_against_the_other_mechanism_on_all_candidates() -> None:
    counted = Counted("pd-svd", at_least=10, parameters={"rank": 2})
    assert exact_of(counted) == make_mechanism("pd-svd", {"rank": 2})
    learnt = learn(counted, parties(), None, np.random.default_rng(0))
    assert learnt.rows.shape == (2, 20)
    assert quickly(counted) == counted


def test_a_search_turns_how_many_documents_and_adds_no_noise() -> None:
    mechanism = {"name": "counted", "mechanism": "pd-svd", "at_least": 5, "parameters": {"rank": 6}}
    spec = parse_spec({"corpus": {"path": "x"}, "mechanism": mechanism})
    space = {lever.name: lever.values for lever in lever_space(spec, 300)}
    assert space["at-least"] == (5, 10, 20)
    assert space["rank"] == (6, 3)
    assert not {"noise", "opens", "advantage"} & set(space)
    turned = at_setting(spec, {"at-least": 20, "rank": 3}, 300).mechanism
    assert turned.parameters["at_least"] == 20
    assert turned.parameters["parameters"]["rank"] == 3
