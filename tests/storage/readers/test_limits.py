"""Files of strangers that would take the memory of the machine, or never end."""

import gzip
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ksdp.audit.errors import CorpusError, InputError, KsdpError, SpecError
from ksdp.audit.specs.models import CorpusSpec
from ksdp.flows.runs.protocol_files import read_protocol_file
from ksdp.storage.clearances import read_clearance
from ksdp.storage.corpora import load_corpus
from ksdp.storage.files import contents, read_toml
from ksdp.storage.in_memory import read_observables
from ksdp.storage.keys import load_private, load_public
from ksdp.storage.readers.counts import read_counts, read_docword

from .test_hostile import archive


def test_an_archive_that_inflates_too_far_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSDP_LARGEST_INPUT", str(4 * 2**20))
    path = tmp_path / "bomb.npz"
    archive(path, data=64)
    assert path.stat().st_size < 2**20
    with pytest.raises(CorpusError, match="decompressed"):
        read_counts(path)
    packed = tmp_path / "bomb.csv.gz"
    packed.write_bytes(gzip.compress(bytes(16 * 2**20)))
    with pytest.raises(CorpusError, match="decompressed"):
        contents(packed)


@pytest.mark.parametrize("shape", [(10**12, 3), (3, 10**12), (2**62, 2**62)])
def test_declared_sizes_are_looked_at_before_they_are_believed(tmp_path: Path, shape: tuple[int, int]) -> None:
    rows, columns = shape
    npz = tmp_path / "wide.npz"
    index = np.array([0], dtype=np.int64)
    np.savez(npz, row=index, col=index, data=np.ones(1), shape=np.array(shape), format=np.array(b"coo"))
    mtx = tmp_path / "wide.mtx"
    mtx.write_text(f"%%MatrixMarket matrix coordinate integer general\n{rows} {columns} 1\n1 1 1\n")
    word = tmp_path / "docword.wide.txt"
    word.write_text(f"{rows}\n{columns}\n1\n1 1 1\n")
    for path in (npz, mtx):
        with pytest.raises(CorpusError, match="at most|cut short|not Matrix Market"):
            read_counts(path)
    with pytest.raises(CorpusError, match="at most"):
        read_docword(word)


def test_a_dense_file_that_says_more_than_it_holds_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "dense.mtx"
    path.write_text("%%MatrixMarket matrix array integer general\n20000 20000\n1\n")
    with pytest.raises(CorpusError, match="cut short"):
        read_counts(path)


def test_what_is_no_regular_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "texts.csv"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero")):
        for read in (contents, read_toml, read_protocol_file, read_clearance, load_public, load_private):
            with pytest.raises(KsdpError, match="no regular file"):
                read(path)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.binary(max_size=400),
    name=st.sampled_from(["a.npz", "a.mtx", "docword.a.txt", "a.csv", "a.jsonl", "a.parquet", "a.csv.gz"]),
)
def test_no_bytes_make_a_reader_fail_in_another_way_than_by_refusing(
    data: bytes, name: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    try:
        load_corpus(CorpusSpec(path=name), tmp_path, nonnegative=True)
    except InputError as error:
        assert str(error)  # noqa: PT017 - whatever else is raised fails the test


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=200) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace")))
def test_no_bytes_make_the_reader_of_specs_fail_in_another_way(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_bytes(data)
    try:
        assert isinstance(read_toml(path), dict)
    except SpecError as error:
        assert str(error)  # noqa: PT017


@pytest.mark.parametrize("text", [True, False])
def test_a_parquet_file_that_unpacks_to_too_much_is_refused_unread(
    text: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some kilobytes that say the same a million times."""
    rows = 200_000
    values = pa.array(["x" * 50_000, "y" * 50_000] if text else [1.5, 2.5])
    column = pa.DictionaryArray.from_arrays(np.resize(np.arange(2, dtype=np.int32), rows), values)
    pq.write_table(pa.table({"id": np.arange(rows), "body": column}), tmp_path / "a.parquet", store_schema=False)
    assert (tmp_path / "a.parquet").stat().st_size < 2_000_000
    monkeypatch.setenv("KSDP_LARGEST_INPUT", "5000000" if text else "3000000")
    spec = CorpusSpec(path="a.parquet", text="body") if text else CorpusSpec(path="a.parquet")
    with pytest.raises(InputError, match="bytes, unpacked"):
        load_corpus(spec, tmp_path, nonnegative=True)


def test_recorded_tables_are_regular_and_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe.parquet")
    with pytest.raises(InputError, match="no regular file"):
        read_observables(tmp_path / "pipe.parquet")
    pq.write_table(pa.table({"run": np.arange(1000), "mean": np.zeros(1000)}), tmp_path / "a.parquet")
    assert len(read_observables(tmp_path / "a.parquet")[1]) == 1000
    monkeypatch.setenv("KSDP_LARGEST_INPUT", "15000")
    with pytest.raises(InputError, match="KSDP_LARGEST_INPUT"):
        read_observables(tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(InputError, match="b.parquet"):
        read_observables(tmp_path / "b.parquet")
