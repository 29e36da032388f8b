"""Comparisons by bits that two parties hold, beside Python's integers; and that what is told hides them."""

import random
from typing import Any

import numpy as np
import pytest

from ksdp.audit.errors import ProtocolError
from ksdp.protocols.shares.arithmetic import PairedBits, SharedArithmetic

from ..conftest import seeded
from .together import compute_together, shared


def below_zero(values: list[int], bits: int) -> list[int]:
    given = shared(values)

    async def work(runtime: Any, place: int) -> Any:
        shares = SharedArithmetic(runtime)
        return await shares.opened(await shares.negative(given[place], bits))

    results, _, _ = compute_together([lambda r, at=at: work(r, at) for at in range(3)], seeded("bits"))
    assert all((result == results[0]).all() for result in results)
    return [int(value) for value in results[0]]


@pytest.mark.parametrize("bits", [1, 16, 62, 70])
def test_the_sign_of_every_number_that_fits(bits: int) -> None:
    source, top = random.Random(bits), (1 << bits) - 1
    values = [0, 1, -1, top, -top, *(source.randrange(-top, top + 1) for _ in range(40))]
    values += [s * (1 << b) + e for b in range(bits - 1) for s in (-1, 1) for e in (-1, 0, 1)]
    values = [value for value in values if abs(value) <= top][: None if bits < 63 else 6]  # MPyC's is slow
    assert below_zero(values, bits) == [int(value < 0) for value in values]


def test_an_and_of_words_in_pairs() -> None:
    rng = np.random.default_rng(2)
    x, y = rng.integers(0, 2**63, (2, 3, 50), dtype=np.uint64)

    async def work(runtime: Any, place: int) -> Any:
        bits = PairedBits(runtime)
        after, before = (place + 1) % 3, (place + 2) % 3
        return await bits._both((x[after], x[before]), (y[after], y[before]))

    found, _, _ = compute_together([lambda r, at=at: work(r, at) for at in range(3)], seeded("and"))
    parts = {(place + 1) % 3: found[place][0] for place in range(3)}
    for place in range(3):
        assert (found[place][1] == parts[(place + 2) % 3]).all(), "both who hold a part hold the same"
    whole = (x[0] ^ x[1] ^ x[2]) & (y[0] ^ y[1] ^ y[2])
    assert (parts[0] ^ parts[1] ^ parts[2] == whole).all()


def test_what_one_party_is_told_does_not_follow_the_number() -> None:
    """Of 400 equal numbers every bit that is told is as often 1 as 0, whatever the number is."""
    for value in (0, -1, 12345):
        given, told = shared([value] * 400), list[np.ndarray]()

        class Listening(PairedBits):
            async def _reshared(self, mine: Any) -> Any:
                pair = await super()._reshared(mine)
                if self._runtime.pid == 0:
                    told.append(pair[0][:400])  # noqa: B023 (called in this turn of the loop)
                return pair

        async def work(runtime: Any, place: int) -> Any:
            shares = SharedArithmetic(runtime)
            parts = await shares._in_pairs(given[place], 40)  # noqa: B023
            return await Listening(runtime).total(parts)

        compute_together([lambda r, at=at: work(r, at) for at in range(3)], seeded("told"))
        bits = np.concatenate(
            [np.unpackbits(part.view(np.uint8).reshape(400, 8), axis=1) for part in told], axis=1
        )
        # 512 columns of 400 coins of a fixed seed; 5.5 standard deviations.
        assert np.abs(bits.mean(axis=0) - 0.5).max() < 5.5 * 0.5 / 20
        assert len(told) == 8


def test_bits_of_another_length_end_the_run() -> None:
    async def work(runtime: Any) -> Any:
        words = np.zeros(2 + runtime.pid, dtype=np.uint64)
        return await PairedBits(runtime)._reshared(words)

    with pytest.raises(ProtocolError, match="first sent bits of another length"):
        compute_together([work] * 3, seeded("short"))
