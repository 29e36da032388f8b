"""Levers from their files: the same rows for an audit and for a party, and refusals that name the file."""

import math

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.errors import CorpusError, SpecError
from ksdp.audit.specs.models import CorpusSpec
from ksdp.storage.corpora import corpus_features, load_corpus, rows_hash

COUNTS = np.array([[2, 0, 1, 0], [1, 3, 0, 0], [0, 1, 0, 4], [1, 0, 0, 0]])


@pytest.fixture
def base(tmp_path):
    sp.save_npz(tmp_path / "a.npz", sp.csr_array(COUNTS))
    (tmp_path / "words.txt").write_text("ant\nbee\ncat\ndog\n")
    (tmp_path / "public.tsv").write_text("documents\t100\nbee\t10\ndog\t50\nant\t20\nelk\t9\n")
    (tmp_path / "list.txt").write_text("dog\nant\n")
    (tmp_path / "others.txt").write_text("dog\nelk\nfox\n")
    (tmp_path / "short.csv").write_text("column,centre,scale\nant,0,1\n")
    (tmp_path / "flat.csv").write_text("column,centre,scale\nant,0,1\nbee,0,0\ncat,0,1\ndog,0,1\n")
    return tmp_path


def spec(**levers):
    keys = {key: levers.pop(key) for key in ("idf", "rows", "weighting") if key in levers}
    return CorpusSpec(path="a.npz", vocabulary="words.txt", levers=levers, **keys)


def load(base, asked, nonnegative=True):
    return load_corpus(asked, base, nonnegative=nonnegative).matrix.toarray()


def test_a_public_list_keeps_its_order(base):
    asked = spec(terms="list.txt", weighting="counts")
    assert corpus_features(asked, base) == ("dog", "ant")
    np.testing.assert_array_equal(load(base, asked), COUNTS[:, [3, 0]])


def test_a_public_reference_chooses_and_weighs(base):
    asked = spec(reference="public.tsv", most_frequent=2, idf="public", rows="none")
    assert corpus_features(asked, base) == ("ant", "dog")
    np.testing.assert_allclose(load(base, asked), COUNTS[:, [0, 3]] * [math.log(5), math.log(2)])


def test_what_the_documents_hold_most_often_is_not_for_parties(base):
    asked = spec(most_frequent=2, weighting="counts")
    np.testing.assert_array_equal(load(base, asked), COUNTS[:, [0, 1]])
    with pytest.raises(SpecError, match="`reference`"):
        corpus_features(asked, base)


def test_a_basis_names_its_columns_by_its_file(base):
    np.save(base / "b.npy", np.linalg.qr(np.random.default_rng(0).standard_normal((4, 2)))[0])
    np.save(base / "c.npy", np.linalg.qr(np.random.default_rng(1).standard_normal((4, 2)))[0])
    asked = spec(basis="b.npy", weighting="counts", clip=1.0)
    found = load(base, asked, nonnegative=False)
    assert found.shape == (4, 2)
    assert (np.linalg.norm(found, axis=1) <= 1).all()
    assert corpus_features(asked, base) != corpus_features(spec(basis="c.npy", weighting="counts"), base)
    with pytest.raises(SpecError, match="negative"):
        load(base, asked)


def test_how_rows_are_made_is_one_hash(base):
    asked = spec(reference="public.tsv", idf="public")
    before = rows_hash(asked, base)
    assert before != rows_hash(spec(reference="public.tsv"), base)
    (base / "public.tsv").write_text("documents\t101\nbee\t10\n")
    assert rows_hash(asked, base) != before
    table, counts = CorpusSpec(path="short.csv", columns=("centre", "scale")), CorpusSpec(path="a.npz")
    assert rows_hash(table, base) != rows_hash(counts, base), "by default, one is weighed and the other not"
    same = {"weighting": "counts", "rows": "none"}
    assert rows_hash(table.model_copy(update=same), base) == rows_hash(counts.model_copy(update=same), base)


@pytest.mark.parametrize(
    ("levers", "message"),
    [
        ({"idf": "public"}, "needs `corpus.levers.reference`"),
        ({"terms": "absent.txt"}, "absent.txt"),
        ({"terms": "words.txt", "reference": "list.txt"}, "list.txt: line 1"),
        ({"basis": "words.txt"}, "words.txt"),
        ({"terms": "others.txt"}, "others.txt: holds 2 terms that are no columns of the corpus, 'elk' among them"),
        ({"units": "short.csv"}, "short.csv: has no row for 3 columns of the corpus, 'bee' among them"),
        ({"units": "flat.csv"}, "flat.csv, row 2, column `scale`: must be above 0; got 0"),
    ],
)
def test_refuses(base, levers, message):
    with pytest.raises((SpecError, CorpusError), match=message):
        load(base, spec(**levers), nonnegative=False)
