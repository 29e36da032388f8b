"""Sparse rows times a few dense columns, whose sums stay in vector registers: most of an audit's time.

Numba vectorises loops, but keeps no small array of sums in registers, so that this inner loop is written in LLVM's
own terms: one cache line of sums a vector, four vectors at most. Every lane adds its products one after the other,
in the order of the row's entries, without fused or reordered operations: a result hangs on the row and the column
alone, bit for bit, never on the columns beside it, the rows before it, or the width of a machine's registers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

__all__ = [
    "LINE",
    "add_scaled_lanes",
    "add_scaled_row",
    "csr_times_panel",
    "eight_products",
    "panel_of",
    "row_times_panel",
    "splat",
    "squared_csr_times_panel",
]

ir: Any = cgutils.ir  # llvmlite's, which Numba brings

LINE = 64
"""Bytes of a cache line, and of a vector of sums."""


def splat(builder: Any, x: Any, vector: Any) -> Any:
    """A vector of one number."""
    small, undefined = ir.IntType(32), ir.Constant(vector, ir.Undefined)
    one = builder.insert_element(undefined, x, ir.Constant(small, 0))
    mask = ir.Constant(ir.VectorType(small, vector.count), [0] * vector.count)
    return builder.shuffle_vector(one, undefined, mask)


@intrinsic(prefer_literal=True)
def _vectors(typing: Any, indices: Any, data: Any, panel: Any, sums: Any, span: Any, n: Any) -> Any:
    """`n` vectors of sums[first:] = sum over p in [begin, end) of data[p] panel[indices[p], first:].

    `span` is (begin, end, first), of int64. One of four, (begin, end, first, at), stands for data[p] squared, and
    asks for the largest products of the last vector besides, 0 at least: they go to sums[at:].
    """
    if not isinstance(n, types.IntegerLiteral):
        return None
    signature = types.void(indices, data, panel, sums, span, n)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        arrays = zip(signature.args[:4], arguments[:4], strict=True)
        index, entry, columns, out = (context.make_array(kind)(context, builder, value) for kind, value in arrays)
        word = ir.IntType(64)
        low, high, lane, *tops_at = cgutils.unpack_tuple(builder, arguments[4])
        scalar = context.get_data_type(signature.args[2].dtype)
        bytes_each = signature.args[2].dtype.bitwidth // 8
        width = LINE // bytes_each
        vector = ir.VectorType(scalar, width)
        totals = [cgutils.alloca_once(builder, vector) for _ in range(n.literal_value)]
        largest = cgutils.alloca_once(builder, vector)
        for total in (*totals, largest):
            builder.store(ir.Constant(vector, [0.0] * width), total)
        lanes = cgutils.unpack_tuple(builder, columns.shape)[1]

        def at(array: Any, place: Any, offset: int) -> Any:
            place = builder.add(place, ir.Constant(word, offset * width))
            return builder.bitcast(builder.gep(array.data, [place]), vector.as_pointer())

        with cgutils.for_range(builder, high, start=low, intp=word) as loop:
            row = builder.load(builder.gep(index.data, [loop.index]))
            row = row if row.type == word else builder.zext(row, word)  # indices are never negative
            x = builder.load(builder.gep(entry.data, [loop.index]))
            x = builder.fmul(x, x) if tops_at else x
            x = x if x.type == scalar else builder.fptrunc(x, scalar)
            x = splat(builder, x, vector)
            start = builder.add(builder.mul(row, lanes), lane)
            for offset, total in enumerate(totals):
                product = builder.fmul(x, builder.load(at(columns, start, offset), align=bytes_each))
                builder.store(builder.fadd(builder.load(total), product), total)
                if tops_at and offset == len(totals) - 1:
                    before = builder.load(largest)
                    builder.store(
                        builder.select(builder.fcmp_ordered(">", product, before), product, before), largest
                    )
        for offset, total in enumerate(totals):
            builder.store(builder.load(total), at(out, lane, offset), align=bytes_each)
        if tops_at:
            builder.store(builder.load(largest), at(out, tops_at[0], 0), align=bytes_each)
        return context.get_dummy_value()

    return signature, generate


@njit(cache=True, nogil=True)
def row_times_panel(indices: Any, data: Any, panel: Any, begin: int, end: int, sums: Any) -> None:
    """sums = sum over p in [begin, end) of data[p] panel[indices[p]], for one row of a sparse matrix.

    Parameters
    ----------
    indices, data : of the matrix; indices are below `len(panel)`, which is not checked
    panel : C-contiguous, as `panel_of` makes it
    sums : shape (panel.shape[1],), of its precision
    """
    whole = LINE // panel.itemsize
    count = panel.shape[1] // whole
    done = 0
    while count - done >= 4:
        _vectors(indices, data, panel, sums, (np.int64(begin), np.int64(end), np.int64(done * whole)), 4)
        done += 4
    if count - done >= 2:
        _vectors(indices, data, panel, sums, (np.int64(begin), np.int64(end), np.int64(done * whole)), 2)
        done += 2
    if count - done >= 1:
        _vectors(indices, data, panel, sums, (np.int64(begin), np.int64(end), np.int64(done * whole)), 1)


@njit(cache=True, nogil=True)
def csr_times_panel(indptr: Any, indices: Any, data: Any, panel: Any, out: Any) -> None:
    """Fill `out` with the product of CSR rows and the first columns of `panel`, in the panel's precision.

    Parameters
    ----------
    indptr, indices, data : indices below `len(panel)`
    panel : as `panel_of` makes it, at least as wide as `out`
    out : shape (n, columns)
    """
    sums = np.empty(panel.shape[1], panel.dtype)
    for i in range(out.shape[0]):
        row_times_panel(indices, data, panel, indptr[i], indptr[i + 1], sums)
        for lane in range(out.shape[1]):
            out[i, lane] = sums[lane]


@njit(cache=True, nogil=True)
def _squared_row_times_panel(indices: Any, data: Any, panel: Any, begin: int, end: int, sums: Any) -> None:
    """As `row_times_panel` of the entries' squares; `sums` goes on with the largest products in the last line."""
    whole = LINE // panel.itemsize
    count = panel.shape[1] // whole
    low, high, tops = np.int64(begin), np.int64(end), np.int64(panel.shape[1])
    done = 0
    while count - done > 4:
        _vectors(indices, data, panel, sums, (low, high, np.int64(done * whole), tops), 4)
        done += 4
    first = np.int64(done * whole)
    if count - done == 4:
        _vectors(indices, data, panel, sums, (low, high, first, tops), 4)
    elif count - done == 3:
        _vectors(indices, data, panel, sums, (low, high, first, tops), 3)
    elif count - done == 2:
        _vectors(indices, data, panel, sums, (low, high, first, tops), 2)
    else:
        _vectors(indices, data, panel, sums, (low, high, first, tops), 1)


