import gzip

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ksdp.audit.errors import CorpusError
from ksdp.storage.readers.counts import read_counts, read_docword

DENSE = np.array([[0, 2, 0, 1], [0, 0, 0, 0], [5, 0, 0, 3]])
FORMATS = ["csr", "csc", "coo", "bsr", "dia"]


def message(call, *args):
    with pytest.raises(CorpusError) as caught:
        call(*args)
    assert "because" not in str(caught.value)
    assert caught.value.__cause__ is None  # a chained error would show the line
    return str(caught.value)


def write_docword(path, dense):
    lines = [*map(str, (*dense.shape, np.count_nonzero(dense)))]
    lines += [f"{d + 1} {w + 1} {dense[d, w]}" for d, w in zip(*np.nonzero(dense), strict=True)]
    data = "\n".join(lines).encode() + b"\n"
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.uint8])
@pytest.mark.parametrize("make", [sp.coo_array, sp.coo_matrix])
def test_npz(tmp_path, kind, dtype, make):
    sp.save_npz(tmp_path / "a.npz", make(DENSE.astype(dtype)).asformat(kind))
    counts = read_counts(tmp_path / "a.npz")
    np.testing.assert_array_equal(counts.toarray(), DENSE)
    assert counts.dtype == np.float64


@pytest.mark.parametrize("dense", [True, False])
def test_mtx(tmp_path, dense):
    scipy.io.mmwrite(tmp_path / "a.mtx", DENSE if dense else sp.coo_array(DENSE))
    (tmp_path / "b.mtx.gz").write_bytes(gzip.compress((tmp_path / "a.mtx").read_bytes()))
    for name in ("a.mtx", "b.mtx.gz"):
        np.testing.assert_array_equal(read_counts(tmp_path / name).toarray(), DENSE)


SHAPES = st.tuples(st.integers(1, 5), st.integers(1, 5))


@given(arrays(np.int64, SHAPES, elements=st.integers(0, 3)).filter(np.any))
def test_docword(tmp_path_factory, dense):
    folder = tmp_path_factory.mktemp("counts")
    write_docword(folder / "docword.txt", dense)
    write_docword(folder / "docword.txt.gz", dense)
    np.testing.assert_array_equal(read_docword(folder / "docword.txt").toarray(), dense)
    np.testing.assert_array_equal(read_docword(folder / "docword.txt.gz").toarray(), dense)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (np.nan, "an entry is not finite."),
        (np.inf, "an entry is not finite."),
        (-2.0, "a count is negative."),
        (1.5, "a count is not a whole number."),
    ],
)
@pytest.mark.parametrize("name", ["a.npz", "a.mtx"])
def test_wrong_entries_name_row_and_column(tmp_path, value, problem, name):
    dense = DENSE.astype(float)
    dense[2, 0] = value
    if name == "a.npz":
        sp.save_npz(tmp_path / name, sp.csc_array(dense))
    else:
        scipy.io.mmwrite(tmp_path / name, sp.coo_array(dense))
    assert message(read_counts, tmp_path / name) == f"{name}, row 3, column `1`: {problem}"


@pytest.mark.parametrize(
    ("kind", "part"), [("csr", "indices"), ("csr", "indptr"), ("csc", "indices"), ("coo", "row")]
)
@pytest.mark.parametrize("index", [77, -1])
def test_indices_that_do_not_fit(tmp_path, kind, part, index):
    matrix = sp.coo_array(DENSE).asformat(kind)
    getattr(matrix, part)[1] = index
    sp.save_npz(tmp_path / "a.npz", matrix)
    assert "is damaged" in message(read_counts, tmp_path / "a.npz")


def test_other_files_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", images=np.zeros(3))
    assert "not written by scipy.sparse.save_npz" in message(read_counts, tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", data=np.array([object()]), format=np.array("csr"))
    assert "not written by scipy.sparse.save_npz" in message(read_counts, tmp_path / "b.npz")
    sp.save_npz(tmp_path / "c.npz", sp.csr_array(DENSE * 1j))
    assert message(read_counts, tmp_path / "c.npz") == "c.npz: holds complex128; counts are needed."
    (tmp_path / "a.txt").write_text("x", encoding="utf-8")
    assert "counts are read from .npz and .mtx" in message(read_counts, tmp_path / "a.txt")
    for name in ("d.npz", "d.mtx", "d"):
        assert message(read_counts, tmp_path / name) == f"{name}: there is no such file."


def test_an_npz_is_refused_wherever_it_is_cut_or_changed(tmp_path):
    path = tmp_path / "a.npz"
    sp.save_npz(path, sp.csr_array(DENSE))
    whole = path.read_bytes()
    for stop in range(0, len(whole), 11):
        path.write_bytes(whole[:stop])
        assert "damaged" in message(read_counts, path)
    for position in range(0, len(whole), 5):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 0x55]) + whole[position + 1 :])
        try:
            counts = read_counts(path)  # some bytes of an archive mean nothing
        except CorpusError:
            continue
        np.testing.assert_array_equal(counts.toarray(), DENSE)


def test_an_mtx_is_refused_where_it_is_cut(tmp_path):
    scipy.io.mmwrite(tmp_path / "a.mtx", sp.coo_array(DENSE))
    lines = (tmp_path / "a.mtx").read_bytes().splitlines(keepends=True)
    for stop in range(len(lines)):
        (tmp_path / "a.mtx").write_bytes(b"".join(lines[:stop]))
        assert "damaged, cut short or not Matrix Market" in message(read_counts, tmp_path / "a.mtx")
    (tmp_path / "a.mtx.gz").write_bytes(gzip.compress(b"".join(lines))[:-9])
    assert message(read_counts, tmp_path / "a.mtx.gz") == "a.mtx.gz: is damaged, cut short or not gzip."


def test_an_mtx_names_the_line_at_fault(tmp_path):
    text = "%%MatrixMarket matrix coordinate integer general\n2 2 2\n1 1 1\n2 because 1\n"
    (tmp_path / "a.mtx").write_text(text, encoding="utf-8")
    assert message(read_counts, tmp_path / "a.mtx").endswith("(line 4).")


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ("", "must begin with three lines: documents, words, entries."),
        ("2\nthree\n1\n1 1 1", "must begin with three lines: documents, words, entries."),
        ("0\n3\n0\n", "is empty: its header says 0 documents, 3 words, 0 entries."),
        ("2\n3\n2\n1 1 1\n", "is damaged, cut short or not a bag of words."),
        ("2\n3\n2\n1 1 1\n2 2\n", "is damaged, cut short or not a bag of words (line 5)."),
        ("2\n3\n2\n1 1 because\n2 2 1\n", "is damaged, cut short or not a bag of words (line 4)."),
        ("2\n3\n2\n1 1 1\n3 1 1\n", "is damaged, cut short or not a bag of words (line 5)."),
        ("2\n3\n3\n2 1 1\n1 1 1\n2 1 4\n", "a document has two lines for a word."),
    ],
)
def test_a_damaged_docword(tmp_path, lines, problem):
    (tmp_path / "docword.txt").write_text(lines, encoding="utf-8")
    assert message(read_docword, tmp_path / "docword.txt") == f"docword.txt: {problem}"
