"""One run of a schedule: what has changed in the corpus, the audit of it, what became of it.

Prefect says when, tries again, and keeps the runs that failed. Runs of one store wait for each other.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect import flow, get_run_logger, task
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.states import Completed

from ksdp.audit.contract import traits_of
from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.errors import InputError, InvalidAudit, KsdpError, SpecError, StoreError
from ksdp.audit.mechanisms.parameters import parameters_of
from ksdp.audit.opened import Opened
from ksdp.audit.planning import make_plan
from ksdp.audit.registry import mechanism_of, own_code, statistics
from ksdp.audit.results.appetite import Appetite
from ksdp.audit.results.summary import Summary
from ksdp.audit.specs.content_keys import content_key
from ksdp.audit.specs.models import SAID_ALONE, Spec
from ksdp.audit.statistic import own_statistics
from ksdp.audit.verdicts.online import LevelBudget, next_spec
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
    stamps_of,
    standing_after,
    verdict_counts,
    write_drift,
    write_standing,
)
from ksdp.storage.schedules.schedule_files import (
    Schedule,
    ScheduledRun,
    append_run,
    budget_of,
    check_schedulable,
    hold,
    note_failure,
    read_runs,
    read_schedule,
)
from ksdp.storage.store import Store
from ksdp.tasks.cluster import open_workers


@dataclass(frozen=True, eq=False)
class DueAudit:
    """The corpus as it is, and what is to be audited of it."""

    corpus: Corpus
    digests: dict[str, str]
    """Digests of the documents that the spec is about and the corpus holds."""
    changes: Changes
    standing: VerdictTable | None
    last: ScheduledRun | None
    """The run that left it."""
    budget: LevelBudget
    basis: str
    full: bool
    """Everything is audited, changed or not."""
    appetite: Appetite | None
    spec: Spec | None
    """Spec of the audit to make; None if there is nothing to audit."""
    excluded: int
    """Documents that people excluded: audited with the others, and in no run."""


def spec_basis(spec: Spec, columns: str | None = None, appetite: Appetite | None = None) -> str:
    """Hash of what a verdict depends on besides the documents, the seed and the level."""
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
    made, wanted = mechanism_of(spec.mechanism), spec.statistics
    code = own_code([tables["mechanism"], tables["statistics"]["names"]], [made])
    tested = (s for s in statistics().values() if s.family in wanted.families or s.name in wanted.names)
    versions = {s.name: s.version for s in (*tested, *own_statistics(made))}
    tables["made"] = [made.version, parameters_of(made), versions]
    beside = {"columns": columns or {}, "code": code, "appetite": appetite and appetite.model_dump(mode="json")}
    return content_key(tables | {name: value for name, value in beside.items() if value})


def due_audit(store: Store, schedule: Schedule, *, full: bool) -> DueAudit:
    """Load the corpus and decide what to audit."""
    spec, base = read_spec_file(Path(schedule.spec))
    check_schedulable(spec)
    appetite = None if schedule.appetite is None else read_appetite(Path(schedule.appetite), spec)
    source = find_source(spec.corpus, base)  # what has changed is said of the very file that is audited
    before = stamps_of(source)
    corpus = corpus_of(source, nonnegative=traits_of(mechanism_of(spec.mechanism)).nonnegative)
    every, columns = document_digests(source, digest_key(store)), columns_digest(source.spec)
    if stamps_of(source) != before:
        raise InputError(f"{source.path.name} or a file beside it was replaced while it was read: run this again.")
    named = spec.design.documents
    named_ids = set(named) if isinstance(named, tuple) else None
    ids = [str(name) for name in corpus.ids if named_ids is None or str(name) in named_ids]
    digests = {name: every[name] for name in ids}
    if not digests:
        raise SpecError("`design.documents` names no document that the corpus holds.")
    runs = read_runs(store, schedule.name)
    last = next((run for run in reversed(runs) if run.standing is not None), None)
    standing = None if last is None else read_standing(store, schedule.name, last.standing)
    basis, changes = spec_basis(spec, columns, appetite), compare(standing, digests)
    budget = budget_of(schedule, runs)
    moved = bool(changes.new or changes.changed or changes.removed)
    parties = spec.parties
    needs_all = any(option is not None for option in (parties.honest, parties.coalition, parties.me, appetite))
    since, largest = _since_full(runs)
    turn = moved and schedule.full_every > 0 and since + 1 >= schedule.full_every
    turn = turn or len(corpus.ids) < _HIDES_AS_WELL * largest
    parts = [*changes.new, *changes.changed]
    full = full or last is None or last.basis != basis or turn or (moved and needs_all) or len(parts) == len(ids)
    audited = ids if full else parts
    drawn = None if full and named_ids is None else tuple(sorted(audited))
    wanted = next_spec(spec, budget, drawn) if audited else None
    out = exclusions(store, corpus, spec.corpus.path)
    return DueAudit(
        corpus, digests, changes, standing, last, budget, basis, full, appetite, wanted, len(out.keys() & {*ids})
    )


_HIDES_AS_WELL = 0.9
"""Share of a corpus that hides a document about as well as all of it."""


def _since_full(runs: list[ScheduledRun]) -> tuple[int, int]:
    """Audits since the last one of all documents, and the largest corpus that a standing verdict is from."""
    sizes = []
    for run in reversed(runs):
        if run.outcome == "audited":
            sizes.append(run.rows)
            if run.full:
                break
    return max(len(sizes) - 1, 0), max(sizes, default=0)


SERVED = "KSDP_SERVED_BY"
"""Environment variable that holds the process id of `ksdp serve`."""

FLOW = "ksdp-schedule"


@dataclass(frozen=True, eq=False)
class _Attempted:
    due: DueAudit
    summary: Summary | None
    """None: there was nothing to audit."""


class VoidNight(InvalidAudit):
    """An audit whose controls failed; the night's line says so. Other audits that are void leave no line."""


