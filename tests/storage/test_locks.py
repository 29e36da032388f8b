"""Locks between processes: who waits, who is refused, and what a dead holder leaves behind."""

import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ksdp.audit.errors import StoreError
from ksdp.storage.locks import is_locked, lock, shared_lock, startable_lock, try_lock

HOLDER = """
import sys
from pathlib import Path
from ksdp.storage.locks import lock, shared_lock
with {kind}(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def held_elsewhere(path: Path, kind: str = "lock") -> Iterator[subprocess.Popen[str]]:
    """Another process holds the lock, until it is killed or the context ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER.format(kind=kind), str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "held\n"
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store" / "lock"


def test_a_lock_that_is_taken_refuses_in_the_callers_words(path: Path) -> None:
    with held_elsewhere(path) as holder:
        assert is_locked(path)
        with pytest.raises(StoreError, match=r"^somebody is at work\.$"), lock(path, busy="somebody is at work."):
            pass
        with try_lock(path) as mine:
            assert not mine
        with startable_lock(path) as descriptor:
            assert descriptor is None
        holder.kill()
        holder.wait()
        assert not is_locked(path)
        with try_lock(path) as mine:
            assert mine


def test_who_waits_is_told_once_and_then_has_it(path: Path) -> None:
    told = threading.Event()
    held = threading.Event()

    def wait() -> None:
        with lock(path, busy="not looked at", waiting=told.set):
            held.set()

    with held_elsewhere(path) as holder:
        thread = threading.Thread(target=wait)
        thread.start()
        assert told.wait(20)
        assert not held.is_set()
        holder.kill()
        thread.join(20)
    assert held.is_set()


def test_readers_hold_it_together_and_no_writer_beside_them(path: Path) -> None:
    with lock(path):
        pass
    with held_elsewhere(path, "shared_lock"), shared_lock(path):
        assert not is_locked(path)  # by one alone
        with try_lock(path) as mine:
            assert not mine


def test_asking_and_reading_make_no_file(path: Path) -> None:
    assert not is_locked(path)
    with shared_lock(path):
        assert not path.exists()


def test_a_passing_question_does_not_cost_the_lock(path: Path) -> None:
    """`is_locked` has the lock for a moment; who takes it then tries again."""
    with lock(path):
        pass
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            is_locked(path)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        for _ in range(200):
            with lock(path, busy="taken"):
                pass
    finally:
        stop.set()
        thread.join()


def test_a_process_that_was_started_with_it_goes_on_holding_it(path: Path) -> None:
    with startable_lock(path) as descriptor:
        assert descriptor is not None
        child = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()"], pass_fds=[descriptor], stdin=subprocess.PIPE
        )
    try:
        assert is_locked(path)
    finally:
        child.kill()
        child.communicate()
    assert not is_locked(path)


def test_a_lock_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be opened"), lock(tmp_path / "file" / "lock"):
        pass
