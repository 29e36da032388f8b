"""What can be turned: values that go one way, and specs that differ in nothing else."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ksdp.audit.corpus import Corpus
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.privacy.noisy import Noisy
from ksdp.audit.registry import make_mechanism
from ksdp.audit.screening.levers import DIALS, make_dial, pool_size
from ksdp.audit.screening.search_sample import public_scale
from ksdp.audit.spec import Spec, parse_spec


def spec(mechanism: dict[str, Any], **tables: Any) -> Spec:
    return parse_spec({"corpus": {"path": "x.npz"}, "mechanism": mechanism} | tables)


LOOKED: dict[str, Any] = {"announce": ["T", "denominators"], "at": [1, 12, "last"]}
NMF = {"name": "pd-nmf", "rank": 7} | LOOKED
NOISY = {"name": "noisy", "mechanism": "pd-nmf", "noise": 0.5, "parameters": {"rank": 7, "alpha": 0.1}}


@pytest.mark.parametrize("name", DIALS)
@pytest.mark.parametrize("mechanism", [NMF, {"name": "pd-svd", "rank": 7}, NOISY])
def test_values_go_one_way_and_every_spec_is_a_mechanism(name: str, mechanism: dict[str, Any]) -> None:
    asked = spec(mechanism)
    dial = make_dial(name, asked, 1000)
    ordered = sorted(dial.values, reverse=name in ("rank", "iterations"))
    assert list(dial.values) == ordered
    assert dial.present not in dial.values
    for value in dial.values:
        turned = dial.turn(value)
        make_mechanism(turned.mechanism.name, turned.mechanism.parameters)
        same = {"mechanism", "design"} if name == "party-size" else {"mechanism"}
        assert turned.model_dump(exclude=same) == asked.model_dump(exclude=same)
        assert (turned.mechanism == asked.mechanism) == (name == "party-size")


def test_party_sizes_go_up_to_half_of_the_pool() -> None:
    asked = spec(NMF, parties={"honest": 0.2, "coalition": 100}, design={"party_size": 0.03})
    dial = make_dial("party-size", asked, 1000)
    assert pool_size(asked, 1000) == 700
    assert (dial.present, dial.values[0], dial.values[-1]) == (30, 42, 350)
    assert dial.turn(60).design.party_size == 60


def test_fewer_sweeps_announce_no_later_ones() -> None:
    turned = make_dial("iterations", spec(NMF), 1000).turn(5)
    assert turned.mechanism.parameters == {"rank": 7, "sweeps": 5} | LOOKED | {"at": [1, "last"]}
    only = make_dial("iterations", spec({"name": "pd-nmf"} | LOOKED | {"at": [12]}), 1000).turn(5)
    assert only.mechanism.parameters["at"] == ["last"]


def test_the_limit_becomes_an_iteration() -> None:
    dial = make_dial("iterations", spec({"name": "pd-svd", "rank": 3}), 1000)
    assert dial.values[0] == 64
    assert dial.turn(64).mechanism.parameters == {"rank": 3, "solver": "power", "iterations": 64}
    power = make_dial("iterations", spec({"name": "pd-svd", "solver": "power", "iterations": 8}), 1000)
    assert power.values == (6, 4, 3, 2, 1)


def test_noise_of_a_search_is_in_units_of_a_public_scale(corpus: Corpus) -> None:
    scale = public_scale(spec(NMF | {"rank": 2}, design={"party_size": 30}), corpus)
    assert scale == public_scale(spec(NMF | {"rank": 2}, design={"party_size": 30}), corpus)
    assert all(math.log2(size) % 1 == 0 for size in scale.values())
    dial = make_dial("noise", spec(NMF | {"rank": 2}, design={"party_size": 30}), 1000).scaled(scale)
    noisy = make_mechanism("noisy", dial.turn(0.25).mechanism.parameters)
    assert isinstance(noisy, Noisy)
    assert noisy.guarantee.sound
    assert noisy.deviation("T") == 0.25 * scale["T"]
    assert dial.scale == scale
    # What a spec says of its scale stays; other dials have none.
    own = make_dial("noise", spec(NOISY | {"scale": 0.5}), 1000).scaled(scale)
    assert (own.turn(1.0).mechanism.parameters["scale"], own.scale) == (0.5, None)
    assert make_dial("rank", spec(NMF), 1000).scaled(scale).turn(2).mechanism.parameters["rank"] == 2


def test_noise_is_put_around_the_mechanism_or_turned_up() -> None:
    around = make_dial("noise", spec(NMF), 1000).turn(0.25).mechanism
    assert around.name == "noisy"
    inside = {"rank": 7} | LOOKED
    assert around.parameters == {"mechanism": "pd-nmf", "noise": 0.25, "parameters": inside}
    up = make_dial("noise", spec(NOISY), 1000)
    assert (up.present, up.values[0]) == (0.5, 1.0)
    assert up.turn(1.0).mechanism.parameters == {
        "mechanism": "pd-nmf",
        "noise": 1.0,
        "parameters": NOISY["parameters"],
    }
    lower = make_dial("rank", spec(NOISY), 1000).turn(2).mechanism.parameters
    assert lower["parameters"] == {"rank": 2, "alpha": 0.1}


@pytest.mark.parametrize(
    ("name", "asked", "message"),
    [
        ("rank", spec({"name": "pd-svd", "rank": 1}), "1 already"),
        ("rank", spec({"name": "pem-kmeans"}), "no rank"),
        ("iterations", spec({"name": "null", "rank": 3}), "no number of iterations"),
        ("iterations", spec({"name": "pd-nmf", "sweeps": 1}), "one iteration already"),
        ("party-size", spec(NMF, design={"party_size": 600}), "half of the documents"),
        ("noise", spec(NOISY | {"noise": 16}), "the noise is 16 times"),
    ],
)
def test_nothing_to_turn(name: str, asked: Spec, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        make_dial(name, asked, 1000)
