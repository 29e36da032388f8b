import datetime
import gzip
import json
import traceback

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksdp.audit.errors import CorpusError
from ksdp.storage.readers.columns import open_columns


@pytest.fixture
def parquet(tmp_path):
    def parquet(**columns):
        pq.write_table(pa.table(columns), tmp_path / "a.parquet")
        return open_columns(tmp_path / "a.parquet", "utf-8")

    return parquet


@pytest.fixture
def text_file(tmp_path):
    def text_file(name, text):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return open_columns(tmp_path / name, "utf-8")

    return text_file


def message(call, *args, **kwargs):
    with pytest.raises(CorpusError) as caught:
        call(*args, **kwargs)
    return str(caught.value)


# which columns


def test_a_missing_column_is_refused_with_those_there_are(parquet):
    columns = parquet(a=[1], b=[2])
    for read in (columns.text, columns.labels, columns.coded, columns.numbers):
        assert message(read, "body") == "a.parquet: there is no column `body`; there are `a`, `b`."


def test_the_first_text_of_a_csv_without_header_is_not_shown(text_file):
    columns = text_file("a.csv", "secret " * 20 + ",b\nx,y\n")
    assert "secret" not in message(columns.text, "body")
    assert "a name of 140 characters, `b`" in message(columns.text, "body")


# texts


def test_texts_stored_as_bytes_are_decoded(tmp_path, parquet):
    assert parquet(t=["höhe".encode()]).text("t") == ["höhe"]
    columns = parquet(t=[b"x", "höhe".encode("latin-1")])
    assert message(columns.text, "t") == (
        "a.parquet, row 2, column `t`: is not utf-8 at byte 1; set `corpus.encoding`."
    )
    assert open_columns(tmp_path / "a.parquet", "latin-1").text("t") == ["x", "höhe"]


def test_parquet_texts_that_are_not_utf_8_are_refused(parquet):
    broken = pa.Array.from_buffers(pa.string(), 2, pa.array([b"ok", b"\xff\xfe"]).buffers())
    assert message(parquet(t=broken).text, "t").startswith("a.parquet, row 2, column `t`: is not utf-8 at byte 0")


# labels


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        (["b", "a"], ["b", "a"]),
        ([10, 2], ["10", "2"]),
        ([1.0, 2.0], ["1", "2"]),
        (pa.array([2**64 - 1, 0], pa.uint64()), ["18446744073709551615", "0"]),
        ([True, False], ["true", "false"]),
        (pa.array(["x", "x"]).dictionary_encode(), ["x", "x"]),
    ],
)
def test_labels(parquet, values, labels):
    assert parquet(a=values).labels("a").tolist() == labels


def test_labels_of_a_csv_are_as_written(text_file):
    assert text_file("a.csv", "a\n007\nNA\n1.0\n").labels("a").tolist() == ["007", "NA", "1.0"]
    assert text_file("b.csv", "a\n5.0\n7.00\n").labels("a").tolist() == ["5", "7"], "as pandas writes 5 and 7"


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        (["x", None], ", row 2, column `a`: is missing."),
        ([1.0, float("nan")], ", row 2, column `a`: is missing."),
        ([1.0, 1.5], ", row 2, column `a`: is neither text nor a whole number."),
        (["x", "x\0"], ", row 2, column `a`: holds a NUL character."),
        (["x", "y" * 501], ", row 2, column `a`: is longer than 500 characters."),
        (pa.nulls(2), ", row 1, column `a`: is missing."),
        ([datetime.date(2020, 1, 1)], ", column `a`: holds date32[day]; text or whole numbers are needed."),
    ],
)
def test_labels_that_are_refused(parquet, values, problem):
    assert message(parquet(a=values).labels, "a") == "a.parquet" + problem


def test_an_id_occurs_once(parquet):
    columns = parquet(a=["x", "secret", "y", "secret"])
    assert (
        message(columns.labels, "a", unique=True)
        == "a.parquet, row 4, column `a`: repeats that of row 2; rows of one person are a `group`."
    )
    assert columns.labels("a").tolist() == ["x", "secret", "y", "secret"]


@given(st.lists(st.integers(-50, 50), min_size=1) | st.lists(st.text("ab1", min_size=1), min_size=1))
def test_codes_point_at_sorted_labels(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("codes") / "a.parquet"
    pq.write_table(pa.table({"a": values}), path)
    codes, labels = open_columns(path, "utf-8").coded("a")
    assert labels[codes].tolist() == [str(value) for value in values]
    if isinstance(values[0], int):
        assert [int(label) for label in labels] == sorted(set(values))
    elif not all(value == "1" * len(value) for value in values):
        assert labels.tolist() == sorted(set(values))


def test_whole_numbers_are_sorted_by_value_in_a_csv_too(text_file):
    assert text_file("a.csv", "a\n10\n9\n10\n").coded("a")[1].tolist() == ["9", "10"]
    assert text_file("a.csv", "a\n10\n09\n10\n").coded("a")[1].tolist() == ["09", "10"]


# numbers


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
def test_numbers_of_a_csv_are_exact(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("numbers") / "a.csv"
    path.write_text("a\n" + "\n".join(map(repr, values)) + "\n", encoding="utf-8")
    assert open_columns(path, "utf-8").numbers("a").tolist() == values


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ([1.0, None], ", row 2, column `a`: the number is missing."),
        ([1.0, float("nan")], ", row 2, column `a`: is not finite."),
        ([1.0, 2.0, float("-inf")], ", row 3, column `a`: is not finite."),
        (["1", "2"], ", column `a`: holds string; numbers are needed."),
    ],
)
def test_numbers_that_are_refused(parquet, values, problem):
    shown = message(parquet(a=values).numbers, "a")
    assert shown.replace("large_string", "string") == "a.parquet" + problem


