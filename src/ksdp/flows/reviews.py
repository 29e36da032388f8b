"""Review decisions, the runs that they ask for, and the wait for people that ends in a clearance."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ksdp.audit.corpus.groups import Unit, unit_names
from ksdp.audit.errors import InputError, InvalidAudit, KsdpError, NotFound, StoreError
from ksdp.audit.opened import Opened
from ksdp.audit.planning import make_plan, topped_up, wanted_factor
from ksdp.audit.results.summary import Summary
from ksdp.audit.reviewing import CorpusUnits, Decision, Entry, Proposal, Status, plural
from ksdp.audit.screening.screen_summary import ScreenSummary
from ksdp.audit.specs.models import Spec
from ksdp.flows.audits.place import ANYWHERE, Place
from ksdp.flows.audits.run import one_at_a_time, run_prepared
from ksdp.flows.interruption import Clock, Listener, current, listening, run_until_stopped, utc_now
from ksdp.flows.prefect_server import prefect_server, reached
from ksdp.flows.prepare import Prepared, audit_id, open_spec, prepare, prepare_stored
from ksdp.flows.screening.clear import ClearRules, Signing, clear
from ksdp.storage.audits.continuation import Origin, claimed, open_log, read_origin, write_origin, write_progress
from ksdp.storage.audits.history import read_summary
from ksdp.storage.findings import read_spec, read_verdicts, verdict_ids
from ksdp.storage.mapped_corpus import open_corpus
from ksdp.storage.reviews.appetites import keep_appetite, kept_appetite
from ksdp.storage.reviews.decisions import Subject, append, newer_audits, snapshot, states
from ksdp.storage.store import Store
from ksdp.tasks.audit_ref import AuditRef, code_of, open_plan


def start_more_runs(store: Store, audit: str, clock: Clock) -> None:
    """Start `ksdp more-runs AUDIT`, unless it is under way, for all that more runs are decided for."""
    with claimed(store, audit) as mine:
        if mine is None:
            return
        now = clock().isoformat(timespec="seconds")
        write_progress(store, audit, {"state": "starting", "started": now, "changed": now, "process": os.getpid()})
        command = [sys.executable, "-m", "ksdp", "more-runs", audit, "--store", str(store.root)]
        try:
            with open_log(store, audit) as output:
                process = subprocess.Popen(
                    [*command, "--lock", str(mine)],
                    pass_fds=[mine],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
        except OSError as error:
            reason = f"no process could be started: {error.strerror}."
            write_progress(store, audit, {"state": "failed", "started": now, "changed": now, "reason": reason})
            raise StoreError(reason) from error
    threading.Thread(target=process.wait, daemon=True).start()  # or it stays in the table of processes


def corpus_subject(spec: Spec, base: Path, *, groups: bool = False) -> Subject:
    """The documents of a spec's corpus, or its groups, to be excluded before there is an audit."""
    corpus = open_spec(spec, base).corpus
    unit: Unit = "group" if groups or spec.design.unit == "group" else "document"
    names = frozenset(map(str, unit_names(corpus, unit)))
    return Subject(CorpusUnits(corpus.hash, spec.corpus.path, unit), names)


def decide(
    store: Path,
    audit: str | Subject,
    documents: Sequence[str],
    decision: str,
    reason: str,
    reviewer: str,
    now: datetime,
    *,
    saw: int | None = None,
    owner: str = "",
    due: str = "",
) -> list[Entry]:
    """Record one decision or note about documents of an audit, or of a corpus; all or none. The log's entries."""
    if decision not in set(Decision):
        raise InputError(f"`decision` must be one of {', '.join(Decision)}; got {decision!r}.")
    if not documents:
        raise InputError("`documents` must name at least one.")
    kind = Decision(decision)
    subject, named = (None, audit) if isinstance(audit, str) else (audit, "")
    proposals = [Proposal(named, document, kind, reason, reviewer, saw, owner, due) for document in documents]
    opened = Store.open(store, create=subject is not None)
    return append(opened, proposals, now, subject=subject)


@dataclass(frozen=True)
class WantedRuns:
    """Documents that more runs are wanted for."""

    documents: tuple[str, ...] | None = None
    """None: those whose decision in force is `more-runs` when it begins."""
    with_runs: int | None = None
    """Runs in the smaller arm; None: what the audit forecast for these documents."""


