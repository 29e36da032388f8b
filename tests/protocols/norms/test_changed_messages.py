"""A message changed on its way, or a false share told to all, is found by whoever hears it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ksdp.audit.errors import ProtocolError
from ksdp.protocols.channel.rounds import Exchange
from ksdp.protocols.norms.normed_material import NormedMaterial, deal
from ksdp.protocols.norms.normed_parameters import NormedSumParameters
from ksdp.protocols.norms.normed_simulation import deliver
from ksdp.protocols.norms.normed_sum import online_script

PARAMETERS = NormedSumParameters(parties=3, dimension=6)
TRIES = 60
RESULT = PARAMETERS.rounds - 1
FOUND = "received different inputs|is not what it holds"


def changed(
    script: Any, at: int, receivers: set[int], change: Callable[[bytes], bytes]
) -> Generator[Exchange, Any, Any]:
    """The script, but for what it tells these receivers in one round."""
    said = next(script)
    for number in range(10_000):
        if number == at:
            payloads = dict(said.payloads)
            for receiver in receivers & payloads.keys():
                payloads[receiver] = change(payloads[receiver])
            said = Exchange(payloads, said.expected)
        heard = yield said
        try:
            said = script.send(heard)
        except StopIteration as ended:
            return ended.value
    return None


def one_bit(bit: int) -> Callable[[bytes], bytes]:
    def change(payload: bytes) -> bytes:
        spoilt = bytearray(payload)
        spoilt[bit // 8 % len(spoilt)] ^= 1 << bit % 8
        return bytes(spoilt)

    return change


@pytest.mark.parametrize("seed", range(TRIES))
def test_a_bit_changed_on_its_way_is_always_found(seed: int) -> None:
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(3, 6))
    materials = deal(PARAMETERS, rng.bytes)
    scripts = [online_script(material, row) for material, row in zip(materials, vectors, strict=True)]
    sender, at, bit = int(rng.integers(3)), int(rng.integers(PARAMETERS.rounds)), int(rng.integers(8 * 4096))
    # The same changed input to all would be another input.
    receivers = {0, 1, 2} if at and seed % 2 else {(sender + 1) % 3}
    scripts[sender] = changed(scripts[sender], at, receivers, one_bit(bit))
    with pytest.raises(ProtocolError, match=FOUND):
        deliver(scripts)


def false_share(material: NormedMaterial, rng: np.random.Generator) -> tuple[NormedMaterial, bool]:
    """A party whose share is another than the one that has tags; whether it is one of the result's."""
    p = material.parameters
    name = str(rng.choice(["square", "test", "squares", "cubes", "crosses", "product", "masks"]))
    if name == "product":
        product = material.product.copy()
        product[int(rng.integers(p.ring.limbs)), int(rng.integers(p.dimension))] ^= 1 << int(rng.integers(16))
        return replace(material, product=product), True
    if name == "square":
        return replace(material, square=material.square ^ 1 << int(rng.integers(p.ring.bits))), False
    power = 1 << int(rng.integers(p.scalar_ring.bits))
    if name == "test":
        return replace(material, test=material.test ^ power), False
    k = int(rng.integers(len(p.steps)))
    if name == "masks":
        t = list(material.own.t)
        t[k] ^= 1 << int(rng.integers(p.t_mask_bits))
        return replace(material, own=replace(material.own, t=tuple(t))), False
    values = list(getattr(material, name))
    values[k] ^= power
    return replace(material, **{name: tuple(values)}), False


def refusal(script: Any, heard: dict[int, bytes]) -> tuple[Exchange | None, str]:
    """What a party tells next, or why it ends."""
    try:
        return script.send(heard), ""
    except ProtocolError as error:
        return None, str(error)
    except StopIteration:
        return None, "accepted"


