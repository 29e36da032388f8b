"""A search's leak, the levers of a spec, and what is advised."""

import dataclasses

import pytest

from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.learning.gain import Interval
from ksdp.audit.opened import Opened
from ksdp.audit.planning import make_plan
from ksdp.audit.screening.advice import (
    ADVICE_VERSION,
    PROVED_RUNS,
    Advice,
    Baselines,
    Checked,
    Leak,
    Setting,
    Tried,
    advice_sentences,
    at_setting,
    candidates,
    certified_share,
    chance_distance,
    documents_needed,
    draw_remedy,
    frontier_of,
    in_order,
    nearest_miss,
    sampled_leak,
    wider,
)
from ksdp.audit.specs.models import parse_spec

LEAK = Leak(100, 400, 0.05, 0.1, 0, 0.03, 0.0, 0.1, 0.0, ())
BASE = Baselines("energy", 0.1, 0.3, 0.2)


def tried(gain: float, low: float = 0.01, high: float | None = None, **more) -> Tried:
    leak = None if high is None else dataclasses.replace(LEAK, high=high, above=7)
    kept = Interval(gain / 0.2, gain / 0.2 - 0.1, gain / 0.2 + 0.1)
    return Tried(Setting(rank=3), Interval(gain, low, 1.0), kept, 0.1 + gain, leak, **more)


def advice(*found: Tried, checked: tuple[Checked, ...] = (), best: int | None = None, needed: str | None = None):
    nearest = nearest_miss(found, checked) if best is None else None
    return Advice(
        ADVICE_VERSION, 0.2, 0.3, 1000, "document", BASE, found, frontier_of(found), best, nearest, checked, needed
    )


def test_proofs_come_in_the_order_of_what_they_surely_gain_and_what_parties_can_run_first() -> None:
    sure, larger, stuck = (
        tried(0.1, 0.05, promised=0.2),
        tried(0.12, 0.01, promised=0.1),
        tried(0.2, 0.1, promised=0.2, cannot_run="no program."),
    )
    nothing, beyond, measured = tried(0.1, -0.01, promised=0.2), tried(0.2, 0.1, promised=0.21), tried(0.3, 0.2)
    refused = Tried(Setting(rank=9), refused="too large")
    assert in_order((larger, nothing, stuck, beyond, sure, measured, refused), 0.2) == [4, 0, 2]
    enough = tuple(tried(0.2, 0.02, promised=bound) for bound in (0.2, 0.1))
    assert in_order((sure, *enough), 0.2) == [2, 1, 0], "of what keeps nine tenths the least is given away"
    assert frontier_of((larger, nothing, stuck, beyond, sure, measured, refused)) == (0, 2)


def test_what_is_recommended_says_who_may_enter_against_what_and_what_it_keeps() -> None:
    proof = Checked(0, 1000, 1000, Interval(0.1, 0.05, 0.2), "The proof holds.")
    said = advice_sentences(advice(tried(0.18, promised=0.2, trust="its noise"), checked=(proof,), best=0))
    assert said[0].startswith("Run rank 3: all 1,000 documents may enter, and no attack on any of them has an adv")
    assert said[1:] == ("Whom one must trust: its noise.", "An audit of exactly these says so: The proof holds.")
    tested = Checked(0, 800, 0, Interval(0.1, 0.05, 0.2), "All hold.")
    said = advice_sentences(advice(tried(0.18, cannot_run="no program."), checked=(tested,), best=0))
    assert "800 of 1,000 documents may enter, each proved within 0.2 against the attacks that were" in said[0]
    assert said[-1] == "Parties cannot run it yet as it is: no program."


def test_where_nothing_gains_it_says_to_work_alone() -> None:
    found = advice(tried(0.05, low=-0.1, promised=0.2))
    assert found.nearest is None
    assert advice_sentences(found)[0].startswith("Work alone. No setting gains anything over that")


