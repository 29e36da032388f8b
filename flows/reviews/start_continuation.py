"""Start the continuation of an audit in a process of its own, which outlives whoever started it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

from ksdp.audit.errors import StoreError
from ksdp.flows.clock import Clock
from ksdp.storage.audits.continuation import claimed, open_log, read_progress, write_progress
from ksdp.storage.findings import read_spec
from ksdp.storage.store import Store


def start_more_runs(store: Store, audit: str, clock: Clock) -> str:
    """Start `ksdp more` for all that more runs are decided for in an audit; in a sentence, what was done.

    One process at a time continues an audit, and waits for another audit that is running in the store. It inherits
    the lock from here, so that there is no moment in which it is neither started nor dead. What it prints goes to
    `reviews/more-runs/<audit>.log`.
    """
    shared = read_spec(store.audit(audit)).design.kind == "shared"
    with claimed(store, audit) as mine:
        if mine is None:
            return _under_way((read_progress(store, audit) or {}).get("state"), shared)
        now = clock().isoformat(timespec="seconds")
        write_progress(store, audit, {"state": "starting", "started": now, "changed": now, "process": os.getpid()})
        command = [sys.executable, "-m", "ksdp", "more", audit, "--store", str(store.root)]
        try:
            with open_log(store, audit) as output:
                process = subprocess.Popen(
                    [*command, "--wait", "--held", str(mine)],
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
    return "More runs were started; the audit that continues this one supersedes it when it is done."


def _under_way(state: str | None, shared: bool) -> str:
    if state != "running":
        return "More runs are queued already; they take this into account."
    if shared:
        return "More runs are under way already, and every document gets them."
    return "More runs for other documents are under way; start these when they are done."
