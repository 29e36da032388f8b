"""Signed files that organisations hand each other: what is said, and by which keys; no byte can change unnoticed.

One JSON file in one canonical form: `kind`, `said`, and `signatures` (Ed25519) over the canonical form of `said`
behind a prefix with the kind, so that no signature passes for one of another kind. Whoever has a key can sign:
that a file is whole says nothing until the signer's fingerprint is compared with one that came by another way.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ksdp.audit.errors import InputError
from ksdp.storage.readers.limits import is_regular
from ksdp.storage.store import write_whole

LARGEST_SEALED = 64 << 20
"""Bytes of the largest file that is read."""
_KEYS = {"kind", "said", "signatures"}


@dataclass(frozen=True, eq=False)
class Sealed:
    """A signed file, whole."""

    kind: str
    said: Mapping[str, Any]
    signers: tuple[Ed25519PublicKey, ...]
    whole: Mapping[str, Any]
    """As it stands in the file."""

    @property
    def digest(self) -> str:
        """SHA-256 of what is signed, in hex."""
        return hashlib.sha256(_signed(self.kind, self.said)).hexdigest()

    @property
    def signer(self) -> Ed25519PublicKey:
        """Who signed first."""
        return self.signers[0]


def seal(kind: str, said: Mapping[str, Any], *keys: Ed25519PrivateKey) -> Sealed:
    """Sign with one key, or several."""
    signed = _signed(kind, said)
    signatures = [
        {"key": key.public_key().public_bytes_raw().hex(), "signature": key.sign(signed).hex()} for key in keys
    ]
    whole = {"kind": kind, "said": said, "signatures": signatures}
    return Sealed(kind, said, tuple(key.public_key() for key in keys), whole)


def write_sealed(path: Path, sealed: Sealed) -> None:
    """Write it whole; a file that is there is replaced."""
    content = _file_bytes(sealed.whole)

    def write(part: Path) -> None:
        part.write_bytes(content)

    write_whole(path, write)


def read_sealed(path: Path, kind: str) -> Sealed:
    """Read a file and check its signatures.

    Raises
    ------
    InputError
        If it cannot be read, is of another kind, or is not as it was signed.
    """
    try:
        if not is_regular(path):
            raise InputError(f"{path} is no regular file.")
        with path.open("rb") as file:
            raw = file.read(LARGEST_SEALED + 1)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error
    if len(raw) > LARGEST_SEALED:
        raise InputError(f"{path.name} has more than {LARGEST_SEALED} bytes.")
    try:
        whole = json.loads(raw.decode("ascii"))
        known = isinstance(whole, dict) and set(whole) == _KEYS
        canonical = known and _file_bytes(whole) == raw
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path.name} is not {_a(kind)}: it is no JSON in ASCII.") from error
    if not known:
        raise InputError(f"{path.name} is not {_a(kind)}.")
    if not canonical:
        ends = raw.replace(b"\r\n", b"\n")
        how = ": its line ends are those of another system; send it as a file, not as text" if ends != raw else ""
        raise InputError(f"{path.name} was changed: it is not in the form it was written in{how}.")
    return open_sealed(whole, kind, path.name)


def open_sealed(whole: Any, kind: str, where: str) -> Sealed:
    """The same for a signed object inside another file.

    Parameters
    ----------
    where : str
        Said in refusals.
    """
    if not isinstance(whole, dict) or set(whole) != _KEYS or not isinstance(whole["said"], dict):
        raise InputError(f"{where} is not {_a(kind)}.")
    if whole["kind"] != kind:
        raise InputError(f"{where} is {_a(str(whole['kind'])[:40])}, not {_a(kind)}.")
    signers = []
    try:
        signed = _signed(kind, whole["said"])
        for one in whole["signatures"]:
            key_bytes, value = (bytes.fromhex(one[name]) for name in ("key", "signature"))
            if [set(one), key_bytes.hex(), value.hex()] != [{"key", "signature"}, one["key"], one["signature"]]:
                raise ValueError("another spelling")
            key = Ed25519PublicKey.from_public_bytes(key_bytes)
            key.verify(value, signed)
            signers.append(key)
    except InvalidSignature as error:
        raise InputError(f"{where} was changed after it was signed.") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{where} has no signature that can be read.") from error
    if not signers:
        raise InputError(f"{where} is not signed.")
    return Sealed(kind, whole["said"], tuple(signers), whole)


def _a(kind: str) -> str:
    return f"an {kind}" if kind[:1] in "aeiou" else f"a {kind}"


def _signed(kind: str, said: Mapping[str, Any]) -> bytes:
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return f"ksdp-{kind}-1\n{text}".encode("ascii")


def _file_bytes(whole: Mapping[str, Any]) -> bytes:
    return (json.dumps(whole, sort_keys=True, indent=1, ensure_ascii=True, allow_nan=False) + "\n").encode("ascii")
