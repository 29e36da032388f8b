"""A bit of one message of the online phase is changed: the result is right within its bound, or there is none."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np
import pytest

from ksdp.audit.errors import KsdpError
from ksdp.protocols.channel.rounds import Exchange
from ksdp.protocols.norms.normed_material import deal
from ksdp.protocols.norms.normed_parameters import NormedSumParameters
from ksdp.protocols.norms.normed_simulation import deliver
from ksdp.protocols.norms.normed_sum import online_script

PARAMETERS = NormedSumParameters(parties=3, dimension=6)
TRIES = 60


def changed(script: Any, at: int, bit: int) -> Generator[Exchange, Any, Any]:
    """The script, but for one bit of what it tells everybody in one round."""
    said = next(script)
    for number in range(10_000):
        if number == at:
            payloads = {}
            for receiver, payload in said.payloads.items():
                spoilt = bytearray(payload)
                spoilt[bit // 8 % len(spoilt)] ^= 1 << bit % 8
                payloads[receiver] = bytes(spoilt)
            said = Exchange(payloads, said.expected)
        heard = yield said
        try:
            said = script.send(heard)
        except StopIteration as ended:
            return ended.value
    return None


def tries(seed: int, count: int) -> tuple[int, int, int]:
    """Of so many changed runs: refused, right (or harmlessly near), and wrong."""
    rng = np.random.default_rng(seed)
    refused = right = wrong = 0
    for _ in range(count):
        vectors = rng.normal(size=(3, 6))
        truth = vectors.sum(axis=0) / np.linalg.norm(vectors.sum(axis=0))
        materials = deal(PARAMETERS, rng.bytes)
        scripts = [online_script(material, row) for material, row in zip(materials, vectors, strict=True)]
        liar, at, bit = int(rng.integers(3)), int(rng.integers(PARAMETERS.rounds)), int(rng.integers(8 * 4096))
        scripts[liar] = changed(scripts[liar], at, bit)
        try:
            found, _ = deliver(scripts)
        except KsdpError:
            refused += 1
            continue
        # The liar counts its own message as it was; the honest ones agree.
        honest = next(one for place, one in enumerate(found) if place != liar)
        near = np.abs(honest.values - truth).max() < 1e-6
        right, wrong = right + near, wrong + (not near)
        if not near:
            assert abs(np.linalg.norm(honest.values) - 1) < 1e-8
    return refused, right, wrong


def test_nearly_every_changed_bit_is_refused_or_harmless() -> None:
    """A changed bit of an input's first message is another input, and cannot be told from one."""
    refused, right, wrong = tries(7, TRIES)
    assert refused + right + wrong == TRIES
    assert refused > TRIES // 4
    assert wrong <= TRIES // 20


def test_what_is_not_changed_is_not_refused() -> None:
    rng = np.random.default_rng(8)
    for scale in (1.0, 1e-3, 100.0):
        vectors = scale * rng.normal(size=(3, 6))
        materials = deal(PARAMETERS, rng.bytes)
        found, _ = deliver([online_script(m, row) for m, row in zip(materials, vectors, strict=True)])
        truth = vectors.sum(axis=0) / np.linalg.norm(vectors.sum(axis=0))
        assert np.abs(found[0].values - truth).max() < 1e-5


@pytest.mark.validity
def test_many_changed_bits() -> None:
    refused, right, wrong = tries(9, 2000)
    assert wrong <= 0.02 * (refused + right + wrong)
