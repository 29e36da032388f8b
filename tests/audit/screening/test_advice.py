"""A search's leak, the levers of a spec, and what is advised."""

from __future__ import annotations

import math

import pytest

from ksdp.audit.corpus import Corpus
from ksdp.audit.learning.gain import Interval
from ksdp.audit.planning import make_plan
from ksdp.audit.screening.advice import Baselines, Tried, advise, documents_needed
from ksdp.audit.screening.leak import Leak, chance_distance, sampled_leak
from ksdp.audit.screening.lever_space import at_setting, lever_space, settings
from ksdp.audit.spec import parse_spec

LEAK = Leak(100, 400, 0.05, 0.1, 0, 0.03, 0.1, "row-space-energy", (), False)
BASE = Baselines("energy", 0.1, 0.3, 0.2)


def tried(value: float, high: float, limit: float, low: float = 0.01) -> Tried:
    leak = Leak(100, 400, high / 2, high, 3, limit, 0.1, "row-space-energy", (), False)
    return Tried({"rank": 3}, Interval(value - 0.1, low, 1.0), (value - 0.1) / 0.2, value, leak)


def advice(*found: Tried):
    return advise(found, BASE, margin=0.2, quota=0.05, confidence=0.95, documents=1000)


def test_of_the_useful_and_safe_the_one_that_gains_most_is_advised() -> None:
    found = advice(tried(0.29, 0.5, 0.9), tried(0.25, 0.15, 0.04), tried(0.28, 0.18, 0.05), tried(0.2, 0.4, 0.5))
    assert found.best == 2
    assert found.frontier == (0, 1, 2)
    assert found.sentences[0].startswith("Run with rank 3: at most 5.0%")
    assert "keeps 90%" in found.sentences[0]


def test_where_none_is_safe_it_says_from_how_many_documents_on() -> None:
    found = advice(tried(0.29, 0.5, 0.9), tried(0.05, 0.1, 0.03, low=-0.1))
    assert found.best is None
    assert found.needed == documents_needed(found.tried[0].leak, 0.2, 1000)
    assert f"{found.needed:,} documents" in found.sentences[0]


def test_where_none_gains_it_says_to_work_alone() -> None:
    found = advice(tried(0.05, 0.1, 0.03, low=-0.1))
    assert found.best is None
    assert found.needed is None
    assert "gains anything" in found.sentences[0]


def test_public_data_that_are_as_good_are_named() -> None:
    assert any("Public data alone" in sentence for sentence in advice(tried(0.19, 0.1, 0.03)).sentences)


def test_what_nobody_looks_at_is_not_safe() -> None:
    unread = Leak(100, 400, 0.05, 0.1, 0, 0.03, 0.1, "x", ("sums",), False)
    assert not Tried({}, Interval(0.1, 0.05, 0.2), 1.0, 0.2, unread).good(0.05)


def test_four_times_the_documents_halve_the_distance() -> None:
    leak = Leak(100, 400, 0.2, math.hypot(0.3, 0.1), 9, 0.5, 0.1, "x", (), False)
    assert documents_needed(leak, 0.2, 1000) == 4000
    assert documents_needed(LEAK, 0.2, 1000) == 1000


def spec(mechanism: dict, levers: dict | None = None):
    design = {"kind": "balanced", "party_size": 40, "documents": 15, "with_runs": 40}
    corpus = {"path": "x.npz", "levers": levers or {}}
    return parse_spec({"corpus": corpus, "mechanism": mechanism, "design": design})


def test_the_space_starts_at_the_spec_and_every_setting_is_a_spec() -> None:
    asked = spec({"name": "pd-svd", "rank": 4})
    space = lever_space(asked, 5000)
    assert [lever.name for lever in space] == ["most-frequent", "rank", "opens", "noise"]
    every = list(settings(space))
    assert at_setting(asked, every[0], 5000).mechanism.parameters["rank"] == 4
    last = at_setting(asked, every[-1], 5000)
    assert last.mechanism.name == "noisy"
    assert last.mechanism.parameters["scale"] == pytest.approx(1 / math.sqrt(250))
    assert last.corpus.levers.most_frequent == 250
    assert last.mechanism.parameters["parameters"] == {"rank": 2, "opens": "final"}


def test_moments_have_a_promise_to_turn() -> None:
    asked = spec({"name": "moments", "rank": 3}, {"basis": "b.npy", "directions": 20})
    space = lever_space(asked, 5000)
    assert [lever.name for lever in space] == ["rank", "directions", "advantage", "clip"]
    chosen = at_setting(asked, {"directions": 10, "advantage": 0.1, "clip": 0.5}, 5000)
    assert chosen.corpus.levers.directions == 10
    assert chosen.mechanism.parameters["row_bound"] == 0.5


def test_fewer_iterations_announce_no_later_ones() -> None:
    asked = spec({"name": "pd-nmf", "rank": 4, "sweeps": 12, "announce": ["T"], "at": [1, 12, "last"]})
    lever = next(lever for lever in lever_space(asked, 5000) if lever.name == "iterations")
    assert lever.values == (12, 6, 3)
    assert at_setting(asked, {"iterations": 12}, 5000).mechanism == asked.mechanism
    fewer = at_setting(asked, {"iterations": 6}, 5000).mechanism.parameters
    assert fewer == asked.mechanism.parameters | {"sweeps": 6, "at": [1, "last"]}
    noisy = {"mechanism": "pd-nmf", "noise": 0.5, "parameters": {"rank": 4, "announce": ["T"], "at": [12]}}
    around = at_setting(spec({"name": "noisy"} | noisy), {"iterations": 5}, 5000).mechanism.parameters
    assert around["parameters"] == noisy["parameters"] | {"sweeps": 5, "at": ["last"]}
    # The limit has no number of iterations, and one that is done already cannot be halved.
    for none in ({"name": "pd-svd", "rank": 4}, {"name": "pd-nmf", "sweeps": 1}):
        assert "iterations" not in [lever.name for lever in lever_space(spec(none), 5000)]


def test_the_leak_of_a_sample_is_that_of_its_strongest_statistic(corpus: Corpus) -> None:
    quiet = spec({"name": "noisy", "mechanism": "pd-svd", "noise": 50.0, "scale": 1.0, "parameters": {"rank": 2}})
    loud = spec({"name": "pd-svd", "rank": 2})
    found = [sampled_leak(make_plan(one, corpus), level=0.05, population=90) for one in (quiet, loud)]
    assert found[0].median < found[1].median
    assert found[0].above <= found[1].above
    assert found[0].runs == 80
    assert found[0].chance == pytest.approx(chance_distance(40, 40), rel=0.05)
