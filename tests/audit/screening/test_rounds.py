"""Rounds share out the level, draw fresh runs and stop for a stated reason."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ksdp.audit.errors import SpecError
from ksdp.audit.screening.rounds import (
    RoundSizes,
    ScreenRound,
    check_screenable,
    ending,
    fewest_documents,
    no_proof,
    proof_runs,
    round_level,
    round_seed,
    round_spec,
    search_seed,
)
from ksdp.audit.specs.models import Spec, parse_spec
from ksdp.audit.verdicts.margins import band_width


def spec(**tables: Any) -> Spec:
    return parse_spec(
        {"seed": 9, "corpus": {"path": "x.npz"}, "mechanism": {"name": "pd-svd", "rank": 3}} | tables
    )


@given(level=st.floats(1e-6, 0.5), rounds=st.integers(1, 30))
def test_levels_halve_and_never_add_up_to_more_than_the_level(level: float, rounds: int) -> None:
    levels = [round_level(level, number, rounds) for number in range(1, rounds + 1)]
    # Stopping early uses less; all of them use the level, to rounding.
    assert sum(map(Fraction, levels)) <= Fraction(level) * (1 + Fraction(1, 2**50))
    assert math.isclose(math.fsum(levels), level)
    assert all(math.isclose(b, a / 2) for a, b in pairwise(levels))
    assert round_level(level, 1, 1) == level


@pytest.mark.parametrize("number", [0, 4])
def test_a_round_that_is_none(number: int) -> None:
    with pytest.raises(ValueError, match="`number` must be in 1 to 3"):
        round_level(0.05, number, 3)


@given(seed=st.integers(0, 2**70))
def test_seeds_are_the_specs_own_then_fresh(seed: int) -> None:
    seeds = [round_seed(seed, number) for number in range(1, 9)]
    assert seeds[0] == seed
    assert len(set(seeds)) == 8
    assert seeds == [round_seed(seed, number) for number in range(1, 9)]
    assert all(0 <= s < 2**53 for s in seeds[1:])
    assert not set(seeds[1:]) & {round_seed(seed + 1, number) for number in range(2, 9)}


def test_the_first_round_is_the_spec_but_for_its_level() -> None:
    whole = spec(design={"party_size": 0.1}, parties={"honest": 0.2})
    first = round_spec(whole, 1, 2, 1000)
    assert first.decision.level == pytest.approx(0.05 * 2 / 3)
    assert first.model_copy(update={"decision": whole.decision}) == whole


def test_later_rounds_keep_the_numbers_of_rows() -> None:
    whole = spec(design={"party_size": 0.1}, parties={"honest": 0.25, "coalition": 7})
    later = round_spec(whole, 3, 5, 1000)
    assert (later.design.party_size, later.parties.honest, later.parties.coalition) == (100, 250, 7)
    assert later.seed != whole.seed
    named = spec(design={"documents": ["a", "b", "c"], "kind": "balanced"})
    assert round_spec(named, 2, 5, 1000, RoundSizes(["a", "c"])).design.documents == ("a", "c")


@pytest.mark.parametrize(
    "tables", [{"design": {"documents": 5}}, {"design": {"documents": ["a"]}, "parties": {"coalition": 3}}]
)
def test_what_cannot_be_screened(tables: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match=r"`design.documents`"):
        check_screenable(spec(**tables))


def test_views_are_not_screened_and_groups_are() -> None:
    check_screenable(spec(design={"unit": "group"}))
    with pytest.raises(SpecError, match="`views` must be left out"):
        check_screenable(spec(views={"final": True}))
    with pytest.raises(SpecError, match=r"`statistics.sees` must be all"):
        check_screenable(spec(statistics={"sees": "final"}))


def test_what_can_be_screened() -> None:
    check_screenable(spec())
    check_screenable(spec(parties={"coalition": 3}))
    check_screenable(spec(design={"documents": ["a"]}))


USUAL = {
    "number": 2,
    "rounds": 5,
    "audited": 1000,
    "before": 40,
    "left": 990,
    "rows": 30,
    "share": 0.03,
    "most": 0.5,
}


@pytest.mark.parametrize(
    ("changes", "outcome", "helps"),
    [
        ({"sensitive": 0}, "stable", True),
        ({"sensitive": 0, "number": 5}, "stable", True),
        ({"sensitive": 0, "number": 1, "before": 0}, "stable", None),
        ({"sensitive": 501}, "hopeless", False),
        ({"sensitive": 501, "number": 5}, "hopeless", False),
        ({"sensitive": 1000, "most": 1.0}, "hopeless", False),
        ({"sensitive": 10, "number": 5}, "limit", False),
        ({"sensitive": 10, "rows": 520}, "too-few", False),
    ],
)
def test_endings(changes: dict[str, Any], outcome: str, helps: bool | None) -> None:
    ended = ending(ScreenRound(**USUAL | changes))
    assert ended is not None
    assert (ended.outcome, ended.helps) == (outcome, helps)
    if changes["sensitive"]:
        assert f"{changes['sensitive']} of 1000" in ended.reason


@pytest.mark.parametrize(
    "changes", [{"sensitive": 500}, {"sensitive": 10, "left": 59}, {"sensitive": 999, "most": 1.0}]
)
def test_another_round(changes: dict[str, Any]) -> None:
    assert ending(ScreenRound(**USUAL | changes)) is None


def test_the_database_may_not_come_nearer_than_half_way_to_the_whole() -> None:
    # From a share of 0.2: at most 0.6, so 24 rows need 40 documents.
    common = USUAL | {"sensitive": 1, "rows": 24, "share": 0.2}
    assert ending(ScreenRound(**common | {"left": 40})) is None
    assert ending(ScreenRound(**common | {"left": 39})) is not None


@example(smaller=164, share=0.01, later=0.4, level=0.009765625)
@example(smaller=345, share=0.4, later=0.25, level=1e-9)
@given(
    smaller=st.integers(20, 2000),
    share=st.floats(0.01, 0.99),
    later=st.floats(0.01, 0.99),
    level=st.floats(1e-9, 1e-2),
)
def test_a_proof_has_the_fewest_runs_that_narrow_its_bands(
    smaller: int, share: float, later: float, level: float
) -> None:
    def width(runs: int, held: float, each: float) -> float:
        ratio = max(held, 1 - held) / min(held, 1 - held)  # first: half a run is rounded like there
        other = round(runs * ratio)
        return float(band_width(np.array([runs]), np.array([other]), each)[0])

    other = round(smaller * max(share, 1 - share) / min(share, 1 - share))
    found = proof_runs((smaller, other, level), later, level / 2)
    before = float(band_width(np.array([smaller]), np.array([other]), level)[0])
    assert width(found, later, level / 2) <= 0.8 * before
    assert width(found - 1, later, level / 2) > 0.8 * before


@given(level=st.floats(1e-6, 0.5), rounds=st.integers(2, 20), data=st.data())
def test_a_round_has_exactly_half_of_the_level_before_it(level: float, rounds: int, data: st.DataObject) -> None:
    number = data.draw(st.integers(1, rounds - 1))
    assert round_level(level, number + 1, rounds) == round_level(level, number, rounds) / 2


def test_a_proof_may_have_more_runs() -> None:
    assert round_spec(spec(), 2, 5, 1000, RoundSizes(with_runs=640)).design.with_runs == 640
    assert round_spec(spec(), 2, 5, 1000).design.with_runs == 200


def test_when_the_listed_ones_cannot_be_audited_alone() -> None:
    common: dict[str, Any] = {"number": 2, "rounds": 5, "listed": 400, "rows": 30, "share": 0.03}
    assert no_proof(**common) is None
    assert "the other parties" in str(no_proof(**common, others=True))
    assert "no round was left" in str(no_proof(**common | {"number": 5}))
    fewest = fewest_documents(30, 0.03)
    assert no_proof(**common | {"listed": fewest}) is None
    assert "too few for databases of 30" in str(no_proof(**common | {"listed": fewest - 1}))


@given(seed=st.integers(0, 2**70))
def test_a_search_has_runs_of_its_own(seed: int) -> None:
    assert search_seed(seed) not in {round_seed(seed, number) for number in range(1, 30)}