class _Written:
    """Passes progress on, and writes it into the store, once a second at most."""

    def __init__(self, store: Store, audit: str, clock: Clock) -> None:
        self._store, self._audit, self._clock = store, audit, clock
        self._next: Listener = current()
        self._last = clock()
        started = self._last.isoformat(timespec="seconds")
        self._about: dict[str, Any] = {"state": "starting", "started": started, "process": os.getpid(), "runs": 0}

    def stage(self, name: str, total: int) -> None:
        self._next.stage(name, total)
        self.write(stage=name, units=0, total=total)

    def advance(self, units: int) -> None:
        self._next.advance(units)
        self._about["units"] += units
        if self._about["stage"].startswith("sample"):
            self._about["runs"] += units
        if abs(self._clock() - self._last) >= timedelta(seconds=1):
            self.write()

    def say(self, text: str) -> None:
        self._next.say(text)

    def write(self, **changes: Any) -> None:
        self._last = self._clock()
        self._about |= changes | {"changed": self._last.isoformat(timespec="seconds")}
        write_progress(self._store, self._audit, self._about)

    def wait(self) -> None:
        self.say("another audit is running in this store; this one begins when it is done.")
        self.write(state="waiting")

    @contextmanager
    def told(self) -> Iterator[None]:
        """Say how it ended."""
        try:
            with listening(self):
                yield
        except KeyboardInterrupt:
            self.write(state="interrupted")
            raise
        except BaseException as error:
            # Of an error that nobody foresaw the kind alone: its message may hold anything.
            reason = str(error) if isinstance(error, KsdpError) else f"{type(error).__name__}, which is a fault."
            self.write(state="failed", reason=reason)
            raise
        self.write(state="done")


def _asked(store: Store, audit: str, wanted: WantedRuns) -> list[str]:
    if wanted.documents is not None:
        names = list(dict.fromkeys(wanted.documents))
    else:
        names = [name for name, state in states(store, audit).items() if state.asks_for_runs]
    if not names:
        raise InputError(f"no decision asks for more runs of documents of audit {audit}.")
    return names


def _more(store: Store, audit: str, documents: Sequence[str], with_runs: int | None) -> Spec:
    """The spec of the audit that continues another for these documents."""
    folder = store.audit(audit)
    rows = read_verdicts(folder).to_pandas().set_index("document")
    missing = [name for name in documents if name not in rows.index]
    if missing:
        raise NotFound(f"audit {audit} has no document {missing[0]!r}.")
    mine = rows.loc[list(documents)]
    # Both arms together are a part of the runs; the forecast is in runs.
    done = read_summary(folder).design.reading.total(mine["n_with"] + mine["n_without"])
    factor = wanted_factor(done, mine["runs_to_decide"])
    return topped_up(read_spec(folder), documents, factor, with_runs=with_runs)


def more_runs(
    store: Path,
    audit: str,
    wanted: WantedRuns | None = None,
    place: Place = ANYWHERE,
    *,
    lock: int | None = None,
    clock: Clock = utc_now,
) -> Summary:
    """Audit again with more runs, and return the summary of the audit that continues this one."""
    opened, wanted = Store.open(store, create=False), wanted or WantedRuns()
    summary = read_summary(opened.audit(audit))
    with claimed(opened, audit, lock) as mine:
        if mine is None:
            raise StoreError(f"audit {audit} is being continued already.")
        if lock is None:  # else it was said that this starts: how it ended must be said too
            _more(opened, audit, _asked(opened, audit, wanted), wanted.with_runs)
        written = _Written(opened, audit, clock)
        with written.told(), one_at_a_time(opened.root, written.wait):
            names = _asked(opened, audit, wanted)  # the wait may have been long
            more = _more(opened, audit, names, wanted.with_runs)
            plan = make_plan(Opened.of(more, open_corpus(opened.corpus(summary.corpus))))
            again = audit_id(plan, code_of(plan))
            for other in opened.audits():
                origin = read_origin(opened, other)
                if origin and audit in origin.audits[:-1] and again not in origin.audits:
                    raise InputError(f"audit {audit} was continued as {other}: ask for more runs of that one.")
            prepared = prepare_stored(plan, opened.root, may_sample=True, after=audit)
            if (held_to := kept_appetite(opened, audit)) is not None:
                keep_appetite(opened, prepared.ref.audit, held_to)
            before = read_origin(opened, audit) or Origin(read_spec(opened.audit(audit)).binding, (audit,))
            write_origin(opened, prepared.ref.audit, Origin(before.spec, (*before.audits, prepared.ref.audit)))
            progress = {"audit": prepared.ref.audit, "documents": len(names), "with_runs": more.design.with_runs}
            written.write(state="running", stage="prepare", units=0, total=1, **progress)
            return run_prepared([prepared], place, locked=True)[0]


