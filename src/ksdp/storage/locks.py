"""Locks between processes: files that the operating system locks, and frees as soon as their holder is dead.

Whether somebody has a lock is all that counts: what the file holds is never read for it, and it is never removed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from ksdp.audit.errors import StoreError

_TAKEN = (errno.EWOULDBLOCK, errno.EACCES)
_TRIES, _TRY_SECONDS = 20, 0.01
"""Whoever asks `is_locked` has the lock for a moment: one try to take it would not be enough."""


@contextlib.contextmanager
def lock(path: Path, *, busy: str | None = None, waiting: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold a lock by oneself while the context lasts; wait for it where another process has it."""
    with _opened(path, os.O_RDWR | os.O_CREAT) as descriptor:
        if waiting is not None:
            if not _take(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB):
                waiting()
                _take(descriptor, fcntl.LOCK_EX)
        elif busy is not None:
            if not _take_soon(descriptor):
                raise StoreError(busy)
        else:
            _take(descriptor, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def shared_lock(path: Path) -> Iterator[None]:
    """Hold a lock for reading while the context lasts; wait for a writer, not for other readers."""
    if not path.is_file():
        yield
        return
    with _opened(path, os.O_RDONLY) as descriptor:
        _take(descriptor, fcntl.LOCK_SH)
        yield


@contextlib.contextmanager
def try_lock(path: Path) -> Iterator[bool]:
    """Hold a lock by oneself if it is free, while the context lasts; whether it was."""
    with _opened(path, os.O_RDWR | os.O_CREAT) as descriptor:
        yield _take(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextlib.contextmanager
def startable_lock(path: Path, inherited: int | None = None) -> Iterator[int | None]:
    """Hold a lock that another process can be started with, while the context lasts."""
    with _opened(path, os.O_RDWR | os.O_CREAT, inherited) as descriptor:
        yield descriptor if _take_soon(descriptor) else None


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock by itself. Nothing is made: a lock without a file is free."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        return not _take(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except StoreError:
        return True
    finally:
        os.close(descriptor)


def held_until_closed(descriptor: int) -> bool:
    """Lock an open file until it is closed; whether it still has a name (see `unlink_unlocked`)."""
    with contextlib.suppress(StoreError):
        _take(descriptor, fcntl.LOCK_EX)
    return os.fstat(descriptor).st_nlink > 0


def unlink_unlocked(path: Path) -> bool:
    """Remove a file that no process has locked, and return whether it was removed."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        free = _take(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if free:
            path.unlink()
        return free
    except StoreError:
        return False
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _opened(path: Path, flags: int, inherited: int | None = None) -> Iterator[int]:
    """A descriptor of the lock's file, or the one that is `inherited`; closed in the end, which frees the lock."""
    try:
        if inherited is None and flags & os.O_CREAT:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, flags, 0o600) if inherited is None else inherited
    except OSError as error:
        raise StoreError(f"the lock {path} cannot be opened: {error.strerror}.") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _take(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how)
    except OSError as error:
        if error.errno in _TAKEN and how & fcntl.LOCK_NB:
            return False
        raise StoreError(f"the store cannot be locked: {error.strerror}.") from error
    return True


def _take_soon(descriptor: int) -> bool:
    for _ in range(_TRIES):
        if _take(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB):
            return True
        time.sleep(_TRY_SECONDS)
    return False
