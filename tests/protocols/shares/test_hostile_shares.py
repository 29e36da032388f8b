"""What a computing party that deviates sends ends the run with its name."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ksdp.audit.errors import ProtocolError
from ksdp.protocols.shares.arithmetic import SharedArithmetic
from ksdp.protocols.shares.engine import ComputingParty

from ..conftest import seeded

NAMES = ("ada", "bob", "cyd")


async def opened_twice(runtime: Any) -> Any:
    shares = SharedArithmetic(runtime)
    number = np.array([5], dtype=object)  # a constant is a share of itself
    for _ in range(2):
        number = await shares.opened(number)
    return number


@pytest.mark.deviation("shares: as computing party: send shares that do not fit, or twice")
@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda data: data * 3, "bob sent shares that fit no computation, or sent some twice"),
        (lambda data: data[:12] + bytes(28 * [255]), "opened value do not fit: bob or cyd deviates"),
        (lambda data: data[:8] + struct.pack("<I", 56) + bytes(56), "bob sent shares of another length"),
    ],
    ids=["three times", "another number", "two numbers"],
)
def test_shares_that_deviate_name_who_sent_them(spoil: Callable[[bytes], bytes], sentence: str) -> None:
    parties = [ComputingParty(place, seeded(name), NAMES) for place, name in enumerate(NAMES)]
    for party in parties:
        party.start(opened_twice)

    def play() -> None:
        boxes: list[dict[int, bytes]] = [{} for _ in parties]
        for turn in range(6):
            arrived = [{p: box[at] for p, box in enumerate(boxes) if at in box} for at in range(3)]
            if turn == 2:
                arrived[0][1] = spoil(arrived[0][1])
            boxes = [party.turn(box) for party, box in zip(parties, arrived, strict=True)]

    with pytest.raises(ProtocolError, match=sentence):
        play()
