"""What a call of a kernel does and moves, counted from its arguments, and how soon a machine could be done.

An operation is an addition, a multiplication, a division or a comparison of floating-point numbers, on every
lane that is worked on, also where a cache line is not full. Bytes count where they are read, and again where they
are written:

- `arrays`: once for every pass over them, in order;
- `panel`: a row of it for every entry, wherever the entry says, and once more where it is written back.

What stays in registers, or within a few lines, is not counted. A limit is the larger of what operations take at
the machine's peak, and what bytes take, one kind after the other, each at the bandwidth of an array as large as
what they are of. Of a panel, rows that are read often stay in a nearer cache than others: each counts at the
bandwidth of an array as large as all that are read more often. So a limit supposes that every row lies where it is
best, and that no number waits for another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.kernels import LINE

Rate = Callable[..., float]
"""As the functions of `benchmarks.machine`."""
NEAREST = 4096
"""Bytes, below which caches are not told apart."""


@dataclass(frozen=True, eq=False)
class Moved:
    """Bytes between a core and what it works on."""

    of: str
    size: float
    """Bytes read, and bytes written."""
    held: float
    """Bytes of what they are of, whether a part is read once or often."""
    written: bool = False
    often: NDArray[Any] | None = None
    """How often each row is read, all rows of the same size; None: all are read alike."""

    def seconds(self, bandwidth: Rate) -> float:
        """At least, on a machine of this `bandwidth`."""
        if self.often is None:
            return self.size / bandwidth(int(self.held), self.written)
        rows = np.sort(self.often)[::-1]
        held = self.held / len(rows) * np.arange(1, len(rows) + 1)
        # The next smaller power of two: few sizes are measured, and nothing is taken for slower than it is.
        level = np.maximum(np.floor(np.log2(held)), np.log2(NEAREST)).astype(np.int64)
        each = np.bincount(level, rows) * self.size / rows.sum()
        sizes = (float(size) for size in each)
        return sum(size / bandwidth(1 << at, self.written) for at, size in enumerate(sizes) if size)


@dataclass(frozen=True, eq=False)
class Cost:
    """Of one call."""

    sizes: str
    operations: float
    moved: tuple[Moved, ...]
    precision: type[np.floating[Any]] = np.float64

    @property
    def size(self) -> float:
        """Bytes of all kinds."""
        return sum(part.size for part in self.moved)


def limit(cost: Cost, peak: Rate, bandwidth: Rate) -> tuple[float, str]:
    """Seconds below which a machine cannot be done with it, and what takes most of them."""
    operations = cost.operations / peak(cost.precision)
    bytes_ = {part.of: part.seconds(bandwidth) for part in cost.moved}
    if operations > sum(bytes_.values()):
        return operations, "operations"
    return sum(bytes_.values()), max(bytes_, key=lambda of: bytes_[of])


def _bytes(*arrays: NDArray[Any]) -> int:
    return sum(array.nbytes for array in arrays)


def _entries(indptr: NDArray[Any]) -> int:
    return int(indptr[-1]) - int(indptr[0])


def _rows_read(indices: NDArray[Any], rows: int, together: int = 1) -> NDArray[Any]:
    """How often each row is read, or so many of them that lie in one cache line."""
    return np.bincount(np.asarray(indices, np.int64) // together, minlength=-(-rows // together))


def _in_order(*arrays: NDArray[Any]) -> Moved:
    return Moved("arrays", _bytes(*arrays), _bytes(*arrays))


def times_panel(indptr: Any, indices: Any, data: Any, panel: Any, out: Any) -> Cost:
    """Of `csr_times_panel`: a product and a sum on each lane of an entry."""
    entries, lanes = _entries(indptr), panel.shape[1]
    often = _rows_read(indices, len(panel))
    read = Moved("panel", entries * panel[0].nbytes, panel.nbytes, often=often)
    arrays = _in_order(indptr, indices, data, out)
    sizes = f"{entries:,} entries, {lanes} lanes"
    return Cost(sizes, 2.0 * entries * lanes, (arrays, read), panel.dtype.type)


def squared_times_panel(indptr: Any, indices: Any, data: Any, panel: Any, out: Any) -> Cost:
    """Of `squared_csr_times_panel`: each entry is squared as well, and products of the last line are compared."""
    plain, entries = times_panel(indptr, indices, data, panel, out), _entries(indptr)
    operations = plain.operations + entries * (1.0 + out.shape[1] - panel.shape[1])
    return Cost(plain.sizes, operations, plain.moved, plain.precision)


def add_rows(indptr: Any, indices: Any, data: Any, values: Any, panel: Any) -> Cost:
    """Of `add_rows_to_panel`: as `times_panel`, but that rows of the panel are written back."""
    entries, lanes = _entries(indptr), panel.shape[1]
    often = _rows_read(indices, len(panel))
    changed = Moved("panel", 2.0 * entries * panel[0].nbytes, panel.nbytes, True, often)
    arrays = _in_order(indptr, indices, data, values)
    sizes = f"{entries:,} entries, {lanes} lanes"
    return Cost(sizes, 2.0 * entries * lanes, (arrays, changed), panel.dtype.type)


def lanczos_step(rows: Any, columns: int) -> Cost:
    """Of a product there and back, X (X^T v): each entry twice, beside a number of X^T v that is written once.

    Parameters
    ----------
    rows : CentredRows
        X, not centred.
    """
    entries, number = _entries(rows.indptr), rows.data.itemsize
    matrix = _bytes(rows.indptr, rows.indices, rows.data)
    often = _rows_read(rows.indices, columns, LINE // number)
    vector = Moved("panel", 3.0 * number * entries, number * columns, True, often)
    sizes = f"{entries:,} entries, {len(rows.indptr) - 1} x {columns:,}"
    return Cost(sizes, 4.0 * entries, (Moved("arrays", 2.0 * matrix, matrix), vector))


def nmf_sweep(rows: Any, factors: Any, numerators: Any, interleaved: Any) -> Cost:
    """Of one sweep after which `factors` are these: a document is added to the sums of the topics that it has.

    Every topic passes over the touched columns: each other topic is taken from its sum, which is cleared, added
    up, announced and divided; it is projected, in two passes at least, compared with what it was, and multiplied
    with all topics.
    """
    entries, (topics, touched), lanes = _entries(rows.indptr), factors.T.shape, interleaved.shape[1]
    used = factors.W > 0.0
    added = int(np.diff(rows.indptr.astype(np.int64)) @ used.sum(axis=1))
    number = factors.T.itemsize
    others, all_topics = topics - 1, topics
    column = 2 * others + 2 + 3 + 2 * 4 + 2 + 3 + 2 * all_topics
    parts = 2 * topics * (used.size + int(used.sum()))
    numbers = 3 * others + (2 + 3 + 3) + 2 + 2 * 2 + 2 + (3 + 1 + 2) + 2 * all_topics
    matrix = _bytes(rows.data, rows.columns, rows.indptr)
    often, by_line = (_rows_read(rows.columns, touched, n) for n in (1, LINE // number))
    moved = (
        Moved("arrays", matrix + added * (number + rows.columns.itemsize), matrix),
        Moved("panel", entries * interleaved[0].nbytes, interleaved.nbytes, False, often),
        Moved("share", 2.0 * number * added, number * touched, True, by_line),
        Moved("topics", number * touched * topics * numbers, _bytes(factors.T, numerators)),
    )
    sizes = f"{entries:,} entries, {len(used)} x {touched:,}, {topics} topics"
    return Cost(sizes, 2.0 * entries * lanes + 2.0 * added + parts + touched * topics * column, moved)


def fit_round(csr: Any, about: Any, pairs: Any, panel: Any, asked: Any, moves: Any) -> Cost:
    """Of one round of `go_round` through the documents that are `asked`; of who `moves`, rows are written back.

    Parameters
    ----------
    asked, moves : bool, shape (n_documents,)
    """
    (indptr, indices, data), (weights, scalars, sizes), (starts, places, values) = csr, about, pairs
    lanes, rows = panel.shape[1], np.stack([np.diff(indptr), np.diff(starts)]).astype(np.int64)
    (entries, products), (again, changed) = rows @ asked, rows @ (asked & moves)
    numbers = 2 * (weights.shape[1] + scalars.shape[1])
    operations = 2.0 * lanes * (entries + again) + 4.0 * (products + changed)
    operations += numbers * (asked.sum() + (asked & moves).sum())
    part, often = float(asked.mean()), _rows_read(indices, len(panel))
    arrays = _bytes(indptr, indices, data, weights, scalars, sizes, starts, places, values)
    moved = (
        Moved("arrays", part * arrays, arrays),
        Moved("panel", float(entries) * panel[0].nbytes, panel.nbytes, False, often),
        Moved("panel that is written", 2.0 * float(again) * panel[0].nbytes, panel.nbytes, True, often),
    )
    words = f"{int(entries):,} entries, {int(again):,} moved, {lanes} lanes, {int(products):,} pairs"
    return Cost(words, float(operations), moved, panel.dtype.type)


def arms_walked(values: Any, ordered: Any, inclusion: Any, h: Any) -> Cost:
    """Of the walk of D: the smaller arm is put in order, and walked along beside all values."""
    documents, runs = values.shape
    arm = np.minimum(inclusion.sum(axis=1), runs - inclusion.sum(axis=1)).astype(np.float64)
    compared = arm * np.log2(np.maximum(arm, 2.0)) + runs + 2.0 * arm
    sizes = f"{documents} documents, {arm.mean():.0f} of {runs:,} runs"
    held = _bytes(values, ordered, inclusion, h)
    moved = Moved("arrays", held + inclusion.nbytes, held)
    return Cost(sizes, float(compared.sum()), (moved,), values.dtype.type)


def tails_summed(h: Any, small: Any, large: Any, found: Any) -> Cost:
    """Of `_fill_tails`, where it does not leave a distance to the body: for each pair of points of the boundary, a
    chance times the ways from one to the other."""
    points = np.where(found != 0.0, (small * large - h) // np.maximum(large, 1) + 1, 0).astype(np.float64)
    pairs = float((points * (points - 1.0)).sum() / 2.0)
    tails, number = int((points > 0.0).sum()), found.itemsize
    scratch = 4.0 * number * float(points.max(initial=1.0))
    sizes = f"{tails:,} tails, {points.sum() / max(tails, 1):.0f} points each"
    return Cost(sizes, 2.0 * pairs, (Moved("arrays", 3.0 * number * pairs, scratch),))


def points_inside(h: Any, m: int, n: int) -> int:
    """Points of the band that `law._inside` passes over for some distances at once, from the second row on."""
    h = np.asarray(h, dtype=np.int64)[:, None]
    i = np.arange(1, m + 1)
    first = np.maximum(0, (i * n - h) // m + 1).min(axis=0)
    last = np.minimum(n, -((-((i - 1) * n + h)) // m) - 1).max(axis=0)
    return int((last[1:] - first[:-1] + 1).sum())


def paths_inside(rows: Any, h: Any, small: Any, large: Any, lanes: int) -> Cost:
    """Of `_fill_body`, which counts paths inside a band: at each point a sum and a product on every lane."""
    points, groups, height, at = 0, 0, 0, 0
    while at < len(rows):
        arms = small[rows[at]], large[rows[at]]
        end = at
        while end < len(rows) and end - at < lanes and (small[rows[end]], large[rows[end]]) == arms:
            end += 1
        points += points_inside(h[rows[at:end]], int(arms[0]), int(arms[1]))
        groups, height, at = groups + 1, height + int(arms[0]), end
    line = 8 * lanes
    sizes = f"{len(rows):,} distances in {groups:,} passes, {points / max(height, 1):.0f} points a row"
    moved = Moved("panel", 2.0 * line * points, line * points / max(height, 1), written=True)
    return Cost(sizes, 2.0 * lanes * points, (moved,))
