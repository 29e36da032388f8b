"""Values of any document, read back from blocks as workers write them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

from ksdp.audit.corpus.matrix import Corpus, canonical
from ksdp.audit.errors import StoreError
from ksdp.audit.results.parts import StatisticSummary, StoredValues
from ksdp.audit.results.summary import Summary
from ksdp.audit.runs import BlockValues
from ksdp.audit.specs.design import Block
from ksdp.audit.verdicts.looks import Stage
from ksdp.storage.audits.documents import corpus_entries, neighbours, read_arms, stored_statistics, values_bytes
from ksdp.storage.audits.stages import write_stage
from ksdp.storage.blocks import ROW_GROUP, write_values
from ksdp.storage.codec import write_table_with_checksum
from ksdp.storage.mapped_corpus import store_corpus
from ksdp.storage.store import Store

from ...summaries import example, stored_values

NAMES = ("sigma", "w-max")
ENERGY = StatisticSummary(1, "geometry", "How much.", 0.125, 0.5, 1, 5)
CORPUS = "sha256:" + "0f" * 32


def stage_of(name: str, documents: int, runs: int) -> StoredValues:
    return stored_values(stage=name, documents=documents, runs=runs, runs_a_block=16, statistics=NAMES,
                         values=f"runs/r/values/{name}", key=f"r/{name}")  # fmt: skip


def summary_of(kind: str, documents: int, *stages: StoredValues) -> Summary:
    usual = example(documents=documents, statistics=dict.fromkeys(("w-max", "sigma", "another"), ENERGY))
    design, provenance = replace(usual.design, kind=kind), replace(usual.provenance, stages=stages)
    return replace(usual, design=design, provenance=provenance)


def write(store: Store, stage: StoredValues, lane: int, values: dict[str, Any], bits: Any) -> None:
    for start in range(0, stage.runs, 16):
        part = slice(start, min(start + 16, stage.runs))
        block = Block(lane, part.start, part.stop)
        some = BlockValues(block, bits[:, part], {name: array[:, part] for name, array in values.items()})
        write_values(store.root / stage.values, some, stage.key, "float32")


def drawn(seed: int, rows: int, runs: int) -> tuple[dict[str, Any], Any]:
    rng = np.random.default_rng(seed)
    values = {name: rng.normal(size=(rows, runs)).astype(np.float32) for name in NAMES}
    return values, rng.random((rows, runs)) < 0.3


def check(curve: Any, values: Any, held: Any) -> None:
    own = values.astype(np.float64)
    np.testing.assert_array_equal(curve.with_values, np.sort(own[held]))
    np.testing.assert_array_equal(curve.without_values, np.sort(own[~held]))


def test_a_document_beyond_the_first_row_group_is_found(store: Store) -> None:
    rows, stage = ROW_GROUP + 40, stage_of("first", ROW_GROUP + 8, 50)
    values, bits = drawn(1, rows, 64)
    write(store, stage, 0, values, bits)
    write(store, replace(stage, runs=64), 0, values, bits)  # another audit went on: those runs are not ours
    for place in (0, ROW_GROUP - 1, ROW_GROUP, rows - 33):
        curves = read_arms(store, summary_of("shared", ROW_GROUP + 8, stage), "d", place, ["w-max", "sigma"])
        assert [curve.statistic for curve in curves] == ["w-max", "sigma"]
        for curve in curves:
            check(curve, values[curve.statistic][place, :50], bits[place, :50])


def test_the_last_look_of_a_document_counts(store: Store) -> None:
    """Ten documents, of which rows 2, 5 and 7 of the corpus were still open for a second look."""
    ids = pa.table({"id": [f"d{n}" for n in range(10)]})
    store.corpus(CORPUS).mkdir(parents=True)
    write_table_with_checksum(store.corpus(CORPUS) / "ids.parquet", ids)
    write_stage(store.audit("one"), Stage("look-2", 7, 40, np.array([2, 5, 7]), NAMES, "first"))
    first, second = stage_of("first", 10, 20), stage_of("look-2", 3, 40)
    early, late = drawn(1, 42, 20), drawn(2, 35, 40)
    write(store, first, 0, *early)
    write(store, second, 0, *late)
    summary = summary_of("shared", 10, first, second)
    for place in range(10):
        (curve,) = read_arms(store, summary, f"d{place}", place, ["sigma"])
        values, bits = late if place in (2, 5, 7) else early
        at = {2: 0, 5: 1, 7: 2}.get(place, place)
        check(curve, values["sigma"][at], bits[at])


def test_where_nobody_can_leave_places_stay(store: Store) -> None:
    ids = pa.table({"id": [f"d{n}" for n in range(4)]})
    store.corpus(CORPUS).mkdir(parents=True)
    write_table_with_checksum(store.corpus(CORPUS) / "ids.parquet", ids)
    write_stage(store.audit("one"), Stage("look-2", 7, 40, np.array([3]), NAMES, "first"))
    first, second = stage_of("first", 4, 20), stage_of("look-2", 4, 40)
    late = drawn(2, 36, 40)
    write(store, second, 0, *late)
    (curve,) = read_arms(store, summary_of("balanced", 4, first, second), "d3", 3, ["sigma"])
    check(curve, late[0]["sigma"][3], late[1][3])


def test_a_literal_design_has_a_lane_for_each_document(store: Store) -> None:
    stage = stage_of("first", 3, 20)
    for lane in range(3):
        write(store, stage, lane, *drawn(lane, 33, 20))
    for place in range(3):
        values, bits = drawn(place, 33, 20)
        (curve,) = read_arms(store, summary_of("literal", 3, stage), "d", place, ["sigma"])
        check(curve, values["sigma"][0], bits[0])


def test_a_block_that_is_gone_is_said_to_be(store: Store) -> None:
    stage = stage_of("first", 10, 32)
    summary = summary_of("shared", 10, stage)
    with pytest.raises(StoreError, match="run the audit again"):
        read_arms(store, summary, "d", 0, ["sigma"])
    write(store, replace(stage, runs=16), 0, *drawn(1, 42, 16))
    with pytest.raises(StoreError, match="run the audit again"):
        read_arms(store, summary, "d", 0, ["sigma"])
    assert values_bytes(summary, 2) == 42 * 32 * 4 * 2
    helper = replace(stage, statistics=(*NAMES, "coefficient-1"))  # stored for learners, not tested by itself
    assert stored_statistics(summary_of("shared", 10, helper)) == list(NAMES)
    assert read_arms(store, summary, "d", 0, []) == []


@pytest.fixture
def stored(tmp_path: Path) -> tuple[Path, Corpus]:
    rng = np.random.default_rng(2)
    dense = rng.normal(size=(30, 12)) * (rng.random((30, 12)) < 0.4)
    dense[:, 0] += dense.any(axis=1) == 0
    dense[9] = 3 * dense[4]
    corpus = Corpus(canonical(sp.csr_array(dense)), np.array([f"d{n}" for n in range(30)]))
    store_corpus(corpus, tmp_path / "corpus")
    return tmp_path / "corpus", corpus


def test_neighbours_have_the_largest_cosines(stored: tuple[Path, Corpus]) -> None:
    folder, corpus = stored
    dense = corpus.matrix.toarray()
    for row in range(len(dense)):
        cosine = [
            -9.0
            if other == row
            else dense[row] @ dense[other] / np.linalg.norm(dense[row]) / np.linalg.norm(dense[other])
            for other in range(len(dense))
        ]
        order = [at for at in np.argsort(-np.array(cosine), kind="stable")[:5] if cosine[at] > 0]
        found = neighbours(folder, f"d{row}", 5)
        np.testing.assert_allclose([n.cosine for n in found], [cosine[at] for at in order], atol=1e-12)
    assert neighbours(folder, "d4", 1)[0].document == "d9"
    assert corpus_entries(folder) == corpus.matrix.nnz