def test_where_nothing_is_within_reach_the_nearest_miss_and_what_would_have_to_change_are_named() -> None:
    leaky, proof = tried(0.2, high=0.5), tried(0.05, low=-0.1, promised=0.2)
    wide = tried(0.1, promised=0.7)
    found = advice(leaky, proof, wide, needed="it takes about 5,000 documents")
    assert found.nearest == 0, "0.5 is nearer to the margin than 0.7"
    said = advice_sentences(found)
    assert said[0].startswith("Not reachable within a margin of 0.2: work alone")
    assert said[1].startswith("What is proved within it gains nothing for sure; rank 3 gains most, +0.0500")
    assert "The nearest miss is rank 3: with all documents it gains +0.2000" in said[2]
    assert "but 7 of 100 sampled documents measure a D above the margin" in said[2]
    assert said[3].startswith("What would have to change: a margin of 0.7, within which rank 3 gains +0.1000")
    assert said[3].endswith("; or it takes about 5,000 documents.")
    away = advice_sentences(advice(dataclasses.replace(leaky, absent=400), proof))
    assert away[2].startswith("As it stands, 400 of 1,000 documents are given away before any run, by the absence")
    shown = found.to_json()["tried"][0]
    assert (shown["setting"], shown["name"]) == ({"rank": 3}, "rank 3")
    assert advice_sentences(advice(leaky, proof))[-1].endswith(
        "0.5, which 95 % of the sampled documents are within there."
    )
    # Whoever is left out may have carried the gain: the list counts, not all documents.
    lost = Checked(0, 750, 0, Interval(-0.01, -0.02, 0.01), "All hold.")
    assert (
        "250 of 1,000 would have to stay out, and with the other 750 it gains -0.0100"
        in advice_sentences(advice(leaky, checked=(lost,)))[1]
    )


def test_where_the_distance_is_small_enough_no_more_documents_are_needed() -> None:
    assert documents_needed(LEAK, 0.2, 1000) == 1000


def spec(mechanism: dict, levers: dict | None = None):
    design = {"kind": "balanced", "party_size": 40, "documents": 15, "with_runs": 40}
    corpus = {"path": "x.npz", "levers": levers or {}}
    geometry = {"families": ["geometry"]}
    return parse_spec({"corpus": corpus, "mechanism": mechanism, "design": design, "statistics": geometry})


def test_candidates_are_the_spec_its_proofs_and_measured_noise_at_ranks_that_are_no_smaller() -> None:
    asked = spec({"name": "pd-svd", "rank": 4})
    found = candidates(asked, 100, 10.0)
    assert (found[0], at_setting(asked, found[0], 100)) == (Setting(), asked)
    assert len(found) == len(set(found))
    assert {one.rank for one in found} == {None, 4, 8}, "`moments` names the spec's own"
    assert [one for one in found if one.drawn or one.advantage][:2] == [
        Setting(opens="final", drawn=0.2),
        Setting(rank=4, advantage=0.2, row_bound=10.0),
    ]
    assert {one.drawn for one in found} == {None, 0.1, 0.2}, "half of the margin may be enough"
    assert {one.noise for one in found} == {None, 0.01, 0.02}, "a tenth and a fifth of an entry of a unit row"
    # Where nothing public bounds a row, or too many columns there are, noise has no size.
    assert all(one.advantage is None for one in (*candidates(asked, 100, None), *candidates(asked, 5000, 1.0)))
    exact = [one.advantage or one.drawn for one in wider(asked, Setting(rank=8), 100, 10.0)]
    assert exact == [0.4, 0.4, 0.5, 0.5, 0.7, 0.7, 0.9, 0.9]


def test_a_setting_is_a_spec_that_can_be_typed() -> None:
    asked = spec({"name": "pd-svd", "rank": 4})
    noisy = at_setting(asked, Setting(opens="final", noise=0.01), 100)
    assert noisy.mechanism.model_dump() == {"name": "pd-svd", "rank": 4, "opens": "final", "noise": 0.01}
    assert at_setting(asked, Setting(opens="final", noise=0.01, pairs=5), 100).certificate.pairs == 5
    found = at_setting(asked, Setting(rank=8, advantage=0.2, row_bound=10.0, vocabulary=50), 100)
    assert found.mechanism.parameters == {"rank": 8, "colluders": 1, "advantage": 0.2, "row_bound": 10.0}
    assert (found.mechanism.name, found.corpus.levers.most_frequent) == ("moments", 50)
    assert found.design.with_runs == PROVED_RUNS
    own = spec({"name": "moments", "rank": 3, "colluders": 2})
    turned = at_setting(own, Setting(advantage=0.1, rank=2), 50).mechanism.parameters
    assert turned == {"rank": 2, "colluders": 2, "advantage": 0.1}


