"""A corpus twice, with and without its levers: what a run learns from, and what everybody is judged on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.errors import CorpusError, SpecError
from ksdp.audit.learning.gain import GainRows
from ksdp.audit.levers import NONE, lift
from ksdp.audit.levers_spec import LeversSpec
from ksdp.audit.spec import CorpusSpec, Spec
from ksdp.storage.corpora import read_source, weighed_corpus
from ksdp.storage.learning.later import earlier, later_places
from ksdp.storage.readers.files import shown
from ksdp.storage.readers.levers import read_levers
from ksdp.storage.source_file import SourceFile, find_source


def load_rows(spec: Spec, base: Path, *, nonnegative: bool) -> GainRows:
    """Documents that have features both with and without levers.

    Without means: all columns, in public units where there are some, weighed as the spec says but with everybody's
    idf in the place of a public one's columns that are not in the reference.

    Raises
    ------
    InputError
        If the corpus, a lever or `gain.target` is refused.
    """
    file = find_source(spec.corpus, base)
    source = read_source(file, nonnegative=nonnegative)
    with_levers = weighed_corpus(source, nonnegative=nonnegative)
    bare = replace(source, file=replace(file, spec=_bare(file.spec)))
    without = weighed_corpus(bare, nonnegative=nonnegative)
    place = {str(name): row for row, name in enumerate(without.ids)}
    both = np.array([row for row, name in enumerate(with_levers.ids) if str(name) in place], dtype=np.int64)
    judged = np.array([place[str(name)] for name in with_levers.ids[both]], dtype=np.int64)
    features = source.matrix.shape[1]
    levers = read_levers(file.spec, source.names, features, source.matrix)
    back = None
    basis = None
    if levers.columns is not None or levers.buckets is not None or levers.basis is not None:
        back = lift(levers, features)
        basis = back.toarray() if levers.basis is not None else None
    target = None
    if spec.gain.target is not None:
        target = _target(file, spec.gain.target, without.ids)[judged]
    learn, judge, later = with_levers.matrix[both], without.matrix[judged], None
    if spec.gain.time is not None:
        places = later_places(file, spec.gain.time, without.ids[judged], features, spec.seed)
        learn, _ = earlier(learn, places, levers)
        judge, later = earlier(judge, places, NONE)
    return GainRows(
        learn,
        judge,
        back,
        None if without.party is None else without.party[judged],
        target,
        file.kind == "ratings",
        later,
        basis,
        spec.corpus.levers.drawn,
    )


def _bare(spec: CorpusSpec) -> CorpusSpec:
    """Without levers but for public units, which say what a column is."""
    kept = LeversSpec(units=spec.levers.units)
    return spec.model_copy(update={"levers": kept, "idf": "global" if spec.idf == "public" else spec.idf})


def _target(file: SourceFile, name: str, ids: NDArray[np.str_]) -> NDArray[np.float64]:
    if file.kind != "table":
        raise SpecError("`gain.target` needs a table.")
    if file.spec.columns is None or name in file.spec.columns:
        raise SpecError(
            "`corpus.columns` must name the columns that are learnt from; `gain.target` must not be one of them."
        )
    columns = file.columns
    values = columns.numbers(name)
    labels = [str(row) for row in range(1, len(values) + 1)]
    if file.spec.id is not None:
        labels = [str(label) for label in columns.labels(file.spec.id, unique=True)]
    value_of = dict(zip(labels, values.tolist(), strict=True))
    missing = [name for name in ids if str(name) not in value_of]
    if missing:
        raise CorpusError(f"{shown(file.path)}: `gain.target` has no value for {len(missing)} documents.")
    return np.array([value_of[str(name)] for name in ids])