async def _worth_another(_task: Any, _run: Any, state: State[Any]) -> bool:
    """A void audit would be void again, or valid by luck."""
    return not isinstance(await state.aresult(raise_on_failure=False), InvalidAudit)


@task(name="audit what changed", cache_policy=NO_CACHE, persist_result=False, retry_condition_fn=_worth_another)
async def _attempt(store: str, schedule: Schedule, full: bool) -> _Attempted:
    """Look at the corpus and audit what is new or changed; interrupted, the next attempt resumes."""
    opened = Store(Path(store))
    seen = await asyncio.to_thread(due_audit, opened, schedule, full=full)
    if seen.spec is None:
        return _Attempted(seen, None)
    plan = await asyncio.to_thread(make_plan, Opened.of(seen.spec, seen.corpus))
    ready = await asyncio.to_thread(prepare_stored, plan, opened.root, may_sample=True, part=not seen.full)
    ref = ready.held_to(seen.appetite).ref
    with ExitStack() as stack:
        await _hold_store(opened, stack)
        cluster = stack.enter_context(open_workers(schedule.workers, spec=seen.spec.cluster))
        made = await audit(ref.store, ref.audit, ref.corpus, cluster.address, True, ref.blocks, ref.code)
        return _Attempted(seen, made)


@flow(name=FLOW, flow_run_name="{schedule}")
async def scheduled_audit(
    store: str,
    schedule: str,
    full: bool = False,
    retries: int = 0,
    retry_delay_seconds: float = 60.0,
    timeout_seconds: float | None = None,
) -> State[Any]:
    """Audit what has changed since the last run of a schedule."""
    _die_with_server()
    opened, began = Store.open(Path(store), create=False), time.monotonic()
    read, context = read_schedule(opened, schedule), FlowRunContext.get()
    attempt = _attempt.with_options(
        retries=retries,
        retry_delay_seconds=[retry_delay_seconds * 2**n for n in range(max(retries, 1))],
        retry_jitter_factor=0.1,
        timeout_seconds=timeout_seconds,
    )
    with ExitStack() as stack:
        await _held(opened, stack)
        started = utc_now()
        try:
            attempted = await attempt(str(opened.root), read, full)
        except Exception as error:  # of one that nobody foresaw the kind alone: its message may hold anything
            said = str(error) if isinstance(error, KsdpError) else type(error).__name__
            note_failure(opened, schedule, utc_now(), said)
            raise
        note_failure(opened, schedule, started, None)
        findings, drift = await asyncio.to_thread(_findings, opened, read, attempted, started)
        run = ScheduledRun(
            **findings,
            started=started,
            finished=utc_now(),
            seconds=round(time.monotonic() - began, 3),
            flow_run=None if context is None or context.flow_run is None else str(context.flow_run.id),
        )
        append_run(opened, schedule, run)
        if drift is not None and run.audit is not None:  # after the line that it belongs to
            write_drift(opened, schedule, run.audit, drift)
    emit_run(opened, read, run)
    if run.verdicts and run.flow_run:
        async with get_client() as client:
            counts = ", ".join(f"{number} {word}" for word, number in run.verdicts.items())
            await client.update_flow_run(UUID(run.flow_run), name=f"{schedule}: {counts}")
    try:
        await publish_run(opened, read, run, attempted.summary, drift)
    except Exception as error:  # the store has it all; a page less is no failed audit
        get_run_logger().warning("the artifacts could not be written: %s", type(error).__name__)
    if run.outcome == "void":
        raise VoidNight(f"the controls of audit {run.audit} failed; its level is spent.")
    if run.outcome == "unchanged":
        return Completed(name="Unchanged", message="no document is new or changed; nothing was audited or spent.")
    return Completed(message=f"audited {run.words}.")


