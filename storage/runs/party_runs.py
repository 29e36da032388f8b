"""Runs that a party has taken part in, kept in its store for the dashboard: one JSON file a run, never a value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ksdp.audit.errors import InputError, StoreError
from ksdp.audit.mechanisms.words import mechanism_words
from ksdp.storage.codec import read_checked_json, write_checked_json
from ksdp.storage.store import Store

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
    """As people call it."""
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
    """What the mechanism claims for this run, where it claims anything."""
    sound: bool
    """Whether that claim holds."""
    spent: str
    """What all runs of the ledger give away together, in a sentence; empty where none is kept."""


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
    try:
        fields = read_checked_json(path)
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
    except (OSError, ValueError, KeyError, TypeError, AttributeError, InputError) as error:
        raise StoreError(f"the run {session[:16]} of the store cannot be read.") from error
