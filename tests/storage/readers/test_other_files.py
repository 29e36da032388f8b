"""JSON arrays, workbooks and NumPy's files are read like a CSV, and refused with the place of the fault."""

import contextlib
import json
import re
import zipfile
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from ksdp.audit.errors import CorpusError
from ksdp.audit.specs.models import CorpusSpec
from ksdp.storage.corpora import load_corpus
from ksdp.storage.readers.columns import open_columns


def put(path: Path, content: Any) -> Path:
    """A file of that kind."""
    if path.suffix == ".json":
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    elif path.suffix == ".npy":
        np.save(path, content)
    elif path.suffix == ".npz":
        np.savez_compressed(path, **content)
    else:
        book = pytest.importorskip("openpyxl").Workbook()
        book.remove(book.active)
        for name, rows in content.items():
            sheet = book.create_sheet(name)
            for row in rows:
                sheet.append(row)
        book.save(path)
    return path


def shared(path: Path, text: str) -> tuple[Path, str]:
    """The workbook with one text that every cell below its header names, as Excel writes it."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name).decode() for name in archive.namelist()}
    sheet, links, kinds = "xl/worksheets/sheet1.xml", "xl/_rels/workbook.xml.rels", "[Content_Types].xml"
    parts[sheet] = parts[sheet].replace('t="inlineStr"><is><t>text</t></is>', 't="s"><v>0</v>')
    space = "http://schemas.openxmlformats.org/"
    link = (
        f'<Relationship Id="rId99" Target="sharedStrings.xml" '
        f'Type="{space}officeDocument/2006/relationships/sharedStrings"/>'
    )
    parts[links] = re.sub("</(.*?)Relationships>$", lambda end: link + end[0], parts[links])
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"
    part = f'<Override PartName="/xl/sharedStrings.xml" ContentType="{kind}"/></Types>'
    parts[kinds] = parts[kinds].replace("</Types>", part)
    parts["xl/sharedStrings.xml"] = (
        f'<sst xmlns="{space}spreadsheetml/2006/main" count="1"><si><t xml:space="preserve">{text}</t></si></sst>'
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return path, text


def corpus(path: Path, **spec: Any) -> Any:
    return load_corpus(CorpusSpec(path=path.name, **spec), path.parent, nonnegative=False)


@pytest.mark.parametrize("kind", ["json", "xlsx", "npy", "npz"])
def test_each_gives_the_corpus_that_a_csv_gives(tmp_path: Path, kind: str) -> None:
    matrix = np.random.default_rng(0).poisson(2.0, (20, 4)) + 0.25
    named = pd.DataFrame(matrix, columns=list("0123"))
    named.to_csv(tmp_path / "a.csv", index=False)
    content: dict[str, Any] = {
        "json": named.to_dict("records"),
        "xlsx": {"one": [list(named), *matrix.tolist()], "two": []},
        "npy": matrix.astype(">f4"),
        "npz": {"matrix": matrix},
    }
    found = corpus(put(tmp_path / f"a.{kind}", content[kind]))
    assert found.hash == corpus(tmp_path / "a.csv").hash


def test_a_workbook_has_text_whole_numbers_as_ids_and_dates(tmp_path: Path) -> None:
    rows = [["id", "note", "day"], [17, "two words", date(2024, 1, 2)], [], [18, None, None]]
    columns = open_columns(put(tmp_path / "a.xlsx", {"notes": rows}), "utf-8")
    assert columns.labels("id").tolist() == ["17", "18"]
    assert columns.text("note") == ["two words", ""]
    assert columns.text("day") == ["2024-01-02", ""]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.json", "[{}, 3]", "a.json, row 2: is not a JSON object"),
        ("a.json", '{"a": 1}', "is not an array of objects"),
        ("a.json", '[{"a": 1},\n{"a": ]', "line 2 is not JSON"),
        ("a.json", "[" * 100_000, "is not JSON"),
        ("a.json", "[]", "has no rows"),
        ("a.json", [{"a": 1, "b": 2}, {"a": "x", "b": 1}], "a.json, row 2, column `a`: is text"),
        ("a.xlsx", {"one": [["a"], [1]], "two": [["a"], [2]]}, "has 2 sheets with cells"),
        ("a.xlsx", {"one": [[]]}, "is empty"),
        ("a.xlsx", {"one": [["a", None], [1, 2]]}, "column 2 has no name"),
        ("a.xlsx", {"one": [["a", "b"], [1, 2], ["x", 3]]}, "a.xlsx, row 2, column `a`: is text"),
        ("a.xlsx", {"one": [["a", "a"], [1, 2]]}, "column `a`: occurs 2 times"),
        ("a.npy", np.zeros(3), r"holds float64 of shape \(3,\)"),
        ("a.npy", np.array([["x"]]), "holds <U1"),
        ("a.npy", np.array([[1.0], [np.nan]]), "a.npy, row 2, column `0`: is not finite"),
        ("a.npz", {"a": np.zeros((2, 2)), "b": np.zeros((2, 2))}, "holds 2 arrays; save the matrix alone"),
    ],
)
def test_a_fault_is_refused_with_its_place(tmp_path: Path, name: str, content: Any, said: str) -> None:
    path = put(tmp_path / name, content)
    spec = {"columns": ("a", "b")} if "column `a`" in said else {}
    with pytest.raises(CorpusError, match=said):
        corpus(path, **spec)


def test_objects_in_an_array_are_never_loaded(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([[{}]], dtype=object))
    with pytest.raises(CorpusError, match="is damaged, cut short or not an array of numbers"):
        corpus(tmp_path / "a.npy")


def test_what_would_fill_the_memory_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez_compressed(tmp_path / "a.npz", np.zeros((3000, 1000)))
    with pytest.raises(CorpusError, match="decompressed.*KSDP_LARGEST_INPUT"):
        corpus(tmp_path / "a.npz")
    path, text = shared(put(tmp_path / "a.xlsx", {"one": [["note"], *[["text"]] * 100]}), "x " * 15_000)
    assert open_columns(path, "utf-8").text("note") == [text] * 100
    monkeypatch.setenv("KSDP_LARGEST_INPUT", "1000000")
    with pytest.raises(CorpusError, match="unpacked.*KSDP_LARGEST_INPUT"):
        open_columns(path, "utf-8")


def test_cells_that_are_far_apart_take_no_memory_between_them(tmp_path: Path) -> None:
    """The size that a sheet says it has, or that its last cell says, is not believed."""
    book = pytest.importorskip("openpyxl").Workbook()
    for row in range(400):
        book.active.cell(2**20 - row, 2**14, 1)
    book.save(tmp_path / "a.xlsx")
    with pytest.raises(CorpusError, match="has more than 20000000 bytes, unpacked"):
        open_columns(tmp_path / "a.xlsx", "utf-8")


@settings(max_examples=60, deadline=None)
@given(
    arrays(
        st.sampled_from(["<f8", ">f4", "<i2", ">u4", "?"]),
        array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=6),
        elements={"allow_nan": False, "allow_infinity": False, "min_value": 0, "max_value": 9},
    )
)
def test_an_array_comes_back_as_it_was_saved(tmp_path_factory: pytest.TempPathFactory, matrix: Any) -> None:
    columns = open_columns(put(tmp_path_factory.mktemp("a") / "a.npy", matrix), "utf-8")
    assert np.array_equal(columns.table(columns.names), matrix.astype(float))


@pytest.mark.parametrize("kind", ["xlsx", "npy", "npz"])
def test_a_damaged_file_is_read_or_refused_and_nothing_else(tmp_path: Path, kind: str) -> None:
    matrix = np.random.default_rng(0).poisson(2.0, (20, 4)) + 0.25
    content = {"xlsx": {"one": [list("abcd"), *matrix.tolist()]}, "npy": matrix, "npz": {"m": matrix}}
    path = put(tmp_path / f"a.{kind}", content[kind])
    whole, rng = path.read_bytes(), np.random.default_rng(1)
    for at in rng.integers(0, len(whole), 150):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(damaged[:at]) if at % 5 == 0 else bytes(damaged))
        with contextlib.suppress(CorpusError):
            corpus(path)
