"""Risk appetites: read from `appetite.toml`, kept with an audit, and held to what the store knows of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np

from ksdp.audit.errors import InputError
from ksdp.audit.results.appetite import CLASSES, Appetite, Audited, AuditedDocuments, appetite_record
from ksdp.audit.results.appetite import AppetiteRecord as AppetiteRecord
from ksdp.audit.results.summary import Summary
from ksdp.audit.results.views_summary import ViewsSummary
from ksdp.audit.reviewing import Decision
from ksdp.audit.spec.models import validated
from ksdp.audit.verdicts.decide import Proof
from ksdp.storage.audits.history import finished_views, newest_first, read_summary, read_views
from ksdp.storage.audits.view_tables import read_view_verdicts
from ksdp.storage.codec import read_object, write_checked_json
from ksdp.storage.findings import read_verdicts
from ksdp.storage.mapped_corpus import open_corpus
from ksdp.storage.readers.files import read_toml
from ksdp.storage.reviews.decisions import states
from ksdp.storage.store import Store


def read_appetite(path: Path) -> Appetite:
    """Read `appetite.toml`; `SpecError` where it is refused."""
    return validated(Appetite, read_toml(path, "the appetite"), "appetite")


def kept_appetite(store: Store, audit: str) -> Appetite | None:
    """What an audit is held to; None where nobody said."""
    path = store.appetite(audit)
    whose = f"the appetite of audit {audit}"
    return read_object(path, Appetite.model_validate, whose, "restore it") if path.is_file() else None


def keep_appetite(store: Store, audit: str, appetite: Appetite) -> None:
    """Write down what an audit is held to, once; `InputError` if it is held to another."""
    kept = kept_appetite(store, audit)
    if kept is None:
        write_checked_json(store.appetite(audit), appetite.model_dump(mode="json"))
    elif kept != appetite:
        raise InputError(
            f"audit {audit} is held to another appetite, {kept.hash}, which stays. `ksdp appetite {audit} "
            "--appetite FILE` compares it with this one and keeps nothing."
        )


def read_record(
    store: Store, appetite: Appetite, audits: Sequence[str], entering: Collection[str] | None = None
) -> AppetiteRecord:
    """Hold finished audits of one run to an appetite, with what people decided.

    Parameters
    ----------
    audits : ids; where the appetite asks for another view of the run, its newest audit is held to it as well
    entering : names of documents (or groups) that may enter a run; by default all that nobody excluded
    """
    found = [_audited(store, appetite, audit, entering) for audit in dict.fromkeys(audits)]
    for wanted in appetite.opens:
        if not any(view.opens == wanted for _, views, _ in found for view in views):
            found += _held_too(store, appetite, wanted, found[0][0], entering)
    return appetite_record(appetite, found)


def _held_too(
    store: Store, appetite: Appetite, wanted: str, first: Summary | ViewsSummary, entering: Collection[str] | None
) -> list[Audited]:
    """The newest audit of the same run that looks at this and is held to the same appetite, where there is one."""
    run = (first.corpus, first.spec.mechanism)
    for audit in newest_first(store):
        if kept_appetite(store, audit) == appetite:
            one = read_summary(store.audit(audit))
            if one.opens == wanted and (one.corpus, one.spec.mechanism) == run:
                return [_audited(store, appetite, audit, entering)]
    return []


def _audited(store: Store, appetite: Appetite, audit: str, entering: Collection[str] | None) -> Audited:
    if audit in finished_views(store):
        several = read_views(store, audit)
        views = [read_summary(store.audit(view.audit)) for view in several.views]
        return several, views, _documents(store, appetite, several, entering)
    one = read_summary(store.audit(audit))
    return one, [one], _documents(store, appetite, one, entering)


def _documents(
    store: Store, appetite: Appetite, whole: Summary | ViewsSummary, entering: Collection[str] | None
) -> AuditedDocuments:
    """Bounds are of what is held: a secret draw lowers those within a run."""
    of_one = isinstance(whole, Summary)
    table = read_verdicts(store.audit(whole.audit)) if of_one else read_view_verdicts(store, whole.audit)
    names, verdict = (table[name].to_numpy().astype("U") for name in ("document", "verdict"))
    decided = states(store, whole.audit) if of_one and whole.valid else {}
    place, not_allowed = {name: at for at, name in enumerate(names.tolist()) if name in decided}, 0
    for name, at in place.items():
        state = decided[name]
        people = [entry.reviewer for entry in (state.decided, state.confirmed) if entry is not None]
        accepted = state.waiting is None and state.decision is Decision.ACCEPT
        if state.proved_by:
            verdict[at] = "sensitive"
        if state.waiting is None and state.decision is Decision.EXCLUDE:
            verdict[at] = "out"
        elif accepted and appetite.allows(people):
            verdict[at] = "accepted"
        not_allowed += accepted and not appetite.allows(people)
    if entering is not None:
        verdict[~np.isin(names, list(entering))] = "out"
    corpus, labels = open_corpus(store.corpus(whole.corpus)), {}
    for kind, column in CLASSES.items():
        if whole.design.unit == "document" and (given := getattr(corpus, column)) is not None:
            of = dict(zip(corpus.ids.tolist(), given.tolist(), strict=True))
            labels[kind] = np.array([of[name] for name in names.tolist()])
    if whole.design.unit == "group":
        labels["groups"] = names
    tried = () if appetite.proof == "every attack" else ("largest_band_high",)
    known = [table[name].to_numpy() for name in ("certified_bound", *tried) if name in table.column_names]
    return AuditedDocuments(
        verdict=verdict,
        certified=np.array([proof == Proof.EVERY_ATTACK for proof in table["proof"].to_pylist()], np.bool_),
        bound=np.fmin.reduce([np.ones(len(names)), *known]) * whole.spec.corpus.levers.enters,
        labels=labels,
        not_allowed=not_allowed,
    )
