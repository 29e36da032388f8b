import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksdp.audit.errors import CorpusError, SpecError
from ksdp.audit.specs.models import CorpusSpec
from ksdp.storage.readers.columns import open_columns
from ksdp.storage.readers.tables import read_ratings

ROWS = pd.DataFrame(
    {"user_id": [10, 9, 10], "item_id": ["b", "a", "a"], "rating": [3.5, 0.0, -1.0], "team": list("xyx")}
)


@pytest.fixture
def read(tmp_path):
    def read(frame, *, nonnegative=False, name="a.parquet", **keys):
        path = tmp_path / name
        frame.to_parquet(path) if name.endswith("parquet") else frame.to_csv(path, index=False)
        return read_ratings(CorpusSpec(path=name, **keys), open_columns(path, "utf-8"), nonnegative=nonnegative)

    return read


@pytest.mark.parametrize("name", ["a.parquet", "a.csv"])
def test_users_are_rows_and_items_columns(read, name):
    matrix, labels = read(ROWS, name=name, party="team", group="team")
    np.testing.assert_array_equal(matrix.toarray(), [[0, 0], [-1, 3.5]])
    assert labels.ids.tolist() == ["9", "10"]
    assert labels.party.tolist() == labels.group.tolist() == ["y", "x"]
    assert matrix.nnz == 3  # a rating of 0 was observed


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4)), min_size=1, unique=True))
def test_ratings_are_those_of_the_pivot_table(tmp_path_factory, pairs):
    frame = pd.DataFrame(pairs, columns=["user_id", "item_id"])
    frame["rating"] = np.arange(1.0, len(pairs) + 1)
    path = tmp_path_factory.mktemp("ratings") / "a.parquet"
    frame.to_parquet(path)
    matrix, labels = read_ratings(CorpusSpec(path="a"), open_columns(path, "utf-8"), nonnegative=True)
    pivot = frame.pivot_table(index="user_id", columns="item_id", values="rating", fill_value=0)
    np.testing.assert_array_equal(matrix.toarray(), pivot.to_numpy())
    assert labels.ids.tolist() == pivot.index.astype(str).tolist()


@pytest.mark.parametrize("name", ["a.parquet", "a.csv"])
def test_agreed_items_are_the_columns_whoever_rated_them(tmp_path, name):
    path = tmp_path / name
    ROWS.to_parquet(path) if name.endswith("parquet") else ROWS.to_csv(path, index=False)
    columns = open_columns(path, "utf-8")
    matrix, labels = read_ratings(CorpusSpec(path=name), columns, ("z", "a", "y"), nonnegative=False)
    np.testing.assert_array_equal(matrix.toarray(), [[0, 0, 0], [0, -1, 0]])
    assert matrix.nnz == 2, "a rating of 0 is one; that of an item that is not agreed on is left out"
    assert labels.ids.tolist() == ["9", "10"]


def message(*args, **kwargs):
    with pytest.raises(CorpusError) as caught:
        args[0](*args[1:], **kwargs)
    return str(caught.value)


def test_a_pair_that_occurs_twice(read):
    frame = pd.concat([ROWS, ROWS.iloc[[1, 0]]])
    assert message(read, frame) == "a.parquet, row 4: repeats the user and the item of row 2."


def test_a_user_of_two_parties(read):
    assert message(read, ROWS.assign(team=list("xyz")), party="team") == (
        "a.parquet, row 3, column `team`: differs from that of the same user in row 1."
    )


def test_wrong_entries(read):
    assert message(read, ROWS, nonnegative=True).startswith("a.parquet, row 3, column `rating`: is negative")
    assert message(read, ROWS.assign(rating=[1, np.nan, 2])).startswith("a.parquet, row 2, column `rating`: ")
    for name in ("item_id", "user_id"):
        frame = ROWS.assign(**{name: [1, None, 2]})
        assert message(read, frame) == f"a.parquet, row 2, column `{name}`: is missing."
    assert message(read, ROWS.assign(team=["a", "b", None]), party="team").endswith("column `team`: is missing.")
    assert "there is no column `rating`" in message(read, ROWS.drop(columns="rating"))
    assert "there is no column `stars`" in message(
        read, ROWS, format="ratings", columns=("user_id", "item_id", "stars")
    )


def test_the_id_is_the_user(read):
    assert read(ROWS, id="user_id")[1].ids.tolist() == ["9", "10"]
    with pytest.raises(SpecError, match=r"`corpus.id` must be left out"):
        read(ROWS, id="item_id")
