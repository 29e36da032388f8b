"""What a person must know of the rows of a corpus before an audit of them is worth anything."""

from __future__ import annotations

import numpy as np

from ksdp.audit.corpus import Corpus
from ksdp.audit.registry import mechanism_of
from ksdp.audit.spec import Spec

_SHOWN = 12
_LABELS = frozenset({"label", "labels", "target", "class", "y", "outcome", "response"})
_ALONE = 0.99
"""Of the squared length of all rows: a column with more is all that a factorisation sees."""
_FAR = 2.0
"""Rows longer than so many times the bound lose more than half of their length."""


def corpus_notes(spec: Spec, corpus: Corpus) -> list[str]:
    """A sentence each, where there are any: rows left out, rows alike, columns taken, rows that are clipped."""
    notes = [] if spec.draw_sentence is None else [spec.draw_sentence]
    if corpus.left_out:
        some = ", ".join(corpus.left_out[:3]) + (", ..." if len(corpus.left_out) > 3 else "")
        notes.append(
            f"{len(corpus.left_out)} rows without any feature are left out ({some}): nothing is said of them."
        )
    if alike := _twins(corpus):
        notes.append(
            f"{alike} documents are twins of another: a run hides which of them took part, not that one did."
        )
    if corpus.taken:
        notes.append(_taken(corpus.taken))
        if alone := _outweighing(corpus, corpus.taken):
            notes.append(alone)
    mechanism = mechanism_of(spec.mechanism)
    if clipped := _clipped(corpus, getattr(mechanism, "row_bound", None)):
        notes.append(clipped)
    return notes


def _twins(corpus: Corpus) -> int:
    """Documents whose row is that of another one: a twin that stays hides the one that goes."""
    _, copies = np.unique(corpus.first_alike, return_counts=True)
    return int(copies[copies > 1].sum())


def _taken(columns: tuple[str, ...]) -> str:
    more = f" and {len(columns) - _SHOWN} more" if len(columns) > _SHOWN else ""
    note = f"the table's {len(columns)} columns are taken: {', '.join(columns[:_SHOWN])}{more}."
    labels = [name for name in columns if name.lower() in _LABELS]
    if labels:
        note += f" `{labels[0]}` looks like a label: `corpus.columns` names those that are meant."
    return note


def _outweighing(corpus: Corpus, columns: tuple[str, ...]) -> str:
    """Of a column of large numbers, beside which the others count for nothing; and a bound clips them away."""
    squares = np.asarray(corpus.matrix.multiply(corpus.matrix).sum(axis=0)).ravel()
    largest = int(np.argmax(squares))
    if len(columns) != len(squares) or len(columns) < 2 or squares[largest] <= _ALONE * squares.sum():
        return ""
    return (
        f"`{columns[largest]}` holds {100 * squares[largest] / squares.sum():.4g} % of the rows' squared length: "
        "its numbers are so large that the other columns hardly count. "
        '`corpus.weighting = "standardised"` weighs all alike.'
    )


def _clipped(corpus: Corpus, bound: float | None) -> str:
    """Of rows longer than the norm to which a mechanism clips them."""
    if bound is None:
        return ""
    matrix = corpus.matrix
    lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    longer = lengths[lengths > bound * (1 + 1e-9)]
    if not len(longer):
        return ""
    times = float(np.median(longer)) / bound
    advice = " Scale the rows (`corpus.rows`, `corpus.weighting`) or raise the bound." if times > _FAR else ""
    return (
        f"{len(longer)} of {len(corpus)} rows are longer than the mechanism's `row_bound` of {bound:g} and are "
        f"clipped to it; half of these are over {times:.3g} times as long.{advice}"
    )
