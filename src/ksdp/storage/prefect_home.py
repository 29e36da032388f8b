"""Files in Prefect's home: the password of the server, its log, its database, and where `ksdp serve` runs one.

A new database takes Prefect some hundred migrations, 7.5 CPU seconds, and always ends up the same: tables without
a row. So this user's first one is kept, empty as it is, and new homes start from a copy.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ksdp.audit.errors import StoreError
from ksdp.storage.files import read_stored
from ksdp.storage.locks import is_locked, lock
from ksdp.storage.store import write_text, write_whole

_PASSWORD = re.compile(r"ksdp:[A-Za-z0-9_-]{24}")


def make_home(home: Path) -> None:
    """Make Prefect's home where there is none, for this user alone."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)


def server_password(home: Path) -> str:
    """`user:password` of the server, made on first use and readable by its owner alone."""
    file = home / "password"
    password = read_stored(file).decode().strip() if file.is_file() else ""
    if not _PASSWORD.fullmatch(password):  # none yet, or a process that was killed left half of one
        write_text(file, f"ksdp:{secrets.token_urlsafe(18)}")
        password = read_stored(file).decode().strip()
    return password


def open_log(home: Path) -> tuple[Path, BinaryIO]:
    """The server's log: where it is, and open to be added to."""
    path = home / "server.log"
    return path, os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab")


@contextlib.contextmanager
def sharing_address(home: Path, url: str) -> Iterator[None]:
    """Publish the server's address; a lock shows that the publishing process is alive, and goes with it."""
    file = home / "serving"
    with lock(file):
        file.touch(mode=0o600)
        file.write_text(url, encoding="utf-8")
        try:
            yield
        finally:
            file.write_text("", encoding="utf-8")


def server_address(home: Path, *, stale: bool = False) -> str | None:
    """Address of the server that `ksdp serve` runs on this home; `stale`: that it ran until it was killed."""
    file = home / "serving"
    named = file.is_file() and is_locked(file) is not stale
    return (read_stored(file).decode().strip() or None) if named else None


def template_of(version: str) -> Path | None:
    """Where this user keeps an empty database of a Prefect version; None for a user without a home."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - no error without one
    return Path(cache) / "ksdp" / f"prefect-{version}.db" if Path(cache).is_absolute() else None


def copy_template(database: Path, template: Path) -> bool:
    """Start a database from the template; False where there is none that is whole, empty and this user's alone."""
    if not (_ours_alone(template.parent) and _ours_alone(template) and _migrated_and_empty(template)):
        return False
    _copy(template, database)
    return True


def keep_template(database: Path, template: Path) -> None:
    """Keep a database that was just made and has no row yet; not where there is no room or right to."""
    with contextlib.suppress(OSError, StoreError, sqlite3.Error):
        template.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if _ours_alone(template.parent) and _migrated_and_empty(database):
            _copy(database, template)


def _copy(made: Path, new: Path) -> None:
    def write(part: Path) -> None:
        with _opened(made) as source, contextlib.closing(sqlite3.connect(part)) as copy:
            source.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")

    write_whole(new, write)


def _ours_alone(path: Path) -> bool:
    """Whether nobody else may have written it, and it is no link to somewhere else."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return not stat.S_ISLNK(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o022


def _migrated_and_empty(database: Path) -> bool:
    try:
        with _opened(database) as made:
            is_sound = made.execute("PRAGMA quick_check").fetchone() == ("ok",)
            tables = [name for (name,) in made.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
            rows = {name: made.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in tables}
    except sqlite3.Error:
        return False
    return is_sound and rows.pop("alembic_version", 0) == 1 and len(rows) > 0 and not any(rows.values())


def _opened(database: Path) -> contextlib.closing[sqlite3.Connection]:
    return contextlib.closing(sqlite3.connect(f"{database.resolve().as_uri()}?mode=ro", uri=True))
