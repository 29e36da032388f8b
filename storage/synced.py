"""Writes that are on the disk when they return."""

from __future__ import annotations

import os
from pathlib import Path


def write_all(descriptor: int, content: bytes) -> None:
    """Write all of it: the operating system may take less at a time."""
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]


def append_synced(path: Path, content: bytes) -> None:
    """Add bytes to a file, which is made for this user alone where there is none."""
    new = not path.exists()
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        write_all(descriptor, content)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if new:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Have the names of a folder's files on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
