"""Read one release that exists already, documents that were in and documents held out, and compare these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.errors import CorpusError
from ksdp.audit.mechanisms.released import ReleaseFinding, audit_release, compare_scores
from ksdp.audit.specs.models import CorpusSpec
from ksdp.storage.corpora import MEMORY, RawCorpus, corpus_of, find_source, read_source
from ksdp.storage.files import Refused, check_archive, extension
from ksdp.storage.in_memory import corpus_in_memory
from ksdp.storage.readers.columns import Columns, open_columns, read_matrix
from ksdp.storage.readers.counts import is_sparse, read_counts

_ID = "id"
"""Column that names documents, where a table has one."""
_SEED = 0


def release_of_files(what: str, members: Path, held_out: Path, delta: float = 0.0) -> ReleaseFinding:
    """Compare the documents of two files by a release, a file, or by the scores of a column that both have."""
    rng = np.random.default_rng(_SEED)
    path = Path(what)
    if not path.exists() and not path.suffix:
        inside, free = (open_columns(each, "utf-8") for each in (members, held_out))
        _refuse_same_ids(*((each.path, _labels(each)) for each in (inside, free)))
        scores = np.concatenate([each.numbers(what) for each in (inside, free)])
        return compare_scores({what: scores}, len(inside), rng, delta)
    (inside_corpus, ids), (free_corpus, other_ids) = _documents(members), _documents(held_out)
    _refuse_other_columns(held_out, free_corpus.taken, members, inside_corpus.taken)
    _refuse_same_ids((members, ids), (held_out, other_ids))
    arrays = _read_release(path, inside_corpus.taken, members)
    return audit_release(arrays, inside_corpus, free_corpus, rng, delta)


def release_in_memory(release: Any, members: Any, held_out: Any, delta: float = 0.0) -> ReleaseFinding:
    """The same of arrays or tables; scores where `release` is None."""
    rng = np.random.default_rng(_SEED)
    if release is None:
        inside, free = (np.asarray(each, np.float64).ravel() for each in (members, held_out))
        return compare_scores({"score": np.concatenate([inside, free])}, len(inside), rng, delta)
    arrays = release if isinstance(release, Mapping) else {"": np.asarray(release)}
    spec = CorpusSpec(path=MEMORY, weighting="counts")
    inside_corpus, free_corpus = (corpus_in_memory(each, spec) for each in (members, held_out))
    _refuse_other_columns(Path("held_out"), free_corpus.taken, Path("members"), inside_corpus.taken)
    return audit_release(arrays, inside_corpus, free_corpus, rng, delta)


def _documents(path: Path) -> tuple[Corpus, NDArray[np.str_]]:
    """The documents of a file, as they are, and their ids, if it has any."""
    file = find_source(CorpusSpec(path=str(path), weighting="counts"), Path())
    if file.kind == "counts":
        return corpus_in_memory(read_counts(path, weighed=True), file.spec), np.zeros(0, dtype=np.str_)
    ids = _labels(file.columns) if file.kind == "table" else np.zeros(0, dtype=np.str_)
    if len(ids):
        file = replace(file, spec=file.spec.model_copy(update={"id": _ID}))
    return corpus_of(file, nonnegative=False), ids


def _labels(columns: Columns) -> NDArray[np.str_]:
    return columns.labels(_ID, unique=True) if _ID in columns.names else np.zeros(0, dtype=np.str_)


def _refuse_same_ids(members: tuple[Path, NDArray[np.str_]], held_out: tuple[Path, NDArray[np.str_]]) -> None:
    both, _, places = np.intersect1d(members[1], held_out[1], return_indices=True)
    if len(both):
        raise Refused(
            held_out[0], f"names {str(both[0])!r}, which is in {members[0].name} too.", row=int(places[0]) + 1
        )


def _refuse_other_columns(path: Path, names: tuple[str, ...], other: Path, wanted: tuple[str, ...]) -> None:
    if names != wanted:
        extra = sorted(set(names) ^ set(wanted))
        what = f"`{extra[0]}` is in one of them alone" if extra else "they stand in another order"
        raise CorpusError(f"{path.name} has other columns than {other.name}: {what}.")


def _read_release(path: Path, names: tuple[str, ...], members: Path) -> dict[str, NDArray[Any]]:
    """Arrays of a release by name; `names` of the documents' columns order those of a table."""
    if extension(path) == ".npy":
        return {"": np.asarray(read_matrix(path))}
    if extension(path) == ".npz" and not is_sparse(path):
        check_archive(path)
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files if arrays[name].dtype.kind in "biuf"}
    source: RawCorpus = read_source(
        find_source(CorpusSpec(path=str(path), weighting="counts"), Path()), nonnegative=False
    )
    rows = source.matrix.toarray()
    if source.taken and names:
        _refuse_other_columns(path, tuple(sorted(source.taken)), members, tuple(sorted(names)))
        rows = rows[:, [source.taken.index(name) for name in names]]
    return {"": rows}
