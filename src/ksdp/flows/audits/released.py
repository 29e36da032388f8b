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
from ksdp.audit.specs.urls import MEMORY
from ksdp.storage.corpora import corpus_of, find_source
from ksdp.storage.files import Refused, check_archive, extension
from ksdp.storage.in_memory import corpus_in_memory
from ksdp.storage.readers.columns import Columns, open_columns, read_matrix
from ksdp.storage.readers.counts import is_sparse, read_counts

_ID, _NONE = "id", np.zeros(0, dtype=np.str_)
_SPEC = CorpusSpec(path=MEMORY, weighting="counts")


def release_of_files(what: str, members: Path, held_out: Path) -> ReleaseFinding:
    """Compare the documents of two files by a release, a file, or by the scores of a column that both have."""
    path = Path(what)
    if not path.exists() and not path.suffix:
        inside, free = (open_columns(each, "utf-8") for each in (members, held_out))
        _refuse_same_ids(members, _labels(inside), held_out, _labels(free))
        scores = np.concatenate([inside.numbers(what), free.numbers(what)])
        return compare_scores({what: scores}, len(inside), np.random.default_rng(0))
    (mine, ids), (others, other_ids) = _documents(members), _documents(held_out)
    _refuse_other_columns(held_out, others.taken, members, mine.taken)
    _refuse_same_ids(members, ids, held_out, other_ids)
    return audit_release(_read_release(path, mine.taken, members), mine, others, np.random.default_rng(0))


def release_in_memory(release: Any, members: Any, held_out: Any, delta: float = 0.0) -> ReleaseFinding:
    """The same of arrays or tables; scores where `release` is None."""
    rng = np.random.default_rng(0)
    if release is None:
        scores = [np.asarray(each, np.float64).ravel() for each in (members, held_out)]
        return compare_scores({"score": np.concatenate(scores)}, len(scores[0]), rng, delta)
    arrays = release if isinstance(release, Mapping) else {"": np.asarray(release)}
    mine, others = (corpus_in_memory(each, _SPEC) for each in (members, held_out))
    _refuse_other_columns(Path("held_out"), others.taken, Path("members"), mine.taken)
    return audit_release(arrays, mine, others, rng, delta)


def _documents(path: Path) -> tuple[Corpus, NDArray[np.str_]]:
    """The documents of a file, as they are, and their ids, if it has any."""
    file = find_source(_SPEC.model_copy(update={"path": str(path)}), Path())
    if file.kind == "counts":
        return corpus_in_memory(read_counts(path, weighed=True), file.spec), _NONE
    ids = _labels(file.columns)
    named = file.spec.model_copy(update={"id": _ID if len(ids) else None})
    return corpus_of(replace(file, spec=named), nonnegative=False), ids


def _labels(columns: Columns) -> NDArray[np.str_]:
    return columns.labels(_ID, unique=True) if _ID in columns.names else _NONE


def _refuse_same_ids(members: Path, ids: NDArray[np.str_], held_out: Path, others: NDArray[np.str_]) -> None:
    both, _, places = np.intersect1d(ids, others, return_indices=True)
    if len(both):
        raise Refused(held_out, f"names {str(both[0])!r}, which is in {members.name} too.", row=int(places[0]) + 1)


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
    table = _documents(path)[0]
    _refuse_other_columns(path, tuple(sorted(table.taken)), members, tuple(sorted(names)))
    rows = table.matrix.toarray()
    return {"": rows[:, [table.taken.index(name) for name in names]] if names else rows}
