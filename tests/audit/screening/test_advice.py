"""A search's leak, the levers of a spec, and what is advised."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from scipy.stats import ks_2samp

from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.learning.gain import Interval
from ksdp.audit.planning import make_plan
from ksdp.audit.screening.advice import (
    Baselines,
    Leak,
    Setting,
    Tried,
    advice_sentences,
    advise,
    at_setting,
    chance_distance,
    documents_needed,
    grid,
    lever_space,
    sampled_leak,
)
from ksdp.audit.specs.models import parse_spec

LEAK = Leak(100, 400, 0.05, 0.1, 0, 0.03, 0.0, 0.1, 0.0, "row-space-energy", (), False)
BASE = Baselines("energy", 0.1, 0.3, 0.2)


def tried(value: float, high: float, limit: float, low: float = 0.01, **more) -> Tried:
    leak = Leak(100, 400, high / 2, high, 3, limit, limit / 2, 0.05, high, "row-space-energy", (), False)
    share = (value - 0.1) / 0.2
    gain, kept = Interval(value - 0.1, low, 1.0), Interval(share, share - 0.1, share + 0.1)
    return Tried(Setting(rank=3), gain, kept, value, leak, **more)


def advice(*found: Tried):
    return advise(found, BASE, margin=0.2, quota=0.05, confidence=0.95, documents=1000)


def test_of_the_useful_and_safe_the_one_that_gains_most_is_advised() -> None:
    found = advice(tried(0.29, 0.5, 0.9), tried(0.25, 0.15, 0.04), tried(0.28, 0.18, 0.05), tried(0.2, 0.4, 0.5))
    assert found.best == 2
    assert found.frontier == (0, 1, 2)
    said = advice_sentences(found)
    assert said[0].startswith("Run rank 3: it gains +0.1800")
    assert "90% (80% to 100%)" in said[0]
    assert any("at least 95.0% of the documents" in sentence for sentence in said)
    more = advice_sentences(advice(tried(0.28, 0.18, 0.05, times=2**0.25)))
    assert more[1] == "With about 1.2 times as many documents it would keep 90% of what the exact run gains."


def test_of_those_that_gain_nearly_as_much_the_safest_is_advised() -> None:
    found = advice(tried(0.28, 0.18, 0.05), tried(0.275, 0.12, 0.04), tried(0.2, 0.05, 0.01))
    assert found.best == 1


def test_a_proof_is_safe_whatever_chance_measures_and_comes_first() -> None:
    found = advice(tried(0.28, 0.1, 0.04), tried(0.275, 0.21, 0.2, promised=0.2))
    assert found.best == 1
    said = advice_sentences(found)
    assert any("above 0.20: noise or a secret draw proves it" in sentence for sentence in said)
    assert any("by chance" in sentence for sentence in said)
    # A promise beyond the margin proves nothing.
    assert advice(tried(0.275, 0.21, 0.2, promised=0.3)).best is None


def test_what_is_proved_comes_before_what_is_measured_alone_and_this_is_said() -> None:
    measured, sure = tried(0.29, 0.1, 0.02), tried(0.2, 0.1, 0.3, promised=0.1)
    found = advice(measured, sure)
    assert found.best == 1
    assert "Safe against the tried attacks alone, rank 3 gains +0.1900." in advice_sentences(found)
    assert advice(measured, tried(0.2, 0.1, 0.3)).best == 0


def test_what_parties_cannot_run_is_advised_only_where_nothing_else_is_good() -> None:
    stuck = tried(0.29, 0.1, 0.03, cannot_run="no program.")
    assert advice(stuck, tried(0.2, 0.1, 0.03)).best == 1
    assert "Parties cannot run it yet as it is: no program." in advice_sentences(advice(stuck))


def test_where_none_is_safe_it_says_from_how_many_documents_on() -> None:
    leaky = tried(0.29, 0.5, 0.9)
    found = advice(leaky, tried(0.05, 0.1, 0.03, low=-0.1))
    assert found.best is None
    assert (found.nearest, found.needed) == (0, documents_needed(leaky.leak, 0.2, 1000))
    said = advice_sentences(found)
    assert said[1].startswith(
        "The nearest miss is rank 3: it gains +0.1900, and 95 % of the documents measure a D"
    )
    assert f"about {found.needed:,} documents until 95 % are within the margin" in said[1]
    assert "ksdp clear" in said[2]
    nearer = tried(0.2, 0.3, 0.5)
    assert advice(leaky, nearer).nearest == 1
    shown = advice(leaky, nearer).to_json()["tried"][1]
    assert (shown["setting"], shown["name"]) == ({"rank": 3}, "rank 3")


def test_what_more_runs_may_settle_is_not_called_unsafe() -> None:
    found = advice(tried(0.29, 0.18, 0.09))
    assert (found.best, found.unsettled, found.nearest, found.needed) == (None, (0,), 0, 1448)
    assert "not settled" in advice_sentences(found)[0]


def test_where_none_gains_it_says_to_work_alone() -> None:
    found = advice(tried(0.05, 0.1, 0.03, low=-0.1))
    assert found.best is None
    assert (found.nearest, found.needed) == (None, None)
    assert "gains anything" in advice_sentences(found)[0]


def test_what_nobody_looks_at_is_not_safe() -> None:
    unread = dataclasses.replace(LEAK, unread=("sums",))
    assert not Tried(Setting(), Interval(0.1, 0.05, 0.2), None, 0.2, unread, promised=0.1).good(0.05, 0.2)
    assert Tried(Setting(), Interval(0.1, 0.05, 0.2), None, 0.2, LEAK).good(0.05, 0.2)


@pytest.mark.parametrize(("few", "many"), [(30, 120), pytest.param(60, 240, marks=pytest.mark.validity)])
def test_among_the_documents_needed_the_best_attack_measures_so_little(few: int, many: int) -> None:
    """Normal documents; the attack is the likelihood ratio of two normal laws of the sum, with and without x."""
    features, runs = 6, 2000
    upper = np.triu_indices(features)

    def distance(documents: int) -> float:
        rng = np.random.default_rng(documents)

        def sums(rows: np.ndarray) -> np.ndarray:
            return (rows.transpose(0, 2, 1) @ rows)[:, upper[0], upper[1]]

        others = sums(rng.standard_normal((runs, documents, features)))
        mean, variance = (np.where(upper[0] == upper[1], *of) for of in ((1.0, 0.0), (2.0, 1.0)))
        found = []
        for x in np.random.default_rng(0).standard_normal((40, features)):
            own = np.outer(x, x)[upper]
            # With x it stands in the place of one other document.
            with_x = sums(rng.standard_normal((runs, documents - 1, features))) + own
            ratio = (own - mean) / variance
            found.append(ks_2samp(with_x @ ratio, others @ ratio).statistic)
        chance = 0.87 * np.sqrt(2 / runs)  # the mean of D where nothing leaks
        return float(np.mean(np.sqrt(np.maximum(np.square(found) - chance**2, 0))))

    leak = dataclasses.replace(LEAK, net=distance(few), runs=2 * runs)
    assert documents_needed(leak, distance(many) / 0.75, few) == pytest.approx(many, rel=0.25)


def test_where_the_distance_is_small_enough_no_more_documents_are_needed() -> None:
    assert documents_needed(LEAK, 0.2, 1000) == 1000


def spec(mechanism: dict, levers: dict | None = None):
    design = {"kind": "balanced", "party_size": 40, "documents": 15, "with_runs": 40}
    corpus = {"path": "x.npz", "levers": levers or {}}
    geometry = {"families": ["geometry"]}
    return parse_spec({"corpus": corpus, "mechanism": mechanism, "design": design, "statistics": geometry})


def test_the_grid_starts_at_the_spec_and_then_opens_fewest_numbers_first() -> None:
    asked = spec({"name": "pd-svd", "rank": 4})
    space = lever_space(asked, 5000)
    assert [lever.name for lever in space] == ["opens", "rank", "noise", "drawn", "vocabulary"]
    every = grid(asked, 5000)
    assert (every[0], at_setting(asked, every[0], 5000)) == (Setting(), asked)
    assert len(every) == len(set(every))
    first = every[1]
    assert (first.opens, first.rank, first.vocabulary) == ("final", 2, 500)
    sizes = [(one.vocabulary or 5000) * (one.rank or 4) for one in every[1:] if one.opens == "final"]
    assert sizes == sorted(sizes)
    last = next(one for one in every if (one.noise, one.drawn, one.vocabulary, one.rank) == (0.4, 0.25, 500, 2))
    found = at_setting(asked, last, 5000)
    assert found.mechanism.name == "noisy"
    assert found.mechanism.parameters["scale"] == pytest.approx(1 / math.sqrt(500))
    assert found.corpus.levers.most_frequent == 500
    assert found.mechanism.parameters["parameters"] == {"rank": 2, "opens": "final"}
    assert found.corpus.levers.drawn == 0.25
    assert found.design.party_size == 10


def test_a_draw_lets_that_share_of_every_size_enter() -> None:
    tables = spec({"name": "pd-svd"}, {"drawn": 0.5}).model_dump(mode="json")
    tables["parties"] = {"honest": 0.2, "coalition": 60}
    asked = parse_spec(tables)
    lever = next(lever for lever in lever_space(asked, 5000) if lever.name == "drawn")
    assert lever.values == (0.5, 0.25)
    assert at_setting(asked, Setting(drawn=0.5), 5000) == asked
    half = at_setting(asked, Setting(drawn=0.25), 5000)
    assert (half.corpus.levers.drawn, half.design.party_size) == (0.25, 20)
    assert (half.parties.honest, half.parties.coalition) == (0.1, 30)


def test_moments_have_a_promise_to_turn() -> None:
    asked = spec({"name": "moments", "rank": 3}, {"basis": "b.npy", "directions": 20})
    assert [lever.name for lever in lever_space(asked, 5000)] == ["rank", "advantage", "drawn"]
    chosen = at_setting(asked, Setting(advantage=0.1, rank=2), 5000).mechanism.parameters
    assert (chosen["advantage"], chosen["rank"]) == (0.1, 2)
    assert grid(asked, 5000, ("advantage",))[1:] == [Setting(advantage=one) for one in (0.1, 0.2, 0.4)]


def test_the_leak_of_a_sample_is_that_of_its_strongest_statistic(corpus: Corpus) -> None:
    quiet = spec({"name": "noisy", "mechanism": "pd-svd", "noise": 50.0, "scale": 1.0, "parameters": {"rank": 2}})
    loud = spec({"name": "pd-svd", "rank": 2})
    found = [sampled_leak(make_plan(one, corpus), level=0.05, population=90) for one in (quiet, loud)]
    assert found[0].median < found[1].median
    assert found[0].above <= found[1].above
    assert found[0].runs == 80
    # The largest of several statistics exceeds what one shows by chance; the quiet run shows no more than chance.
    assert found[0].chance > chance_distance(40, 40)
    assert found[0].net < found[1].net
    assert found[0].least <= found[0].above / 15 <= found[0].limit


def test_a_leak_is_settled_as_soon_as_its_limits_say_so(corpus: Corpus) -> None:
    quiet = spec({"name": "noisy", "mechanism": "pd-svd", "noise": 50.0, "scale": 1.0, "parameters": {"rank": 2}})
    tables = quiet.model_dump(mode="json")
    tables["design"]["with_runs"] = 80
    tables["decision"]["margin"] = 0.5
    tables["statistics"] = {"families": [], "names": ["row-space-energy"]}
    plan = make_plan(parse_spec(tables), corpus)
    assert sampled_leak(plan, level=0.05, population=90, quota=0.5).runs < 160
    assert sampled_leak(plan, level=0.05, population=90).runs == 160


def test_a_hopeless_setting_is_given_up_after_a_sixteenth_of_its_runs(corpus: Corpus) -> None:
    tables = spec({"name": "pd-svd", "rank": 2}).model_dump(mode="json", exclude={"statistics"})
    tables["design"]["with_runs"] = 160
    leaks = {}
    for margin in (0.1, 0.3):  # beyond which chance alone could show what is told for certain
        tables["decision"]["margin"] = margin
        leaks[margin] = sampled_leak(make_plan(parse_spec(tables), corpus), level=0.05, population=90)
    assert (leaks[0.1].runs, leaks[0.3].runs) == (20, 80)
    assert leaks[0.1].early
    assert leaks[0.3].early


def test_of_what_is_held_a_run_of_a_draw_tells_that_share(corpus: Corpus) -> None:
    whole = spec({"name": "pd-svd", "rank": 2})
    tables = whole.model_dump(mode="json")
    tables["corpus"]["levers"]["drawn"] = 0.15

    def leak(margin: float) -> Leak:
        tables["decision"]["margin"] = margin
        return sampled_leak(make_plan(parse_spec(tables), corpus), level=0.05, population=90)

    usual = whole.model_copy(update={"decision": whole.decision.model_copy(update={"margin": 0.14 / 0.15})})
    every = sampled_leak(make_plan(usual, corpus), level=0.05, population=90)
    # The same runs: sizes are of what enters, and no draw proves a margin below its share.
    part = leak(0.14)
    assert part.median == pytest.approx(0.15 * every.median)
    assert part.high == pytest.approx(0.15 * every.high)
    assert part.chance == pytest.approx(0.15 * every.chance)
    proved = leak(0.15)
    assert proved.above == 0 < every.above, "no advantage is above the share that enters"
    assert proved.runs < every.runs
