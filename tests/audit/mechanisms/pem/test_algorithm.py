"""Blocks, states and the clipping that no record escapes."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.pem.algorithm import PemAlgorithm, PemState, PemTotal, contribution
from ksdp.audit.mechanisms.pem.functions import PemLogistic
from ksdp.audit.mechanisms.pem.noise import VectorBlock


@dataclass(frozen=True)
class ColumnSums:
    """Announces the noisy column sums once; ten lines, as a user would write them."""

    blocks: tuple[VectorBlock, ...]
    name: str = "columns"

    def init(self) -> PemState:
        return PemState(0, {}, self.blocks)

    def map_in_client(self, records: sp.csr_array, state: PemState) -> sp.csr_array:
        return records

    def reduce_in_aggregator(self, state: PemState, total: PemTotal) -> PemState:
        return PemState(1, {"sums": np.concatenate(total.values)}, ())


@dataclass(frozen=True)
class Returns(ColumnSums):
    what: object = field(default=None, compare=False)

    def map_in_client(self, records: sp.csr_array, state: PemState) -> object:  # type: ignore[override]
        return self.what


def clipped(row: np.ndarray, blocks: tuple[VectorBlock, ...]) -> np.ndarray:
    """One record's vector in steps, read literally: cap, scale down, round towards zero."""
    out, at = [], 0
    for block in blocks:
        part = row[at : at + block.size] * 2**block.fraction_bits
        cap = np.inf if block.cap is None else block.cap_steps
        part = np.clip(part, 0 if block.nonnegative else -cap, cap)
        norm = np.abs(part).sum()
        out.append(np.trunc(part * (block.bound_steps / norm) if norm > block.bound_steps else part))
        at += block.size
    return np.concatenate(out)


BLOCKS = (
    VectorBlock(3, 2.0, share=0.25, fraction_bits=8),
    VectorBlock(2, 1.5, share=0.75, cap=1.0, nonnegative=True, fraction_bits=3),
)
REALS = st.floats(-1e6, 1e6).map(lambda x: round(x, 3))


@settings(deadline=None)
@given(st.lists(st.lists(REALS, min_size=5, max_size=5), min_size=1, max_size=6))
def test_no_record_moves_a_sum_by_more_than_its_bound(rows: list[list[float]]) -> None:
    algorithm = ColumnSums(BLOCKS)
    assert isinstance(algorithm, PemAlgorithm)
    state = algorithm.init()
    all_of_them = contribution(algorithm, sp.csr_array(np.array(rows)), state)
    without = contribution(algorithm, sp.csr_array(np.array(rows[1:]).reshape(-1, 5)), state)
    moved = np.abs(all_of_them - without)
    for part, block in ((moved[:3], BLOCKS[0]), (moved[3:], BLOCKS[1])):
        assert part.sum() <= block.bound_steps
        assert part.max() <= block.cap_steps
    # A step is all that rounding may cost against the literal reading.
    assert np.abs(all_of_them - sum(clipped(np.array(r), BLOCKS) for r in rows)).max() <= len(rows)


@settings(deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.data())
def test_sensitivity_is_reached_and_not_passed_by_zeros_and_ones(
    size: int, weight: int, data: st.DataObject
) -> None:
    """min(2 C, size): all pairs of 0/1 vectors with at most C ones, by enumeration."""
    block = VectorBlock(size, float(weight), cap=1.0, nonnegative=True)
    numbers = [n for n in range(2**size) if n.bit_count() <= weight]
    assert block.sensitivity == max((a ^ b).bit_count() for a in numbers for b in numbers)


def test_exact_numbers_are_added_exactly() -> None:
    rows = sp.csr_array(np.array([[0.5, 0, -0.25, 1, 0], [0.5, 0.5, 0, 1, 0.5]]))
    total = contribution(ColumnSums(BLOCKS), rows, ColumnSums(BLOCKS).init())
    assert total.tolist() == [256, 128, -64, 16, 4]
    values = PemTotal.of(total, BLOCKS, 2, 1.0).values
    assert np.concatenate(values).tolist() == [1.0, 0.5, -0.25, 2.0, 0.5]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: VectorBlock(0, 1.0), "size"),
        (lambda: VectorBlock(1, math.inf), "bound"),
        (lambda: VectorBlock(1, 1.0, share=0.0), "share"),
        (lambda: VectorBlock(1, 1.0, cap=2.0), "cap"),
        (lambda: VectorBlock(1, 0.5), "one step"),
        (lambda: VectorBlock(1, 1.0, fraction_bits=41), "fraction_bits"),
        (lambda: PemState(0, {}, (VectorBlock(1, 1.0, share=0.6), VectorBlock(1, 1.0, share=0.6))), "add up to 1"),
        (lambda: PemState(0, {}, (VectorBlock(1, 1.0, share=0.6),)), "add up to 1"),
    ],
)
def test_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.parametrize(
    ("what", "message"),
    [(sp.csr_array((2, 4)), "shape"), (np.zeros(5, dtype=np.int64), "shape"), (np.full((2, 5), np.nan), "NaN")],
)
def test_what_a_map_may_not_return(what: object, message: str) -> None:
    algorithm = Returns(BLOCKS, what=what)
    with pytest.raises(InputError, match=message):
        contribution(algorithm, sp.csr_array((2, 5)), algorithm.init())


def test_a_longer_gradient_is_scaled_down() -> None:
    """Known error 31: a record of any size moves the sum of gradients by its bound and no more."""
    algorithm = PemLogistic(3, bound=2.0, fraction_bits=10)
    record = sp.csr_array(np.array([[300.0, -100.0, 1.0]]))
    steps = contribution(algorithm, record, algorithm.init())
    assert np.abs(steps).sum() == pytest.approx(2 * 1024, abs=2)
    assert steps[0] / steps[1] == pytest.approx(-3, rel=0.01)


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("record", [[1e305, 0.0, 1.0], [1.79e308, 1.79e308, 1.0], [1e200, -1e200, 1e200]])
def test_no_record_is_too_large_to_be_clipped_and_none_ends_a_run(record: list[float]) -> None:
    """The weights are the aggregator's choice: a run that some records end would tell who is in, without noise."""
    algorithm = PemLogistic(3, bound=2.0)
    (block,) = algorithm.init().blocks
    for weights in ([1.0, -1.0, 0.0], [1e308, -1e308, 0.0], [np.inf, np.nan, 0.0]):
        state = PemState(1, {"w": np.array(weights)}, (block,))
        for row in (record, [1.0, 1.0, 0.0]):
            steps = contribution(algorithm, sp.csr_array(np.array([row])), state)
            assert np.abs(steps.astype(float)).sum() <= block.bound_steps  # int64 has no -(-2^63)
