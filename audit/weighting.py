"""Weights of terms and lengths of rows."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.corpus import canonical

Idf = Literal["global", "party", "public"]


def tf_idf(
    counts: sp.csr_array,
    party: NDArray[np.str_] | None = None,
    idf: Idf = "global",
    public: NDArray[np.float64] | None = None,
) -> sp.csr_array:
    r"""Weigh every count by the inverse document frequency of its term.

    .. math:: w_{dt} = c_{dt} \ln \frac{n}{\mathrm{df}_t}

    with `n` documents, `df_t` of which hold the term. A term that every document holds weighs nothing, and its
    entries are dropped. With `idf = "party"`, `n` and `df` count the documents of the party that holds `d`: the
    local IDF of PD-ML-Lite (arXiv 1901.07986), where a global one would be one more thing to announce.

    Parameters
    ----------
    counts : csr_array, shape (n_documents, n_features)
        Canonical, finite and not negative. Documents without terms count in `n`.
    party : array of str, shape (n_documents,), optional
    idf : {"global", "party", "public"}
    public : float64, shape (n_features,), optional
        Weights from a public reference, where `idf` is "public".

    Returns
    -------
    csr_array, shape (n_documents, n_features)
        Canonical; rows may be left without entries.

    Examples
    --------
    >>> counts = sp.csr_array([[1.0, 2.0, 0.0], [1.0, 0.0, 1.0]])
    >>> tf_idf(counts).toarray().round(3)
    array([[0.   , 1.386, 0.   ],
           [0.   , 0.   , 0.693]])
    """
    weighted = counts.copy()
    weighted.eliminate_zeros()
    rows, features = weighted.shape
    if idf == "public":
        if public is None or len(public) != features:
            raise ValueError(f"`public` must have one weight a feature ({features}).")
        weighted.data *= public[weighted.indices]
        weighted.eliminate_zeros()
        return weighted
    if idf == "global":
        member = np.zeros(rows, dtype=np.int64)
    elif party is None or len(party) != rows:
        given = "none" if party is None else str(len(party))
        raise ValueError(f"`party` must have one entry a document ({rows}) for a party's own idf; got {given}.")
    else:
        member = np.unique(party, return_inverse=True)[1].astype(np.int64)
    holder = np.repeat(member, np.diff(weighted.indptr))
    terms, place, frequency = np.unique(
        holder * features + weighted.indices, return_inverse=True, return_counts=True
    )
    ratios, which = np.unique(np.bincount(member)[terms // features] / frequency, return_inverse=True)
    # The C library's logarithm: NumPy's differs in the last bit from processor to processor, and the corpus
    # hash would with it.
    logarithms = np.array([math.log(ratio) for ratio in ratios])
    weighted.data *= logarithms[which][place]
    weighted.eliminate_zeros()
    return weighted


def unit_rows(matrix: sp.csr_array) -> sp.csr_array:
    """Divide every row by its Euclidean norm.

    Stored zeros are kept (they mean "observed"), except in rows of norm 0: these have no direction, and are left
    without entries.

    Parameters
    ----------
    matrix : csr_array, shape (n_documents, n_features)
        Canonical and finite.

    Returns
    -------
    csr_array, shape (n_documents, n_features)

    Examples
    --------
    >>> unit_rows(sp.csr_array([[3.0, 4.0], [0.0, 0.0]])).toarray()
    array([[0.6, 0.8],
           [0. , 0. ]])
    """
    documents = matrix.shape[0]
    row = np.repeat(np.arange(documents), np.diff(matrix.indptr))
    # By the largest entry first: squares of very large or small entries would overflow or vanish.
    largest = np.zeros(documents)
    np.maximum.at(largest, row, np.abs(matrix.data))
    kept = largest[row] > 0
    row, data, columns = row[kept], matrix.data[kept] / largest[row[kept]], matrix.indices[kept]
    data /= np.sqrt(np.bincount(row, weights=data**2, minlength=documents))[row]
    pointers = np.concatenate(([0], np.cumsum(np.bincount(row, minlength=documents))))
    return sp.csr_array((data, columns, pointers.astype(matrix.indptr.dtype)), shape=matrix.shape)


def standardised(matrix: sp.csr_array) -> sp.csr_array:
    """Every column less its mean, in units of its standard deviation; a column that is constant becomes 0.

    Examples
    --------
    >>> standardised(sp.csr_array([[1.0, 5.0], [3.0, 5.0]])).toarray()
    array([[-1.,  0.],
           [ 1.,  0.]])
    """
    dense = matrix.toarray()
    dense = dense - dense.mean(axis=0)
    spread = dense.std(axis=0)
    return canonical(sp.csr_array(np.divide(dense, spread, out=np.zeros_like(dense), where=spread > 1e-12)))


def weighed(
    matrix: sp.csr_array,
    party: NDArray[np.str_] | None,
    weighting: str,
    idf: Idf,
    rows: str,
    public: NDArray[np.float64] | None = None,
) -> sp.csr_array:
    """Weigh the entries and normalise the rows.

    Parameters
    ----------
    matrix : csr_array, shape (n_documents, n_features)
    party : shape (n_documents,), or None
        For inverse document frequencies of each.
    weighting : {"tf-idf", "counts", "standardised"}
    idf : {"global", "party", "public"}
    rows : {"l2", "none"}
    public : shape (n_features,), optional
        Weights, where the idf is public.
    """
    if weighting == "tf-idf":
        matrix = tf_idf(matrix, party, idf, public)
    elif weighting == "standardised":
        matrix = standardised(matrix)
    return unit_rows(matrix) if rows == "l2" else matrix
