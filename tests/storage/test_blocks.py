"""Blocks: whole or absent, never stale, damage named."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from ksdp.audit.errors import DamagedBlock
from ksdp.audit.run_subsampling import levelled
from ksdp.audit.runs import BlockValues
from ksdp.audit.specs.design import Block
from ksdp.audit.verdicts.controls import CANARY
from ksdp.storage.blocks import (
    ROW_GROUP,
    ObservablesWriter,
    StoredCells,
    block_name,
    has_block,
    read_groups,
    read_observables,
    read_values,
    stack_blocks,
    write_values,
)

BLOCK = Block(0, 64, 77)
BLOCK_RUNS = range(BLOCK.start, BLOCK.stop)


def written(folder: Path, documents: int = 2500, precision: str = "float32") -> BlockValues:
    rng = np.random.default_rng(0)
    measured = BlockValues(
        BLOCK,
        rng.random((documents, len(BLOCK))) < 0.3,
        {name: rng.normal(size=(documents, len(BLOCK))).astype(precision) for name in ("energy", "w-max")},
    )
    write_values(folder, measured, "key/one", precision)
    return measured


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_values_come_back_bit_for_bit(tmp_path: Path, precision: str) -> None:
    measured = written(tmp_path, precision=precision)
    assert has_block(tmp_path, BLOCK, "key/one")
    for group in range(3):
        rows = slice(group * ROW_GROUP, (group + 1) * ROW_GROUP)
        found = read_values(tmp_path, BLOCK, "key/one", group, ["w-max", "energy"], precision)
        w, e = found.values
        assert found.kept is None
        assert (found.inclusion == measured.inclusion[rows]).all()
        assert (w == measured.values["w-max"][rows]).all()
        assert (e == measured.values["energy"][rows]).all()
        assert e.dtype == precision


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_a_part_of_the_values_comes_back_bit_for_bit(tmp_path: Path, precision: str) -> None:
    rng = np.random.default_rng(1)
    shape = (1500, len(BLOCK))
    kept = rng.random(shape) < np.where(np.arange(1500) % 3 == 0, 1.0, 0.1)[:, None]
    values, canary = (rng.normal(size=shape).astype(precision) for _ in range(2))
    write_values(tmp_path, BlockValues(BLOCK, kept & True, {"energy": values}, canary, kept), "key", precision)
    for group, rows in enumerate((slice(0, ROW_GROUP), slice(ROW_GROUP, None))):
        found = read_values(tmp_path, BLOCK, "key", group, ["energy"], precision)
        assert (found.kept == kept[rows]).all()
        assert (found.values[0] == values[rows][kept[rows]]).all()
    both = read_groups(tmp_path, BLOCK, "key", ["energy", CANARY], precision)
    for array, whole in zip((values, canary), both.whole(), strict=True):
        np.testing.assert_array_equal(whole, np.where(kept, array, np.nan))
    table = pq.read_table(tmp_path / block_name(BLOCK))
    assert (np.frombuffer(table["energy"][4].as_py(), values.dtype) == values[4][kept[4]]).all()


def test_arrays_with_many_zeros_come_back_bit_for_bit_and_take_less(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    kept = rng.random(999) < 0.5
    stored = [
        {"V": np.where(kept, rng.normal(size=(3, 999)), 0).astype("f4"), "x": rng.normal(size=4)}
        for _ in BLOCK_RUNS
    ]
    stored[0]["V"][0, 0], stored[1]["V"][:] = -0.0, 0.0
    writer = ObservablesWriter(BLOCK, "key")
    for run in stored:
        writer.add(run)
    writer.write(tmp_path)
    back = list(read_observables(tmp_path, BLOCK, "key"))
    for run, found in zip(stored, back, strict=True):
        assert list(found) == ["V", "x"]
        assert found["V"].tobytes() == run["V"].tobytes()
        assert found["x"].tobytes() == run["x"].tobytes()
    assert (tmp_path / block_name(BLOCK)).stat().st_size < 0.6 * sum(run["V"].nbytes for run in stored)
    cells = pq.read_table(tmp_path / block_name(BLOCK))["V"].to_pylist()
    assert (np.frombuffer(cells[2], "<f4") == stored[2]["V"][stored[2]["V"] != 0]).all()  # with any tool
    assert cells[1] == b""


def test_a_block_under_another_key_is_refused(tmp_path: Path) -> None:
    written(tmp_path)
    with pytest.raises(DamagedBlock, match=r"000000-0000064-0000077\.parquet is not what its key promises"):
        has_block(tmp_path, BLOCK, "key/two")


def test_a_truncated_block_is_named(tmp_path: Path) -> None:
    written(tmp_path)
    path = tmp_path / block_name(BLOCK)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(DamagedBlock, match=r"000000-0000064-0000077\.parquet cannot be read"):
        has_block(tmp_path, BLOCK, "key/one")


def test_a_flipped_bit_inside_a_page_is_found(tmp_path: Path) -> None:
    written(tmp_path)
    path = tmp_path / block_name(BLOCK)
    content = bytearray(path.read_bytes())
    content[20_000] ^= 4
    path.write_bytes(content)
    assert has_block(tmp_path, BLOCK, "key/one")
    flipped = (20_000 // (ROW_GROUP * len(BLOCK) * 4)) % 3
    with pytest.raises(DamagedBlock, match="is damaged"):
        read_values(tmp_path, BLOCK, "key/one", flipped, ["energy", "w-max"], "float32")


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    bad = BlockValues(BLOCK, np.zeros((3, 13), bool), {"energy": np.zeros((4, 13), np.float32)})
    with pytest.raises(Exception, match=r".+"):
        write_values(tmp_path, bad, "key", "float32")
    assert list(tmp_path.iterdir()) == []


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
