"""Who has changed: the document itself, its party or its group; not what others did to its weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from ksdp.audit.spec.models import CorpusSpec
from ksdp.storage.corpora import load_corpus
from ksdp.storage.schedules.changes import columns_digest, compare, digest_key, document_digests
from ksdp.storage.store import Store

KEY = b"k" * 32
TEXTS = ["apples and pears", "pears and plums", "plums and apples", "only plums"]


def texts(folder: Path, rows: dict[str, str], **columns: Any) -> CorpusSpec:
    table = pd.DataFrame({"id": list(rows), "body": list(rows.values())} | columns)
    table.to_csv(folder / "mail.csv", index=False)
    return CorpusSpec(path="mail.csv", text="body", id="id", party="party" if columns else None)


def changes(before: dict[str, str], after: dict[str, str]) -> dict[str, tuple[str, ...]]:
    import pyarrow as pa

    standing = pa.table({"document": list(before), "digest": list(before.values())})
    found = compare(standing, after)
    return {"new": found.new, "changed": found.changed, "removed": found.removed, "unchanged": found.unchanged}


def test_one_more_document_changes_every_row_of_the_corpus_and_no_other_document(tmp_path: Path) -> None:
    rows = {f"d{n}": text for n, text in enumerate(TEXTS)}
    spec = texts(tmp_path, rows)
    first, before = load_corpus(spec, tmp_path, nonnegative=True), document_digests(spec, tmp_path, KEY)
    texts(tmp_path, {"aa": "apples and apricots and plums"} | rows | {"d1": "pears and figs and plums"})
    second, after = load_corpus(spec, tmp_path, nonnegative=True), document_digests(spec, tmp_path, KEY)
    row = [list(corpus.ids).index("d0") for corpus in (first, second)]
    assert not np.array_equal(first.matrix[[row[0]]].data, second.matrix[[row[1]]].data)
    assert changes(before, after) == {
        "new": ("aa",),
        "changed": ("d1",),
        "removed": (),
        "unchanged": ("d0", "d2", "d3"),
    }


def test_a_change_of_party_is_a_change(tmp_path: Path) -> None:
    rows = dict(zip("abcd", TEXTS, strict=True))
    spec = texts(tmp_path, rows, party=["x", "x", "y", "y"])
    before = document_digests(spec, tmp_path, KEY)
    texts(tmp_path, rows, party=["x", "y", "y", "y"])
    assert changes(before, document_digests(spec, tmp_path, KEY))["changed"] == ("b",)


def test_counts_by_their_entries(tmp_path: Path) -> None:
    counts = np.array([[1, 0, 2], [0, 3, 1], [0, 3, 1]])
    spec = CorpusSpec(path="counts.npz")

    def digests(matrix: Any) -> dict[str, str]:
        sp.save_npz(tmp_path / "counts.npz", sp.csr_matrix(matrix))
        return document_digests(spec, tmp_path, KEY)

    before = digests(counts)
    assert before["2"] == before["3"]  # the same content; ids are compared, digests only for one id
    counts[1, 2] = 4
    assert changes(before, digests(counts))["changed"] == ("2",)
    wider = np.hstack([counts, np.zeros((3, 1), int)])
    wider[0, 3] = 1
    assert len(changes(before, digests(wider))["changed"]) == 3  # what the columns mean is not known


def test_ratings_by_item_and_not_by_column(tmp_path: Path) -> None:
    rows = [("u", "b", 3), ("u", "c", 0), ("v", "c", 5)]

    def digests(triplets: list[tuple[str, str, int]]) -> dict[str, str]:
        table = pd.DataFrame(triplets, columns=["user_id", "item_id", "rating"])
        table.to_csv(tmp_path / "ratings.csv", index=False)
        return document_digests(CorpusSpec(path="ratings.csv"), tmp_path, KEY)

    before = digests(rows)
    assert changes(before, digests([*rows, ("w", "a", 1)]))["unchanged"] == ("u", "v")
    assert changes(before, digests([("u", "b", 3), ("v", "c", 5)]))["changed"] == ("u",)
    assert changes(before, digests(rows[::-1]))["unchanged"] == ("u", "v")


def test_a_table_and_the_demo(tmp_path: Path) -> None:
    table = pd.DataFrame({"name": ["a", "b"], "x": [1.0, 2.0], "y": [0.5, 0.25]})
    table.to_parquet(tmp_path / "t.parquet")
    spec = CorpusSpec(path="t.parquet", id="name")
    before = document_digests(spec, tmp_path, KEY)
    table.loc[0, "y"] = 0.75
    table.to_parquet(tmp_path / "t.parquet")
    assert changes(before, document_digests(spec, tmp_path, KEY))["changed"] == ("a",)


def test_digests_are_keyed_by_a_secret_of_the_store(tmp_path: Path) -> None:
    spec = texts(tmp_path, {"a": TEXTS[0]})
    keys = [digest_key(Store.open(tmp_path / name)) for name in ("one", "two")]
    assert keys[0] != keys[1]
    assert digest_key(Store.open(tmp_path / "one")) == keys[0]
    assert (tmp_path / "one" / "schedules" / "key").stat().st_mode & 0o077 == 0
    found = [document_digests(spec, tmp_path, key)["a"] for key in keys]
    assert found[0] != found[1]


@pytest.mark.parametrize("missing", ["id", "body"])
def test_a_file_that_the_corpus_refuses_is_refused_here(tmp_path: Path, missing: str) -> None:
    spec = texts(tmp_path, {"a": TEXTS[0]})
    pd.DataFrame({"id": ["a"], "body": ["x"]}).drop(columns=missing).to_csv(tmp_path / "mail.csv", index=False)
    with pytest.raises(ValueError, match="there is no column"):
        document_digests(spec, tmp_path, KEY)


def test_what_says_the_columns_of_texts_counts_by_what_it_holds(tmp_path: Path) -> None:
    spec = texts(tmp_path, dict(zip("abcd", TEXTS, strict=True)))
    assert columns_digest(spec, tmp_path) is None
    matrix = CorpusSpec(path="counts.npz", vocabulary="words.txt")
    assert columns_digest(matrix, tmp_path) is None
    found = set()
    for words in ("apples\nplums\n", "apples\npears\n"):
        for name in ("words.txt", "other-words.txt"):
            (tmp_path / name).write_text(words)
            found.add(columns_digest(spec.model_copy(update={"vocabulary": name}), tmp_path))
            levers = spec.levers.model_copy(update={"terms": name})
            found.add(columns_digest(spec.model_copy(update={"levers": levers}), tmp_path))
    assert len(found) == 4
    assert None not in found


def test_names_of_columns_count_where_levers_choose_by_name(tmp_path: Path) -> None:
    spec = CorpusSpec.model_validate(
        {"path": "x.npz", "vocabulary": "words.txt", "levers": {"terms": "terms.txt"}}
    )
    (tmp_path / "terms.txt").write_text("plums\n")
    found = set()
    for words in ("apples\nplums\n", "plums\napples\n"):
        (tmp_path / "words.txt").write_text(words)
        found.add(columns_digest(spec, tmp_path))
    assert len(found) == 2