@njit(cache=True, nogil=True)
def squared_csr_times_panel(indptr: Any, indices: Any, data: Any, panel: Any, out: Any) -> None:
    """The product of the rows' squared entries with `panel`; then, of its last line, the largest products.

    Parameters
    ----------
    out : shape (n, panel.shape[1] + a line of lanes)
        In the panel's precision. Its last columns hold max over a of x_a^2 panel[a], 0 at least.
    """
    for i in range(out.shape[0]):
        _squared_row_times_panel(indices, data, panel, indptr[i], indptr[i + 1], out[i])


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


@njit(cache=True, nogil=True)
def _fill(rows: Any, panel: Any) -> None:
    for a in range(rows.shape[1]):
        for t in range(rows.shape[0]):
            panel[a, t] = rows[t, a]
        for t in range(rows.shape[0], panel.shape[1]):
            panel[a, t] = 0.0


def panel_of(rows: NDArray[np.float64], precision: type[np.floating[Any]] = np.float64) -> NDArray[Any]:
    """The transpose of `rows` (k x d) as kernels read it: d x lanes, zeros up to a whole number of cache lines.

    Examples
    --------
    >>> panel_of(np.array([[1.0, 2.0], [3.0, 4.0]]))[:, :3]
    array([[1., 3., 0.],
           [2., 4., 0.]])
    """
    width = LINE // np.dtype(precision).itemsize
    panel = np.empty((rows.shape[1], -(-max(len(rows), 1) // width) * width), dtype=precision)
    _fill(np.ascontiguousarray(rows, dtype=np.float64), panel)
    return panel
