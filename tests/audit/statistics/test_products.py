import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import Observables
from ksdp.audit.errors import InputError
from ksdp.audit.statistic import Documents
from ksdp.audit.statistics.products import (
    EntryColumns,
    announced,
    ask,
    basis_name,
    basis_products,
    centred_squared_norms,
    in_panel,
    mean_products,
    over_entries,
    products,
    products_beside,
    wide_products,
)


def draw(seed: int, n: int = 11, d: int = 30, density: float = 0.3) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    dense = rng.normal(size=(n, d)) * (rng.random((n, d)) < density)
    dense[n // 2] = 0.0
    return sp.csr_array(dense)


def test_indices_of_64_bits_memory_order_and_read_only_arrays_make_no_difference() -> None:
    matrix = draw(3)
    basis = np.random.default_rng(1).normal(size=(7, 30))
    expected = products(Observables({"V": basis}), Documents(matrix), "V")
    wide = matrix.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    wide.data.flags.writeable = False
    np.testing.assert_array_equal(
        products(Observables({"V": np.asfortranarray(basis)}), Documents(wide), "V"), expected
    )


def test_documents_are_centred_where_a_mean_comes_with_singular_vectors() -> None:
    documents = Documents(draw(7))
    rng = np.random.default_rng(2)
    basis, mean = rng.normal(size=(4, 30)), rng.normal(size=30)
    observables = Observables({"V": basis, "mean": mean})
    centred = documents.matrix.toarray() - mean
    np.testing.assert_allclose(basis_products(observables, documents), centred @ basis.T, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(centred_squared_norms(observables, documents), (centred**2).sum(1), rtol=1e-12)
    np.testing.assert_allclose(
        mean_products(observables, documents), documents.matrix.toarray() @ mean, rtol=1e-12, atol=1e-12
    )


def test_topics_are_never_centred() -> None:
    documents = Documents(draw(8))
    basis = np.random.default_rng(2).random((4, 30))
    observables = Observables({"T": basis, "mean": np.ones(30)})
    np.testing.assert_allclose(
        basis_products(observables, documents), documents.matrix.toarray() @ basis.T, rtol=1e-12, atol=1e-12
    )
    assert centred_squared_norms(observables, documents) is documents.squared_norms


def test_a_document_equal_to_the_mean_has_no_length_left() -> None:
    mean = np.random.default_rng(3).normal(size=30) * 1e3
    documents = Documents(sp.csr_array(mean[None]))
    assert centred_squared_norms(Observables({"V": np.eye(2, 30), "mean": mean}), documents).tolist() == [0.0]


def test_what_is_missing_or_misshapen_is_named() -> None:
    with pytest.raises(InputError, match="`T` or `V`"):
        basis_name(Observables({"centroids": np.eye(2)}))
    with pytest.raises(InputError, match="`sigma`; it announces V"):
        announced(Observables({"V": np.eye(2)}), "sigma")
    with pytest.raises(InputError, match=r"`V` must have shape \(k, 30\)"):
        products(Observables({"V": np.eye(2)}), Documents(draw(1)), "V")


FEATURES = 20


def documents() -> Documents:
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(15, FEATURES)) * (rng.random((15, FEATURES)) < 0.4)
    dense[4] = 0.0
    return Documents(sp.csr_array(dense))


def columns(count: int, *, largest: bool = False) -> EntryColumns:
    """Some columns, the same for the same count."""
    values = np.random.default_rng(count).random((FEATURES, count)).astype(np.float32)

    def fill(lanes: np.ndarray) -> None:
        lanes[:] = values

    return EntryColumns(count, fill, largest)


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("count", [1, 2, 15])
def test_columns_are_summed_or_searched(count: int, largest: bool) -> None:
    held, some = documents(), columns(count, largest=largest)
    values = np.zeros((FEATURES, count), dtype=np.float32)
    some.fill(values)
    found = over_entries(Observables({}), held, "c", some)
    products = held.matrix.toarray()[:, :, None] ** 2 * values
    wanted = products.max(axis=1) if largest else products.sum(axis=1)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_nobody_changes_what_another_gets() -> None:
    held, seen = documents(), Observables({})
    asked = {"a": columns(28), "b": columns(2, largest=True), "c": columns(3), "d": columns(1, largest=True)}
    for name, some in asked.items():
        ask(seen, held, name, some)
    late = over_entries(seen, held, "late", columns(5))
    for name, some in (*asked.items(), ("late", columns(5))):
        alone = over_entries(Observables({}), held, name, some)
        assert (over_entries(seen, held, name, some) == alone).all()
    assert (late == over_entries(seen, held, "late", columns(5))).all()
    again = columns(4)
    assert (over_entries(seen, held, "again", again) == over_entries(Observables({}), held, "again", again)).all()


def test_panels_of_the_columns_that_are_used_change_no_bit() -> None:
    few = documents().matrix.toarray()
    few[:, FEATURES // 3 :] = 0.0
    alone, among = Documents(sp.csr_array(few)), Documents(sp.csr_array(np.vstack([few, np.ones(FEATURES)])))
    assert alone.columns is not None
    assert among.columns is None
    rng = np.random.default_rng(1)
    seen, others = {"V": rng.normal(size=(3, FEATURES))}, rng.normal(size=(9, FEATURES))
    diagonal = rng.random(FEATURES)

    def found(held: Documents, some: Documents) -> list[np.ndarray]:
        def fill(lanes: np.ndarray) -> None:
            lanes[:, 0] = in_panel(diagonal, held)

        run = Observables(seen)
        beside = products_beside(run, some, "V", "others", others)
        wide = wide_products(run, some, "others", others)
        squares = over_entries(run, some, "d", EntryColumns(1, fill))
        return [beside, products(run, some, "V"), products(Observables(seen), some, "V"), wide, squares]

    for places in ([*range(len(few))], [7, 2]):
        at = np.array(places)
        for one, other in zip(found(alone, alone.at(at)), found(among, among.at(at)), strict=True):
            np.testing.assert_array_equal(one, other)
