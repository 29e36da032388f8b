"""Signed files: the clearance, which lists the documents that may enter a protocol run, and the dossier.

One JSON file: `clearance` (or `dossier`) is what is said, `signature` who said it. The signature (Ed25519) is over
the canonical form of what is said (sorted keys, no spaces, ASCII) behind a prefix of its kind, so that it can
never pass for a signature of something else. The whole file has one canonical form as well, and a file in any
other is refused: no byte of it can change unnoticed.

Whoever has a key can sign. That a file is whole says nothing until its public key, or the fingerprint, is compared
with one that came by another way.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import TypeAdapter

from ksdp.audit.errors import ClearanceError, InputError, KsdpError
from ksdp.audit.screening.clearance import Clearance as Clearance
from ksdp.audit.screening.clearance import MechanismIdentity
from ksdp.storage.files import largest_input, read_bounded, stamp_of
from ksdp.storage.keys import fingerprint
from ksdp.storage.store import Store, write_whole

FORMAT = 1
KINDS = ("clearance", "dossier")
"""Kinds of signed files."""


@dataclass(frozen=True)
class Verified:
    """A clearance that passed every check it was put to."""

    clearance: Clearance
    public_key: Ed25519PublicKey
    fingerprint: str
    file: str
    """SHA-256 of the file, in hex."""
    checked: tuple[str, ...]
    """`content`, `signature` and `time` always; `signer`, `corpus`, `mechanism`, `spec`, `coverage` if asked."""


@cache
def _codec() -> TypeAdapter[Clearance]:
    return TypeAdapter(Clearance)


def _content(clearance: Clearance) -> dict[str, Any]:
    moments = {name: getattr(clearance, name).astimezone(UTC).isoformat() for name in ("created", "expires")}
    said: dict[str, Any] = _codec().dump_python(clearance, mode="json", exclude_defaults=True, exclude={*moments})
    return {"format": FORMAT} | said | moments


def _signed_bytes(content: Mapping[str, Any], kind: str = "clearance") -> bytes:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return f"ksdp-{kind}-1\n{text}".encode("ascii")


def _file_bytes(parts: Mapping[str, Any]) -> bytes:
    return (json.dumps(parts, sort_keys=True, indent=1, ensure_ascii=True, allow_nan=False) + "\n").encode("ascii")


def content_hash(clearance: Clearance) -> str:
    """SHA-256 of what is signed, in hex: the name of a clearance's copy in a store."""
    return hashlib.sha256(_signed_bytes(_content(clearance))).hexdigest()


def write_clearance(path: Path, clearance: Clearance, private_key: Ed25519PrivateKey) -> None:
    """Sign a clearance and write it whole; a file that is there stays, and is refused."""
    write_signed(path, signed(_content(clearance), "clearance", private_key))


def signed(stated: Mapping[str, Any], kind: str, private_key: Ed25519PrivateKey) -> dict[str, Any]:
    """Sign a statement: it and its signature, as `write_signed` takes them; `ValueError` if it is not JSON."""
    content = _signed_bytes(stated, kind)
    signature = {
        "algorithm": "ed25519",
        "content": hashlib.sha256(content).hexdigest(),
        "fingerprint": fingerprint(private_key),
        "public_key": private_key.public_key().public_bytes_raw().hex(),
        "signature": private_key.sign(content).hex(),
    }
    return {kind: stated, "signature": signature}


def write_signed(path: Path, envelope: Mapping[str, Any]) -> None:
    """Write what was `signed`; `InputError` if the file exists."""
    require_new(path)
    file = _file_bytes(envelope)
    write_whole(path, lambda part: part.write_bytes(file))


def signed_kind(path: Path) -> str:
    """Which of `KINDS` a signed file is; nothing is verified."""
    return next(kind for kind in KINDS if kind in _parse(path))


def verify_signed(
    path: Path, kind: str, public_key: Ed25519PublicKey | None
) -> tuple[dict[str, Any], Ed25519PublicKey, list[str]]:
    """A file that is whole, signed, and by this key if one is named; the key; and what was checked."""
    envelope = _parse(path, kind)
    key = _signer(path, envelope["signature"], _signed_bytes(envelope[kind], kind))
    if public_key is None:
        return envelope, key, ["content", "signature"]
    if key.public_bytes_raw() != public_key.public_bytes_raw():
        by = f"{path.name} is signed by {fingerprint(key)}; it should be by {fingerprint(public_key)}."
        raise ClearanceError("signer", by)
    return envelope, key, ["content", "signature", "signer"]


def _parse(path: Path, *kinds: str) -> dict[str, Any]:
    """The file's two parts, if it is of one of these kinds, and in its canonical form."""
    named = " or ".join(kinds or KINDS)
    try:
        raw = read_bounded(path, largest_input())
    except OSError as error:
        raise ClearanceError("file", f"the {named} {path} cannot be read: {error.strerror}.") from error
    try:
        envelope = json.loads(raw.decode("ascii"))
        valid = isinstance(envelope, dict) and any(set(envelope) == {kind, "signature"} for kind in kinds or KINDS)
        canonical = valid and _file_bytes(envelope) == raw
    except (ValueError, RecursionError) as error:
        raise ClearanceError("file", f"{path.name} is not a {named}: it is no JSON in ASCII.") from error
    if not valid:
        raise ClearanceError("file", f"{path.name} is not a {named}.")
    if not canonical:
        raise ClearanceError("content", f"{path.name} was changed: it is not in the form it was written in.")
    return dict(envelope)


def _open(path: Path, content: Any) -> Clearance:
    try:
        if content["format"] != FORMAT:
            raise ValueError("another format")
        clearance = _codec().validate_python({name: value for name, value in content.items() if name != "format"})
        same = _content(clearance) == content
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ClearanceError("file", f"{path.name} is not a clearance of format {FORMAT}.") from error
    if not same:
        raise ClearanceError("content", f"{path.name} was changed: it is not in the form it was written in.")
    return clearance


