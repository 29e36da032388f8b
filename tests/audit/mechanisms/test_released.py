"""One release that exists already: guesses of which document of a pair was in, and what must show nothing."""

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.released import auc_interval, audit_release, compare_scores

DOCUMENTS, FEATURES = 60, 30


def corpus(rows: np.ndarray) -> Corpus:
    return Corpus(sp.csr_array(rows), np.arange(len(rows)).astype(np.str_))


def parts(seed: int = 0) -> tuple[Corpus, Corpus, np.ndarray]:
    """Documents that were in, held out, and the leading directions of the first."""
    rows = np.random.default_rng(seed).normal(size=(2 * DOCUMENTS, FEATURES))
    directions = np.linalg.svd(rows[:DOCUMENTS], full_matrices=False)[2][:12]
    return corpus(rows[:DOCUMENTS]), corpus(rows[DOCUMENTS:]), directions


def test_directions_of_few_documents_prove_an_epsilon() -> None:
    members, held_out, directions = parts()
    found = audit_release({"V": directions}, members, held_out, np.random.default_rng(0))
    assert found.bound.epsilon_low > 0.5
    shares = {row.score: row for row in found.scores}
    lengths = [np.linalg.norm(rows.matrix.toarray(), axis=1) for rows in (members, held_out)]
    kept = [
        np.square(rows.matrix.toarray() @ directions.T).sum(axis=1) / size**2
        for rows, size in zip((members, held_out), lengths, strict=True)
    ]
    larger = np.mean(kept[0][:, None] > kept[1][None, :])
    assert shares["share-of-length"].auc[0] == pytest.approx(larger), "the energy of x / |x| in V, pair by pair"
    assert "no verdict about a document" in repr(found)
    assert "verdict" not in found.as_json()


def test_a_release_of_others_proves_nothing() -> None:
    members, held_out, _ = parts()
    found = audit_release({"V": parts(7)[2]}, members, held_out, np.random.default_rng(0))
    assert found.bound.epsilon_low == 0


def test_arrays_without_names_are_known_by_their_numbers() -> None:
    members, held_out, directions = parts()
    named = audit_release({"V": directions}, members, held_out, np.random.default_rng(0))
    for given in (directions, directions.T):
        assert audit_release({"": given}, members, held_out, np.random.default_rng(0)) == named
    topics = audit_release({"": np.abs(directions)}, members, held_out, np.random.default_rng(0))
    assert "share-of-topics" in {row.score for row in topics.scores}
    others = audit_release({"": 3 * directions}, members, held_out, np.random.default_rng(0))
    assert {row.score for row in others.scores} == {
        f"{kind}:release" for kind in ("projection", "match", "distance")
    }


def test_few_documents_that_leak_wholly_are_seen() -> None:
    """Their scores lie beyond all others, whose spread hides them in differences."""
    values = -1.0 - np.abs(np.random.default_rng(1).standard_cauchy(2000))
    values[:40] = -np.linspace(0.1, 0.9, 40)
    found = compare_scores({"score": values}, 1000, np.random.default_rng(0))
    assert found.guessed_by == "score (largest)"
    assert found.bound.epsilon_low > 0.3
    assert found.scores[0].tpr["0.01"][0] == pytest.approx(0.04, abs=0.02)
    assert found.scores[0].tpr["0.001"] is None
    assert "needs 4,380 held out" in repr(found)


def test_equal_scores_say_nothing_by_where_they_stand() -> None:
    values = (np.random.default_rng(5).random(2000) < 0.5).astype(float)
    found = compare_scores({"score": values}, 1000, np.random.default_rng(0))
    assert found.bound.epsilon_low == 0


def test_files_that_differ_for_another_reason_have_no_bound() -> None:
    members, held_out, directions = parts()
    longer = corpus(3 * held_out.matrix.toarray())
    found = audit_release({"V": directions}, members, longer, np.random.default_rng(0))
    assert found.bound is None
    assert "differ for another reason than membership: in against held out" in repr(found)
    later = np.random.default_rng(2).normal(size=2 * DOCUMENTS)
    later[DOCUMENTS + DOCUMENTS // 2 :] += 2
    found = compare_scores({"score": later}, DOCUMENTS, np.random.default_rng(0))
    assert found.bound is None
    assert "first half against second half" in found.failed


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda rows: rows[:10], "10 documents held out; at least 40 are needed, and 437 held out"),
        (lambda rows: rows[:, 1:], "30 columns that were in, 29 held out"),
    ],
)
def test_what_cannot_be_compared_is_refused(change: object, words: str) -> None:
    members, held_out, directions = parts()
    with pytest.raises(InputError, match=words):
        audit_release(
            {"V": directions}, members, corpus(change(held_out.matrix.toarray())), np.random.default_rng()
        )


def test_a_document_of_both_files_is_named() -> None:
    members, held_out, directions = parts()
    rows = held_out.matrix.toarray()
    rows[7] = members.matrix.toarray()[3]
    with pytest.raises(InputError, match=r"1 documents are in both files, '7' held out and '3' in among them"):
        audit_release({"V": directions}, members, corpus(rows), np.random.default_rng(0))
    with pytest.raises(InputError, match=r"shape \(12, 29\); the documents have 30 columns"):
        audit_release({"V": directions[:, 1:]}, members, held_out, np.random.default_rng(0))
    with pytest.raises(InputError, match="every score is the same"):
        compare_scores({"score": np.ones(200)}, 100, np.random.default_rng(0))


def test_the_interval_of_an_area_stays_within_its_range() -> None:
    assert auc_interval(1.0, 50, 50)[1] == 1.0
    low, high = auc_interval(0.7, 50, 50)
    assert low < 0.7 < high
    assert auc_interval(0.3, 50, 50) == pytest.approx((1 - high, 1 - low))
