"""From a spec and its corpus to the plan of an audit, or to a refusal that says what does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import svds

from ksdp.audit.absence import Absence, ProvedSensitive, absence_bounds, absence_shown
from ksdp.audit.certifying import check_certifiable
from ksdp.audit.contract import Mechanism, Release, traits_of
from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.parameters import given_fields
from ksdp.audit.mechanisms.planted import ArrayLeak, leaks_of
from ksdp.audit.mechanisms.privacy.spent import Promise, promise_of
from ksdp.audit.mechanisms.privacy.transcript import ANY_PARTIES
from ksdp.audit.mechanisms.recorded import RecordedRuns, is_own
from ksdp.audit.mechanisms.schema import ReleaseSchema, release_schema
from ksdp.audit.numeric.kernels import one_thread
from ksdp.audit.numeric.sparse_rows import rows_of, take_rows
from ksdp.audit.party_view import Holdings, holdings_of
from ksdp.audit.plan import Plan, planned_runs, planned_statistics, proved_before_runs
from ksdp.audit.randomness import Purpose, derived_seed, generator
from ksdp.audit.registry import mechanism_of
from ksdp.audit.reviewing import plural
from ksdp.audit.specs.design import Balanced, Design, make_design
from ksdp.audit.specs.models import Spec

# Runs of the smaller arm in which a planted leak must be seen (`testing.judge_controls`), and some more.
_CHECKS = 32


def make_plan(spec: Spec, corpus: Corpus) -> Plan:
    """Check a spec against its corpus and decide everything."""
    mechanism = mechanism_of(spec.mechanism)
    if is_own(mechanism):
        spec = spec.model_copy(update={"store": spec.store.model_copy(update={"precision": "float64"})})
    holdings = holdings_of(spec, corpus)
    rank = traits_of(mechanism).rank
    if rank is not None:
        _check_rank(rank, holdings, corpus.features)
    promise = None if spec.planted else promised(spec, holdings, mechanism, corpus.features)
    proved = proved_before_runs(promise, spec) and not spec.statistics.explored
    design = _design(spec, holdings, mechanism, proved)
    sees, keeps = spec.statistics.sees, spec.store.observables
    shown = release_schema(mechanism, corpus.features, sees=sees, keeps=keeps)
    background = _background(holdings, corpus, rank, spec.seed)
    asked = (spec.statistics.families, spec.statistics.names)
    tested = planned_statistics(*asked, mechanism, shown, holdings, background, design.runs, spec.rule.margin)
    if spec.certificate is not None:
        check_certifiable(mechanism, design, corpus.features)
        if holdings.drawn:
            raise SpecError(
                "a certificate needs `parties.others` fixed or colluding: pairs share all other documents."
            )
    runs = planned_runs(spec, design, shown.kept, tested.chosen)
    absent = _absent(spec, holdings, shown.read, design)
    rest = {} if absent is None else {"audited": np.setdiff1d(design.targets(0), absent.units)}
    return Plan(
        spec=spec,
        corpus=corpus,
        holdings=holdings,
        mechanism=mechanism,
        announced=shown.recorded,
        seen=shown.seen,
        opened=shown.opened,
        statistics=tested.chosen,
        skipped=tested.skipped,
        design=replace(cast(Any, runs.design), **rest),
        background=background,
        block_runs=runs.block_runs,
        looks=runs.looks,
        reading=runs.reading,
        default_columns=tested.default,
        promise=promise,
        leaks=_leaks(spec, holdings, shown),
        absent=absent,
    )


def absence_of(spec: Spec, held: Holdings, seen: Sequence[Release]) -> Absence | None:
    """What absence proves of each of the victim's units, in order; None where it proves nothing of anybody."""
    shown, units = "" if spec.planted else absence_shown(seen), held.units.matrix
    if not shown or spec.design.kind != "shared":
        return None
    others = np.concatenate([held.honest, held.coalition])
    found = absence_bounds(
        rows_of(units, held.victim),
        held.size,
        shown,
        poisson=spec.design.sampling == "poisson",
        others=rows_of(units, np.sort(others)) if len(others) else None,
        entering=held.entering if held.drawn else None,
    )
    return found if found.bound.any() else None


def _absent(spec: Spec, held: Holdings, seen: Sequence[Release], design: Design) -> ProvedSensitive | None:
    """Those of the audited units that are proved; where all are, the least exposed one is measured too."""
    margin = spec.rule.margin
    asked = margin > 0 and spec.design.absent == "proved" and not spec.statistics.explored
    found = absence_of(spec, held, seen) if asked else None
    if found is None:
        return None
    audited = design.targets(0)
    bound = found.bound[np.searchsorted(held.victim, audited)]
    above = bound > margin
    if above.all():
        above[np.argmin(bound)] = False
    return ProvedSensitive(audited[above], bound[above]) if above.any() else None


