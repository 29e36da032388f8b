"""The rows that a gain is measured on: under all settings the same documents, and what came later set aside."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.contract import traits_of
from ksdp.audit.corpus.groups import unit_names
from ksdp.audit.corpus.levers import NONE, Levers, lift
from ksdp.audit.corpus.matrix import Corpus, standardised
from ksdp.audit.errors import CorpusError, SpecError
from ksdp.audit.learning.gain import GainRows
from ksdp.audit.learning.measures import kept
from ksdp.audit.randomness import Purpose, generator
from ksdp.audit.registry import mechanism_of
from ksdp.audit.specs.models import CorpusSpec, LeversSpec, Spec
from ksdp.storage.corpora import RawCorpus, SourceFile, column_names, weighed_corpus
from ksdp.storage.files import shown
from ksdp.storage.readers.levers import read_levers

LATER = 0.2
"""Part of every user's ratings that is later."""


def _later_places(file: SourceFile, time: str, ids: NDArray[np.str_], features: int, seed: int) -> sp.csr_array:
    spec, levers = file.spec, file.spec.levers
    plain = spec.weighting in (None, "counts") and spec.rows in (None, "none")
    if file.kind != "ratings" or not plain or levers.basis or levers.clip:
        raise SpecError("`gain.time` needs ratings as they are: no weights, basis or clipping.")
    columns = file.columns
    times = columns.numbers(time, missing=True)
    (users, names), (items, titles) = (columns.coded(name) for name in spec.triplet[:2])
    agreed = column_names(spec) or tuple(map(str, titles))
    order = {name: column for column, name in enumerate(agreed)}
    of_item = np.array([order.get(str(title), -1) for title in titles])[items]
    row = {str(name): place for place, name in enumerate(ids)}
    of_user = np.array([row.get(str(name), -1) for name in names])[users]
    inside = np.flatnonzero((of_user >= 0) & (of_item >= 0))
    timed = np.isfinite(times[inside])
    keys = np.where(timed, times[inside], generator(seed, Purpose.LEARNING, 0, 3).random(len(inside)))
    late = _latest(of_user[inside] * 2 + timed, keys)
    entries = np.ones(int(late.sum())), (of_user[inside][late], of_item[inside][late])
    later = sp.csr_array(entries, shape=(len(ids), features))
    later.sort_indices()
    return later


def _latest(group: NDArray[np.int64], keys: NDArray[np.float64]) -> NDArray[np.bool_]:
    order = np.lexsort((np.arange(len(keys)), keys, group))
    _, first, count = np.unique(group[order], return_index=True, return_counts=True)
    place = np.arange(len(keys)) - np.repeat(first, count)
    late = np.zeros(len(keys), dtype=bool)
    late[order] = place >= np.repeat(count - np.floor(LATER * count), count)
    return late


def earlier(ratings: sp.csr_array, places: sp.csr_array, levers: Levers) -> tuple[sp.csr_array, sp.csr_array]:
    """A corpus without its later ratings, and these alone; both in its own columns."""
    if levers.columns is not None:
        places = sp.csr_array(places[:, levers.columns])
    width = ratings.shape[1]

    def keys(matrix: sp.csr_array) -> NDArray[np.int64]:
        rows = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))
        return np.asarray(rows * width + matrix.indices)

    late = np.isin(keys(ratings), keys(places))
    return kept(ratings, ~late), kept(ratings, late)


def gain_rows(
    source: RawCorpus,
    spec: Spec,
    *,
    nonnegative: bool,
    listed: Collection[str] | None = None,
    weigh: Callable[[CorpusSpec], Corpus] | None = None,
) -> GainRows:
    """Documents that have features both with and without a spec's levers."""
    source = source.under(spec.corpus)
    file = source.file
    weigh = weigh or (lambda of: weighed_corpus(source.under(of), nonnegative=nonnegative))
    with_levers, without = weigh(spec.corpus), weigh(bare(spec))
    place = {str(name): row for row, name in enumerate(without.ids)}
    both = np.array([row for row, name in enumerate(with_levers.ids) if str(name) in place], dtype=np.int64)
    judged = np.array([place[str(name)] for name in with_levers.ids[both]], dtype=np.int64)
    features = source.matrix.shape[1]
    levers = read_levers(file.spec, source.names, features, source.matrix)
    back = None
    basis = None
    if any(part is not None for part in (levers.columns, levers.basis)):
        back = lift(levers, features)
        basis = back.toarray() if levers.basis is not None else None
    target = None
    if spec.gain.target is not None:
        target = _target(file, spec.gain.target, without.ids)[judged]
    party = None if without.party is None else without.party[judged]
    group = unit_names(without, "group")[judged] if spec.design.unit == "group" else None
    learn, judge, later = with_levers.matrix[both], without.matrix[judged], None
    if spec.gain.time is not None:
        places = _later_places(file, spec.gain.time, without.ids[judged], features, spec.seed)
        learn, _ = earlier(learn, places, levers)
        judge, later = earlier(judge, places, NONE)
    if party is not None and (file.weighting, file.rows, spec.gain.parties) == ("standardised", "none", None):
        learn, judge = _by_party(learn, party), _by_party(judge, party)
    return GainRows(
        learn,
        judge,
        back,
        party,
        target,
        file.kind == "ratings",
        later,
        basis,
        spec.corpus.levers.drawn,
        None if listed is None else np.isin(without.ids[judged], list(listed)) | _others(spec, without)[judged],
        group,
    )


def _by_party(rows: sp.csr_array, party: NDArray[np.str_]) -> sp.csr_array:
    """Standardise the rows of each party by its own, as it does in a run."""
    own = [np.flatnonzero(party == name) for name in np.unique(party)]
    parts = [standardised(sp.csr_array(rows[some])) for some in own]
    return sp.csr_array(sp.vstack(parts, format="csr")[np.argsort(np.concatenate(own))])


def _others(spec: Spec, corpus: Corpus) -> NDArray[np.bool_]:
    """Documents of the other parties of `parties.me`, which no list of its own keeps out."""
    if spec.parties.me is None or corpus.party is None:
        return np.zeros(len(corpus), dtype=bool)
    return np.asarray(corpus.party != spec.parties.me)


def bare(spec: Spec) -> CorpusSpec:
    """Without levers but for public units, which say what a column is; counts that a run weighs are weighed."""
    corpus, counts = spec.corpus, traits_of(mechanism_of(spec.mechanism)).counts
    weighing = {"weighting": "tf-idf", "rows": None} if counts else {}
    idf = "global" if counts or corpus.idf == "public" else corpus.idf
    levers = LeversSpec(units=corpus.levers.units)
    return corpus.model_copy(update={"levers": levers, "idf": idf, **weighing})


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
