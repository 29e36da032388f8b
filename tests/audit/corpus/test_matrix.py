"""The corpus value: what it refuses, and what its hash depends on."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.preprocessing import normalize

from ksdp.audit.corpus.matrix import Corpus, canonical, tf_idf, unit_rows
from ksdp.audit.errors import CorpusError


def made(matrix=None, ids=("a", "b"), **more) -> Corpus:
    matrix = canonical(sp.csr_array(np.array([[1.0, 0], [2, 3]]))) if matrix is None else matrix
    return Corpus(matrix, np.array(ids), **more)


def test_canonical_sums_duplicates_sorts_and_drops_zeros_or_keeps_them() -> None:
    messy = sp.csr_array((np.array([1.0, 2, 0, 4]), np.array([2, 0, 1, 2]), np.array([0, 4])), shape=(1, 3))
    assert canonical(messy).toarray().tolist() == [[2, 0, 5]]
    assert canonical(messy).nnz == 2
    assert canonical(messy, keep_zeros=True).nnz == 3
    assert canonical(messy).indices.dtype == np.int32


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"matrix": sp.csr_array((0, 3)), "ids": ()}, "the corpus is empty"),
        ({"ids": ("a", "a")}, "`ids` must be unique"),
        ({"ids": ("a",)}, "one entry a document"),
        ({"party": np.array(["x"])}, "`party` must have one entry a document"),
        ({"matrix": sp.csr_array(np.array([[np.inf], [1.0]]))}, "must be finite"),
    ],
)
def test_refuses(arguments: dict, message: str) -> None:
    with pytest.raises(CorpusError, match=message):
        made(**arguments)


def test_the_hash_depends_on_numbers_ids_and_parties_and_on_nothing_else() -> None:
    one = made()
    assert one.hash == made().hash
    others = [
        made(matrix=canonical(sp.csr_array(np.array([[1.0, 0], [2, 3.0000001]])))),
        made(ids=("a", "c")),
        made(ids=("ab", "")),
        made(party=np.array(["x", "y"])),
        made(group=np.array(["x", "y"])),
    ]
    assert len({one.hash, *(o.hash for o in others)}) == 6
    assert made(left_out=("z",)).hash == one.hash


COUNTS = arrays(
    np.float64,
    st.tuples(st.integers(1, 9), st.integers(1, 6)),
    elements=st.sampled_from([0.0, 0.0, 1.0, 2.0, 7.0]),
)


def by_hand(counts, party):
    weights = np.zeros_like(counts)
    for d in range(counts.shape[0]):
        mine = [e for e in range(counts.shape[0]) if party[e] == party[d]]
        for t in range(counts.shape[1]):
            holders = sum(counts[e, t] > 0 for e in mine)
            if holders:
                weights[d, t] = counts[d, t] * math.log(len(mine) / holders)
    return weights


@given(COUNTS)
def test_global_weights_follow_the_formula(counts):
    weights = tf_idf(sp.csr_array(counts))
    np.testing.assert_allclose(weights.toarray(), by_hand(counts, ["one"] * len(counts)), rtol=1e-15)
    assert (weights.data > 0).all()  # what weighs nothing is not stored
    assert weights.has_canonical_format


@given(COUNTS, st.data())
def test_party_weights_follow_the_formula(counts, data):
    party = np.array(data.draw(st.lists(st.sampled_from("abc"), min_size=len(counts), max_size=len(counts))))
    weights = tf_idf(sp.csr_array(counts), party, "party")
    np.testing.assert_allclose(weights.toarray(), by_hand(counts, party), rtol=1e-15)


def test_parties_are_passed_over_for_a_global_idf():
    counts = sp.csr_array([[1.0, 0.0], [1.0, 2.0]])
    np.testing.assert_array_equal(tf_idf(counts, np.array(["a", "b"])).toarray(), tf_idf(counts).toarray())


@pytest.mark.parametrize("party", [None, np.array(["a"])])
def test_a_party_idf_without_parties_is_refused(party):
    with pytest.raises(ValueError, match=r"`party` must have one entry a document \(2\)"):
        tf_idf(sp.csr_array([[1.0], [2.0]]), party, "party")


def test_the_input_is_left_as_it_is():
    counts = sp.csr_array([[1.0, 2.0], [3.0, 0.0]])
    before = counts.copy()
    tf_idf(counts)
    unit_rows(counts)
    np.testing.assert_array_equal(counts.data, before.data)
    np.testing.assert_array_equal(counts.indices, before.indices)


@given(arrays(np.float64, (5, 4), elements=st.just(0.0) | st.floats(-1e6, -1e-6) | st.floats(1e-6, 1e6)))
def test_rows_have_unit_length(values):
    units = unit_rows(sp.csr_array(values))
    np.testing.assert_allclose(units.toarray(), normalize(values), rtol=1e-12, atol=0)


@pytest.mark.parametrize("scale", [1e200, 1e-200, 5e-324])
def test_unit_length_holds_at_the_ends_of_the_range(scale):
    units = unit_rows(sp.csr_array(np.array([[1.0, 1.0]]) * scale)).toarray()
    np.testing.assert_allclose(units, np.sqrt([[0.5, 0.5]]), rtol=1e-15)


def test_stored_zeros_stay_except_in_rows_without_length():
    matrix = sp.csr_array((np.array([0.0, 2.0, 0.0]), np.array([0, 1, 1]), np.array([0, 2, 3])), shape=(2, 2))
    units = unit_rows(matrix)
    assert np.diff(units.indptr).tolist() == [2, 0]
    assert units.data.tolist() == [0.0, 1.0]
