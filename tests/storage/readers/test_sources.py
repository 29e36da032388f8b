from __future__ import annotations

import gzip
import json
import traceback

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ksdp.audit.errors import CorpusError
from ksdp.storage.readers.columns import open_source

SECRET = "classified"


def read_all(path, encoding):
    source = open_source(path, encoding)
    return [source.read(name).to_pylist() for name in source.names]


def refused(path, encoding="utf-8"):
    """The refusal, which holds no text of the file however it is shown."""
    with pytest.raises(CorpusError) as caught:
        read_all(path, encoding)
    assert SECRET not in "".join(traceback.format_exception(caught.value, chain=True))
    assert str(path.parent) not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def write(tmp_path):
    def write(name, data):
        path = tmp_path / name
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return path

    return write


def test_the_three_formats_hold_the_same(tmp_path, write):
    rows = [{"id": "a", "text": 'x "q", y\nz'}, {"id": "b", "text": "ü\u2028"}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    table = 'id,text\na,"x ""q"", y\nz"\nb,ü\u2028\n'
    lines = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    paths = [
        tmp_path / "a.parquet",
        write("a.csv", table),
        write("w.csv", table.replace("\n", "\r\n").replace("y\r\n", "y\n")),
        write("a.csv.gz", gzip.compress(table.encode())),
        write("a.jsonl", lines),
        write("b.ndjson", lines + "\n\n"),
        write("a.jsonl.gz", gzip.compress(lines.encode())),
        write("bom.csv", "\ufeff" + table),
    ]
    for path in paths:
        source = open_source(path, "utf-8")
        assert source.names == ("id", "text")
        assert source.rows == 2
        assert read_all(path, "utf-8") == [["a", "b"], [row["text"] for row in rows]], path


def test_other_encodings(write):
    path = write("a.csv", "text\nhöhe\n".encode("latin-1"))
    assert open_source(path, "latin-1").read("text").to_pylist() == ["höhe"]
    assert refused(path) == "a.csv: is not utf-8 at byte 6 (line 2); set `corpus.encoding`."
    path = write("a.jsonl", '{"text": "höhe"}'.encode("utf-16"))
    assert open_source(path, "utf-16").read("text").to_pylist() == ["höhe"]
    assert "is not utf-8 at byte 0" in refused(path)


def test_other_extensions_are_refused(write):
    assert "columns are read from .parquet" in refused(write("a.xlsx", ""))


# Parquet


def test_damaged_parquet_is_refused_wherever_it_is_cut(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": [SECRET] * 50}), path, write_page_checksum=True)
    whole = path.read_bytes()
    for stop in range(0, len(whole), 7):
        path.write_bytes(whole[:stop])
        assert refused(path) == "a.parquet: is damaged, cut short or not Parquet."
    path.write_bytes(whole[:30] + bytes([whole[30] ^ 255]) + whole[31:])
    assert "damaged" in refused(path)


def test_parquet_categories_are_their_values(tmp_path):
    table = pa.table({"party": pa.array(["x", "y", "x"]).dictionary_encode()})
    pq.write_table(table, tmp_path / "a.parquet")
    source = open_source(tmp_path / "a.parquet", "utf-8")
    assert source.read("party").to_pylist() == ["x", "y", "x"]


# CSV


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a.csv: is empty."),
        ("\n\n", "a.csv: is empty."),
        (f"a,b\n1,2\n{SECRET}\n", "a.csv, row 2: has 1 fields where the header has 2."),
        (f'a,b\n1,"x\ny"\n\n3,4,{SECRET}\n', "a.csv, row 2: has 3 fields where the header has 2."),
        (
            f'a,b\n1,2\n3,"{SECRET}\n5,6\n',
            "a.csv, row 2: a quote is opened and not closed, or the file is cut short.",
        ),
    ],
)
def test_malformed_csv(write, text, message):
    assert refused(write("a.csv", text)) == message


def test_a_csv_tells_a_missing_from_an_empty_text(write):
    source = open_source(write("a.csv", 'a,b\n1,""\n2,\n3,NA\n'), "utf-8")
    assert source.read("b").to_pylist() == ["", None, "NA"]


def test_a_csv_field_may_be_long_and_hold_a_quote(write):
    long = "word " * 400_000  # longer than the blocks and fields that CSV readers take by default
    source = open_source(write("a.csv", f'a,b\n1,{long}\n2,5" nail\n'), "utf-8")
    assert source.read("b").to_pylist() == [long, '5" nail']


# JSON lines


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a.jsonl: is empty."),
        (f'{{"a": 1}}\n{{"a": "{SECRET}\n', "a.jsonl: line 2 is not JSON."),
        (f'{{"a": 1}}\n\n{{"a": "{SECRET}"}}', "a.jsonl: line 2 is not JSON."),
        (f'{{"a": 1}}\n["{SECRET}"]', "a.jsonl: line 2 is not a JSON object."),
        ("[" * 100_000, "a.jsonl: line 1 is not JSON."),
        (
            f'{{"a": 1}}\n{{"a": "{SECRET}"}}',
            "a.jsonl, row 2, column `a`: is text; the rows before hold a number.",
        ),
        (
            f'{{"a": {{"b": "{SECRET}"}}}}',
            "a.jsonl, column `a`: is a list or an object; text or numbers are needed.",
        ),
        ('{"a": "x"}\n{"a": "\\ud800"}', "a.jsonl, row 2, column `a`: is half a surrogate pair, not text."),
        (f'{{"a": {10**30}}}', "a.jsonl, column `a`: holds a whole number of more than 64 bits."),
        (f'{{"a": 0.5}}\n{{"a": {10**400}}}', "a.jsonl, column `a`: holds a whole number of more than 64 bits."),
    ],
)
def test_malformed_json_lines(write, text, message):
    assert refused(write("a.jsonl", text)) == message


def test_a_key_that_a_line_lacks_is_missing(write):
    source = open_source(write("a.jsonl", '{"a": 1}\n{"b": 0.5, "a": null}\n{"b": 2}'), "utf-8")
    assert source.names == ("a", "b")
    assert source.read("a").to_pylist() == [1, None, None]
    assert source.read("b").to_pylist() == [None, 0.5, 2.0]
