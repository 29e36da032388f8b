"""What this machine can do at most, measured: multiply-adds a second, and bytes a second of an array of some size.

Both in vectors of a cache line, as `ksdp.audit.kernels` has them, and without fused operations. The fastest of
several tries counts, in CPU seconds of one thread: what a kernel is compared with is a limit and no average.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from ksdp.audit.kernels import LINE, lined, splat

ir: Any = cgutils.ir  # llvmlite's, which Numba brings
_word: Any = ir.IntType(64)
_double: Any = ir.VectorType(ir.DoubleType(), LINE // 8)
_CHAINS = 16
"""Vectors that do not wait for one another: more than units times steps of latency."""
_LINES = 8
"""Cache lines that are read before the same sum is needed again."""
_SECONDS, _TRIES = 0.01, 7


def _total(builder: Any, vectors: list[Any]) -> Any:
    """One number that depends on all of them, so that none is left out."""
    first, *rest = vectors
    for vector in rest:
        first = builder.fadd(first, vector)
    return builder.extract_element(first, ir.Constant(ir.IntType(32), 0))


@intrinsic
def _multiply_adds(typing: Any, factor: Any, added: Any, count: Any) -> Any:
    """Each of the chains becomes chain * factor + added, so many times."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        scalar = context.get_data_type(signature.args[0])
        vector = ir.VectorType(scalar, LINE // (signature.args[0].bitwidth // 8))
        chains = [cgutils.alloca_once(builder, vector) for _ in range(_CHAINS)]
        for number, chain in enumerate(chains):  # from different numbers, or one chain would do for all
            first = builder.fadd(arguments[1], ir.Constant(scalar, float(number)))
            builder.store(splat(builder, first, vector), chain)
        times, plus = (splat(builder, argument, vector) for argument in arguments[:2])
        with cgutils.for_range(builder, arguments[2], intp=_word):
            for chain in chains:
                builder.store(builder.fadd(builder.fmul(builder.load(chain), times), plus), chain)
        return _total(builder, [builder.load(chain) for chain in chains])

    return factor(factor, factor, types.int64), generate


@contextmanager
def _places(context: Any, builder: Any, kind: Any, value: Any) -> Iterator[list[Any]]:
    """A loop over a contiguous array of doubles: pointers to its next cache lines."""
    array = context.make_array(kind)(context, builder, value)
    (length,) = cgutils.unpack_tuple(builder, array.shape)
    width = _double.count
    with cgutils.for_range_slice(builder, _word(0), length, _word(_LINES * width), _word) as (at, _):
        starts = [builder.add(at, _word(line * width)) for line in range(_LINES)]
        yield [builder.bitcast(builder.gep(array.data, [start]), _double.as_pointer()) for start in starts]


@intrinsic
def _read(typing: Any, array: Any) -> Any:
    """A number that every line of an array has been read for."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        sums = [cgutils.alloca_once(builder, _double) for _ in range(_LINES)]
        for total in sums:
            builder.store(ir.Constant(_double, [0.0] * _double.count), total)
        with _places(context, builder, signature.args[0], arguments[0]) as places:
            for total, place in zip(sums, places, strict=True):
                builder.store(builder.fadd(builder.load(total), builder.load(place, align=LINE)), total)
        return _total(builder, [builder.load(total) for total in sums])

    return types.float64(array), generate


@intrinsic
def _update(typing: Any, array: Any) -> Any:
    """Every line of an array is read and written."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        one = ir.Constant(_double, [1.0] * _double.count)
        with _places(context, builder, signature.args[0], arguments[0]) as places:
            for place in places:
                builder.store(builder.fadd(builder.load(place, align=LINE), one), place, align=LINE)
        return ir.Constant(ir.DoubleType(), 0.0)

    return types.float64(array), generate


@njit
def _calculate(factor: Any, added: Any, count: int) -> Any:
    return _multiply_adds(factor, added, count)


@njit
def _pass(array: Any, written: bool, times: int) -> float:
    """Read an array so many times, or read and write it."""
    total = 0.0
    for _ in range(times):
        total += _update(array) if written else _read(array)
    return total


def _fastest(work: Callable[[int], object]) -> float:
    """CPU seconds of one turn of some work, given how many to make at once; the first call compiles."""
    turns = 1
    work(turns)
    while True:
        began = time.process_time()
        work(turns)
        if (spent := time.process_time() - began) >= _SECONDS:
            break
        turns *= 2
    tries = [spent]
    for _ in range(_TRIES - 1):
        began = time.process_time()
        work(turns)
        tries.append(time.process_time() - began)
    return min(tries) / turns


@lru_cache
def peak(precision: type[np.floating[Any]]) -> float:
    """Additions and multiplications a second, one of each on every lane."""
    half = precision(0.5)  # numbers stay near 1
    lanes = LINE // np.dtype(precision).itemsize
    return 2 * _CHAINS * lanes / _fastest(lambda count: _calculate(half, half, count))


@lru_cache
def bandwidth(size: int, written: bool = False) -> float:
    """Bytes a second of an array of `size` bytes that is read again and again.

    Parameters
    ----------
    written : whether it is written as well; bytes then count twice
    """
    chunk = _LINES * LINE
    array = lined((max(round(size / chunk), 1) * chunk // 8,))
    array.fill(1.0)  # pages that nobody has written are all the same one
    return (1 + written) * array.nbytes / _fastest(lambda times: _pass(array, written, times))
