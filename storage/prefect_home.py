"""Files in Prefect's home: the password of the server, its log, and where `ksdp serve` runs one."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ksdp.storage.locks import is_locked, lock
from ksdp.storage.store import write_text

__all__ = ["make_home", "open_log", "server_address", "server_password", "sharing_address"]

_PASSWORD = re.compile(r"ksdp:[A-Za-z0-9_-]{24}")


def make_home(home: Path) -> None:
    """Make Prefect's home where there is none, for this user alone."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)


def server_password(home: Path) -> str:
    """`user:password` of the server, made on first use and readable by its owner alone."""
    file = home / "password"
    password = file.read_text(encoding="utf-8").strip() if file.is_file() else ""
    if not _PASSWORD.fullmatch(password):  # none yet, or a process that was killed left half of one
        write_text(file, f"ksdp:{secrets.token_urlsafe(18)}")
        password = file.read_text(encoding="utf-8").strip()
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
        yield


def server_address(home: Path) -> str | None:
    """Address of the server that `ksdp serve` runs on this home, if it does."""
    file = home / "serving"
    return (file.read_text(encoding="utf-8").strip() or None) if is_locked(file) else None
