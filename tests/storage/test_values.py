"""Values of any document, read back from blocks as workers write them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ksdp.audit.design import Block
from ksdp.audit.errors import StoreError
from ksdp.audit.sampling import BlockValues
from ksdp.storage.blocks import ROW_GROUP, write_values
from ksdp.storage.store import Store, content_key
from ksdp.storage.values import read_arms, values_bytes

NAMES = ("sigma", "w-max")


def summary_of(kind: str, documents: int, runs: int, block: int) -> dict[str, Any]:
    return {
        "audit": "one", "documents": documents, "runs": runs, "design": {"kind": kind},
        "statistics": {name: {"version": 2} for name in NAMES}, "spec": {"store": {"precision": "float32"}},
        "provenance": {"runs_folder": "f" * 20, "runs_a_block": block},
    }  # fmt: skip


def write(store: Store, lane: int, values: dict[str, Any], bits: Any, block: int, runs: int) -> None:
    chosen = content_key(dict.fromkeys(NAMES, 2))
    for start in range(0, runs, block):
        part = slice(start, min(start + block, runs))
        some = BlockValues(
            Block(lane, part.start, part.stop), bits[:, part], {n: v[:, part] for n, v in values.items()}
        )
        folder = store.root / "runs" / ("f" * 20) / "values" / chosen
        write_values(folder, some, f"{'f' * 20}/{chosen}", "float32")


def drawn(rng: np.random.Generator, rows: int, runs: int) -> tuple[dict[str, Any], Any]:
    values = {name: rng.normal(size=(rows, runs)).astype(np.float32) for name in NAMES}
    return values, rng.random((rows, runs)) < 0.3


def test_a_document_beyond_the_first_row_group_is_found(store: Store) -> None:
    rows, runs = ROW_GROUP + 40, 50
    values, bits = drawn(np.random.default_rng(1), rows, 64)
    write(store, 0, values, bits, 16, runs)
    write(store, 0, values, bits, 16, 64)  # a later audit went on to 64 runs: these are not ours
    for place in (0, ROW_GROUP - 1, ROW_GROUP, rows - 33):
        curves = read_arms(store, summary_of("shared", rows - 32, runs, 16), "d", place, ["w-max", "sigma"])
        assert [curve.statistic for curve in curves] == ["w-max", "sigma"]
        for curve in curves:
            own, held = values[curve.statistic][place, :runs].astype(np.float64), bits[place, :runs]
            np.testing.assert_array_equal(curve.with_values, np.sort(own[held]))
            np.testing.assert_array_equal(curve.without_values, np.sort(own[~held]))


def test_a_literal_design_has_a_lane_for_each_document(store: Store) -> None:
    kept = []
    for lane in range(3):
        kept.append(drawn(np.random.default_rng(lane), 33, 20))
        write(store, lane, *kept[-1], 16, 20)
    for place, (values, bits) in enumerate(kept):
        (curve,) = read_arms(store, summary_of("literal", 3, 60, 16), "d", place, ["sigma"])
        np.testing.assert_array_equal(curve.with_values, np.sort(values["sigma"][0][bits[0]].astype(np.float64)))


def test_a_block_that_is_gone_is_said_to_be(store: Store) -> None:
    summary = summary_of("shared", 10, 32, 16)
    with pytest.raises(StoreError, match="run the audit again"):
        read_arms(store, summary, "d", 0, ["sigma"])
    write(store, 0, *drawn(np.random.default_rng(1), 42, 16), 16, 16)
    with pytest.raises(StoreError, match="run the audit again"):
        read_arms(store, summary, "d", 0, ["sigma"])
    assert values_bytes(summary, 2) == 42 * 32 * 4 * 2
