"""What a check says: to peers about this end, and to a person about each fault and what mends it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from ksdp.protocols.channel.keys import Participant
from ksdp.protocols.network.mesh import Address
from ksdp.protocols.runs.about import About
from ksdp.tasks.provenance import code_hash


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    party: str
    """At which party."""
    hop: str
    """What was looked at: `protocol`, `key`, `documents`, `budget`, `clearance`, `listen`, `name`, `connect`,
    `tls`, `certificate`, `clock`, `version`, `terms`, `signatures`, `trust`, `answer`."""
    said: str
    """In one line."""
    code: str = ""
    """Which fault it is; empty where there is none."""
    mend: str = ""
    """What to do."""

    @property
    def fine(self) -> bool:
        """Whether nothing is wrong."""
        return not self.code

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        names = ("party", "hop", "said", "code", "mend")
        return {name: getattr(self, name) for name in names} | {"fine": self.fine}


class Meant(Protocol):
    """What a protocol file says that a check compares: of a run among parties, or of PEM between hosts."""

    @property
    def base(self) -> Path:
        """Folder that its paths are relative to."""
        ...

    @property
    def who(self) -> tuple[Participant, ...]:
        """All that take part, with their keys."""
        ...

    @property
    def said(self) -> Mapping[str, Any]:
        """Every term by its name."""
        ...

    def speaks_with(self, name: str) -> tuple[str, ...]:
        """Who has a connection with one of them."""
        ...

    def address(self, name: str) -> Address:
        """Where one listens."""
        ...


def about_of(run: Meant, grounds: str, now: datetime) -> About:
    """What this end says of itself in a check."""
    return About(version("ksdp"), code_hash(), now.timestamp(), run.said, grounds)


MENDS: Mapping[str, str] = {
    "file": "correct that line in {protocol}, at all parties",
    "me": "--me must be one of {names}",
    "whose": "--me {other}, or --key with the key of {me}",
    "key": "ksdp keys {me}, or --key where it is",
    "mode": "chmod 600 {key}",
    "documents": "--corpus with the spec or count matrix of this party's documents",
    "pem": "ksdp pem {protocol} --me {me} --key {key} --check",
    "records": "--data with a file whose records are as [records] of {protocol} says; or --live",
    "functions": "--functions MODULE:OBJECT of the file that all agreed on, in this folder",
    "none-held": "leave --data and --live out: {me} holds no clients",
    "columns": "[corpus] vocabulary (tables: columns) as {protocol} means; `ksdp columns SPEC` shows what it has",
    "rows": "[corpus] weighting, idf, rows, levers as all agreed; `ksdp columns SPEC` prints its `features.rows`",
    "clearance": "--clearance FILE (`ksdp screen` or `ksdp clear` makes it), or --uncleared",
    "budget-file": "correct {budget}",
    "budget": "ksdp budget {ledger}; more noise in the protocol, or another limit in {budget}",
    "out": "--out with another folder",
    "taken": "ss -ltnp 'sport = :{port}' names it; stop it, or --listen with another port that is forwarded here",
    "not-here": "--listen 0.0.0.0:{port} (or [::]:{port}), and a firewall that forwards {address} to it",
    "not-allowed": "--listen 0.0.0.0:PORT with a port above 1023 that is forwarded here",
    "listen": "--listen HOST:{port}",
    "name": "getent hosts {host}; correct `address` of {peer}; all sign the protocol file again",
    "refused": "at {peer}: ksdp party --check ..., and {address} must lead to where it listens (--listen)",
    "silent": "nc -vz {host} {port}; let TCP to {address} through the firewalls of {peer} and of this network",
    "route": "ip route get {host}; correct `address` of {peer}, or the route",
    "mute": "at {peer}: ss -ltnp 'sport = :{port}'; lead the port to ksdp itself, not to a balancer that waits",
    "tls": "correct `address` of {peer}: something else listens there",
    "not-tls": "correct `address` of {peer}: something else listens there",
    "hung-up": "at {peer}: ksdp party --check ... says why; a proxy on the way must pass TCP through",
    "proxy": "let the proxy pass TCP through to {peer} (no TLS termination, no inspection), or use another port",
    "key-there": "compare the protocol file's key of {peer} with its .pub file, by telephone",
    "swapped": "correct the addresses of {peer} and of who answers there; all sign the protocol file again",
    "date": "at {peer}: timedatectl set-ntp true",
    "our-clock": "timedatectl set-ntp true",
    "clock": "timedatectl set-ntp true, at whoever is wrong",
    "refuses-us": "compare the key of {me} in the protocol files of {peer} and here",
    "old": "at {peer}: install ksdp {ksdp}",
    "version": "install the same ksdp at both: {ksdp} here",
    "terms": "agree on one protocol file, the same at both",
    "signatures": "each of them: ksdp party {protocol} --me NAME --key NAME.key --accept",
    "nobody": "at {peer}: ksdp party --check ...; it must reach {own}",
    "uncleared": "at {peer}: ksdp screen or ksdp clear, and --clearance",
}
"""By fault; words in braces are filled in."""

CLEARANCE_MENDS: Mapping[str, str] = {
    "file": "--clearance with a file of `ksdp screen` or `ksdp clear`",
    "content": "copy the clearance again from where it was made: this one was changed",
    "signature": "copy the clearance again from where it was made: this one was changed",
    "signer": "--signer FILE.pub of who signed it, or sign with this party's key: ksdp clear ... --key {key}",
    "early": "timedatectl set-ntp true, or wait",
    "expired": "ksdp screen or ksdp clear again",
    "corpus": "--corpus with the corpus that was audited, or audit this one: ksdp screen SPEC",
    "mechanism": "audit the mechanism of {protocol}: its [mechanism] in the spec, then ksdp screen SPEC",
    "spec": "--corpus with the spec that the clearance was made from",
    "drawn": "screen the spec that is run: its `corpus.levers.drawn` is what the clearance was made for",
    "coverage": "audit what the run opens: the same `opens` in the spec, then ksdp screen SPEC",
}
"""By the check that failed."""


def mend(code: str, **words: object) -> str:
    """What to do, in one line.

    Examples
    --------
    >>> mend("mode", key="ada.key")
    'chmod 600 ada.key'
    """
    return MENDS[code].format(**words)