def clearance_at(store: Store, digest: str) -> Path:
    """Where a store keeps its copy, by the SHA-256 of what is signed."""
    return store.root / "clearances" / f"{digest}.json"


def stored_clearances(store: Store) -> list[Path]:
    """The copies of all that were signed in a store."""
    return sorted(clearance_at(store, "").parent.glob("*.json"))


def stored_clearance(path: Path) -> Clearance | None:
    """Read a store's copy, which is named by its content; None if it is damaged or gone."""
    with suppress(OSError):
        return _stored(path, stamp_of(path))
    return None


@lru_cache(maxsize=256)
def _stored(path: Path, _stamp: tuple[int, ...]) -> Clearance | None:
    with suppress(KsdpError):
        clearance = read_clearance(path)
        return clearance if content_hash(clearance) == path.stem else None
    return None


def read_clearance(path: Path) -> Clearance:
    """Read a clearance to look at it. Nothing is verified: use `verify_clearance` before acting on it."""
    return _open(path, _parse(path, "clearance")["clearance"])


def _signer(path: Path, signature: Any, signed: bytes) -> Ed25519PublicKey:
    try:
        if set(signature) != {"algorithm", "content", "fingerprint", "public_key", "signature"}:
            raise ValueError("other keys")
        if signature["algorithm"] != "ed25519":
            raise ValueError("another algorithm")
        key_bytes, value = (bytes.fromhex(signature[name]) for name in ("public_key", "signature"))
        if [key_bytes.hex(), value.hex()] != [signature["public_key"], signature["signature"]]:
            raise ValueError("another spelling")
        key = Ed25519PublicKey.from_public_bytes(key_bytes)
    except (KeyError, TypeError, ValueError) as error:
        raise ClearanceError("signature", f"{path.name} has no Ed25519 signature that can be read.") from error
    if signature["content"] != hashlib.sha256(signed).hexdigest():
        raise ClearanceError("content", f"{path.name} was changed after it was signed.")
    if signature["fingerprint"] != fingerprint(key):
        raise ClearanceError("signature", f"{path.name}: the fingerprint is not that of the public key.")
    try:
        key.verify(value, signed)
    except InvalidSignature as error:
        raise ClearanceError(
            "signature", f"{path.name}: the signature is not of this content by this key."
        ) from error
    return key


def verify_clearance(
    path: Path,
    *,
    now: datetime,
    public_key: Ed25519PublicKey | None = None,
    corpus_hash: str | None = None,
    mechanism: MechanismIdentity | None = None,
    spec_hash: str | None = None,
    left_out: Sequence[str] = (),
    opened: Sequence[str] | None = None,
) -> Verified:
    """Read a clearance and refuse it unless every check holds."""
    if now.tzinfo is None:
        raise InputError("`now` must have a time zone.")
    envelope, key, checked = verify_signed(path, "clearance", public_key)
    clearance = _open(path, envelope["clearance"])
    if now < clearance.created:
        raise ClearanceError("early", f"{path.name} is not valid before {clearance.created.isoformat()}.")
    if now >= clearance.expires:
        raise ClearanceError("expired", f"{path.name} expired at {clearance.expires.isoformat()}.")
    checked.append("time")
    bound: tuple[tuple[str, Any, Any], ...] = (
        ("corpus", clearance.corpus, corpus_hash),
        ("mechanism", clearance.mechanism, mechanism),
        ("spec", clearance.spec, spec_hash),
    )
    for name, cleared, wanted in bound:
        if wanted is None:
            continue
        but = left_out if name == "mechanism" else ()
        if but:
            cleared, wanted = cleared.without(but), wanted.without(but)
        if cleared != wanted:
            since = "; the spec, or ksdp, is not what it was when it was signed" if name == "spec" else ""
            raise ClearanceError(name, f"{path.name} is for another {name}: {_differs(cleared, wanted)}{since}.")
        checked.append(f"{name} (but for {', '.join(but)})" if but else name)
    if opened is not None:
        missing = clearance.coverage.missing(opened)
        if missing:
            raise ClearanceError(
                "coverage", f"{path.name}: a run shows {', '.join(missing)}, which its audits did not look at."
            )
        checked.append("coverage")
    return Verified(
        clearance, key, fingerprint(key), hashlib.sha256(_file_bytes(envelope)).hexdigest(), tuple(checked)
    )


def require_new(path: Path) -> None:
    """Refuse a file that is there: what is signed is never replaced."""
    if path.exists():
        raise InputError(f"{path} exists, and is never replaced. Name another file, or move it.")


def check_sizes(
    path: Path, clearance: Clearance, entering: int, parties: int | None = None, others: int | None = None
) -> None:
    """Refuse a run with fewer documents (or groups) of the party or of others, or fewer parties, than audited."""
    if why := clearance.sizes.refused(entering, parties, others):
        raise ClearanceError("sizes", f"{path.name} is of other sizes: {why}.")


def _differs(cleared: Any, wanted: Any) -> str:
    if not isinstance(cleared, MechanismIdentity):
        return f"it clears {cleared}, and this is {wanted}"
    for name in ("name", "version"):
        if getattr(cleared, name) != getattr(wanted, name):
            return f"it clears {name} {getattr(cleared, name)}, and this is {getattr(wanted, name)}"
    ours, theirs = dict(cleared.parameters), dict(wanted.parameters)
    other = sorted(k for k in ours.keys() | theirs.keys() if ours.get(k, ...) != theirs.get(k, ...))
    return f"parameter {other[0]} differs"
