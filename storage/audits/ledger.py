"""The ledger: every audit that was started in a store, by question; one line each, only ever added to.

Each line of `audits/ledger.jsonl` holds the SHA-256 of the line before, so none can be changed or taken out
unnoticed but at the end. An audit is written down before its first run, once: stopping it, or not liking what it
says, takes nothing back.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict
from pathlib import Path

from ksdp.audit.errors import StoreError
from ksdp.audit.screening.attempts import Attempt
from ksdp.storage.locks import lock
from ksdp.storage.store import Store

__all__ = ["read_attempts", "record_attempt"]

_START = "0" * 64


def record_attempt(store: Store, attempt: Attempt) -> bool:
    """Write an audit down unless it stands there; whether it was new.

    Raises
    ------
    StoreError
        If the ledger is damaged.
    """
    path = _file(store.root)
    with lock(path.with_name(".ledger.lock")):
        lines, whole = _lines(path)
        if any(_parsed(line)[0].audit == attempt.audit for line in lines):
            return False
        previous = hashlib.sha256(lines[-1]).hexdigest() if lines else _START
        line = json.dumps(asdict(attempt) | {"previous": previous}, sort_keys=True).encode("ascii")
        with path.open("r+b" if path.exists() else "wb") as file:
            file.truncate(whole)  # what a crash cut short was never counted
            file.seek(whole)
            file.write(line + b"\n")
            file.flush()
            os.fsync(file.fileno())
    return True


def read_attempts(store: Store, question: str) -> tuple[Attempt, ...]:
    """All audits of a question, in the order in which they were started.

    Raises
    ------
    StoreError
        If the ledger is damaged.
    """
    previous, found = _START, []
    for number, line in enumerate(_lines(_file(store.root))[0], start=1):
        attempt, says = _parsed(line)
        if says != previous:
            raise StoreError(f"the ledger of audits is damaged: line {number} does not follow the one before.")
        previous = hashlib.sha256(line).hexdigest()
        if attempt.question == question:
            found.append(attempt)
    return tuple(found)


def _file(root: Path) -> Path:
    return root / "audits" / "ledger.jsonl"


def _lines(path: Path) -> tuple[list[bytes], int]:
    """Whole lines, and how many bytes they are."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return [], 0
    whole = content.rfind(b"\n") + 1
    return content[:whole].splitlines(), whole


def _parsed(line: bytes) -> tuple[Attempt, str]:
    try:
        values = json.loads(line)
        previous = str(values.pop("previous"))
        return Attempt(**values), previous
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError("the ledger of audits is damaged: a line is not one that was written.") from error
