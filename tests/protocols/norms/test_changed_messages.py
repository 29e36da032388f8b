"""A message changed on its way is always found; a false share told to all, by the length of the result."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ksdp.audit.errors import KsdpError, ProtocolError
from ksdp.protocols.channel.rounds import Exchange
from ksdp.protocols.norms.normed_material import NormedMaterial, deal
from ksdp.protocols.norms.normed_parameters import NormedSumParameters
from ksdp.protocols.norms.normed_simulation import deliver
from ksdp.protocols.norms.normed_sum import online_script

PARAMETERS = NormedSumParameters(parties=3, dimension=6)
TRIES = 60


def changed(script: Any, at: int, bit: int, receivers: set[int]) -> Generator[Exchange, Any, Any]:
    """The script, but for one bit of what it tells these receivers in one round."""
    said = next(script)
    for number in range(10_000):
        if number == at:
            payloads = dict(said.payloads)
            for receiver in receivers & payloads.keys():
                spoilt = bytearray(payloads[receiver])
                spoilt[bit // 8 % len(spoilt)] ^= 1 << bit % 8
                payloads[receiver] = bytes(spoilt)
            said = Exchange(payloads, said.expected)
        heard = yield said
        try:
            said = script.send(heard)
        except StopIteration as ended:
            return ended.value
    return None


@pytest.mark.parametrize("seed", range(TRIES))
def test_a_bit_changed_on_its_way_is_always_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(3, 6))
    materials = deal(PARAMETERS, rng.bytes)
    scripts = [online_script(material, row) for material, row in zip(materials, vectors, strict=True)]
    sender, at, bit = int(rng.integers(3)), int(rng.integers(PARAMETERS.rounds)), int(rng.integers(8 * 4096))
    receivers = {0, 1, 2} if seed % 2 else {(sender + 1) % 3}
    scripts[sender] = changed(scripts[sender], at, bit, receivers)
    with pytest.raises(ProtocolError, match="not told the same"):
        deliver(scripts)


def lying(material: NormedMaterial, rng: np.random.Generator) -> NormedMaterial:
    """A party that tells all the same false share: a bit of its material is another."""
    k, power = int(rng.integers(len(material.squares))), 1 << int(rng.integers(600))
    spoilt = {
        "square": material.square ^ (power % (1 << 150)),
        "test": material.test ^ power,
        "squares": tuple(v ^ power if j == k else v for j, v in enumerate(material.squares)),
        "cubes": tuple(v ^ power if j == k else v for j, v in enumerate(material.cubes)),
        "crosses": tuple(v ^ power if j == k else v for j, v in enumerate(material.crosses)),
    }
    name = list(spoilt)[int(rng.integers(len(spoilt)))]
    return replace(material, **{name: spoilt[name]})  # type: ignore[arg-type]


def tries(seed: int, count: int) -> tuple[int, int, int]:
    """Of so many runs with a lying party: refused, right (or harmlessly near), and wrong."""
    rng = np.random.default_rng(seed)
    refused = right = wrong = 0
    for _ in range(count):
        vectors = rng.normal(size=(3, 6))
        truth = vectors.sum(axis=0) / np.linalg.norm(vectors.sum(axis=0))
        materials = list(deal(PARAMETERS, rng.bytes))
        liar = int(rng.integers(3))
        materials[liar] = lying(materials[liar], rng)
        try:
            found, _ = deliver([online_script(m, row) for m, row in zip(materials, vectors, strict=True)])
        except KsdpError:
            refused += 1
            continue
        near = np.abs(found[0].values - truth).max() < 1e-6
        right, wrong = right + near, wrong + (not near)
    return refused, right, wrong


def test_a_false_share_told_to_all_is_refused_or_harmless() -> None:
    refused, right, wrong = tries(7, TRIES)
    assert refused + right + wrong == TRIES
    assert refused > TRIES // 4
    assert wrong == 0


def test_what_is_not_changed_is_not_refused() -> None:
    rng = np.random.default_rng(8)
    for scale in (1.0, 1e-3, 100.0):
        vectors = scale * rng.normal(size=(3, 6))
        materials = deal(PARAMETERS, rng.bytes)
        found, _ = deliver([online_script(m, row) for m, row in zip(materials, vectors, strict=True)])
        truth = vectors.sum(axis=0) / np.linalg.norm(vectors.sum(axis=0))
        assert np.abs(found[0].values - truth).max() < 1e-5


@pytest.mark.validity
def test_many_false_shares() -> None:
    assert tries(9, 2000)[2] == 0
