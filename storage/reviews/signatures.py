"""Signed heads of the review log: `reviews/signatures.jsonl`, one line an entry that its decider signed.

The hash of an entry stands for every entry before it, so that a signature on it is one on the log up to there.
Whoever cuts the log off, or writes it anew, would have to make up the signatures behind the cut, or take them away
together with every copy of a head that somebody else keeps (`ksdp log --head`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ksdp.audit.errors import StoreError
from ksdp.audit.reviewing import Entry
from ksdp.storage.synced import append_synced

_PREFIX = b"ksdp-review-head-1\n"
_NAME = "signatures.jsonl"


@dataclass(frozen=True, slots=True)
class Signed:
    """One entry, and whose key signed it."""

    number: int
    hash: str
    key: str
    """The public key, 64 hex digits."""


def _message(number: int, digest: str) -> bytes:
    return _PREFIX + f"{number}\n{digest}\n".encode("ascii")


def sign_entries(log: Path, entries: Sequence[Entry], key: Ed25519PrivateKey) -> None:
    """Sign entries that the log has. The lock must be held."""
    public = key.public_key().public_bytes_raw().hex()
    lines = [
        {
            "number": entry.number,
            "hash": entry.hash,
            "key": public,
            "signature": key.sign(_message(entry.number, entry.hash)).hex(),
        }
        for entry in entries
    ]
    content = "".join(json.dumps(line, sort_keys=True) + "\n" for line in lines).encode("ascii")
    path = log.parent / _NAME
    torn = path.exists() and not path.read_bytes().endswith(b"\n") and path.stat().st_size > 0
    # A line that a crash cut short was of an entry that was not reported as signed: it is ended.
    append_synced(path, (b"\n" if torn else b"") + content)


def read_signatures(log: Path) -> list[Signed]:
    """Entries that were signed, in the order of the file, every signature checked.

    Raises
    ------
    StoreError
        If a whole line is no signature that holds.
    """
    try:
        *lines, _ = (log.parent / _NAME).read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError(f"{_NAME} of the reviews cannot be read: {error.strerror}.") from error
    signatures = []
    for number, line in enumerate(lines, 1):
        try:
            fields = json.loads(line.decode("ascii"))
            signed = Signed(int(fields["number"]), str(fields["hash"]), str(fields["key"]))
            public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(signed.key))
            public.verify(bytes.fromhex(fields["signature"]), _message(signed.number, signed.hash))
        except (InvalidSignature, ValueError, TypeError, KeyError) as error:
            if not line.endswith(b"}"):
                continue  # cut short by a crash, and ended later
            raise StoreError(f"line {number} of the reviews' {_NAME} is no signature that holds.") from error
        signatures.append(signed)
    return signatures
