import gzip
import math

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import scipy.io
import scipy.sparse as sp

from ksdp.audit.corpus.matrix import restrict
from ksdp.audit.errors import CorpusError, SpecError
from ksdp.audit.specs.models import CorpusSpec
from ksdp.storage.corpora import corpus_features, load_corpus, load_drawn

COUNTS = np.array([[2, 0, 1], [1, 3, 0], [0, 0, 0], [1, 0, 0]])
TEXTS = pd.DataFrame(
    {
        "body": ["apple pear apple", "pear plum", "", "apple apple", "zebra"],
        "key": [11, 12, 13, 14, 15],
        "office": ["x", "x", "y", "y", "y"],
    }
)


@pytest.fixture
def load(tmp_path):
    def load(path, *, nonnegative=True, **keys):
        return load_corpus(CorpusSpec(path=path, **keys), tmp_path, nonnegative=nonnegative)

    return load


@pytest.fixture
def counts_file(tmp_path):
    sp.save_npz(tmp_path / "a.npz", sp.csr_array(COUNTS))
    pd.DataFrame({"who": list("abcd"), "site": list("xxyy"), "person": list("ppqq")}).to_csv(
        tmp_path / "labels.csv", index=False
    )
    return "a.npz"


def refused(load, *args, error=CorpusError, **keys):
    with pytest.raises(error) as caught:
        load(*args, **keys)
    return str(caught.value)


# weighting, rows, what is left out


def test_counts_become_unit_rows_of_tf_idf(load, counts_file):
    corpus = load(counts_file)
    # ln(4/3), ln(4/1), ln(4/1): four rows in the file, the one without features among them.
    weights = COUNTS * [math.log(4 / 3), math.log(4), math.log(4)]
    expected = [row / np.linalg.norm(row) for row in weights if row.any()]
    np.testing.assert_allclose(corpus.matrix.toarray(), expected, rtol=1e-15)
    assert corpus.ids.tolist() == ["1", "2", "4"]
    assert corpus.left_out == ("3",)
    assert corpus.party is None
    assert corpus.group is None


def test_weighting_and_rows_are_chosen_by_the_spec(load, counts_file):
    np.testing.assert_array_equal(load(counts_file, weighting="counts").matrix.toarray(), COUNTS[[0, 1, 3]])
    units = load(counts_file, weighting="counts", rows="l2").matrix.toarray()
    np.testing.assert_allclose(units, [row / np.linalg.norm(row) for row in COUNTS[[0, 1, 3]]], rtol=1e-15)
    raw = load(counts_file, rows="none").matrix.toarray()
    np.testing.assert_allclose(raw[0], [2 * math.log(4 / 3), 0, math.log(4)], rtol=1e-15)


@pytest.mark.parametrize(
    ("name", "keys", "decided"),
    [
        ("a.npz", {}, "the weight of each term"),
        ("a.npz", {"weighting": "counts"}, ""),
        ("a.npz", {"weighting": "counts", "levers": {"most_frequent": 2}}, "which columns there are"),
        ("t.csv", {"text": "body"}, "which columns there are and the weight of each term"),
        ("t.csv", {"text": "body", "vocabulary": "v.txt"}, "the weight of each term"),
        ("t.csv", {"columns": ("key",)}, ""),
        ("t.csv", {"columns": ("key",), "weighting": "standardised"}, "the mean and scale of each column"),
        ("t.csv", {"columns": ("key",), "missing": "median"}, "the median that stands for a missing number"),
        ("r.csv", {}, "which columns there are"),
        ("r.csv", {"vocabulary": "items.txt"}, ""),
        ("demo", {}, "the weight of each term"),
    ],
)
def test_a_corpus_knows_what_its_own_rows_decide_of_every_row(load, tmp_path, counts_file, name, keys, decided):
    TEXTS.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "v.txt").write_text("pear\nplum\napple\n", encoding="utf-8")
    (tmp_path / "items.txt").write_text("5\n6\n", encoding="utf-8")
    (tmp_path / "r.csv").write_text("user_id,item_id,rating\n1,5,3\n2,6,4\n", encoding="utf-8")
    corpus = load(name, nonnegative=False, **keys)
    assert corpus.from_rows == decided
    assert restrict(corpus, np.arange(2)).from_rows == decided
    assert corpus.taken_as_known == (f"taken as known: {decided}, from the party's own rows" if decided else "")


def test_a_draw_is_refused_where_rows_that_are_not_drawn_fill_others(tmp_path):
    TEXTS.to_csv(tmp_path / "t.csv", index=False)
    spec = CorpusSpec(path="t.csv", columns=("key",), missing="median")
    with pytest.raises(SpecError, match="median is of rows that are not drawn"):
        load_drawn(spec, tmp_path, lambda labels: labels.ids == "1", nonnegative=False)


