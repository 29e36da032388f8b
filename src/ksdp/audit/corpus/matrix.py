"""The documents of an audit: one row each, in a fixed order, and how entries are weighed."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.errors import CorpusError


def canonical(matrix: sp.csr_array, *, keep_zeros: bool = False) -> sp.csr_array:
    """Return `matrix` as float64 CSR with sorted columns, duplicates summed and 32-bit indices."""
    clean = sp.csr_array(matrix, dtype=np.float64, copy=True)
    clean.sum_duplicates()
    if not keep_zeros:
        clean.eliminate_zeros()
    clean.sort_indices()
    if clean.indices.dtype != np.int32 and max(clean.shape[1], clean.nnz) < 2**31:
        clean.indices, clean.indptr = clean.indices.astype(np.int32), clean.indptr.astype(np.int32)
    return clean


LARGEST = 1e15
"""Sums of squares of numbers up to this one stay within what single precision holds."""
TOO_LARGE = f"at most {LARGEST:g} can be squared and summed. Divide the column by a constant, or leave it out."


@dataclass(frozen=True, eq=False)
class Corpus:
    """Documents by features.

    The constructor checks shapes, ids and finiteness; readers check more, while they still know the file
    and the row. Rows without features never get this far: they are kept out and counted (`left_out`).
    """

    matrix: sp.csr_array
    """float64 CSR of shape (n_documents, n_features), canonical."""
    ids: NDArray[np.str_]
    """Unique document ids, shape (n_documents,)."""
    party: NDArray[np.str_] | None = None
    """The party that holds each document, shape (n_documents,)."""
    group: NDArray[np.str_] | None = None
    """The person each document belongs to, shape (n_documents,)."""
    left_out: tuple[str, ...] = field(default=(), repr=False)
    """Ids of the rows kept out because they have no features."""
    taken: tuple[str, ...] = field(default=(), repr=False)
    """Names of the columns that a table was read by, where its spec names none."""
    from_rows: str = field(default="", repr=False)
    """What its own rows decide of every row ("the weight of each term"); empty if nothing."""
    numbered: bool = field(default=False, repr=False)
    """Ids are numbers of rows, which name other documents once the file has changed."""

    def __post_init__(self) -> None:
        rows = self.matrix.shape[0]
        if rows == 0 or self.matrix.shape[1] == 0:
            raise CorpusError(f"the corpus is empty: {rows} documents, {self.matrix.shape[1]} features.")
        for name in ("ids", "party", "group"):
            column = getattr(self, name)
            if column is not None and len(column) != rows:
                raise CorpusError(f"`{name}` must have one entry a document ({rows}); got {len(column)}.")
        if len(np.unique(self.ids)) != rows:
            raise CorpusError("`ids` must be unique.")
        if not np.isfinite(self.matrix.data).all():
            raise CorpusError("the corpus must be finite; it holds NaN or infinity.")
        beyond = np.flatnonzero(np.abs(self.matrix.data) > LARGEST)
        if len(beyond):
            row = int(np.searchsorted(self.matrix.indptr, beyond[0], side="right")) - 1
            raise CorpusError(
                f"document {str(self.ids[row])!r}, column {int(self.matrix.indices[beyond[0]])} (from 0) holds "
                f"{self.matrix.data[beyond[0]]:.3g}; {TOO_LARGE}"
            )

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    @property
    def features(self) -> int:
        """Number of features (columns)."""
        return int(self.matrix.shape[1])

    @property
    def taken_as_known(self) -> str:
        """What a proof by noise assumes; empty if no row decides how another one is read."""
        return f"taken as known: {self.from_rows}, from the party's own rows" if self.from_rows else ""

    @cached_property
    def first_alike(self) -> NDArray[np.int64]:
        """The first document with the content of each, itself where there is none before it."""
        from ksdp.audit.numeric.sparse_rows import same_rows  # compiled code, which few who read a corpus ask for

        return same_rows(self.matrix, self.matrix)

    @cached_property
    def hash(self) -> str:
        """`sha256:` over the numbers, the ids, the parties and the groups: what verdicts are bound to."""
        digest = hashlib.sha256(repr(self.matrix.shape).encode())
        for part in (
            self.matrix.indptr.astype("<i8"),
            self.matrix.indices.astype("<i8"),
            self.matrix.data.astype("<f8"),
        ):
            digest.update(np.ascontiguousarray(part).tobytes())
        for column in (self.ids, self.party, self.group):
            digest.update(b"\0column")
            for text in () if column is None else column:
                digest.update(str(text).encode("utf-8", "surrogatepass") + b"\0")
        return "sha256:" + digest.hexdigest()


def restrict(corpus: Corpus, rows: NDArray[np.int64]) -> Corpus:
    """Return the corpus of some rows, in the given order, with the ids they have."""
    rows = np.asarray(rows, dtype=np.int64)
    party, group = (None if column is None else column[rows] for column in (corpus.party, corpus.group))
    return replace(
        corpus, matrix=sp.csr_array(corpus.matrix[rows]), ids=corpus.ids[rows], party=party, group=group
    )


Idf = Literal["global", "party", "public"]


def tf_idf(
    counts: sp.csr_array,
    party: NDArray[np.str_] | None = None,
    idf: Idf = "global",
    public: NDArray[np.float64] | None = None,
    counted: int | None = None,
) -> sp.csr_array:
    r"""Weigh every count by the inverse document frequency of its term.

    .. math:: w_{dt} = c_{dt} \ln \frac{n}{\mathrm{df}_t}

    with `n` documents, `df_t` of which hold the term. A term that every document holds weighs nothing, and its
    entries are dropped. With `idf = "party"`, `n` and `df` count the documents of the party that holds `d`: the
    local IDF of PD-ML-Lite (arXiv 1901.07986), where a global one would be one more thing to announce.

    Where only the first `counted` documents are counted, a term of the others that none of these holds weighs
    nothing.
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
    terms, place = np.unique(holder * features + weighted.indices, return_inverse=True)
    first = rows if counted is None else counted
    frequency = np.bincount(place[: weighted.indptr[first]], minlength=len(terms))
    documents = np.bincount(member[:first], minlength=member.max(initial=0) + 1)[terms // features]
    ratios, which = np.unique(
        np.divide(documents, frequency, out=np.ones(len(terms)), where=frequency > 0), return_inverse=True
    )
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


def standardised(matrix: sp.csr_array, counted: int | None = None) -> sp.csr_array:
    """Every column less its mean, in units of its standard deviation; a column that is constant becomes 0."""
    dense = matrix.toarray()
    dense = dense - dense[:counted].mean(axis=0)
    spread = dense[:counted].std(axis=0)
    return canonical(sp.csr_array(np.divide(dense, spread, out=np.zeros_like(dense), where=spread > 1e-12)))


def weighed(
    matrix: sp.csr_array,
    party: NDArray[np.str_] | None,
    weighting: str,
    idf: Idf,
    rows: str,
    public: NDArray[np.float64] | None = None,
    counted: int | None = None,
) -> sp.csr_array:
    """Weigh the entries and normalise the rows, by what the first `counted` rows (by default all) hold."""
    if weighting == "tf-idf":
        matrix = tf_idf(matrix, party, idf, public, counted)
    elif weighting == "standardised":
        matrix = standardised(matrix, counted)
    return unit_rows(matrix) if rows == "l2" else matrix


def clip_rows(matrix: sp.csr_array, bound: float) -> sp.csr_array:
    """Scale the rows that are longer than `bound` down to it; the others stay as they are, to the last bit."""
    lengths = np.diff(matrix.indptr)
    owners = np.repeat(np.arange(len(lengths)), lengths)
    norms = np.sqrt(np.bincount(owners, matrix.data**2, len(lengths)))
    if norms.size == 0 or norms.max() <= bound:
        return matrix
    # A little below the bound: rounding must not lift a row above it.
    scales = np.where(norms > bound, bound * (1 - 4e-16) / np.where(norms > 0, norms, 1.0), 1.0)
    return sp.csr_array((matrix.data * scales[owners], matrix.indices, matrix.indptr), shape=matrix.shape)


def require_nonnegative(matrix: sp.csr_array) -> None:
    """Refuse a matrix with negative entries, for a mechanism that takes none."""
    if matrix.nnz and (low := matrix.data.min()) < 0:
        raise CorpusError(
            f"the corpus holds {low:g}; this mechanism takes no negative entries: `ksdp mechanisms`."
        )
