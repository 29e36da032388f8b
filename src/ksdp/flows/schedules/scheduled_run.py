"""One run of a schedule: what is due, what has changed, the audit of it, what became of it.

Prefect calls this flow because `ksdp serve` found it due, or a person wants it. What is due is asked of the store
alone, with the store's schedules locked, so any number of calls make one run.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.exceptions import TerminationSignal
from prefect.states import Completed

from ksdp.audit.contract import traits_of
from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.errors import InvalidAudit, KsdpError, SpecError, StoreError
from ksdp.audit.planning import make_plan
from ksdp.audit.registry import mechanism_of, own_code
from ksdp.audit.results.appetite import Appetite
from ksdp.audit.results.summary import Summary
from ksdp.audit.specs.content_keys import content_key
from ksdp.audit.specs.models import SAID_ALONE, Spec
from ksdp.audit.verdicts.online import LevelBudget, next_spec, open_budget, read_budget
from ksdp.flows.audits.prefect_audit import audit
from ksdp.flows.audits.run import one_at_a_time
from ksdp.flows.interruption import die_with_parent, utc_now
from ksdp.flows.prepare import prepare_stored
from ksdp.flows.schedules.artifacts import publish_run
from ksdp.flows.schedules.events import emit_run
from ksdp.storage.corpora import corpus_of, find_source
from ksdp.storage.readers.spec_files import read_spec_file
from ksdp.storage.reviews.appetites import kept_record, read_appetite
from ksdp.storage.reviews.decisions import exclusions
from ksdp.storage.schedules.changes import (
    Changes,
    Drift,
    VerdictTable,
    columns_digest,
    compare,
    digest_key,
    document_digests,
    measure_drift,
    read_standing,
    standing_after,
    verdict_counts,
    write_drift,
    write_standing,
)
from ksdp.storage.schedules.schedule_files import (
    Running,
    Schedule,
    ScheduledRun,
    append_run,
    asked,
    begin,
    due,
    finish,
    forget_asked,
    hold,
    read_runs,
    read_schedule,
    running,
)
from ksdp.storage.store import Store
from ksdp.tasks.cluster import open_workers


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
    appetite: Appetite | None
    """What it is held to."""
    spec: Spec | None
    """Of the audit to make; None where there is nothing to audit."""
    excluded: int
    """Documents that people excluded: audited with the others, and in no run."""


def check_schedulable(spec: Spec) -> None:
    """Refuse what cannot be followed from one audit to the next."""
    if getattr(spec.design, "unit", "document") != "document":
        raise SpecError("`design.unit` must be document: a schedule follows single documents.")
    if getattr(spec, "views", None) is not None:
        raise SpecError("`views` must be left out: schedule the audit of each view.")
    if isinstance(spec.design.documents, int):
        raise SpecError("`design.documents` must name ids or be left out: a schedule follows each document.")


def spec_basis(spec: Spec, columns: str | None = None, appetite: Appetite | None = None) -> str:
    """Hash of what a verdict depends on besides the documents, the seed and the level.

    Parameters
    ----------
    columns : str, optional
        What the files hold that say which columns there are (`columns_digest`), where the spec names some.
    appetite : Appetite, optional
        What audits are held to: by another one, everything is due.
    """
    tables = spec.model_dump(mode="json", exclude={"seed", "store", *SAID_ALONE})
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
    beside = {"columns": columns or {}, "code": code, "appetite": appetite and appetite.hash}
    return content_key(tables | {name: held for name, held in beside.items() if held})


def due_audit(store: Store, schedule: Schedule, *, full: bool) -> DueAudit:
    """Load the corpus and decide what to audit.

    Everything where nothing stands yet, where somebody asks for it, where the spec has changed, or a file of its
    that says which columns there are, where it is the turn of `full_every`, where a risk appetite asks for all, or
    where the spec has other parties (they hold documents drawn anew each time); else the new and the changed
    documents. Nothing where none is new, changed or gone.
    """
    spec, base = read_spec_file(Path(schedule.spec))
    check_schedulable(spec)
    asked = None if schedule.appetite is None else read_appetite(Path(schedule.appetite), spec)
    source = find_source(spec.corpus, base)  # what has changed is said of the very file that is audited
    corpus = corpus_of(source, nonnegative=traits_of(mechanism_of(spec.mechanism)).nonnegative)
    every, columns = document_digests(source, digest_key(store)), columns_digest(source.spec)
    named = spec.design.documents
    named_ids = set(named) if isinstance(named, tuple) else None
    ids = [str(name) for name in corpus.ids if named_ids is None or str(name) in named_ids]
    digests = {name: every[name] for name in ids}
    if not digests:
        raise SpecError("`design.documents` names no document that the corpus holds.")
    runs = read_runs(store, schedule.name)
    last = next((run for run in reversed(runs) if run.standing is not None), None)
    standing = None if last is None else read_standing(store, schedule.name, last.standing)
    basis, changes = spec_basis(spec, columns, asked), compare(standing, digests)
    budget = _budget(schedule, runs)
    moved = bool(changes.new or changes.changed or changes.removed)
    parties = spec.parties
    whole = any(one is not None for one in (parties.honest, parties.coalition, parties.me, asked))
    turn = moved and schedule.full_every > 0 and _since_full(runs) + 1 >= schedule.full_every
    full = full or last is None or last.basis != basis or turn or (moved and whole)
    audited = ids if full else [*changes.new, *changes.changed]
    drawn = None if full and named_ids is None else tuple(sorted(audited))
    wanted = next_spec(spec, budget, drawn) if audited else None
    file = None if last is None else last.standing
    out = exclusions(store, corpus, spec.corpus.path)
    return DueAudit(corpus, digests, changes, standing, file, budget, basis, full, asked, wanted, len(out))


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


SERVED = "KSDP_SERVED_BY"
"""Environment variable that holds the process id of `ksdp serve`."""

_LONGEST_REASON = 500


@dataclass(frozen=True, eq=False)
class _Attempted:
    due: DueAudit
    summary: Summary | None
    """None: there was nothing to audit."""


@task(name="audit what changed", cache_policy=NO_CACHE, persist_result=False)
async def _attempt(store: str, schedule: Schedule, full: bool, begun: Callable[[], None]) -> _Attempted:
    """Look at the corpus and audit what is new or changed; interrupted, the next attempt resumes."""
    begun()
    opened = Store(Path(store))
    seen = await asyncio.to_thread(due_audit, opened, schedule, full=full)
    if seen.spec is None:
        return _Attempted(seen, None)
    plan = await asyncio.to_thread(make_plan, seen.spec, seen.corpus)
    ready = await asyncio.to_thread(prepare_stored, plan, opened.root, may_sample=True, part=not seen.full)
    ref = ready.held_to(seen.appetite).ref
    with ExitStack() as held:
        await _hold_store(opened, held)
        cluster = held.enter_context(open_workers(schedule.workers, asked=seen.spec.cluster))
        made = await audit(ref.store, ref.audit, ref.corpus, cluster.address, True, ref.blocks, ref.code)
        return _Attempted(seen, made)


@flow(name="scheduled-audit", flow_run_name="{schedule}", validate_parameters=False)
async def scheduled_audit(store: str, schedule: str, full: bool = False, only_due: bool = False) -> State[Any]:
    """Run a schedule once, if that is due or asked for.

    Parameters
    ----------
    store, schedule : str
        Folder of the store, name of the schedule.
    full : bool
        Audit every document, changed or not.
    only_due : bool
        Do nothing where nothing is due. Else somebody wants a run now.
    """
    _die_with_server()
    opened = Store.open(Path(store), create=False)
    context = FlowRunContext.get()
    run = None if context is None else context.flow_run
    with ExitStack() as stack:
        await _held(opened, stack)
        try:
            read = read_schedule(opened, schedule)
        except StoreError as error:
            return Completed(name="Skipped", message=str(error))
        occasion = due(read, read_runs(opened, schedule), utc_now())
        if occasion is None and only_due:
            return Completed(name="Skipped", message="nothing is due: another run has made up for it.")
        if read.paused and only_due:
            return Completed(name="Skipped", message="the schedule is paused.")
        before = running(opened, schedule)
        crashes = before.crashes + (0 if before.stopped else 1) if before is not None else 0
        mark = Running(
            planned=None if occasion is None else occasion.planned,
            started=utc_now(),
            pid=os.getpid(),
            full=full or (before is not None and before.full),
            crashes=crashes,
            flow_run=None if run is None else str(run.id),
        )
        missed = 0 if occasion is None else occasion.missed
        return await _run(opened, read, mark, missed)


@dataclass(frozen=True, eq=False)
class _Tried:
    """How the attempts of a run ended."""

    outcome: str
    attempts: int = 0
    attempted: _Attempted | None = None
    failure: Exception | None = None


async def _tried(store: Store, schedule: Schedule, mark: Running) -> _Tried:
    """Run with the schedule's retries; on interruption keep the running mark."""
    if mark.crashes > schedule.retries:
        return _Tried("crashed", failure=KsdpError(f"its process died {mark.crashes} times."))
    begin(store, schedule.name, mark)
    wanted = asked(store, schedule.name)
    if wanted is not None and (mark.full or not wanted.full):
        forget_asked(store, schedule.name)  # not before: until here it is nowhere else that a run is wanted
    attempts: list[datetime] = []
    tried = _attempt.with_options(
        retries=schedule.retries,
        retry_delay_seconds=[schedule.backoff * 2**n for n in range(max(schedule.retries, 1))],
        retry_jitter_factor=0.1,
        timeout_seconds=schedule.timeout,
    )
    try:
        attempted = await tried(str(store.root), schedule, mark.full, lambda: attempts.append(utc_now()))
    except TimeoutError:
        late = KsdpError(f"an attempt took longer than {schedule.timeout} s.")
        return _Tried("timed-out", len(attempts), failure=late)
    except Exception as error:
        if (ended := told_to_stop(error)) is not None:
            raise ended from None  # the run is made once more
        return _Tried("failed", len(attempts), failure=error)
    return _Tried("unchanged", len(attempts), attempted)


