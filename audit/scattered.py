"""Sparse rows added to a panel as outer products with a few numbers: `lanes`, the other way."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from ksdp.audit.lanes import LINE, splat

__all__ = ["add_row_to_panel", "add_rows_to_panel"]

ir: Any = cgutils.ir  # llvmlite's, which Numba brings


@intrinsic(prefer_literal=True)
def _add(typing: Any, indices: Any, data: Any, values: Any, panel: Any, span: Any, n: Any) -> Any:
    """panel[indices[p], first:] += data[p] values[first:] in `n` vectors, for p in [begin, end).

    `span` is (begin, end, first), of int64.
    """
    if not isinstance(n, types.IntegerLiteral):
        return None
    signature = types.void(indices, data, values, panel, span, n)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        arrays = zip(signature.args[:4], arguments[:4], strict=True)
        index, entry, numbers, out = (context.make_array(kind)(context, builder, value) for kind, value in arrays)
        word = ir.IntType(64)
        low, high, lane = cgutils.unpack_tuple(builder, arguments[4])
        scalar = context.get_data_type(signature.args[3].dtype)
        bytes_each = signature.args[3].dtype.bitwidth // 8
        vector = ir.VectorType(scalar, LINE // bytes_each)
        lanes = cgutils.unpack_tuple(builder, out.shape)[1]

        def at(array: Any, place: Any, offset: int) -> Any:
            place = builder.add(place, ir.Constant(word, offset * vector.count))
            return builder.bitcast(builder.gep(array.data, [place]), vector.as_pointer())

        added = [builder.load(at(numbers, lane, offset), align=bytes_each) for offset in range(n.literal_value)]
        with cgutils.for_range(builder, high, start=low, intp=word) as loop:
            row = builder.load(builder.gep(index.data, [loop.index]))
            row = row if row.type == word else builder.zext(row, word)  # indices are never negative
            x = builder.load(builder.gep(entry.data, [loop.index]))
            x = x if x.type == scalar else builder.fptrunc(x, scalar)
            x = splat(builder, x, vector)
            start = builder.add(builder.mul(row, lanes), lane)
            for offset, value in enumerate(added):
                place = at(out, start, offset)
                total = builder.fadd(builder.load(place, align=bytes_each), builder.fmul(x, value))
                builder.store(total, place, align=bytes_each)
        return context.get_dummy_value()

    return signature, generate


@njit(cache=True, nogil=True)
def add_row_to_panel(indices: Any, data: Any, begin: int, end: int, values: Any, panel: Any) -> None:
    """panel[indices[p]] += data[p] values, for p in [begin, end): one row of a sparse matrix, its outer product.

    Parameters
    ----------
    indices, data : of the matrix; indices are below `len(panel)`, which is not checked
    values : shape (panel.shape[1],), of the panel's precision
    panel : C-contiguous, a whole number of cache lines wide, changed in place
    """
    whole = LINE // panel.itemsize
    count = panel.shape[1] // whole
    done = 0
    while count - done >= 4:
        _add(indices, data, values, panel, (np.int64(begin), np.int64(end), np.int64(done * whole)), 4)
        done += 4
    if count - done >= 2:
        _add(indices, data, values, panel, (np.int64(begin), np.int64(end), np.int64(done * whole)), 2)
        done += 2
    if count - done >= 1:
        _add(indices, data, values, panel, (np.int64(begin), np.int64(end), np.int64(done * whole)), 1)


@njit(cache=True, nogil=True)
def add_rows_to_panel(indptr: Any, indices: Any, data: Any, values: Any, panel: Any) -> None:
    """panel += X^T values for CSR rows X, one row of X after the other: each sum has the order of a plain loop.

    Parameters
    ----------
    values : shape (n, panel.shape[1])
    """
    for i in range(values.shape[0]):
        add_row_to_panel(indices, data, indptr[i], indptr[i + 1], values[i], panel)
