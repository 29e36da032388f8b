"""Files of a run at a party: the result, the party's own part, and a transcript of all messages with times.

::

    DIR/
      result.npz        what everybody has learnt, by the names of the observables; the same at every party
      own.npz           what stays with the party, if anything: ids of its documents, its coefficients
      predictions.parquet  of a run on ratings: `user`, `item`, predicted `rating`, the best of every user first
      run.json          session, hash of the result, on what grounds each party took part
      transcript.jsonl  one line an event: kind, round, peer, bytes, time; never a value

The transcript grows while the run goes on, and is there after a run that failed; the others are written whole, and
only at the end of a run that all parties have confirmed. `party-runs/` of a party's store keeps what `run.json`
says for the dashboard.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ksdp.audit.errors import InputError
from ksdp.audit.learning.learners import Suggested
from ksdp.audit.specs.own_names import mechanism_words
from ksdp.storage.codec import read_object, write_checked_json
from ksdp.storage.remote import source_of
from ksdp.storage.store import Store, write_arrays, write_json, write_whole

_RESULT, _OWN, _ABOUT = "result.npz", "own.npz", "run.json"
_TRANSCRIPT = "transcript.jsonl"


def require_no_result(folder: Path) -> None:
    """Refuse a folder that holds a result already, or cannot be one."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is not a folder.")
    for name in (_RESULT, _OWN, _ABOUT):
        if (folder / name).exists():
            raise InputError(f"{folder} holds the result of a run already; name another folder.")
    nearest = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise InputError(f"{folder} cannot be written: {nearest} may not be written to.")


def write_run(
    folder: Path, public: Mapping[str, NDArray[Any]], own: Mapping[str, NDArray[Any]], about: Mapping[str, Any]
) -> None:
    """Write the result of a run that all parties have confirmed."""
    if own:
        write_arrays(folder / _OWN, own)
    write_arrays(folder / _RESULT, public)
    write_json(folder / _ABOUT, dict(about))


def read_result(folder: Path) -> dict[str, NDArray[Any]]:
    """Read the result of the run in this folder."""
    try:
        with np.load(source_of(folder / _RESULT), allow_pickle=False) as arrays:
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


def predictions_path(folder: Path) -> Path:
    """Where they stand in the folder of a result."""
    return folder / "predictions.parquet"


def write_predictions(
    folder: Path, users: NDArray[np.str_], items: Sequence[str], suggested: Iterable[Suggested]
) -> int:
    """Write what is suggested to every user; how many rows there are."""
    suggestions = list(suggested)
    counts = [len(each.items) for each in suggestions]
    rows = np.repeat(np.array([each.user for each in suggestions], dtype=np.int32), counts)
    columns = np.concatenate([np.zeros(0, dtype=np.intp), *(each.items for each in suggestions)]).astype(np.int32)
    ratings = np.concatenate([np.zeros(0), *(each.ratings for each in suggestions)])
    names = pa.array([str(user) for user in users]), pa.array([str(item) for item in items])
    table = pa.table(
        {
            "user": pa.DictionaryArray.from_arrays(pa.array(rows), names[0]),
            "item": pa.DictionaryArray.from_arrays(pa.array(columns), names[1]),
            "rating": pa.array(ratings, pa.float32()),
        }
    )
    write_whole(predictions_path(folder), lambda path: pq.write_table(table, path, compression="zstd"))
    return len(table)


def write_reference(folder: Path, terms: Sequence[str], counts: NDArray[np.float64], documents: int) -> None:
    """Write in how many documents each term is, as `corpus.levers.reference` takes it."""
    lines = [f"documents\t{documents}"]
    lines += [f"{term}\t{int(count)}" for term, count in zip(terms, counts, strict=True) if count >= 1]
    text = "\n".join(lines) + "\n"
    write_whole(folder / "reference.tsv", lambda path: path.write_text(text, encoding="utf-8"))


_FOLDER = "party-runs"
_SESSION = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class PartyRun:
    """One run, as this party saw it."""

    session: str
    me: str
    finished: datetime
    seconds: float
    mechanism: str
    agreement: str
    result: str
    parties: Mapping[str, bool]
    """Name: whether its documents were cleared."""
    server: str | None
    documents: int
    of: int
    signer: str | None
    """Fingerprint of who signed the clearance; None without one."""
    opens: str
    rounds: int
    sent: int
    received: int
    """Bytes, without TLS."""
    epsilon: float | None
    delta: float | None
    """delta of the mechanism's claim for this run, if it claims anything."""
    sound: bool
    spent: str
    """A sentence about the privacy loss of all runs of the ledger together; empty if none is kept."""


def keep_party_run(store: Store, about: Mapping[str, Any], spent: str) -> None:
    """Keep what `run.json` says of a run, and of all runs of the ledger."""
    write_checked_json(store.root / _FOLDER / f"{about['session']}.json", dict(about) | {"spent": spent})


def party_run_ids(store: Store) -> list[str]:
    """Sessions, the newest first."""
    files = [path for path in (store.root / _FOLDER).glob("*.json") if _SESSION.fullmatch(path.stem)]
    return [path.stem for path in sorted(files, key=lambda path: (-path.stat().st_mtime_ns, path.stem))]


def read_party_run(store: Store, session: str) -> PartyRun:
    """One run."""
    path = store.root / _FOLDER / f"{session}.json"

    def parse(fields: dict[str, Any]) -> PartyRun:
        claimed = fields["claimed"] or {}
        return PartyRun(
            session=str(fields["session"]),
            me=str(fields["me"]),
            finished=datetime.fromisoformat(fields["finished"]),
            seconds=float(fields["seconds"]),
            mechanism=mechanism_words(str(fields["mechanism"]["name"]), fields["mechanism"]),
            agreement=str(fields["agreement"]),
            result=str(fields["result"]),
            parties={str(name): bool(party["cleared"]) for name, party in fields["parties"].items()},
            server=fields["server"],
            documents=int(fields.get("documents", 0)),
            of=int(fields.get("of", 0)),
            signer=fields["clearance"]["signer"] if fields.get("clearance") else None,
            opens=str(fields["opens"]),
            rounds=int(fields["rounds"]),
            sent=int(fields["bytes"]["sent"]),
            received=int(fields["bytes"]["received"]),
            epsilon=claimed.get("epsilon"),
            delta=claimed.get("delta"),
            sound=bool(fields["guarantee"]["sound"]),
            spent=str(fields["spent"]),
        )

    return read_object(path, parse, f"the run {session[:16]}", "nothing makes it again")
