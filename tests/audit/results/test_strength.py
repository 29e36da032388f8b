"""What an audit found of leaks that were planted, in words."""

from dataclasses import replace

import pytest

from ksdp.audit.results.strength import AttackStrength, Planted
from ksdp.audit.verdicts.verdict import VERDICTS


def called(*counts: int) -> dict[str, int]:
    return dict(zip(VERDICTS, counts, strict=True))


FOUND = AttackStrength(
    "a1",
    0.2,
    (
        Planted("one number moves", 0.0, 0.204, called(0, 4, 3)),
        Planted("one number moves", 0.1, 0.31, called(5, 1, 2)),
        Planted("several numbers move together", 0.1, 0.19, called(0, 6, 0)),
    ),
    learnt=True,
    finished="2026-01-01T00:00:00+00:00",
)


def test_leaks_on_the_margin_are_not_counted_as_missed() -> None:
    """Nor those that are smaller, beside the others, than they were planned."""
    assert FOUND.sentence() == (
        "Of 8 leaks above the margin of 0.2, planted for clear documents, an audit like this called 5 sensitive "
        "and 1 clear; 2 stayed open."
    )


def test_attacks_that_learn_nothing_look_for_the_leaks_of_their_mechanism_alone() -> None:
    known = " Its attacks know how the mechanism takes a document in; other leaks they do not look for."
    assert replace(FOUND, learnt=False).sentence() == FOUND.sentence() + known


def test_it_is_stored_and_read() -> None:
    assert AttackStrength.from_json(FOUND.to_json()) == FOUND
    with pytest.raises(ValueError, match="a key is missing or not known"):
        AttackStrength.from_json({**FOUND.to_json(), "rows": [{"kind": "one"}]})
