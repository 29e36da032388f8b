"""Numbers modulo the prime: words, residues and shares."""

import random

import numpy as np
import pytest
from gmpy2 import is_prime
from hypothesis import given
from hypothesis import strategies as st

from ksdp.audit.errors import InputError
from ksdp.protocols.shares.field import (
    BYTES,
    MOST_INNER,
    PRIME,
    WORDS,
    added,
    fits_line,
    integers_of,
    left_residues,
    lowered,
    masked,
    modular_product,
    split,
    symmetric_residues,
    words_of,
)

EDGES = [0, 1, 2**24 - 1, 2**32 - 1, 2**32, PRIME - 1, PRIME // 2, 2**223]


def numbers(seed: int, count: int = 60, below: int = PRIME) -> np.ndarray:
    source = random.Random(seed)
    drawn = [source.choice([source.randrange(below), *(edge % below for edge in EDGES)]) for _ in range(count)]
    return np.array(drawn, dtype=object)


def drawn(seed: int, *shape: int) -> np.ndarray:
    return numbers(seed, int(np.prod(shape))).reshape(shape)


def read(share: bytes) -> list[int]:
    return integers_of(added([share]), (len(share) // BYTES,)).tolist()


def test_the_prime_is_one_whose_roots_mpyc_takes() -> None:
    assert is_prime(PRIME, 40)
    assert PRIME % 4 == 3
    assert PRIME.bit_length() == 8 * BYTES


@pytest.mark.parametrize("stack", [(), (3,)])
def test_a_product_is_that_of_integers(stack: tuple[int, ...]) -> None:
    left, right = drawn(1, *stack, 4, 9), drawn(2, *stack, 9, 5)
    assert (modular_product(left_residues(left), right) == np.matmul(left, right) % PRIME).all()


def test_the_longest_product_of_the_largest_limbs_is_exact() -> None:
    left, right = (
        np.full((1, MOST_INNER), PRIME - 1, dtype=object),
        np.full((MOST_INNER, 1), PRIME - 1, dtype=object),
    )
    assert modular_product(left_residues(left), right)[0, 0] == MOST_INNER
    with pytest.raises(InputError, match="at most 8192 terms"):
        modular_product(left_residues(np.tile(left, 2)), np.tile(right, (2, 1)))


@given(
    st.lists(st.integers(-(2**62) + 1, 2**62 - 1), min_size=1, max_size=5), st.binary(min_size=140, max_size=140)
)
def test_shares_are_the_values_of_lines(values: list[int], coins: bytes) -> None:
    """Shamir's scheme in Python's integers: value and slope of a line, read at places 1, 2 and 3."""
    slopes = [int.from_bytes(coins[BYTES * at : BYTES * (at + 1)], "little") for at in range(len(values))]
    written = [[(v + place * s) % PRIME for v, s in zip(values, slopes, strict=True)] for place in (1, 2, 3)]
    made = split(np.array(values, dtype=np.int64), lambda count: coins[:count])
    assert [[number % PRIME for number in read(share)] for share in made] == written


def test_an_upper_triangle_becomes_a_symmetric_left_factor() -> None:
    upper = drawn(3, 6)
    rows, columns = np.triu_indices(3)
    whole = np.empty((3, 3), dtype=object)
    whole[rows, columns] = whole[columns, rows] = upper
    assert (symmetric_residues(words_of(upper), 3) == left_residues(whole)).all()


def shares(values: np.ndarray, seed: int) -> list[np.ndarray]:
    slope = numbers(seed, len(values))
    return [words_of((values + place * slope) % PRIME) for place in (1, 2, 3)]


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
    assert (integers_of(lowered(*behind, 0, nothing, 224)[0], values.shape) == whole % PRIME).all()
    assert fits_line(*tops)
    first, second, _ = (integers_of(top, values.shape) for top in tops)
    high = sum(each >> shift for each in drawn) + (offset >> shift)
    assert ((2 * first - second) % PRIME == high % PRIME).all()
    kept = [integers_of(lowered(*behind, shift, top, 192)[0], values.shape) for top in tops]
    assert [lowered(*behind, shift, nothing, bits)[1] for bits in (192, 189)] == [True, False]
    assert ((2 * kept[0] - kept[1]) % PRIME == ((whole % PRIME >> shift) - high) % PRIME).all()


def test_shares_off_the_line_are_seen() -> None:
    first, second, third = shares(numbers(4), 5)
    assert fits_line(first, second, third)
    third = third.copy()
    third[-1, WORDS - 1] ^= np.uint32(1)
    assert not fits_line(first, second, third)
