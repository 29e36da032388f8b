"""Verdicts as they stand and their drift, against a walk over dictionaries."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from ksdp.audit.errors import StoreError
from ksdp.audit.specs.models import CorpusSpec
from ksdp.storage.codec import write_table_with_checksum
from ksdp.storage.corpora import find_source, load_corpus
from ksdp.storage.findings import STATISTICS, VERDICTS
from ksdp.storage.readers.spec_files import COLUMN_FILES, fetched
from ksdp.storage.schedules.changes import (
    DriftSummary,
    columns_digest,
    compare,
    digest_key,
    document_digests,
    measure_drift,
    read_standing,
    standing_after,
    verdict_counts,
    write_drift,
    write_standing,
)
from ksdp.storage.schedules.schedule_files import Schedule, schedule_folder
from ksdp.storage.store import Store

DIGESTS = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(["1", "2", "3"]))


@given(DIGESTS, DIGESTS)
def test_every_document_is_in_one_part(before: dict[str, str], after: dict[str, str]) -> None:
    found = compare(pa.table({"document": list(before), "digest": list(before.values())}), after)
    assert set(found.new) == set(after) - set(before)
    assert set(found.removed) == set(before) - set(after)
    assert set(found.changed) == {name for name in after if before.get(name, after[name]) != after[name]}
    assert set(found.unchanged) == {name for name in after if before.get(name) == after[name]}
    assert sum(found.counts().values()) == len(set(before) | set(after))


def finding(
    store: Store, audit: str, verdicts: dict[str, str], distances: dict[str, float], version: int = 1
) -> None:
    """What an audit leaves: one statistic beside `size`, whose distance is always a half."""
    folder = store.audit(audit)
    folder.mkdir(parents=True)
    n = len(verdicts)
    empty = {pa.string(): "", pa.bool_(): False}
    usual = {field.name: [empty.get(field.type, 0)] * n for field in VERDICTS.schema}
    columns = usual | {
        "document": list(verdicts),
        "verdict": list(verdicts.values()),
        "statistic": ["energy"] * n,
        "distance": [distances[name] for name in verdicts],
        "log10_adjusted_p": [-1.0] * n,
    }
    write_table_with_checksum(folder / "verdicts.parquet", VERDICTS.of(columns))
    rows = {name: [0] * 2 * n for name in STATISTICS.columns} | {
        "document": pa.array([name for name in verdicts for _ in range(2)], pa.string()).dictionary_encode(),
        "statistic": pa.array(["energy", "size"] * n, pa.string()).dictionary_encode(),
        "version": [version, 1] * n,
        "distance": [value for name in verdicts for value in (distances[name], 0.5)],
    }
    table = STATISTICS.of(rows)
    write_table_with_checksum(folder / "statistics.parquet", table)


def test_verdicts_stand_with_the_audit_they_came_from(store: Store) -> None:
    finding(store, "one", {"a": "clear", "b": "sensitive", "c": "undecided"}, {"a": 0.1, "b": 0.9, "c": 0.3})
    first = standing_after(None, {"a": "1", "b": "1", "c": "1"}, store, "one")
    finding(store, "two", {"b": "clear", "d": "sensitive"}, {"b": 0.2, "d": 0.8})
    second = standing_after(first, {"a": "1", "b": "2", "d": "1"}, store, "two")
    assert {row["document"]: (row["verdict"], row["audit"], row["digest"]) for row in second.to_pylist()} == {
        "a": ("clear", "one", "1"),
        "b": ("clear", "two", "2"),
        "d": ("sensitive", "two", "1"),
    }
    assert verdict_counts(second) == {"sensitive": 1, "clear": 2, "undecided": 0}
    third = standing_after(second, {"a": "1", "b": "2"}, store, None)
    assert third["document"].to_pylist() == ["a", "b"]


def test_drift_is_against_the_audit_that_each_verdict_came_from(
    store: Store, scheduled: Callable[..., Schedule]
) -> None:
    scheduled()
    names = {"a": "1", "b": "1", "c": "1"}
    finding(store, "one", {"a": "clear", "b": "clear", "d": "sensitive"}, {"a": 0.1, "b": 0.2, "d": 0.9})
    one = standing_after(None, {"a": "1", "b": "1", "d": "1"}, store, "one")
    assert measure_drift(None, one, store, "one").became_sensitive == 0, "there is nothing to compare with"
    finding(store, "two", {"b": "sensitive", "c": "sensitive"}, {"b": 0.6, "c": 0.7})
    two = standing_after(one, names, store, "two")
    drift = measure_drift(one, two, store, "two")
    assert drift.became_sensitive == 2  # b, which was clear, and c, which was not there
    assert drift.verdicts.to_pylist() == [
        {"document": "b", "before": "clear", "after": "sensitive", "audit_before": "one", "audit": "two"}
    ]
    assert drift.largest == pytest.approx(0.4)
    finding(store, "three", {"a": "clear", "b": "clear", "c": "sensitive"}, {"a": 0.4, "b": 0.1, "c": 0.75})
    three = standing_after(two, names, store, "three")
    drift = measure_drift(two, three, store, "three")
    changes = {
        (row["document"], row["statistic"]): (row["audit_before"], round(row["change"], 9))
        for row in drift.distances.to_pylist()
    }
    assert changes == {
        ("a", "energy"): ("one", 0.3),
        ("b", "energy"): ("two", -0.5),
        ("c", "energy"): ("two", 0.05),
        ("a", "size"): ("one", 0.0),
        ("b", "size"): ("two", 0.0),
        ("c", "size"): ("two", 0.0),
    }
    write_drift(store, "nightly", "three", drift)
    folder = schedule_folder(store, "nightly") / "drift"
    told = json.loads((folder / "three.json").read_text())
    assert told["verdicts"] == {"sensitive to clear": 1}
    assert told["statistics"]["energy"] == pytest.approx(
        {"pairs": 3, "median": 0.05, "largest_fall": -0.5, "largest_rise": 0.3}
    )
    assert DriftSummary.from_json(told) == drift.summary()
    assert pq.read_table(folder / "three-distances.parquet").equals(drift.distances)


def test_versions_are_never_compared_and_lost_findings_are_passed_over(store: Store) -> None:
    finding(store, "one", {"a": "clear"}, {"a": 0.1})
    one = standing_after(None, {"a": "1"}, store, "one")
    finding(store, "two", {"a": "clear"}, {"a": 0.9}, version=2)
    two = standing_after(one, {"a": "1"}, store, "two")
    drift = measure_drift(one, two, store, "two")
    assert drift.distances["statistic"].to_pylist() == ["size"]
    (store.audit("one") / "statistics.parquet").unlink()
    assert measure_drift(one, two, store, "two").largest is None


def test_what_stands_is_read_as_written(store: Store, scheduled: Callable[..., Schedule]) -> None:
    scheduled()
    finding(store, "one", {"a": "clear"}, {"a": 0.1})
    standing = standing_after(None, {"a": "1"}, store, "one")
    file = write_standing(store, "nightly", "20260301", standing)
    read = read_standing(store, "nightly", file)
    assert read.equals(standing)
    assert read_standing(store, "nightly", None) is None
    with pytest.raises(StoreError, match=r"has no other\.parquet"):
        read_standing(store, "nightly", "other.parquet")


KEY = b"k" * 32
TEXTS = ["apples and pears", "pears and plums", "plums and apples", "only plums"]


def texts(folder: Path, rows: dict[str, str], **columns: Any) -> CorpusSpec:
    table = pd.DataFrame({"id": list(rows), "body": list(rows.values())} | columns)
    table.to_csv(folder / "mail.csv", index=False)
    return CorpusSpec(path="mail.csv", text="body", id="id", party="party" if columns else None)


def digests_of(spec: CorpusSpec, folder: Path, key: bytes) -> dict[str, str]:
    return document_digests(find_source(spec, folder), key)


def columns_of(spec: CorpusSpec, folder: Path) -> str | None:
    return columns_digest(fetched(spec, folder, COLUMN_FILES)[0])


def changes(before: dict[str, str], after: dict[str, str]) -> dict[str, tuple[str, ...]]:
    import pyarrow as pa

    standing = pa.table({"document": list(before), "digest": list(before.values())})
    found = compare(standing, after)
    return {"new": found.new, "changed": found.changed, "removed": found.removed, "unchanged": found.unchanged}


def test_one_more_document_changes_every_row_of_the_corpus_and_no_other_document(tmp_path: Path) -> None:
    rows = {f"d{n}": text for n, text in enumerate(TEXTS)}
    spec = texts(tmp_path, rows)
    first, before = load_corpus(spec, tmp_path, nonnegative=True), digests_of(spec, tmp_path, KEY)
    texts(tmp_path, {"aa": "apples and apricots and plums"} | rows | {"d1": "pears and figs and plums"})
    second, after = load_corpus(spec, tmp_path, nonnegative=True), digests_of(spec, tmp_path, KEY)
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
    before = digests_of(spec, tmp_path, KEY)
    texts(tmp_path, rows, party=["x", "y", "y", "y"])
    assert changes(before, digests_of(spec, tmp_path, KEY))["changed"] == ("b",)


def test_counts_by_their_entries(tmp_path: Path) -> None:
    counts = np.array([[1, 0, 2], [0, 3, 1], [0, 3, 1]])
    spec = CorpusSpec(path="counts.npz")

    def digests(matrix: Any) -> dict[str, str]:
        sp.save_npz(tmp_path / "counts.npz", sp.csr_matrix(matrix))
        return digests_of(spec, tmp_path, KEY)

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
        return digests_of(CorpusSpec(path="ratings.csv"), tmp_path, KEY)

    before = digests(rows)
    assert changes(before, digests([*rows, ("w", "a", 1)]))["unchanged"] == ("u", "v")
    assert changes(before, digests([("u", "b", 3), ("v", "c", 5)]))["changed"] == ("u",)
    assert changes(before, digests(rows[::-1]))["unchanged"] == ("u", "v")


def test_digests_are_keyed_by_a_secret_of_the_store(tmp_path: Path) -> None:
    spec = texts(tmp_path, {"a": TEXTS[0]})
    keys = [digest_key(Store.open(tmp_path / name)) for name in ("one", "two")]
    assert keys[0] != keys[1]
    assert digest_key(Store.open(tmp_path / "one")) == keys[0]
    assert (tmp_path / "one" / "schedules" / "key").stat().st_mode & 0o077 == 0
    found = [digests_of(spec, tmp_path, key)["a"] for key in keys]
    assert found[0] != found[1]


def test_what_says_the_columns_counts_by_what_it_holds(tmp_path: Path) -> None:
    spec = texts(tmp_path, dict(zip("abcd", TEXTS, strict=True)))
    assert columns_of(spec, tmp_path) is None
    found = set()
    for words in ("apples\nplums\n", "apples\npears\n"):
        for name in ("words.txt", "other-words.txt"):
            (tmp_path / name).write_text(words)
            found.add(columns_of(CorpusSpec(path="ratings.csv", vocabulary=name), tmp_path))
            levers = spec.levers.model_copy(update={"terms": name})
            found.add(columns_of(spec.model_copy(update={"levers": levers}), tmp_path))
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
        found.add(columns_of(spec, tmp_path))
    assert len(found) == 2
