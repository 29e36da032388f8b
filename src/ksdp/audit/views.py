"""Views: what coalitions of several sizes, and somebody who gets the final output alone, see of the same runs.

Each view is an audit of its own, at an equal part of the level. That holds the level over all views, however they
depend on one another. Let view i call R_i documents sensitive, V_i of them wrongly (in this view their advantage
is at most the margin). Let R be sensitive in any view, V of them wrongly in any. Then

    V / max(R, 1) <= sum_i V_i / max(R, 1) <= sum_i V_i / max(R_i, 1),

as R >= R_i, so that the expected share of false alarms is at most the sum of the views' levels. The probability of
any false alarm (family-wise error), and that of a band that misses, are so by the union bound.

Clear over all views is one question, not several: the largest p of "at least the margin" over views and statistics
(an intersection-union test) is corrected over documents once, at the whole level. (Those that are clear in every
view, each by itself, need not keep the false discovery rate: what they share may be what each got wrong.) So a
document can be clear over all views and undecided in one, whose own level is a part of the whole.

All views are of the same runs: what the largest coalition holds and a smaller one does not is honest parties' data
there. A coalition of 0 is an outsider, who sees every announced sum whole.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.continuing import tables_at_part
from ksdp.audit.corpus.groups import Unit, unit_count
from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.schema import final_output, recorded
from ksdp.audit.numeric.array_types import Floats
from ksdp.audit.registry import mechanism_of
from ksdp.audit.specs.design import as_rows
from ksdp.audit.specs.models import DecisionSpec, Spec
from ksdp.audit.verdicts.decide import Verdict, adjusted_among
from ksdp.audit.verdicts.multiplicity import CLEARING

_CERTAIN = -1e6
"""Log10 p of what needs no test."""


@dataclass(frozen=True)
class View:
    """One view and the spec of its audit."""

    name: str
    """For people: `outsider`, `coalition of 531`, `final output`."""
    spec: Spec


def make_views(spec: Spec, corpus: Corpus) -> tuple[View, ...]:
    """The audits that a spec with views asks for, those of coalitions first.

    Parameters
    ----------
    spec : with `views`
    corpus : sizes given as fractions refer to its documents (or groups)
    """
    if spec.views is None:
        raise SpecError("`views` must be given; this spec has one view.")
    units = unit_count(corpus, spec.design.unit)
    count = max(len(spec.views.coalitions), 1) + spec.views.final
    sizes = [as_rows(size, units) if size else 0 for size in spec.views.coalitions]
    if len(set(sizes)) < len(sizes):
        raise SpecError(f"`views.coalitions` must differ; of {units} {spec.design.unit}s they are {sizes}.")
    views = [View("all announced", _part(spec, count))]
    if sizes:
        honest = 0 if spec.parties.honest is None else as_rows(spec.parties.honest, units)
        largest = max(sizes)
        views = [
            View(_coalition(size, spec.design.unit), _part(spec, count, (honest + largest - size, size)))
            for size in sizes
        ]
    if spec.views.final:
        _check_final(spec, corpus)
        smallest = views[int(np.argmin(sizes)) if sizes else 0].spec
        seen = smallest.statistics.model_copy(update={"sees": "final"})
        views.append(View("final output", smallest.model_copy(update={"statistics": seen})))
    return tuple(views)


def _coalition(size: int, unit: Unit) -> str:
    return f"coalition of {size} {unit}{'s' if size > 1 else ''}" if size else "outsider"


def _part(spec: Spec, count: int, others: tuple[int, int] | None = None) -> Spec:
    """The spec of one view of `count`: its part of the level, and what others (honest, coalition) hold."""
    tables = tables_at_part(spec, lambda level: level / count) | {"views": None}
    if others is not None:
        tables["parties"]["honest"], tables["parties"]["coalition"] = (size or None for size in others)
    return Spec.model_validate(tables)


def _check_final(spec: Spec, corpus: Corpus) -> None:
    mechanism = mechanism_of(spec.mechanism)
    final = set(final_output(mechanism, corpus.features))
    if final >= {array.name for array in recorded(mechanism, corpus.features)}:
        raise SpecError(
            f"`views.final` must be left out: {mechanism.name} announces nothing besides its final output "
            f"({', '.join(sorted(final))}), so that every other view is this one."
        )


@dataclass(frozen=True, eq=False)
class ViewVerdicts:
    """Verdicts of one view's audit, one entry per document, in the order that all views share."""

    verdict: NDArray[np.str_]
    log10_adjusted: Floats
    """Of "no leak": over statistics and documents, not over views."""
    log10_p_below: Floats
    """Of "at least the margin": over statistics only, the largest."""
    every_attack: NDArray[np.bool_] | None = None
    """Which clear ones are so against every attack; None: no one."""


