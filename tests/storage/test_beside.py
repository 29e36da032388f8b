"""Blocks beside one another: the runs that tests read, in order."""

from __future__ import annotations

import numpy as np

from ksdp.audit.kept_runs import levelled
from ksdp.storage.blocks import StoredCells, stack_blocks


def test_what_is_read_is_what_the_whole_table_gives() -> None:
    rng = np.random.default_rng(0)
    inclusion = rng.random((30, 60)) < 0.1
    kept = inclusion | (rng.random((30, 60)) < 0.7)
    tables = [rng.normal(size=inclusion.shape).astype("f4") for _ in range(2)]
    width = int(kept.sum(axis=1).min())
    expected = levelled(inclusion, kept, tables, width)
    parts = [slice(0, 16), slice(16, 32), slice(32, 60)]
    cells = [StoredCells(inclusion[:, p], kept[:, p].copy(), [t[:, p][kept[:, p]] for t in tables]) for p in parts]
    for rows in (slice(None), slice(7, 9), np.array([28, 3])):
        bits, values = stack_blocks(cells, rows, width)
        assert (bits == expected[0][rows]).all()
        for found, array in zip(values, expected[1], strict=True):
            assert (found == array[rows]).all()


def test_where_all_is_kept_all_is_read() -> None:
    rng = np.random.default_rng(1)
    inclusion, table = rng.random((5, 20)) < 0.5, rng.normal(size=(5, 20))
    cells = [StoredCells(inclusion[:, p], None, [table[:, p]]) for p in (slice(0, 8), slice(8, 20))]
    bits, (values,) = stack_blocks(cells, slice(1, 3), 20)
    assert (bits == inclusion[1:3]).all()
    assert (values == table[1:3]).all()
