"""Records that come while a run goes on: JSON lines of a pipe, of standard input, or of a file that grows."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
import threading
from pathlib import Path
from typing import BinaryIO

import numpy as np
import scipy.sparse as sp

from ksdp.audit.errors import CorpusError, InputError
from ksdp.audit.mechanisms.pem.run_spec import PemDataSpec, PemRecordsSpec
from ksdp.storage.readers.records import read_records

_PAUSE = 0.1
_LONGEST = 1 << 20
"""Bytes of a line."""
_MOST = 1_000_000
"""Lines that wait; whoever writes more waits."""


class LiveRecords:
    """What has come since it was last asked; a context that stops reading.

    Parameters
    ----------
    source : str
        A path, or `-` for standard input. A file is read from its beginning and followed as it grows.
    records : PemRecordsSpec
        What a record looks like; a line that looks otherwise is left out and counted.
    """

    def __init__(self, source: str, records: PemRecordsSpec, *, nonnegative: bool) -> None:
        if not records.described:
            raise InputError("a live stream is one of JSON lines: `records.columns`, `edges` or `categories`.")
        fields = set(PemRecordsSpec.model_fields)
        self._spec = records.model_dump(include=fields)
        self._width, self._nonnegative = records.width, nonnegative
        self._lines: list[bytes] = []
        self._lock, self._stop = threading.Condition(), threading.Event()
        self.refused = 0
        """Lines that were left out."""
        self.taken = 0
        """Records that were handed out."""
        try:
            # Closed with the process: a thread may wait in it.
            self._file: BinaryIO = sys.stdin.buffer if source == "-" else Path(source).open("rb")  # noqa: SIM115
            self._follows = stat.S_ISREG(os.fstat(self._file.fileno()).st_mode)
        except OSError as error:
            raise InputError(f"{source} cannot be read: {error.strerror}.") from None
        self._thread = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> LiveRecords:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        with self._lock:
            self._lock.notify_all()

    def _read(self) -> None:
        part = b""
        while not self._stop.is_set():
            line = self._file.readline(_LONGEST)
            if not line:
                if not self._follows:
                    break
                self._stop.wait(_PAUSE)
                continue
            part += line
            if line.endswith(b"\n") or len(part) > _LONGEST:
                self._put(part)
                part = b""
        if part.strip():
            self._put(part)

    def _put(self, line: bytes) -> None:
        with self._lock:
            self._lock.wait_for(lambda: len(self._lines) < _MOST or self._stop.is_set())
            self._lines.append(line)
            self._lock.notify_all()

    def wait(self, count: int, seconds: float) -> bool:
        """Wait until a number of lines is there, and return whether they came."""
        with self._lock:
            return self._lock.wait_for(lambda: len(self._lines) >= count, seconds)

    def take(self) -> sp.csr_array:
        """What has come, one record a row, in its order."""
        with self._lock:
            lines, self._lines = self._lines, []
            self._lock.notify_all()
        lines = [line for line in lines if line.strip()]
        matrix = self._matrix(lines)
        self.taken += matrix.shape[0]
        return matrix

    def _matrix(self, lines: list[bytes]) -> sp.csr_array:
        if not lines:
            return sp.csr_array(np.zeros((0, self._width)))
        try:
            return self._parsed(lines)
        except CorpusError:
            if len(lines) == 1:
                self.refused += 1
                return sp.csr_array(np.zeros((0, self._width)))
        middle = len(lines) // 2
        halves = (self._matrix(lines[:middle]), self._matrix(lines[middle:]))
        return sp.csr_array(sp.vstack(halves, format="csr"))

    def _parsed(self, lines: list[bytes]) -> sp.csr_array:
        """By the reader of files, so that a stream's record is what a file's is."""
        with tempfile.TemporaryDirectory() as folder:  # mode 0700
            path = Path(folder) / "stream.jsonl"
            path.write_bytes(b"".join(line if line.endswith(b"\n") else line + b"\n" for line in lines))
            spec = PemDataSpec(path=str(path), clients=1, **self._spec)
            return read_records(spec, path.parent, nonnegative=self._nonnegative).matrix
