"""What a person's files may be: a stranger's file must not take the machine's memory, or make a command wait.

Sizes that a file declares are looked at before they are believed. `KSDP_LARGEST_INPUT` (bytes) raises the largest
file, and what it may be decompressed to.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

MOST_ROWS = 50_000_000
MOST_COLUMNS = 20_000_000
LARGEST_KEY = 16 * 2**10
LARGEST_TOML = 16 * 2**20
_LARGEST = 8 * 2**30


def largest_input() -> int:
    """Bytes of a file, decompressed."""
    largest = os.environ.get("KSDP_LARGEST_INPUT", "")
    return int(largest) if largest.isascii() and largest.isdigit() else _LARGEST


def is_regular(path: Path) -> bool:
    """Whether a path is a regular file, found without opening it: opening a pipe waits for its other end.

    Raises
    ------
    OSError
        If there is no such file.
    """
    return stat.S_ISREG(path.stat().st_mode)


def read_bounded(path: Path, largest: int) -> bytes:
    """The bytes of a regular file of at most so many.

    Raises
    ------
    OSError
        If it cannot be read, is no regular file or has more.
    """
    if not is_regular(path):
        raise OSError(errno.EINVAL, "it is no regular file", str(path))
    with path.open("rb") as file:
        content = file.read(largest + 1)
    if len(content) > largest:
        raise OSError(errno.EFBIG, f"it has more than {largest} bytes", str(path))
    return content
