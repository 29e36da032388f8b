"""The corpus: documents by features, with ids that stay the same from audit to audit."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.errors import CorpusError


def canonical(matrix: sp.csr_array, *, keep_zeros: bool = False) -> sp.csr_array:
    """Return `matrix` as float64 CSR with sorted columns, duplicates summed and 32-bit indices.

    Parameters
    ----------
    matrix : sparse matrix, shape (n_documents, n_features)
    keep_zeros : bool
        Keep stored zeros. A stored entry means "observed", which matters for ratings only.
    """
    clean = sp.csr_array(matrix, dtype=np.float64, copy=True)
    clean.sum_duplicates()
    if not keep_zeros:
        clean.eliminate_zeros()
    clean.sort_indices()
    if clean.indices.dtype != np.int32 and max(clean.shape[1], clean.nnz) < 2**31:
        clean.indices, clean.indptr = clean.indices.astype(np.int32), clean.indptr.astype(np.int32)
    return clean


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

    def __len__(self) -> int:
        return int(self.matrix.shape[0])

    @property
    def features(self) -> int:
        """Number of features (columns)."""
        return int(self.matrix.shape[1])

    @cached_property
    def first_alike(self) -> NDArray[np.int64]:
        """The first document with the content of each, itself where there is none before it."""
        from ksdp.audit.sparse_rows import same_rows  # compiled code, which few who read a corpus ask for

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
    """Return the corpus of some rows, in the given order, with the ids they have.

    Features stay as they are, those that only other rows use included, so that results of both can be compared.
    """
    rows = np.asarray(rows, dtype=np.int64)
    return Corpus(
        sp.csr_array(corpus.matrix[rows]),
        corpus.ids[rows],
        None if corpus.party is None else corpus.party[rows],
        None if corpus.group is None else corpus.group[rows],
        corpus.left_out,
    )