def tries(seed: int, count: int) -> dict[str, int]:
    """How so many runs ended in which one party lies."""
    rng = np.random.default_rng(seed)
    ended = {"refused before the result": 0, "refused with the result": 0, "accepted": 0}
    for _ in range(count):
        vectors = rng.normal(size=(3, 6))
        materials = list(deal(PARAMETERS, rng.bytes))
        liar = int(rng.integers(3))
        materials[liar], late = false_share(materials[liar], rng)
        scripts = [online_script(m, row) for m, row in zip(materials, vectors, strict=True)]
        said, rounds = [next(script) for script in scripts], 1
        while True:
            heard = [{i: said[i].payloads[me] for i in range(3) if i != me} for me in range(3)]
            answers = [refusal(script, heard[me]) for me, script in enumerate(scripts)]
            if any(answer is None for answer, _ in answers):
                break
            said, rounds = [answer for answer, _ in answers if answer is not None], rounds + 1
        reasons = {reason for me, (_, reason) in enumerate(answers) if me != liar}
        (reason,) = reasons  # both others see it, and at once
        if f"party {liar + 1} is not what it holds" in reason:
            ended["refused with the result" if rounds > RESULT else "refused before the result"] += 1
            assert (rounds > RESULT) == late
        else:
            ended["accepted"] += 1
    return ended


def counted(script: Any, reached: list[int]) -> Generator[Exchange, Any, Any]:
    """The script; how many rounds it told something in."""
    said = next(script)
    while True:
        reached[0] += 1
        heard = yield said
        try:
            said = script.send(heard)
        except StopIteration as ended:
            return ended.value


def test_a_false_share_told_to_all_is_refused_before_the_result_is_opened() -> None:
    ended = tries(7, TRIES)
    assert ended["accepted"] == 0
    assert ended["refused before the result"] > TRIES // 2
    assert sum(ended.values()) == TRIES


@pytest.mark.validity
def test_many_false_shares() -> None:
    assert tries(9, 2000)["accepted"] == 0


def test_a_square_shifted_by_a_number_of_ones_own_unmasks_nothing() -> None:
    """Who shifts ||S||^2 by so much that masks do not cover what comes of it hears nothing more."""
    rng = np.random.default_rng(11)
    materials = deal(PARAMETERS, rng.bytes)
    scripts = [online_script(m, row) for m, row in zip(materials, rng.normal(size=(3, 6)), strict=True)]
    heard = [0]
    scripts[1] = counted(scripts[1], heard)
    wide = PARAMETERS.checked_ring

    def shifted(payload: bytes) -> bytes:
        value = int.from_bytes(payload[: wide.width], "little") + (1 << 140)
        return (value % wide.modulus).to_bytes(wide.width, "little") + payload[wide.width :]

    scripts[0] = changed(scripts[0], 2, {1, 2}, shifted)
    with pytest.raises(ProtocolError, match="party 1 is not what it holds"):
        deliver(scripts)
    assert heard[0] == 3  # inputs, hash, the square; no step


def test_result_of_the_same_length_and_another_direction_is_refused() -> None:
    """The liar hears the others first, and knows the result before it tells its own share: two entries swapped."""
    p = NormedSumParameters(parties=2, dimension=4)
    rng = np.random.default_rng(12)
    scripts = [online_script(m, row) for m, row in zip(deal(p, rng.bytes), rng.normal(size=(2, 4)), strict=True)]
    said = [next(script) for script in scripts]
    for _ in range(p.rounds - 1):
        said = [script.send({1 - i: said[1 - i].payloads[i]}) for i, script in enumerate(scripts)]
    wide, half = p.checked_ring, 4 * p.checked_ring.width
    honest, own = (wide.from_bytes(said[i].payloads[1 - i][:half], 4) for i in range(2))
    wanted = wide.add(honest, own)[:, [1, 0, 2, 3]]
    false = wide.to_bytes(wide.subtract(wanted, honest)) + said[1].payloads[0][half:]
    with pytest.raises(ProtocolError, match="party 2 is not what it holds"):
        scripts[0].send({1: false})


def test_what_is_not_changed_is_not_refused() -> None:
    rng = np.random.default_rng(8)
    for scale in (1.0, 1e-3, 100.0):
        vectors = scale * rng.normal(size=(3, 6))
        materials = deal(PARAMETERS, rng.bytes)
        found, _ = deliver([online_script(m, row) for m, row in zip(materials, vectors, strict=True)])
        truth = vectors.sum(axis=0) / np.linalg.norm(vectors.sum(axis=0))
        assert np.abs(found[0].values - truth).max() < 1e-5