async def _run(store: Store, schedule: Schedule, mark: Running, missed: int) -> State[Any]:
    """Make the run that the mark stands for, and write down what became of it."""
    started = time.monotonic()
    tried = await _tried(store, schedule, mark)
    attempted, failure = tried.attempted, tried.failure
    about = {
        "planned": mark.planned,
        "started": mark.started,
        "finished": utc_now(),
        "outcome": tried.outcome,
        "attempts": max(tried.attempts, 1),
        "missed": missed,
        "seconds": round(time.monotonic() - started, 3),
        "flow_run": mark.flow_run,
        "reason": None if failure is None else _reason(failure),
    }
    drift = None
    if attempted is not None:
        told, drift = await asyncio.to_thread(_findings, store, schedule, attempted, mark)
        about |= told
    run = ScheduledRun.model_validate(about)
    append_run(store, schedule.name, run)
    finish(store, schedule.name)
    emit_run(store, schedule, run)
    try:
        await publish_run(store, schedule, run, None if attempted is None else attempted.summary, drift)
    except Exception as error:  # the store has it all; a page less is no failed audit
        get_run_logger().warning("the artifacts could not be written: %s", type(error).__name__)
    if failure is not None:
        raise failure
    return _state_of(run)


def _state_of(run: ScheduledRun) -> State[Any]:
    """What Prefect shows of a run that came to its end."""
    if run.outcome == "void":
        raise InvalidAudit(f"the controls of audit {run.audit} failed; its level is spent.")
    if run.outcome == "unchanged":
        return Completed(name="Unchanged", message="no document is new or changed; nothing was audited or spent.")
    return Completed(message=f"audited {run.words}.")


