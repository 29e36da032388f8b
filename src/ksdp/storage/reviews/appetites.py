"""Risk appetites: read from `appetite.toml`, kept with an audit, and held to what the store knows of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.errors import InputError
from ksdp.audit.results.appetite import CLASSES, Appetite, AuditedDocuments, appetite_record, check_spec
from ksdp.audit.results.appetite import AppetiteRecord as AppetiteRecord
from ksdp.audit.reviewing import Decision
from ksdp.audit.specs.models import Spec, validated
from ksdp.audit.verdicts.verdict import Proof
from ksdp.storage.audits.history import (
    AnySummary,
    Summary,
    newest_first,
    read_parts,
    read_summary,
    read_whole,
    views_table,
)
from ksdp.storage.audits.view_tables import read_view_verdicts
from ksdp.storage.codec import read_object, write_checked_json
from ksdp.storage.findings import read_verdicts
from ksdp.storage.mapped_corpus import open_corpus
from ksdp.storage.readers.files import read_toml
from ksdp.storage.reviews.decisions import states
from ksdp.storage.store import Store


def read_appetite(path: Path, spec: Spec | None = None) -> Appetite:
    """Read `appetite.toml`; `SpecError` where it is refused, or no audit by a spec can meet it."""
    asked = given_appetite(path)
    if spec is not None:
        check_spec(asked, spec)
    return asked


def given_appetite(given: str | Path | Mapping[str, Any]) -> Appetite:
    """Read an appetite from its file, or from its keys."""
    tables = given if isinstance(given, Mapping) else read_toml(Path(given), "the appetite")
    return validated(Appetite, tables, "appetite")


def kept_appetite(store: Store, audit: str) -> Appetite | None:
    """What an audit is held to; None where nobody said."""
    path = store.appetite(audit)
    whose = f"the appetite of audit {audit}"
    return read_object(path, Appetite.model_validate, whose, "restore it") if path.is_file() else None


def keep_appetite(store: Store, audit: str, appetite: Appetite) -> bool:
    """Write down what an audit is held to, once: whether this did; `InputError` if it is held to another."""
    kept = kept_appetite(store, audit)
    if kept is None:
        write_checked_json(store.appetite(audit), appetite.model_dump(mode="json"))
    elif kept != appetite:
        raise InputError(
            f"audit {audit} is held to another appetite, {kept.hash}, which stays. `ksdp appetite {audit} "
            "--appetite FILE` compares it with this one and keeps nothing."
        )
    return kept is None


def kept_record(store: Store, audit: str) -> AppetiteRecord | None:
    """A finished audit held to the appetite that is kept with it; None where none is."""
    appetite = kept_appetite(store, audit)
    return None if appetite is None else read_record(store, appetite, [audit])


def keep_record(store: Store, record: AppetiteRecord) -> str:
    """Keep what a clearance is signed under; its hash."""
    write_checked_json(store.appetite(record.hash.removeprefix("sha256:")), record.to_json())
    return record.hash


def read_record(
    store: Store, appetite: Appetite, audits: Sequence[str], entering: Collection[str] | None = None
) -> AppetiteRecord:
    """Hold finished audits of one run to an appetite, with what people decided in any of them.

    Parameters
    ----------
    audits : ids; where the appetite asks for another view of the run, its newest audit is held to it as well
    entering : names of documents (or groups) that may enter a run; by default all that nobody excluded
    """
    wholes = [read_whole(store, audit) for audit in dict.fromkeys(audits)]
    views = [list(read_parts(store, whole).values()) for whole in wholes]
    for opened in appetite.opens:
        if not any(view.opens == opened for several in views for view in several):
            other = next(_held_too(store, appetite, opened, wholes[0]), None)
            wholes, views = ([*wholes, other], [*views, [other]]) if other else (wholes, views)
    decided = _decided(store, appetite, wholes)
    documents = [_documents(store, appetite, whole, decided, entering) for whole in wholes]
    return appetite_record(appetite, list(zip(wholes, views, documents, strict=True)))


def _held_too(store: Store, appetite: Appetite, opened: str, first: AnySummary) -> Iterator[Summary]:
    """Audits of this view of the same run that are held to the same appetite, the newest first."""
    for audit in newest_first(store):
        if kept_appetite(store, audit) == appetite:
            one = read_summary(store.audit(audit))
            if (one.opens, one.corpus, one.spec.mechanism) == (opened, first.corpus, first.spec.mechanism):
                yield one


def _decided(store: Store, appetite: Appetite, audits: Sequence[AnySummary]) -> dict[str, set[str]]:
    """Documents by what becomes of them instead of their verdict; the later word holds."""
    found: dict[str, set[str]] = {"not allowed": set(), "sensitive": set(), "accepted": set(), "out": set()}
    decided = [states(store, one.audit) for one in audits if isinstance(one, Summary) and one.valid]
    for name, state in (pair for of_one in decided for pair in of_one.items()):
        people = [entry.reviewer for entry in (state.decided, state.confirmed) if entry is not None]
        if state.proved_by:
            found["sensitive"].add(name)
        if state.waiting is None and state.decision is Decision.EXCLUDE:
            found["out"].add(name)
        elif state.waiting is None and state.decision is Decision.ACCEPT:
            found["accepted" if appetite.allows(people) else "not allowed"].add(name)
    return found


def _documents(
    store: Store,
    appetite: Appetite,
    whole: AnySummary,
    decided: Mapping[str, Collection[str]],
    entering: Collection[str] | None,
) -> AuditedDocuments:
    of_one = isinstance(whole, Summary)
    file = store.audit(whole.audit) / "verdicts.parquet" if of_one else views_table(store, whole.audit)
    names, found = _measured(store, whole.audit, appetite.proof, file.stat().st_mtime_ns if file.is_file() else 0)
    verdict = found.verdict.copy()
    for word in ("sensitive", "accepted", "out"):
        verdict[np.isin(names, list(decided[word]))] = word
    if entering is not None:
        verdict[~np.isin(names, list(entering))] = "out"
    return replace(found, verdict=verdict, not_allowed=len(decided["not allowed"]))


@lru_cache(maxsize=8)
def _measured(store: Store, audit: str, proof: str, _stamp: int) -> tuple[NDArray[np.str_], AuditedDocuments]:
    """What takes a pass over all documents. Bounds are of what is held: a secret draw lowers those in a run."""
    whole = read_whole(store, audit)
    of_one = isinstance(whole, Summary)
    table = read_verdicts(store.audit(audit)) if of_one else read_view_verdicts(store, audit)
    names, verdict = (np.array(table[name].to_pylist(), "U") for name in ("document", "verdict"))
    corpus, labels = open_corpus(store.corpus(whole.corpus)), {}
    for kind, column in CLASSES.items():
        if whole.design.unit == "document" and (given := getattr(corpus, column)) is not None:
            of = dict(zip(corpus.ids.tolist(), given.tolist(), strict=True))
            labels[kind] = np.array([of[name] for name in names.tolist()])
    if whole.design.unit == "group":
        labels["groups"] = names
    tried = () if proof == "every attack" else ("largest_band_high",)
    known = [table[name].to_numpy() for name in ("certified_bound", *tried) if name in table.column_names]
    return names, AuditedDocuments(
        verdict=verdict.astype("U9"),
        certified=np.array([proof == Proof.EVERY_ATTACK for proof in table["proof"].to_pylist()], np.bool_),
        bound=np.fmin.reduce([np.ones(len(names)), *known]) * whole.spec.corpus.levers.enters,
        labels=labels,
        not_allowed=0,
    )