def _leaks(spec: Spec, held: Holdings, shown: ReleaseSchema) -> tuple[ArrayLeak, ...]:
    rows = {str(held.units.ids[unit]): int(unit) for unit in held.victim} if spec.planted else {}
    return leaks_of(spec.planted, rows, {array.name: array.shape for array in shown.recorded})


def promised(spec: Spec, held: Holdings, mechanism: Mechanism, features: int) -> Promise | None:
    """What the noise proves of each document, where databases with and without it differ in that record alone."""
    one_record = held.units.order is None and spec.design.sampling == "fixed"
    sizes = [size for size in (held.size, held.entering, len(held.coalition)) if size]
    known = ANY_PARTIES if spec.parties.others == "colluding" else int(len(held.coalition) > 0)
    return promise_of(mechanism, sizes, features, known) if one_record else None


def _check_rank(rank: int, held: Holdings, features: int) -> None:
    rows = int(np.sort(held.units.sizes[held.victim])[: held.size].sum())  # of its smallest groups
    if rank >= min(rows, features):
        raise SpecError(
            f"`mechanism.rank` must be below the party's rows ({rows}) and the features ({features}); got {rank}."
        )


def _design(spec: Spec, held: Holdings, mechanism: Mechanism, proved: bool) -> Design:
    """Which documents are in which run; of what is `proved` before any, a few runs check the program."""
    targets = _targets(spec.design.documents, held)
    if isinstance(mechanism, RecordedRuns):
        return mechanism.design(held.victim if targets is None else targets, spec.seed)
    asked = spec.design
    if proved and asked.with_runs > _CHECKS:
        asked = asked.model_copy(update={"with_runs": _CHECKS})
    design: Any = make_design(asked, held.victim, spec.seed, documents=held.counted, targets=targets)
    few = isinstance(spec.design.documents, int) and len(design.audited) < len(design.pool)
    few = few or spec.design.pool is not None
    if few or isinstance(design, Balanced):
        # It counts those alone (`Plan.counted`), so that nobody may have looked at these runs before: a number
        # chosen by what was seen there proves somebody to leak in every fifth audit of nothing.
        design = replace(design, seed=derived_seed(spec.seed, Purpose.AUDITED, *design.audited.tolist()))
    return cast(Design, design)


def _targets(documents: object, held: Holdings) -> NDArray[np.int64] | None:
    if not isinstance(documents, tuple):
        return None
    place = {str(name): row for row, name in enumerate(held.units.ids)}
    if unknown := [name for name in documents if name not in place]:
        raise SpecError(f"`design.documents` names {unknown[0]!r}, which the corpus does not hold.")
    targets = np.unique([place[name] for name in documents])
    elsewhere = np.setdiff1d(targets, held.victim)
    if len(elsewhere):
        raise SpecError(
            f"`design.documents` names {held.units.ids[elsewhere[0]]!s}, which another party holds, or which "
            "`design.pool` leaves out."
        )
    return targets


def _background(held: Holdings, corpus: Corpus, rank: int | None, seed: int) -> dict[str, NDArray[Any]]:
    """The adversary's own singular values, from the coalition's data or from a sample of its own."""
    if len(held.coalition):
        known_units = held.coalition
    else:
        rng = generator(seed, Purpose.ADVERSARY)
        known_units = np.sort(rng.choice(len(held.units), held.size, replace=False, shuffle=False))
    own = held.units.rows(known_units)
    victim = held.size + held.entering
    if held.units.word == "group":
        of_others = int(held.units.sizes[held.honest[: held.entering]].sum())
        victim = round(held.size * float(held.units.sizes.mean())) + of_others
    known: dict[str, NDArray[Any]] = {"adversary_rows": np.array(len(own)), "victim_rows": np.array(victim)}
    if rank is not None and rank < min(len(own), corpus.features):
        matrix = take_rows(corpus.matrix, own)
        with one_thread():
            sigma = svds(matrix, rank, return_singular_vectors=False, v0=np.ones(min(matrix.shape)))
        known["adversary_sigma"] = np.sort(sigma)[::-1].copy()
    return known


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
            f"{plural(len(corpus.left_out), 'row')} without any feature left out, without verdicts: {some}."
        )
    if alike := _copies(corpus):
        notes.append(
            f"{alike:,} documents are copies of another: a run hides which of them took part, not that one did."
        )
    if corpus.taken:
        notes.append(_taken(corpus.taken))
        if alone := _outweighing(corpus, corpus.taken):
            notes.append(alone)
    mechanism = mechanism_of(spec.mechanism)
    if clipped := _clipped(corpus, given_fields(mechanism).get("row_bound")):
        notes.append(clipped)
    return notes


def _copies(corpus: Corpus) -> int:
    """Documents whose row is that of another one: a copy that stays hides the one that goes."""
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