def told_to_stop(error: BaseException | None) -> TerminationSignal | None:
    """The signal that ended a run, where Prefect's engine stumbled over it and raised something else."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, TerminationSignal):
            return error
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return None


def _findings(
    store: Store, schedule: Schedule, attempted: _Attempted, mark: Running
) -> tuple[dict[str, Any], Drift | None]:
    """What goes into the history; the verdicts as they stand and the drift are written before it."""
    seen, summary = attempted.due, attempted.summary
    told: dict[str, Any] = {
        "corpus": seen.corpus.hash,
        "basis": seen.basis,
        "documents": seen.changes.counts() | {"audited": 0, "excluded": seen.excluded},
        "level_left": seen.budget.left,
    }
    name = mark.started.strftime("%Y%m%dT%H%M%S%f")
    if summary is None:
        after = standing_after(seen.standing, seen.digests, store, None)
        gone = seen.changes.removed or seen.standing_file is None
        file = write_standing(store, schedule.name, name, after) if gone else seen.standing_file
        return told | {"standing": file, "verdicts": verdict_counts(after)}, None
    audit_id = summary.audit
    spent = seen.budget.spend(summary.valid and summary.verdicts.sensitive > 0)
    told |= {
        "outcome": "audited" if summary.valid else "void",
        "reason": summary.controls.reason,
        "audit": audit_id,
        "number": seen.budget.number,
        "full": seen.full,
        "documents": told["documents"] | {"audited": summary.documents},
        "level": seen.budget.next_level,
        "level_left": spent.left,
        "budget": spent.as_dict(),
        "sampled_runs": summary.sampled_runs,
        "cached_runs": summary.cached_runs,
    }
    if (record := kept_record(store, audit_id)) is not None:
        told["appetite_missed"] = [one.name for one in record.missed]
    if not summary.valid:  # its verdicts may not be used: what stood before stands
        return told, None
    after = standing_after(seen.standing, seen.digests, store, audit_id)
    drift = measure_drift(seen.standing, after, store, audit_id)
    write_drift(store, schedule.name, audit_id, drift)
    return told | {
        "standing": write_standing(store, schedule.name, name, after),
        "verdicts": verdict_counts(after),
        "became_sensitive": drift.became_sensitive,
        "verdict_changes": len(drift.verdicts),
        "largest_drift": drift.largest,
        "largest_d": summary.largest_distance,
    }, drift


def _reason(failure: BaseException) -> str:
    """For people; only messages of our own are known to hold no text of a document."""
    reason = str(failure) if isinstance(failure, KsdpError) else type(failure).__name__
    return reason[:_LONGEST_REASON]


async def _hold_store(store: Store, stack: ExitStack) -> None:
    """Wait for an audit that somebody else has started in the store, such as more runs: it is no failure."""
    while True:
        try:
            stack.enter_context(one_at_a_time(store.root))
            return
        except StoreError:
            await asyncio.sleep(1.0)


async def _held(store: Store, stack: ExitStack) -> None:
    """Wait until no other scheduled run of this store is under way."""
    while True:
        trying = ExitStack()
        if trying.enter_context(hold(store)):
            stack.push(trying)
            return
        trying.close()
        await asyncio.sleep(1.0)


def _die_with_server() -> None:
    """Linux: be killed when `ksdp serve` is, so that no orphan goes on without a server to report to."""
    parent = os.environ.get(SERVED)
    if parent is None or sys.platform != "linux":
        return
    die_with_parent(signal.SIGKILL)
    if os.getppid() != int(parent):
        os.kill(os.getpid(), signal.SIGKILL)
