"""Files in Prefect's home: the password of the server, its log, and where `ksdp serve` runs one."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ksdp.audit.errors import StoreError
from ksdp.storage.locks import is_locked, lock
from ksdp.storage.store import write_text, write_whole

__all__ = [
    "keep_template",
    "make_home",
    "open_log",
    "server_address",
    "server_password",
    "sharing_address",
    "start_from_template",
    "template_of",
]

_PASSWORD = re.compile(r"ksdp:[A-Za-z0-9_-]{24}")


def make_home(home: Path) -> None:
    """Make Prefect's home where there is none, for this user alone."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)


def template_of(version: str) -> Path:
    """Where this user keeps a database of a Prefect version in which nothing has happened yet."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "ksdp" / f"prefect-{version}.db"


def start_from_template(database: Path, template: Path) -> bool:
    """Copy the template where there is no database yet; whether there was one to copy, or was no need.

    A new database takes Prefect hundreds of migrations, some seconds of CPU time, and always ends up the same.
    """
    if database.exists():
        return True
    try:
        content = template.read_bytes()
        with contextlib.closing(sqlite3.connect(f"{template.resolve().as_uri()}?mode=ro", uri=True)) as kept:
            whole = kept.execute("PRAGMA quick_check").fetchone() == ("ok",)
    except (OSError, sqlite3.Error):
        return False
    if not whole:
        return False

    def write(part: Path) -> None:
        part.write_bytes(content)

    write_whole(database, write)
    return True


def keep_template(database: Path, template: Path) -> None:
    """Copy a database that a server has just made, for the next new home; not where there is no room for it."""
    with contextlib.suppress(OSError, StoreError, sqlite3.Error):
        template.parent.mkdir(parents=True, exist_ok=True, mode=0o700)

        def write(part: Path) -> None:
            with (
                contextlib.closing(sqlite3.connect(database)) as made,
                contextlib.closing(sqlite3.connect(part)) as kept,
            ):
                made.backup(kept)

        write_whole(template, write)


def server_password(home: Path) -> str:
    """`user:password` of the server, made on first use and readable by its owner alone."""
    file = home / "password"
    said = file.read_text(encoding="utf-8").strip() if file.is_file() else ""
    if not _PASSWORD.fullmatch(said):  # none yet, or a process that was killed left half of one
        write_text(file, f"ksdp:{secrets.token_urlsafe(18)}")
        said = file.read_text(encoding="utf-8").strip()
    return said


def open_log(home: Path) -> tuple[Path, BinaryIO]:
    """The server's log: where it is, and open to be added to."""
    path = home / "server.log"
    return path, os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab")


@contextlib.contextmanager
def sharing_address(home: Path, url: str) -> Iterator[None]:
    """Say where the server is; the lock says that whoever said so lives, and is gone with its process."""
    file = home / "serving"
    with lock(file):
        file.touch(mode=0o600)
        file.write_text(url, encoding="utf-8")
        yield


def server_address(home: Path) -> str | None:
    """Address of the server that `ksdp serve` runs on this home, if it does."""
    file = home / "serving"
    return (file.read_text(encoding="utf-8").strip() or None) if is_locked(file) else None
