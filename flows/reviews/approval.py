"""A flow that waits for people: audit, wait until every sensitive document is decided, sign what may be used.

What is waited for stands in a Prefect artifact. While it waits it holds neither the store nor any worker, so that
decisions can be made, and more runs be run, on the same store. A newer audit of the same question takes the place
of the one it began with. Ended or killed, it can be started again: the audit is there already.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ksdp.audit.errors import InvalidAudit, KsdpError
from ksdp.audit.reviewing import Decision, Status
from ksdp.audit.spec import Spec
from ksdp.flows.audits.place import ANYWHERE, Place
from ksdp.flows.audits.run import run_prepared
from ksdp.flows.interruption import run_until_stopped
from ksdp.flows.prefect_server import prefect_server, reached
from ksdp.flows.prepare import Prepared, prepare
from ksdp.flows.progress import current
from ksdp.flows.screening.clear import clearance_from_decisions
from ksdp.flows.screening.signing import Signing
from ksdp.storage.audits.screens import verdict_ids
from ksdp.storage.findings import read_verdicts
from ksdp.storage.reviews.decisions import newer_audits, snapshot
from ksdp.storage.store import Store
from ksdp.tasks.audit_ref import AuditRef, open_plan

_SHOWN = 50
"""Documents that an artifact names."""


@dataclass(frozen=True)
class Patience:
    """How long decisions are waited for, and how often the log is looked at."""

    timeout: timedelta
    poll: timedelta = timedelta(seconds=2)


def undecided_documents(store: Path, audit: str) -> tuple[str, list[str]]:
    """The newest audit that asked what `audit` asked, and its documents that people must still answer for.

    These are the sensitive ones without `exclude` or `accept` in force, and any that waits for a second person.
    """
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
    return newest, list(dict.fromkeys([*(name for name in sensitive if name not in settled), *waiting]))


def _markdown(audit: str, waiting: Sequence[str], until: datetime) -> str:
    if not waiting:
        return f"# Audit {audit}\n\nEverything that people had to answer for is decided.\n"
    more = f"\n\nand {len(waiting) - _SHOWN} more" if len(waiting) > _SHOWN else ""
    names = "\n".join(f"- `{name.replace('`', ' ')}`" for name in waiting[:_SHOWN])
    return (
        f"# Audit {audit} waits for decisions\n\n{len(waiting)} documents are sensitive, or wait for a second "
        f"person, until {until.isoformat(timespec='minutes')}:\n\n{names}{more}\n\n"
        f'`ksdp decide {audit} DOCUMENT --decision exclude --reason "..." --who "..."`\n'
    )


async def await_decisions(store: Path, audit: str, patience: Patience) -> str:
    """Return when no document of the audit waits for people; the id of the audit that they decided about.

    Called inside a Prefect flow, it keeps an artifact `approval-<audit>` of what is waited for.
    """
    from prefect.artifacts import acreate_markdown_artifact

    end = time.monotonic() + patience.timeout.total_seconds()
    until = datetime.now(UTC) + patience.timeout
    shown: tuple[str, list[str]] | None = None
    while True:
        newest, waiting = found = await asyncio.to_thread(undecided_documents, store, audit)
        if found != shown:
            if shown is None or not waiting or len(waiting) != len(shown[1]):
                current().say(f"audit {newest}: {len(waiting)} documents wait for a decision")
            markdown = _markdown(newest, waiting, until)
            await acreate_markdown_artifact(key=f"approval-{audit}", markdown=markdown, description="decisions")
            shown = found
        if not waiting:
            return newest
        if time.monotonic() >= end:
            raise KsdpError(
                f"{len(waiting)} documents of audit {newest} were not decided in time; the same command waits on."
            )
        await asyncio.sleep(patience.poll.total_seconds())


def run_approval(
    spec: Spec, base: Path, store: Path, signing: Signing, patience: Patience, place: Place = ANYWHERE
) -> dict[str, Any]:
    """Audit, wait for decisions, write the clearance: one Prefect flow, `approval`.

    Parameters
    ----------
    spec : Spec
        What is audited.
    base : Path
        Folder that the spec's paths are relative to.
    store : Path
        Folder of the store; made where there is none.
    signing : Signing
        Who signs. The clearance holds as long as this says, from the moment at which it is signed. The flow signs
        without asking again: everybody who may decide in this store thereby decides what it signs.
    patience : Patience
        How long decisions are waited for.
    place : Place, optional
        Where it is run.

    Returns
    -------
    dict
        As `clearance_from_decisions` gives it.
    """
    signing.check()
    current().stage("prepare", 1)
    prepared = prepare(spec, base, store)
    root = Path(prepared.ref.store)
    with prefect_server(Store(root).prefect) as server:
        from prefect import flow

        server.wait()

        @flow(name="approval", flow_run_name="approval {audit}", validate_parameters=False)
        async def approval(audit: str) -> dict[str, Any]:
            ref = AuditRef(str(root), audit, prepared.ref.corpus)
            audits = [Prepared(ref, open_plan(ref))]
            summary = (await asyncio.to_thread(run_prepared, audits, place))[0]
            if not summary.valid:
                raise InvalidAudit(f"{summary.controls.reason}. No verdict may be used.")
            decided = await await_decisions(root, audit, patience)
            now = datetime.now(UTC)
            return await asyncio.to_thread(clearance_from_decisions, root, decided, signing.at(now))

        with reached(server):
            return run_until_stopped(approval(prepared.ref.audit))
