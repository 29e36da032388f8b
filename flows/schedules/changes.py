"""What a scheduled audit has to look at: the corpus now against the verdicts that stand.

Which runs can be reused, and why a new audit draws fresh ones: docs/decisions/0012-schedules.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ksdp.audit.content_keys import content_key
from ksdp.audit.corpus import Corpus
from ksdp.audit.errors import SpecError
from ksdp.audit.own_code import own_code
from ksdp.audit.spec import Spec
from ksdp.audit.verdicts.schedule_level import LevelBudget, next_spec, open_budget, read_budget
from ksdp.flows.prepare import read_spec_file, spec_corpus
from ksdp.storage.readers.spec_files import copies_kept
from ksdp.storage.schedules.changes import (
    Changes,
    VerdictTable,
    columns_digest,
    compare,
    digest_key,
    document_digests,
    read_standing,
)
from ksdp.storage.schedules.schedule_files import Schedule, ScheduledRun, read_runs
from ksdp.storage.store import Store


@dataclass(frozen=True, eq=False)
class DueAudit:
    """The corpus as it is, and what is to be audited of it."""

    corpus: Corpus
    digests: dict[str, str]
    """Of the documents that the spec is about and the corpus holds."""
    changes: Changes
    standing: VerdictTable | None
    """The verdicts before this run."""
    standing_file: str | None
    """Where they stand."""
    budget: LevelBudget
    """Before this run."""
    basis: str
    full: bool
    """Everything is audited, changed or not."""
    spec: Spec | None
    """Of the audit to make; None where there is nothing to audit."""


def check_schedulable(spec: Spec) -> None:
    """Refuse what cannot be followed from one audit to the next."""
    if getattr(spec.design, "unit", "document") != "document":
        raise SpecError("`design.unit` must be document: a schedule follows single documents.")
    if getattr(spec, "views", None) is not None:
        raise SpecError("`views` must be left out: schedule the audit of each view.")
    if isinstance(spec.design.documents, int):
        raise SpecError("`design.documents` must name ids or be left out: a schedule follows each document.")


def spec_basis(spec: Spec, columns: str | None = None) -> str:
    """Hash of what a verdict depends on besides the documents, the seed and the level.

    Parameters
    ----------
    columns : str, optional
        What the files hold that say which columns there are (`columns_digest`), where the spec names some.
    """
    tables = spec.model_dump(mode="json", exclude={"seed": True, "store": True})
    for section, key in (
        ("corpus", "path"),
        ("corpus", "labels"),
        ("corpus", "vocabulary"),
        ("decision", "level"),
        ("decision", "clear_level"),
        ("design", "documents"),
    ):
        tables[section].pop(key)
    (tables["certificate"] or {}).pop("level", None)
    code = own_code([tables["mechanism"], tables["statistics"]["names"]], ())
    beside = {"columns": columns or {}, "code": code}
    return content_key(tables | {name: held for name, held in beside.items() if held})


def due_audit(store: Store, schedule: Schedule, *, full: bool) -> DueAudit:
    """Load the corpus and decide what to audit.

    Everything where nothing stands yet, where somebody asks for it, where the spec has changed, or a file of its
    that says which columns there are, where it is the turn of `full_every`, or where the spec has other parties
    (they hold documents drawn anew each time); else the new and the changed documents. Nothing where none is new,
    changed or gone.
    """
    spec, base = read_spec_file(Path(schedule.spec))
    check_schedulable(spec)
    with copies_kept():  # what has changed is said of the very files that are audited
        corpus = spec_corpus(spec, base)
        every = document_digests(spec.corpus, base, digest_key(store))
        columns = columns_digest(spec.corpus, base)
    named = spec.design.documents
    named_ids = set(named) if isinstance(named, tuple) else None
    ids = [str(name) for name in corpus.ids if named_ids is None or str(name) in named_ids]
    digests = {name: every[name] for name in ids}
    if not digests:
        raise SpecError("`design.documents` names no document that the corpus holds.")
    runs = read_runs(store, schedule.name)
    last = next((run for run in reversed(runs) if run.standing is not None), None)
    standing = None if last is None else read_standing(store, schedule.name, last.standing)
    basis, changes = spec_basis(spec, columns), compare(standing, digests)
    budget = _budget(schedule, runs)
    moved = bool(changes.new or changes.changed or changes.removed)
    parties = spec.parties
    others = any(held is not None for held in (parties.honest, parties.coalition, parties.me))
    turn = moved and schedule.full_every > 0 and _since_full(runs) + 1 >= schedule.full_every
    full = full or last is None or last.basis != basis or turn or (moved and others)
    audited = ids if full else [*changes.new, *changes.changed]
    whole = full and named_ids is None
    wanted = next_spec(spec, budget, None if whole else tuple(sorted(audited))) if audited else None
    file = None if last is None else last.standing
    return DueAudit(corpus, digests, changes, standing, file, budget, basis, full, wanted)


def _budget(schedule: Schedule, runs: list[ScheduledRun]) -> LevelBudget:
    """As the latest audit left it."""
    stored = next((run.budget for run in reversed(runs) if run.budget is not None), None)
    return open_budget(schedule.budget, schedule.level) if stored is None else read_budget(stored)


def _since_full(runs: list[ScheduledRun]) -> int:
    """Audits since the last one of everything."""
    count = 0
    for run in reversed(runs):
        if run.outcome != "audited":
            continue
        if run.full:
            return count
        count += 1
    return count