def test_a_party_idf_counts_its_own_documents(load, counts_file):
    corpus = load(counts_file, labels="labels.csv", party="site", idf="party", rows="none")
    # Both documents of x hold the first term, one of the two of y does.
    expected = [[0, 0, math.log(2)], [0, 3 * math.log(2), 0], [math.log(2), 0, 0]]
    np.testing.assert_allclose(corpus.matrix.toarray(), expected, rtol=1e-15)
    assert corpus.party.tolist() == ["x", "x", "y"]


def test_rows_that_weigh_nothing_are_left_out_with_their_labels(load, tmp_path):
    sp.save_npz(tmp_path / "a.npz", sp.csr_array([[1, 0], [3, 1], [5, 0]]))
    pd.DataFrame({"who": list("abc"), "person": list("pqr")}).to_parquet(tmp_path / "l.parquet")
    corpus = load("a.npz", labels="l.parquet", id="who", group="person")
    assert corpus.left_out == ("a", "c")  # every document holds the first term
    assert corpus.ids.tolist() == ["b"]
    assert corpus.group.tolist() == ["q"]
    assert corpus.features == 2  # columns keep their places


def test_texts_of_which_no_word_is_agreed_on_say_so(load, tmp_path):
    (tmp_path / "a.csv").write_text("text\nword01 word02\nword02 word03\n")
    (tmp_path / "v.txt").write_text("word01\nword02\n")
    assert "No line of `corpus.vocabulary` is a word" in refused(load, "a.csv", text="text", vocabulary="v.txt")


# formats


def test_the_format_is_told_from_name_keys_and_columns(load, tmp_path, counts_file):
    scipy.io.mmwrite(tmp_path / "a.mtx", sp.coo_array(COUNTS))
    (tmp_path / "b.mtx.gz").write_bytes(gzip.compress((tmp_path / "a.mtx").read_bytes()))
    triples = "".join(f"{d + 1} {w + 1} {COUNTS[d, w]}\n" for d, w in zip(*np.nonzero(COUNTS), strict=True))
    (tmp_path / "docword.a.txt").write_text(f"4\n3\n5\n{triples}", encoding="utf-8")
    (tmp_path / "docword.b.txt.gz").write_bytes(gzip.compress((tmp_path / "docword.a.txt").read_bytes()))
    (tmp_path / "other.txt").write_bytes((tmp_path / "docword.a.txt").read_bytes())
    hashes = {load(name).hash for name in (counts_file, "a.mtx", "b.mtx.gz", "docword.a.txt", "docword.b.txt.gz")}
    assert hashes == {load("other.txt", format="docword").hash}

    TEXTS.to_parquet(tmp_path / "t.parquet")
    assert load("t.parquet", text="body").features == 2
    with pytest.raises(CorpusError, match=r"only `key` holds numbers.*`corpus.text`"):  # not a table of its keys
        load("t.parquet")
    assert load("t.parquet", format="table").features == 1  # unless somebody says so

    ratings = pd.DataFrame({"user_id": [1, 1, 2], "item_id": [5, 6, 5], "rating": [0, 3, 4], "age": [1, 1, 2]})
    ratings.to_csv(tmp_path / "r.csv", index=False)
    np.testing.assert_array_equal(load("r.csv").matrix.toarray(), [[0, 3], [4, 0]])
    assert load("r.csv", columns=("age", "rating")).matrix.shape == (3, 2)
    assert load("r.csv", format="table").matrix.shape == (3, 4)
    assert load("r.csv", format="ratings", columns=("age", "item_id", "rating")).ids.tolist() == ["1", "2"]
    assert load("r.csv", columns=("age", "item_id", "rating")).matrix.shape == (3, 3)  # a table, unless told


def test_observed_zeros_are_kept_for_ratings_only(load, tmp_path):
    frame = pd.DataFrame({"user_id": ["a", "a", "b"], "item_id": [1, 2, 1], "rating": [0.0, 2.0, 0.0]})
    frame.to_parquet(tmp_path / "r.parquet")
    corpus = load("r.parquet")
    assert corpus.matrix.nnz == 3
    assert corpus.ids.tolist() == ["a", "b"]
    units = load("r.parquet", rows="l2")
    assert units.matrix.nnz == 2  # b has no direction
    assert units.left_out == ("b",)
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert load("t.csv", columns=("rating",)).matrix.nnz == 1


