"""What a party keeps of a run: the result, what is its own, and a transcript of what was said and when.

::

    DIR/
      result.npz        what everybody has learnt, by the names of the observables; the same at every party
      own.npz           what stays with the party: ids of its documents, its coefficients
      predictions.parquet  of a run on ratings alone: see `predictions`
      run.json          session, hash of the result, on what grounds each party took part
      transcript.jsonl  one line an event: kind, round, peer, bytes, time; never a value

The transcript grows while the run goes on, and is there after a run that failed; the others are written whole, and
only at the end of a run that all parties have confirmed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.errors import InputError
from ksdp.storage.store import write_arrays, write_json

_RESULT, _OWN, _ABOUT = "result.npz", "own.npz", "run.json"
_TRANSCRIPT = "transcript.jsonl"


def require_no_result(folder: Path) -> None:
    """Refuse a folder that holds a result already, or cannot be one."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is not a folder.")
    for name in (_RESULT, _OWN, _ABOUT):
        if (folder / name).exists():
            raise InputError(f"{folder} holds the result of a run already; name another folder.")


def write_run(
    folder: Path,
    public: Mapping[str, NDArray[Any]],
    own: Mapping[str, NDArray[Any]],
    about: Mapping[str, Any],
) -> None:
    """Write the result of a run that all parties have confirmed."""
    for name, arrays in ((_OWN, own), (_RESULT, public)):
        write_arrays(folder / name, arrays)
    write_json(folder / _ABOUT, dict(about))


def read_result(folder: Path) -> dict[str, NDArray[Any]]:
    """What all parties learnt by the run whose result this folder holds."""
    try:
        with np.load(folder / _RESULT, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, EOFError):
        raise InputError(f"{folder} holds no result of a run.") from None


class Transcript:
    """Appends events of a run to `transcript.jsonl`; a context that closes the file.

    Parameters
    ----------
    folder : Path
        Made (mode 0700) where there is none.
    clock : callable
        The time, with a time zone.
    """

    def __init__(self, folder: Path, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle = os.open(folder / _TRANSCRIPT, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            self._file = os.fdopen(handle, "a", encoding="utf-8")
        except OSError as error:
            raise InputError(f"{folder} cannot be written to: {error.strerror}.") from None

    def note(self, **event: Any) -> None:
        """One line; seen by others at once."""
        line = {"time": self._clock().isoformat()} | event
        self._file.write(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")
        self._file.flush()

    def __enter__(self) -> Transcript:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
