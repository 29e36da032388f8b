"""One scheduled audit a store, and how a run that died is known."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime

from ksdp.storage.schedules.schedule_files import Running, Schedule, begin, finish, hold, interrupted, running
from ksdp.storage.store import Store

MARK = Running(planned=None, started=datetime(2026, 3, 5, tzinfo=UTC), pid=1)

HOLDER = """
import sys, time
from pathlib import Path
from ksdp.storage.schedules.schedule_files import hold
from ksdp.storage.store import Store
with hold(Store.open(Path(sys.argv[1]))) as mine:
    print(mine, flush=True)
    time.sleep(60)
"""


def test_a_dead_process_holds_nothing_and_its_mark_remains(
    store: Store, scheduled: Callable[..., Schedule]
) -> None:
    scheduled()
    begin(store, "nightly", MARK)
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(store.root)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "True\n"
    with hold(store) as mine:
        assert not mine
    assert interrupted(store, "nightly") is None  # under way, as far as anybody can tell
    process.kill()
    process.wait()
    process.stdout.close()
    with hold(store) as mine:
        assert mine
    assert interrupted(store, "nightly") == MARK
    path = store.root / "schedules" / "nightly" / "running.json"
    for damage in (b"", b"{", path.read_bytes().replace(b'"pid": 1', b'"pid": 2')):
        path.write_bytes(damage)  # that a run was interrupted is known all the same
        damaged = interrupted(store, "nightly")
        assert damaged is not None
        assert (damaged.full, damaged.damaged, damaged.crashes) == (True, True, 0)
    finish(store, "nightly")
    assert interrupted(store, "nightly") is None
    assert running(store, "nightly") is None