_SHOWN = 50
"""Documents that an artifact names."""


@dataclass(frozen=True)
class Patience:
    """How long decisions are waited for, and how often the log is looked at."""

    timeout: timedelta
    poll: timedelta = timedelta(seconds=2)


def undecided_documents(store: Path, audit: str) -> tuple[str, list[str]]:
    """The newest audit that asked what `audit` asked, and its documents that people must still answer for."""
    opened = Store.open(store, create=False)
    newest = (newer_audits(opened, audit) or [audit])[0]
    states = snapshot(opened, newest).states
    settled = {
        name
        for name, state in states.items()
        if state.status is Status.DECIDED and state.decision is not Decision.MORE_RUNS
    }
    waiting = [name for name, state in states.items() if state.status is Status.WAITING]
    sensitive = verdict_ids(read_verdicts(opened.audit(newest)), ["sensitive"])
    proved = [name for name, state in states.items() if state.proved_by]
    open_documents = (name for name in (*sensitive, *proved) if name not in settled)
    return newest, list(dict.fromkeys([*open_documents, *waiting]))


def _markdown(audit: str, waiting: Sequence[str], until: datetime) -> str:
    if not waiting:
        return f"# Audit {audit}\n\nEverything that people had to answer for is decided.\n"
    more = f"\n\nand {len(waiting) - _SHOWN} more" if len(waiting) > _SHOWN else ""
    names = "\n".join(f"- `{name.replace('`', ' ')}`" for name in waiting[:_SHOWN])
    return (
        f"# Audit {audit} waits for decisions\n\n{plural(len(waiting), 'document')} sensitive, or waiting for a "
        f"second person, until {until.isoformat(timespec='minutes')}:\n\n{names}{more}\n\n"
        f'`ksdp decide {audit} DOCUMENT --decision exclude --reason "..." --who "..."`\n'
    )


async def await_decisions(store: Path, audit: str, patience: Patience) -> str:
    """Return when no document of the audit waits for people; the id of the audit that they decided about."""
    from prefect.artifacts import acreate_markdown_artifact

    end = time.monotonic() + patience.timeout.total_seconds()
    until = datetime.now(UTC) + patience.timeout
    shown: tuple[str, list[str]] | None = None
    while True:
        newest, waiting = state = await asyncio.to_thread(undecided_documents, store, audit)
        if state != shown:
            if shown is None or not waiting or len(waiting) != len(shown[1]):
                current().say(f"audit {newest}: {plural(len(waiting), 'document', 'wait')} for a decision")
            markdown = _markdown(newest, waiting, until)
            await acreate_markdown_artifact(key=f"approval-{audit}", markdown=markdown, description="decisions")
            shown = state
        if not waiting:
            return newest
        if time.monotonic() >= end:
            raise KsdpError(
                f"{plural(len(waiting), 'document')} of audit {newest} got no decision in time; the same command "
                "waits on."
            )
        await asyncio.sleep(patience.poll.total_seconds())


def run_approval(
    opened: Opened, store: Path, signing: Signing, rules: ClearRules, patience: Patience, place: Place = ANYWHERE
) -> ScreenSummary:
    """Audit, wait for decisions, write the clearance: one Prefect flow, `approval`."""
    signing.check(store)
    prepared = prepare(opened, store)
    root = Path(prepared.ref.store)
    with prefect_server(Store(root).prefect) as server:
        from prefect import flow

        server.wait()

        @flow(name="approval", flow_run_name="approval {audit}", validate_parameters=False)
        async def approval(audit: str) -> ScreenSummary:
            ref = AuditRef(str(root), audit, prepared.ref.corpus)
            audits = [Prepared(ref, open_plan(ref))]
            summary = (await asyncio.to_thread(run_prepared, audits, place))[0]
            if not summary.valid:
                raise InvalidAudit(f"{summary.controls.reason}. No verdict may be used.")
            decided = await await_decisions(root, audit, patience)
            now = datetime.now(UTC)
            return await asyncio.to_thread(clear, root, decided, signing.at(now), rules, place)

        with reached(server):
            return run_until_stopped(approval(prepared.ref.audit))
