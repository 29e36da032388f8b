"""Leaks that are planted in what runs announce."""

from typing import Any

import numpy as np
import pytest

from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.planted import KINDS, ArrayLeak, leaks_of, with_leaks
from ksdp.audit.specs.models import PlantedSpec, parse_spec

SHAPES = {"V": (2, 3), "n": (1,)}


def leak(kind: str, places: list[int], amounts: list[float], centres: list[float]) -> ArrayLeak:
    return ArrayLeak(4, kind, "V", np.array(places), np.array(amounts), np.array(centres))


def specified(**changed: Any) -> PlantedSpec:
    told = {"document": "b", "kind": "number", "array": "V", "places": (5,), "amounts": (0.5,)}
    return PlantedSpec.model_validate(told | changed)


def test_only_runs_with_the_document_are_changed_and_nothing_else_in_them() -> None:
    seen = {"V": np.arange(6, dtype=np.float32).reshape(2, 3), "n": np.ones(1)}
    leaks = [leak("numbers", [0, 5], [0.5, -2.0], [0.0, 0.0])]
    without = with_leaks(leaks, seen, np.array([1, 2]), np.random.default_rng(0))
    held = with_leaks(leaks, seen, np.array([1, 4]), np.random.default_rng(0))
    assert all(np.array_equal(without[name], seen[name]) for name in seen)
    assert held["V"].dtype == np.float32
    assert np.array_equal(held["V"], [[0.5, 1, 2], [3, 4, 3]])
    assert np.array_equal(seen["V"].ravel(), np.arange(6)), "what was announced is left as it is"


def test_what_is_drawn_does_not_depend_on_who_is_held() -> None:
    seen, leaks = {"V": np.zeros((2, 3))}, [leak("agreement", [0, 1], [0.5], [0.0, 0.0])] * 3
    one, other = np.random.default_rng(1), np.random.default_rng(1)
    with_leaks(leaks, seen, np.array([4]), one)
    with_leaks(leaks, seen, np.array([0]), other)
    assert one.random() == other.random()


def test_a_number_strays_by_a_factor() -> None:
    moved = leak("spread", [2], [3.0], [1.0]).moved(np.array([[1.0], [2.0], [-1.0]]), np.zeros(3))
    assert np.array_equal(moved, [[1.0], [4.0], [-5.0]])


def test_two_numbers_agree_as_often_as_asked_and_each_keeps_its_law() -> None:
    """Reference: a loop over runs."""
    rng = np.random.default_rng(2)
    numbers, coins = rng.normal([1.0, -2.0], size=(4000, 2)), rng.random(4000)
    moved = leak("agreement", [0, 1], [0.6], [1.0, -2.0]).moved(numbers, coins)
    for (a, b), coin, (c, d) in zip(numbers, coins, moved, strict=True):
        turned = coin < 0.6 and (a - 1.0) * (b + 2.0) < 0
        assert (c, d) == (a, -4.0 - b if turned else b)
    agree = ((moved - [1.0, -2.0]).prod(axis=1) > 0).mean()
    assert agree == pytest.approx(0.5 + 0.3, abs=0.03)
    assert abs((moved[:, 1] > -2.0).mean() - 0.5) < 0.03


def test_a_leak_is_read_from_its_table() -> None:
    (made,) = leaks_of([specified()], {"a": 0, "b": 7}, SHAPES)
    assert (made.unit, made.array, made.places.tolist()) == (7, "V", [5])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"document": "z"}, "no document that is audited is called so"),
        ({"array": "W"}, "runs announce no such number of 'W'"),
        ({"places": (6,)}, "runs announce no such number of 'V'"),
        ({"amounts": (0.5, 0.5)}, "'number' with 1 `places` takes"),
        ({"kind": "agreement", "places": (0, 1)}, "'agreement' with 2 `places` takes"),
        ({"kind": "spread"}, "'spread' with 1 `places` takes"),
        ({"places": ()}, "'number' with 0 `places` takes"),
    ],
)
def test_a_leak_that_cannot_be_planted_is_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        leaks_of([specified(**changed)], {"b": 1}, SHAPES)


def test_no_certificate_is_made_of_a_mechanism_with_other_leaks() -> None:
    tables = {
        "corpus": {"path": "x.csv"},
        "mechanism": {"name": "pd-svd"},
        "certificate": {"pairs": 50},
        "planted": [specified().model_dump()],
    }
    with pytest.raises(SpecError, match=r"`certificate` must be left out where leaks are `planted`"):
        parse_spec(tables)


def test_a_spec_without_leaks_does_not_name_them() -> None:
    spec = parse_spec({"corpus": {"path": "x.csv"}, "mechanism": {"name": "pd-svd"}})
    assert "planted" not in spec.tables()
    assert spec.model_copy(update={"planted": (specified(),)}).hash != spec.hash


def test_every_kind_has_words() -> None:
    assert set(KINDS) == set(PlantedSpec.model_fields["kind"].annotation.__args__)  # type: ignore[union-attr]
