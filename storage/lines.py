"""Files to which lines of JSON are only ever added: whole lines, and what a crash left of one.

Each line carries the SHA-256 of itself, and of the line before where its file says so: one that was changed is
noticed, and one that was taken out between others. A line that was being written when the machine stopped was
never counted, and is cut off by whoever adds the next one. A whole line that has lost its end counts.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

START = "0" * 64
"""Stands for the line before the first."""
_HASH = "hash"


def whole_lines(content: bytes) -> list[bytes]:
    """Lines without their ends. What a crash left of the last one is none; one without its end counts."""
    *lines, rest = content.split(b"\n")
    return lines + [part for part in (rest, rest[:-1]) if _is_json(part)][:1]


def _is_json(part: bytes) -> bool:
    try:
        return isinstance(json.loads(part), dict)
    except (ValueError, RecursionError):
        return False


def line_hash(line: Mapping[str, Any], prefix: bytes = b"") -> str:
    """Hash of a line's content without its own hash; a prefix separates kinds of files."""
    said = {name: value for name, value in line.items() if name != _HASH}
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(prefix + text.encode()).hexdigest()


def is_whole(line: Mapping[str, Any]) -> bool:
    """Whether a line is as `sealed_line` made it."""
    return bool(line.get(_HASH) == line_hash(line))


def sealed_line(said: Mapping[str, Any], prefix: bytes = b"") -> bytes:
    """A line with its hash, without its end."""
    whole = dict(said) | {_HASH: line_hash(said, prefix)}
    return json.dumps(whole, sort_keys=True, allow_nan=False).encode("ascii")


def add_line(path: Path, line: bytes) -> None:
    """Add a line, synced; what a crash left is cut off first. Nothing of it stays where it cannot be written.

    Raises
    ------
    OSError
        If it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    with os.fdopen(handle, "r+b", buffering=0) as file:
        whole = file.seek(0, os.SEEK_END)
        file.seek(max(whole - _LONGEST, 0))
        rest = file.read().rpartition(b"\n")[2]
        kept = next((part for part in (rest, rest[:-1]) if _is_json(part)), b"")
        whole += len(kept) - len(rest)
        file.truncate(whole)
        file.seek(whole)
        more = (b"\n" if kept else b"") + line + b"\n"
        try:
            if file.write(more) != len(more):
                raise OSError("no more room")
            os.fsync(file.fileno())
        except OSError:
            with contextlib.suppress(OSError):
                file.truncate(whole)
            raise


_LONGEST = 1 << 20
"""No line is longer."""
