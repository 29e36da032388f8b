"""The cost of arithmetic on shares for one of the three computing parties: CPU time and bytes per number.

::

    python -m benchmarks shares
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np

from ksdp.audit.randomness import os_random
from ksdp.protocols.shares.arithmetic import Local, SharedArithmetic, fixed
from ksdp.protocols.shares.engine import COMPUTING, ComputingParty
from ksdp.protocols.shares.field import PRIME, left_residues, modular_product
from ksdp.protocols.shares.matrices import reciprocal

NUMBERS = 20_000
INNER, COLUMNS = 1000, 24

Work = Callable[[SharedArithmetic], Awaitable[object]]


def run() -> None:
    """Print one line an operation."""
    signed = fixed(np.linspace(-1.0, 1.0, NUMBERS), 40)
    positive = fixed(np.linspace(0.01, 1.0, NUMBERS))
    works: dict[str, Work] = {
        "product and its rounding": lambda shares: shares.rounded(Local(signed, 110, 40)),
        "comparison with zero": lambda shares: shares.negative(signed, 60),
        "reciprocal": lambda shares: reciprocal(shares, positive),
    }
    for name, work in works.items():
        together(work)  # compiled, and keys are there
        seconds, rounds, sent = together(work)
        print(
            f"{name:25} {seconds / COMPUTING / NUMBERS * 1e6:6.2f} us and {sent / NUMBERS:6.0f} bytes a number, "
            f"{rounds} rounds",
            flush=True,
        )
    _product()


def together(work: Work) -> tuple[float, int, int]:
    """CPU seconds of all three in this process, turns, and bytes that the first one sent."""

    async def over(runtime: Any) -> object:
        return await work(SharedArithmetic(runtime))

    parties = [ComputingParty(place, os_random) for place in range(COMPUTING)]
    for party in parties:
        party.start(over)
    boxes: list[dict[int, bytes]] = [{} for _ in parties]
    rounds, sent, before = 0, 0, time.process_time()
    while not all(party.done for party in parties):
        boxes = [
            party.turn({at: box[party.place] for at, box in enumerate(boxes) if party.place in box})
            for party in parties
        ]
        rounds, sent = rounds + 1, sent + sum(map(len, boxes[0].values()))
    return time.process_time() - before, rounds, sent


def _product() -> None:
    rng = np.random.default_rng(0)
    square, block = (
        np.array([int.from_bytes(rng.bytes(28), "little") % PRIME for _ in range(rows * columns)], dtype=object)
        .reshape(rows, columns)
        for rows, columns in ((INNER, INNER), (INNER, COLUMNS))
    )  # fmt: skip
    left = left_residues(square)
    modular_product(left, block)
    before = time.process_time()
    modular_product(left, block)
    print(f"{INNER} x {INNER} times {INNER} x {COLUMNS}: {time.process_time() - before:.2f} s (no bytes)")