def test_the_vocabulary_and_the_labels_must_fit(load, tmp_path, counts_file):
    (tmp_path / "v.txt").write_text("a\nb\nc\n", encoding="utf-8")
    load(counts_file, vocabulary="v.txt")
    (tmp_path / "v.txt").write_text("a\nb\n", encoding="utf-8")
    assert refused(load, counts_file, vocabulary="v.txt") == "v.txt: has 2 lines; the count matrix has 3 columns."
    pd.DataFrame({"who": ["a"]}).to_csv(tmp_path / "l.csv", index=False)
    assert refused(load, counts_file, labels="l.csv", id="who") == "l.csv: has 1 rows; the count matrix has 4."
    assert "labels.csv: there is no column `id`; there are `who`" in refused(
        load, counts_file, labels="labels.csv", id="id"
    )


# what is refused


def test_missing_files_are_named_without_their_folder(load, tmp_path, counts_file):
    for name in ("no.npz", "no.mtx", "no.csv", "no.parquet", "no.jsonl", "no.thing", "docword.no.txt", "no"):
        assert refused(load, name) == f"{name}: there is no such file."
    assert refused(load, counts_file, labels="no.csv") == "no.csv: there is no such file."
    assert refused(load, counts_file, vocabulary="sub/no.txt") == "no.txt: there is no such file."


def test_negative_entries_are_refused_for_a_factorisation(load, tmp_path):
    pd.DataFrame({"a": [1, 2], "b": [1, -2]}).to_csv(tmp_path / "t.csv", index=False)
    pd.DataFrame({"user_id": [1], "item_id": [1], "rating": [-1]}).to_csv(tmp_path / "r.csv", index=False)
    assert load("t.csv", nonnegative=False).matrix.data.min() == -2
    assert load("r.csv", nonnegative=False).matrix.data.min() == -1
    assert refused(load, "t.csv").startswith("t.csv, row 2, column `b`: is negative")
    assert refused(load, "r.csv").startswith("r.csv, row 1, column `rating`: is negative")
    assert "row 2, column `b`: is negative" in refused(load, "t.csv", nonnegative=False, weighting="tf-idf")


def test_a_party_idf_needs_a_party(load, tmp_path, counts_file):
    assert "set `corpus.party`" in refused(load, counts_file, idf="party")
    assert "set `corpus.party`" in refused(load, "absent.csv", text="t", idf="party")  # before any work
    load(counts_file, idf="party", weighting="counts")


@pytest.mark.parametrize(
    ("path", "keys", "problem"),
    [
        ("a.npz", {"text": "body"}, "`corpus.text` does not apply to the format 'counts' of a.npz"),
        ("t.csv", {"text": "body", "labels": "l.csv"}, "`corpus.labels` does not apply to the format 'text'"),
        ("t.csv", {"format": "text"}, "`corpus.text` must name the column"),
        ("demo", {"text": "body"}, "`corpus.text` does not apply to the format 'demo'"),
        ("other", {"format": "demo"}, "`corpus.path` must be 'demo'"),
    ],
)
def test_keys_that_do_not_go_together(load, tmp_path, counts_file, path, keys, problem):
    TEXTS.to_csv(tmp_path / "t.csv", index=False, quoting=1)
    assert problem in refused(load, path, error=SpecError, **keys)


# the demo corpus


# real data


def test_enron_mailboxes_are_parties(data_folder):
    spec = CorpusSpec(
        path="enron-mail6/counts.npz",
        labels="enron-mail6/labels.parquet",
        party="mailbox",
        group="folder",
        weighting="counts",
    )
    corpus = load_corpus(spec, data_folder, nonnegative=True)
    assert corpus.matrix.shape == (17_706, 12_164)
    assert corpus.matrix.sum() == 1_916_267
    labels = pq.read_table(data_folder / "enron-mail6/labels.parquet").to_pandas()
    assert corpus.party.tolist() == labels["mailbox"].tolist()
    assert len(set(corpus.party)) == 6


# an agreed vocabulary


def test_texts_are_counted_in_the_terms_and_the_order_that_were_agreed(load, tmp_path):
    pd.DataFrame({"body": ["cats sat", "dogs sat sat", "nothing known"]}).to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "v.txt").write_text("sat\nzebra\ncats\n", encoding="utf-8")
    corpus = load("t.csv", text="body", vocabulary="v.txt", weighting="counts", rows="none")
    assert corpus.matrix.toarray().tolist() == [[1, 0, 1], [2, 0, 0]]
    assert corpus.left_out == ("3",)
    spec = CorpusSpec(path="t.csv", text="body", vocabulary="v.txt")
    assert corpus_features(spec, tmp_path) == ("sat", "zebra", "cats")
