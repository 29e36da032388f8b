"""Eight float64 lanes at a time, inside other kernels: what Numba's own loops would add up in another order."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ksdp.audit.lanes import splat

ir: Any = cgutils.ir  # llvmlite's, which Numba brings


def _eight(context: Any, builder: Any, kind: Any, value: Any, *place: Any) -> Any:
    """Pointer to eight lanes of a contiguous float64 array, from the entry at (first,) or (row, first)."""
    array = context.make_array(kind)(context, builder, value)
    start = place[-1]
    if len(place) == 2:
        start = builder.add(start, builder.mul(place[0], cgutils.unpack_tuple(builder, array.shape)[1]))
    return builder.bitcast(builder.gep(array.data, [start]), ir.VectorType(ir.DoubleType(), 8).as_pointer())


@intrinsic
def add_scaled_lanes(typing: Any, sums: Any, factor: Any, panel: Any, row: Any, first: Any) -> Any:
    """Eight lanes, from `first`, of sums += factor panel[row]: contiguous float64, whose length nobody checks."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds, vector = signature.args, ir.VectorType(ir.DoubleType(), 8)
        target = _eight(context, builder, kinds[0], arguments[0], arguments[4])
        other = builder.load(_eight(context, builder, kinds[2], *arguments[2:]), align=8)
        scaled = builder.fmul(splat(builder, arguments[1], vector), other)
        builder.store(builder.fadd(builder.load(target, align=8), scaled), target, align=8)
        return context.get_dummy_value()

    return types.void(sums, types.float64, panel, types.int64, types.int64), generate


@intrinsic
def add_scaled_row(typing: Any, out: Any, to: Any, factor: Any, panel: Any, row: Any) -> Any:
    """out[to] += factor panel[row], both of eight float64 a row, contiguous; places are not checked."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds, vector, zero = signature.args, ir.VectorType(ir.DoubleType(), 8), ir.Constant(ir.IntType(64), 0)
        target = _eight(context, builder, kinds[0], arguments[0], arguments[1], zero)
        other = builder.load(_eight(context, builder, kinds[3], arguments[3], arguments[4], zero), align=8)
        scaled = builder.fmul(splat(builder, arguments[2], vector), other)
        builder.store(builder.fadd(builder.load(target, align=8), scaled), target, align=8)
        return context.get_dummy_value()

    return types.void(out, types.int64, types.float64, panel, types.int64), generate


@intrinsic
def eight_products(typing: Any, weights: Any, panel: Any, row: Any, first: Any) -> Any:
    """Eight lanes, from `first`, of weights @ panel[row], as ((0 + 4) + (1 + 5)) + ((2 + 6) + (3 + 7)).

    Contiguous float64, whose length nobody checks.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds, small = signature.args, ir.IntType(32)
        weight = _eight(context, builder, kinds[0], arguments[0], arguments[3])
        other = _eight(context, builder, kinds[1], *arguments[1:])
        found = builder.fmul(builder.load(weight, align=8), builder.load(other, align=8))

        def part(of: Any, lanes: list[int]) -> Any:
            mask = ir.Constant(ir.VectorType(small, len(lanes)), lanes)
            return builder.shuffle_vector(of, ir.Constant(of.type, ir.Undefined), mask)

        four = builder.fadd(part(found, [0, 1, 2, 3]), part(found, [4, 5, 6, 7]))
        two = builder.fadd(part(four, [0, 2]), part(four, [1, 3]))
        low, high = (builder.extract_element(two, ir.Constant(small, lane)) for lane in range(2))
        return builder.fadd(low, high)

    return types.float64(weights, panel, types.int64, types.int64), generate
