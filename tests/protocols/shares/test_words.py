"""Compiled arithmetic on words, beside Python's integers."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ksdp.protocols.shares.field import PRIME, WORDS, fits_line, integers_of, lowered, masked, words_of

EDGES = [0, 1, 2**32 - 1, 2**32, PRIME - 1, PRIME // 2, 2**223]


def numbers(seed: int, count: int = 60, below: int = PRIME) -> np.ndarray:
    source = random.Random(seed)
    drawn = [source.choice([source.randrange(below), *(edge % below for edge in EDGES)]) for _ in range(count)]
    return np.array(drawn, dtype=object)


def shares(values: np.ndarray, seed: int) -> list[np.ndarray]:
    slope = numbers(seed, len(values))
    return [words_of((values + place * slope) % PRIME) for place in (1, 2, 3)]


def test_words_are_the_numbers() -> None:
    values = numbers(1)
    assert (integers_of(words_of(values), values.shape) == values).all()


@pytest.mark.parametrize("shift", [0, 1, 31, 32, 40, 64, 100, 219])
def test_a_masked_number_is_that_number_and_its_masks(shift: int) -> None:
    """Of draws that two parties know each: what is opened, and what is taken off again."""
    values, offset, bits = numbers(2, below=2**100), 1 << 101, 190
    drawn = [numbers(10 + lacks, below=2**bits) for lacks in range(3)]
    zeros = [numbers(20 + lacks) for lacks in range(3)]
    behind, tops = [], []
    for me, share in enumerate(shares(values, 3)):
        known = [lacks for lacks in range(3) if lacks != me]
        found, top = masked(
            share,
            np.stack([words_of(drawn[lacks]) for lacks in known]),
            np.stack([words_of(zeros[lacks]) for lacks in known]),
            np.array([(lacks - me) * (6 // (lacks + 1)) for lacks in known], dtype=np.int64),
            me + 1,
            shift,
            words_of(np.array([offset], dtype=object))[0],
        )
        behind.append(found)
        tops.append(top)
    whole = values + offset + sum(drawn)
    nothing = np.zeros_like(tops[0])
    assert (integers_of(lowered(*behind, 0, nothing), values.shape) == whole % PRIME).all()
    assert fits_line(*tops)
    first, second, _ = (integers_of(top, values.shape) for top in tops)
    high = sum(each >> shift for each in drawn) + (offset >> shift)
    assert ((2 * first - second) % PRIME == high % PRIME).all()
    kept = [integers_of(lowered(*behind, shift, top), values.shape) for top in tops]
    assert ((2 * kept[0] - kept[1]) % PRIME == ((whole % PRIME >> shift) - high) % PRIME).all()


def test_shares_off_the_line_are_seen() -> None:
    first, second, third = shares(numbers(4), 5)
    assert fits_line(first, second, third)
    third = third.copy()
    third[-1, WORDS - 1] ^= np.uint32(1)
    assert not fits_line(first, second, third)
