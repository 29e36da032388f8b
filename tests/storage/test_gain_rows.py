"""Ratings divided by time, against pandas."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ksdp.audit.errors import CorpusError, SpecError
from ksdp.audit.learning.gain import GainRows
from ksdp.audit.specs.models import Spec, parse_spec
from ksdp.storage.corpora import find_source, read_source, weighed_corpus
from ksdp.storage.gain_rows import gain_rows


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(4)
    rows = [
        (user, item, int(rng.integers(0, 6)), float(rng.integers(0, 30)) if user % 2 or item % 2 else np.nan)
        for user in range(12)
        for item in rng.permutation(20)[:15]
    ]
    return pd.DataFrame(rows, columns=["user_id", "item_id", "rating", "when"])


def spec_of(folder: Path, ratings: pd.DataFrame, **keys: Any) -> Spec:
    ratings.to_parquet(folder / "ratings.parquet")
    corpus = {"path": "ratings.parquet", "format": "ratings", **keys.pop("corpus", {})}
    mechanism = {"name": "pd-nmf", "weighted": True, "rank": 2, **keys}
    return parse_spec({"seed": 1, "corpus": corpus, "mechanism": mechanism, "gain": {"time": "when"}})


def rows_of(spec: Spec, folder: Path) -> GainRows:
    return gain_rows(read_source(find_source(spec.corpus, folder), nonnegative=True), spec, nonnegative=True)


def test_nobody_learns_from_the_latest_fifth(tmp_path: Path) -> None:
    ratings = frame()
    rows = rows_of(spec_of(tmp_path, ratings), tmp_path)
    assert rows.judge.nnz + rows.later.nnz == len(ratings)
    assert (rows.learn != rows.judge).nnz == 0
    pattern = {(int(u), int(i)) for u, i in zip(*rows.later.tocoo().coords, strict=True)}
    for user, mine in ratings.groupby("user_id"):
        timed = mine[mine.when.notna()].sort_values("when", kind="stable")
        wanted = {(user, item) for item in timed.item_id.to_list()[len(timed) - len(timed) // 5 :]}
        found = {place for place in pattern if place[0] == user}
        assert wanted <= found
        untimed = set(mine[mine.when.isna()].item_id)
        assert {item for _, item in found - wanted} <= untimed
        assert len(found - wanted) == len(untimed) // 5
    said = rows.later.tocoo()
    given = ratings.set_index(["user_id", "item_id"]).rating
    assert [given[u, i] for u, i in zip(*said.coords, strict=True)] == said.data.tolist()


def test_levers_and_an_agreed_catalogue_hide_the_same_ratings(tmp_path: Path) -> None:
    ratings = frame()
    whole = rows_of(spec_of(tmp_path, ratings), tmp_path)
    (tmp_path / "items.txt").write_text("".join(f"{item}\n" for item in reversed(range(20))))
    (tmp_path / "some.txt").write_text("3\n17\n4\n")
    corpus = {"vocabulary": "items.txt", "levers": {"terms": "some.txt"}}
    rows = rows_of(spec_of(tmp_path, ratings, corpus=corpus), tmp_path)
    np.testing.assert_array_equal(rows.later.toarray()[:, ::-1], whole.later.toarray())
    np.testing.assert_array_equal(rows.judge.toarray()[:, ::-1], whole.judge.toarray())
    np.testing.assert_array_equal(rows.learn.toarray(), rows.judge.toarray()[:, [16, 2, 15]])


@pytest.mark.parametrize("wrong", [{"weighting": "tf-idf"}, {"levers": {"clip": 1.0}}, {"rows": "l2"}])
def test_only_ratings_as_they_are(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match=r"`gain\.time` needs ratings as they are"):
        rows_of(spec_of(tmp_path, frame(), corpus=wrong), tmp_path)


def test_rows_are_read_once_for_settings_with_other_levers_and_mechanisms(tmp_path: Path) -> None:
    table = pd.DataFrame({"a": [1.0, 2.0, -3.0], "b": [4.0, 0.5, 0.0], "c": [0.0, 1.0, 1.0]})
    table.to_parquet(tmp_path / "table.parquet")
    (tmp_path / "terms.txt").write_text("c\na\n")
    corpus = {"path": "table.parquet", "columns": ["a", "b", "c"]}
    whole = parse_spec({"corpus": corpus, "mechanism": {"name": "pd-svd"}})
    few = parse_spec({"corpus": corpus | {"levers": {"terms": "terms.txt"}}, "mechanism": {"name": "pd-svd"}})
    source = read_source(find_source(few.corpus, tmp_path), nonnegative=False)
    narrowed = weighed_corpus(source.under(few.corpus), nonnegative=False)
    np.testing.assert_array_equal(narrowed.matrix.toarray(), table[["c", "a"]].to_numpy())
    bare = weighed_corpus(source.under(whole.corpus), nonnegative=False)
    np.testing.assert_array_equal(bare.matrix.toarray(), table.to_numpy())
    with pytest.raises(CorpusError, match="holds -3; this mechanism takes no negative entries"):
        weighed_corpus(source.under(whole.corpus), nonnegative=True)


def test_rows_are_those_of_a_run_among_parties(tmp_path: Path) -> None:
    """Every party scales columns by its own rows, and a list of one keeps nobody of the others out."""
    rng = np.random.default_rng(2)
    office = np.array(["graz", "linz"] * 6)
    table = pd.DataFrame(rng.normal(size=(12, 2)), columns=["a", "b"]).assign(
        office=office, person=np.arange(12) // 4
    )
    table.loc[office == "linz", "a"] += 5
    table.to_parquet(tmp_path / "table.parquet")
    corpus = {"path": "table.parquet", "columns": ["a", "b"], "party": "office", "weighting": "standardised"}
    tables = {"corpus": corpus | {"group": "person"}, "mechanism": {"name": "pd-svd"}, "parties": {"me": "graz"}}
    spec = parse_spec(tables | {"design": {"unit": "group"}})
    source = read_source(find_source(spec.corpus, tmp_path), nonnegative=False)
    rows = gain_rows(source, spec, nonnegative=False, listed=["1"])
    for name in ("graz", "linz"):
        own = table.loc[office == name, ["a", "b"]].to_numpy()
        expected = (own - own.mean(axis=0)) / own.std(axis=0)
        np.testing.assert_allclose(rows.learn.toarray()[office == name], expected)
        np.testing.assert_allclose(rows.judge.toarray()[office == name], expected)
    assert rows.listed.tolist() == [row == 0 or name == "linz" for row, name in enumerate(office)]
    assert rows.unit.tolist() == table["person"].tolist()