def _findings(
    store: Store, schedule: Schedule, attempted: _Attempted, started: datetime
) -> tuple[dict[str, Any], Drift | None]:
    seen, summary = attempted.due, attempted.summary
    line: dict[str, Any] = {
        "outcome": "unchanged",
        "corpus": seen.corpus.hash,
        "rows": len(seen.corpus.ids),
        "basis": seen.basis,
        "documents": seen.changes.counts() | {"audited": 0, "excluded": seen.excluded},
        "level_left": seen.budget.left,
    }
    name = started.strftime("%Y%m%dT%H%M%S%f")
    if summary is None:
        after = standing_after(seen.standing, seen.digests, store, None)
        last = None if seen.changes.removed else seen.last
        file = last.standing if last else write_standing(store, schedule.name, name, after)
        missed = seen.last and seen.last.appetite_missed
        return line | {"standing": file, "verdicts": verdict_counts(after), "appetite_missed": missed}, None
    audit_id = summary.audit
    spent = seen.budget.spend(summary.valid and summary.verdicts.sensitive > 0)
    line |= {
        "outcome": "audited" if summary.valid else "void",
        "reason": summary.controls.reason,
        "audit": audit_id,
        "number": seen.budget.number,
        "full": seen.full,
        "documents": line["documents"] | {"audited": summary.documents},
        "level": seen.budget.next_level,
        "level_left": spent.left,
        "budget": spent.as_dict(),
        "sampled_runs": summary.sampled_runs,
        "cached_runs": summary.cached_runs,
    }
    if (record := kept_record(store, summary)) is not None:
        line["appetite_missed"] = tuple(criterion.name for criterion in record.missed)
    if not summary.valid:  # its verdicts may not be used: what stood before stands
        return line, None
    after = standing_after(seen.standing, seen.digests, store, audit_id)
    drift = measure_drift(seen.standing, after, store, audit_id)
    return line | {
        "standing": write_standing(store, schedule.name, name, after),
        "verdicts": verdict_counts(after),
        "became_sensitive": drift.became_sensitive,
        "verdict_changes": len(drift.verdicts),
        "largest_drift": drift.largest,
        "largest_d": summary.largest_distance,
    }, drift


async def _hold_store(store: Store, stack: ExitStack) -> None:
    """Wait for an audit that somebody else has started in the store, such as more runs: it is no failure."""
    while True:
        try:
            stack.enter_context(one_at_a_time(store.root, busy="another audit is running."))
            return
        except StoreError:
            await asyncio.sleep(1.0)


async def _held(store: Store, stack: ExitStack) -> None:
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
