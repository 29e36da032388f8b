"""Whether a document has changed: a keyed hash of what its file says of it.

Of the document itself, not of its row of the corpus: with tf-idf one more document changes every row, and who has
changed is then everybody. A hash is keyed (a secret of the store), because short texts could be guessed from a
plain one.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.content_keys import content_key
from ksdp.audit.corpus import canonical
from ksdp.audit.spec import CorpusSpec
from ksdp.storage.corpora import read_source
from ksdp.storage.fetched import fetched
from ksdp.storage.readers.demo import docstrings
from ksdp.storage.readers.files import contents
from ksdp.storage.readers.labels import Labels, read_labels
from ksdp.storage.readers.ratings import read_ratings
from ksdp.storage.readers.spec_files import COLUMN_FILES, LEVER_FILES
from ksdp.storage.source_file import find_source
from ksdp.storage.store import Store, write_whole


def digest_key(store: Store) -> bytes:
    """The store's secret, made on first use and readable by its owner alone."""
    path = store.root / "schedules" / "key"
    if not path.is_file():
        made = secrets.token_bytes(32)

        def write(part: Path) -> None:
            part.write_bytes(made)

        write_whole(path, write)
    return path.read_bytes()


def document_digests(spec: CorpusSpec, base: Path, key: bytes) -> dict[str, str]:
    """Id to hash of every document of a file, those without features included.

    Over the text (`text`, `demo`), the stored entries of its row (`counts`, `docword`, `table`: before weighting),
    or its items and ratings; and over its party and its group. A matrix or table with another number of columns
    changes every document, because what the columns mean is not known.
    """
    file = find_source(spec, base)
    if file.kind == "demo":
        documents = docstrings()
        labels = Labels(
            np.array([document.id for document in documents], dtype=np.str_),
            np.array([document.party for document in documents], dtype=np.str_),
        )
        return _digests(labels, (document.text.encode() for document in documents), key)
    if file.kind == "text" and spec.text is not None:
        columns = file.columns
        labels = read_labels(spec, columns, len(columns))
        texts = (text.encode("utf-8", "surrogatepass") for text in columns.text(spec.text))
        return _digests(labels, texts, key)
    if file.kind == "ratings":
        columns = file.columns
        matrix, labels = read_ratings(spec, columns, nonnegative=False)
        items = columns.coded(spec.item)[1]  # by name: an item more moves columns
        return _digests(labels, _rated(canonical(matrix, keep_zeros=True), items), key)
    source = read_source(file, nonnegative=False)
    return _digests(source.labels, _rows(source.matrix), key)


def _rows(matrix: sp.csr_array) -> Iterable[bytes]:
    width = str(matrix.shape[1]).encode()
    for start, stop in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True):
        indices = matrix.indices[start:stop].astype("<i8").tobytes()
        yield width + b"\0" + indices + matrix.data[start:stop].astype("<f8").tobytes()


def _rated(matrix: sp.csr_array, items: NDArray[np.str_]) -> Iterable[bytes]:
    for start, stop in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True):
        pairs = zip(items[matrix.indices[start:stop]].tolist(), matrix.data[start:stop].tolist(), strict=True)
        yield repr(sorted(pairs)).encode("utf-8", "surrogatepass")


def columns_digest(spec: CorpusSpec, base: Path) -> str | None:
    """A hash of the files that say which columns rows have: those of levers, and the vocabulary that names them.

    None where none is named. The vocabulary of a matrix without such levers says nothing of its rows, and another
    number of columns changes every document already.

    Raises
    ------
    CorpusError
        If one cannot be read.
    """
    here, _copies = fetched(spec, base, COLUMN_FILES)
    named = {name: getattr(here.levers, name) for name in LEVER_FILES}
    by_name = spec.text is not None or any(named.values())
    named["vocabulary"] = here.vocabulary if by_name else None
    there = {name: hashlib.sha256(contents(Path(file))).hexdigest() for name, file in named.items() if file}
    return content_key(there) if there else None


def _digests(labels: Labels, contents: Iterable[bytes], key: bytes) -> dict[str, str]:
    out = {}
    for at, (name, content) in enumerate(zip(labels.ids.tolist(), contents, strict=True)):
        digest = hashlib.blake2b(content, key=key, digest_size=16)
        for column in (labels.party, labels.group):
            digest.update(b"\0-" if column is None else b"\0+" + str(column[at]).encode("utf-8", "surrogatepass"))
        digest.update(str(len(content)).encode())
        out[str(name)] = digest.hexdigest()
    return out