@pytest.mark.parametrize(
    ("cells", "problem"),
    [
        (["1", "x7", "y"], ", row 2, column `a`: is not a number."),
        (["1"] * 999 + ["x7"], ", row 1000, column `a`: is not a number."),
        (["1", "", "3"], ", row 2, column `a`: the number is missing."),
        (["1", "3", "NaN"], ", row 3, column `a`: the number is missing."),
        (["inf", "3"], ", row 1, column `a`: is not finite."),
    ],
)
def test_numbers_of_a_csv_that_are_refused(text_file, cells, problem):
    columns = text_file("a.csv", "a,b\n" + "".join(f"{cell},1\n" for cell in cells))
    assert message(columns.numbers, "a") == "a.csv" + problem


def test_which_columns_are_numeric(tmp_path, parquet, text_file):
    frame = pd.DataFrame({"i": [1, 2], "f": [0.5, None], "t": ["1", "x"], "e": [None, None], "b": [True, False]})
    frame.to_parquet(tmp_path / "f.parquet")
    frame.to_csv(tmp_path / "f.csv", index=False)
    frame.to_json(tmp_path / "f.jsonl", orient="records", lines=True)
    for name in ("f.parquet", "f.csv", "f.jsonl"):
        columns = open_columns(tmp_path / name, "utf-8")
        assert [column for column in columns.names if columns.numeric(column)] == ["i", "f"], name
    assert not text_file("m.jsonl", '{"a": 1}\n{"a": "x"}').numeric("a")


SECRET = "classified"


def read_all(path, encoding):
    source = open_columns(path, encoding)
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
        source = open_columns(path, "utf-8")
        assert source.names == ("id", "text")
        assert source.rows == 2
        assert read_all(path, "utf-8") == [["a", "b"], [row["text"] for row in rows]], path


def test_other_encodings(write):
    path = write("a.csv", "text\nhöhe\n".encode("latin-1"))
    assert open_columns(path, "latin-1").read("text").to_pylist() == ["höhe"]
    assert refused(path) == "a.csv: is not utf-8 at byte 6 (line 2); set `corpus.encoding`."
    path = write("a.jsonl", '{"text": "höhe"}'.encode("utf-16"))
    assert open_columns(path, "utf-16").read("text").to_pylist() == ["höhe"]
    assert "is not utf-8 at byte 0" in refused(path)


@pytest.mark.parametrize("separator", [";", "\t", "|"])
def test_what_european_programs_export_is_the_same_table(tmp_path, separator):
    """Semicolons, decimal commas, and commas that are only in texts."""
    table = pd.DataFrame(np.random.default_rng(4).normal(size=(6, 40)).round(3)).add_prefix("x")
    table["whole"], table["town"] = range(6), ["Graz, Gries", "Wien", "1,5 and 2", "Linz", "Graz", "Wels"]
    path = tmp_path / "export.tsv"
    table.to_csv(path, sep=separator, decimal=",", index=False)
    read = open_columns(path, "utf-8")
    wanted = [*table.columns[:-1]]
    assert read.separator == separator
    assert [name for name in read.names if read.numeric(name)] == wanted
    assert np.array_equal(read.table(wanted), table[wanted].to_numpy())
    assert read.text("town") == table["town"].tolist()


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


# CSV


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", ": is empty."),
        (f"a,b\n1,2\n{SECRET}\n", ", row 2: has 1 fields where the header has 2."),
        (f'a,b\n1,"x\ny"\n\n3,4,{SECRET}\n', ", row 2: has 3 fields where the header has 2."),
        (f'a,b\n1,2\n3,"{SECRET}\n5,6\n', ", row 2: a quote is opened and not closed, or the file is cut short."),
        ('a,b\n1,2\n"3,4\n', ", row 2: a quote is opened and not closed, or the file is cut short."),
        (f"{',' * 100_000}\n", ": has 100001 columns; of a CSV at most 100000 are read: save it as .npz."),
    ],
)
def test_malformed_csv(write, text, problem):
    assert refused(write("a.csv", text)) == "a.csv" + problem


# JSON lines


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", ": is empty."),
        (f'{{"a": 1}}\n{{"a": "{SECRET}\n', ": line 2 is not JSON."),
        (f'{{"a": 1}}\n["{SECRET}"]', ", row 2: is not a JSON object."),
        ("[" * 100_000, ": line 1 is not JSON."),
        (f'{{"a": 1}}\n{{"a": "{SECRET}"}}', ", row 2, column `a`: is text; the rows before hold a number."),
        (f'{{"a": {{"b": "{SECRET}"}}}}', ", column `a`: is a list or an object; text or numbers are needed."),
        ('{"a": "x"}\n{"a": "\\ud800"}', ", row 2, column `a`: is half a surrogate pair, not text."),
        (f'{{"a": {10**30}}}', ", column `a`: holds a whole number of more than 64 bits."),
    ],
)
def test_malformed_json_lines(write, text, problem):
    assert refused(write("a.jsonl", text)) == "a.jsonl" + problem
