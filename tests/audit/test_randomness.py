"""Streams of random numbers: one a purpose."""

import re
from pathlib import Path

import numpy as np
import pytest

from ksdp.audit.randomness import Purpose, derived_seed, generator

ROOT = Path(__file__).resolve().parents[2]


def test_every_purpose_has_a_number_of_its_own() -> None:
    assert len({int(purpose) for purpose in Purpose.__members__.values()}) == len(Purpose.__members__)


def test_streams_of_different_purposes_and_places_differ() -> None:
    places = [(), (0,), (1,), (0, 1), (1, 0)]
    first = [generator(7, purpose, *place).integers(2**62) for purpose in Purpose for place in places]
    seeds = [derived_seed(7, purpose, *place) for purpose in Purpose for place in places]
    assert len(set(first)) == len(first)
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**53 for seed in seeds)


def test_a_stream_is_numpys_own_under_the_spawn_key() -> None:
    expected = np.random.default_rng(np.random.SeedSequence(7, spawn_key=(102, 3))).random(4)
    np.testing.assert_array_equal(generator(7, Purpose.FRESH, 3).random(4), expected)


@pytest.mark.parametrize("room", ["audit", "storage", "tasks", "flows", "dashboards"])
def test_spawn_keys_are_made_here_alone(room: str) -> None:
    offenders = [
        str(path.relative_to(ROOT))
        for path in (ROOT / room).rglob("*.py")
        if path.name != "randomness.py" and re.search(r"spawn_key|SeedSequence", path.read_text(encoding="utf-8"))
    ]
    assert offenders == []
