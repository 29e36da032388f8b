import numpy as np
import pandas as pd
import pytest

from ksdp.audit.errors import SpecError
from ksdp.audit.specs.models import CorpusSpec
from ksdp.storage.readers.columns import open_columns
from ksdp.storage.readers.tables import chosen_columns, read_labels, read_table

from .test_ratings import message

FRAME = pd.DataFrame(
    {"z": [1.5, 0, -2], "name": ["p", "q", "r"], "site": [1, 1, 2], "a": [7, 8, 9], "flag": [True, False, True]}
)


@pytest.fixture
def read(tmp_path):
    def read(frame=FRAME, *, nonnegative=False, name="a.parquet", **keys):
        path = tmp_path / name
        if name.endswith("parquet"):
            frame.to_parquet(path)
        elif name.endswith("csv"):
            frame.to_csv(path, index=False)
        else:
            frame.to_json(path, orient="records", lines=True)
        spec, columns = CorpusSpec(path=name, **keys), open_columns(path, "utf-8")
        labels = read_labels(spec, columns, len(columns))
        return read_table(spec, columns, chosen_columns(spec, columns), nonnegative=nonnegative)[0], labels

    return read


@pytest.mark.parametrize("name", ["a.parquet", "a.csv", "a.jsonl"])
def test_numeric_columns_in_the_order_of_the_file(read, name):
    matrix, labels = read(name=name, id="name", party="site")
    np.testing.assert_array_equal(matrix.toarray(), FRAME[["z", "a"]])
    assert labels.ids.tolist() == ["p", "q", "r"]
    assert labels.party.tolist() == ["1", "1", "2"]


def test_an_index_that_pandas_stored_is_no_feature(read, tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}, index=[7, 9])
    matrix, _ = read(frame)
    assert "__index_level_0__" in open_columns(tmp_path / "a.parquet", "utf-8").names
    np.testing.assert_array_equal(matrix.toarray(), [[1.0, 3.0], [2.0, 4.0]])


def test_chosen_columns_in_the_order_of_the_spec(read):
    matrix, labels = read(columns=("a", "flag", "z"))
    np.testing.assert_array_equal(matrix.toarray(), FRAME[["a", "flag", "z"]].astype(float))
    assert labels.ids.tolist() == ["1", "2", "3"]


def test_what_is_refused(read):
    assert message(read, columns=("a", "b")).startswith("a.parquet: there is no column `b`; there are `z`, `name`")
    assert "column `name`: holds" in message(read, columns=("a", "name"))
    assert message(read, nonnegative=True).startswith("a.parquet, row 3, column `z`: is negative")
    for wrong in (np.nan, np.inf):
        for name in ("a.parquet", "a.csv"):
            frame = FRAME.assign(z=[1, wrong, 2])
            assert message(read, frame, name=name).startswith(f"{name}, row 2, column `z`: ")
    assert message(read, FRAME[["name", "flag"]]).startswith(
        "a.parquet: there is no numeric column among `name`, `flag`"
    )
    assert "no numeric column" in message(read, FRAME[["site", "name"]], party="site")


@pytest.mark.parametrize("columns", [(), ("a", "a")])
def test_columns_that_are_none_or_twice(read, columns):
    with pytest.raises(SpecError, match=r"`corpus.columns` must name"):
        read(columns=columns)