def test_a_draw_is_measured_in_few_splits_and_a_certificate_on_few_documents(corpus: Corpus) -> None:
    words = draw_remedy(make_plan(Opened.of(spec({"name": "pd-svd", "rank": 2}), corpus))) or ""
    assert "with a secret draw of 0.2, within the margin for every attack, " in words
    assert draw_remedy(make_plan(Opened.of(spec({"name": "pd-svd", "rank": 2}, {"drawn": 0.5}), corpus))) is None
    for noise, share in ((50.0, 1.0), (1e-3, 0.0)):
        asked = spec({"name": "pd-svd", "rank": 2, "opens": "final", "noise": noise}).tables()
        asked["design"]["kind"] = "shared"
        assert certified_share(parse_spec(asked | {"certificate": {"pairs": 5}}), corpus) == share


def test_a_draw_lets_that_share_of_every_size_enter() -> None:
    tables = spec({"name": "pd-svd"}, {"drawn": 0.5}).model_dump(mode="json")
    tables["parties"] = {"honest": 0.2, "coalition": 60}
    tables["corpus"]["party"] = "office"
    asked = parse_spec(tables)
    assert all(one.drawn is None for one in candidates(asked, 50, 1.0)), "it has a draw of its own"
    half = at_setting(asked, Setting(drawn=0.25), 5000)
    assert (half.corpus.levers.drawn, half.design.party_size) == (0.25, 20)
    assert (half.parties.honest, half.parties.coalition) == (0.1, 30)
    assert half.corpus.idf == "party", "everybody's weights count documents that are not drawn"


def test_a_draw_of_texts_is_counted_by_its_own_run() -> None:
    tables = spec({"name": "pd-svd", "rank": 4}).tables()
    tables["corpus"] |= {"weighting": "tf-idf", "party": "office"}
    asked = parse_spec(tables)
    drawn = [one for one in candidates(asked, 5000, 1.0) if one.drawn == 0.1]
    assert [(one.rank, one.shrink, one.opens) for one in drawn] == [(4, 2.0, None), (8, 2.0, None)]
    found = at_setting(asked, drawn[0], 5000)
    assert found.mechanism.model_dump() == {"name": "counted-svd", "rank": 4, "shrink": 2.0}
    assert (found.corpus.weighting, found.corpus.idf) == ("counts", "global")
    assert drawn[0].name == "counted-svd, rank 4, drawn 0.1, shrink 2"


def test_the_leak_of_a_sample_is_that_of_its_strongest_statistic(corpus: Corpus) -> None:
    quiet = spec({"name": "noisy", "mechanism": "pd-svd", "noise": 50.0, "scale": 1.0, "parameters": {"rank": 2}})
    loud = spec({"name": "pd-svd", "rank": 2})
    found = [sampled_leak(make_plan(Opened.of(one, corpus)), level=0.05, population=90) for one in (quiet, loud)]
    assert found[0].median < found[1].median
    assert found[0].above <= found[1].above
    assert found[0].runs == 80
    plan = make_plan(Opened.of(loud, corpus))
    few = sampled_leak(plan, level=0.05, population=90, statistics=plan.statistics[:1])
    assert few.median <= found[1].median, "of fewer statistics the largest is no larger"
    # The largest of several statistics exceeds what one shows by chance; the quiet run shows no more than chance.
    assert found[0].chance > chance_distance(40, 40)
    assert found[0].net < found[1].net
    assert found[0].least <= found[0].above / 15 <= found[0].limit


def test_of_what_is_held_a_run_of_a_draw_tells_that_share(corpus: Corpus) -> None:
    whole = spec({"name": "pd-svd", "rank": 2})
    tables = whole.model_dump(mode="json")
    tables["corpus"]["levers"]["drawn"] = 0.15

    def leak(margin: float) -> Leak:
        tables["decision"]["margin"] = margin
        return sampled_leak(make_plan(Opened.of(parse_spec(tables), corpus)), level=0.05, population=90)

    usual = whole.model_copy(update={"decision": whole.decision.model_copy(update={"margin": 0.14 / 0.15})})
    every = sampled_leak(make_plan(Opened.of(usual, corpus)), level=0.05, population=90)
    # The same runs: sizes are of what enters, and no draw proves a margin below its share.
    part = leak(0.14)
    assert part.median == pytest.approx(0.15 * every.median)
    assert part.high == pytest.approx(0.15 * every.high)
    assert part.chance == pytest.approx(0.15 * every.chance)
    proved = leak(0.15)
    assert proved.above == 0 < every.above, "no advantage is above the share that enters"
    assert proved.runs < every.runs