@dataclass(frozen=True, eq=False)
class Combined:
    """The verdicts over all views, one entry a document."""

    verdict: NDArray[np.str_]
    every_attack: NDArray[np.bool_]
    """Of a clear document: whether every view is so against every attack."""
    log10_adjusted: Floats
    """Over statistics, documents and views: with one look, detected iff at or below log10 of the whole level."""
    log10_adjusted_below: Floats
    """Over views, statistics and documents: clear iff at or below log10 of the whole level."""
    view: NDArray[np.int64]
    """The view with the smallest adjusted p: the one that proves it, of a sensitive document."""
    sensitive_in: NDArray[np.bool_]
    """Shape (n_views, n_documents)."""
    clear_in: NDArray[np.bool_]


def combine(views: Sequence[ViewVerdicts], rule: DecisionSpec, among: int | None = None) -> Combined:
    """Sensitive if sensitive in any view; clear if all views together prove it; undecided otherwise.

    Parameters
    ----------
    views : sequence of ViewVerdicts; each decided at the same part of the level, one over their number
    rule : DecisionSpec; of all views: the whole level
    among : documents that the correction counts, as in each view (`LookScope.documents`); those given by default

    Examples
    --------
    >>> said = np.array(["sensitive", "clear", "clear"]), np.array(["clear", "clear", "undecided"])
    >>> one = ViewVerdicts(said[0], np.log10([1e-4, 0.5, 1.0]), np.log10([1.0, 1e-4, 1e-5]))
    >>> other = ViewVerdicts(said[1], np.log10([0.2, 0.3, 0.2]), np.log10([1e-3, 1e-3, 0.1]))
    >>> found = combine([one, other], DecisionSpec())
    >>> found.verdict.tolist(), (10**found.log10_adjusted).round(4).tolist()
    (['sensitive', 'clear', 'undecided'], [0.0002, 0.6, 0.4])
    """
    if not views or len({len(view.verdict) for view in views}) > 1:
        raise ValueError("`views` must be at least one, all of the same documents.")
    verdicts = np.stack([view.verdict for view in views])
    adjusted = np.stack([view.log10_adjusted for view in views])
    sensitive, clear = verdicts == Verdict.SENSITIVE, verdicts == Verdict.CLEAR
    none = np.zeros(verdicts.shape[1], np.bool_)
    certified = clear & np.stack([none if v.every_attack is None else v.every_attack for v in views])
    below = np.stack([view.log10_p_below for view in views])
    # A view that is certified needs no test: its own level comes on top of that of "clear".
    below = np.where(certified, _CERTAIN, below).max(axis=0)
    decided = sensitive.any(axis=0) | certified.all(axis=0)
    below = adjusted_among(np.where(decided, 0.0, below), rule, among or len(below), CLEARING)
    proved = (below <= math.log10(rule.for_clear)) & (rule.margin > 0)
    undecided = np.where(proved | certified.all(axis=0), Verdict.CLEAR, Verdict.UNDECIDED)
    return Combined(
        verdict=np.where(sensitive.any(axis=0), Verdict.SENSITIVE, undecided).astype(np.str_),
        every_attack=certified.all(axis=0),
        log10_adjusted_below=below,
        log10_adjusted=np.minimum(adjusted.min(axis=0) + math.log10(len(views)), 0.0),
        view=adjusted.argmin(axis=0).astype(np.int64),
        sensitive_in=sensitive,
        clear_in=clear,
    )
