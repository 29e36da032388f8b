"""Ed25519 identities: who signs a clearance, and whom a party trusts.

A private key is a PEM file (PKCS 8) that its owner alone may read; the public key beside it is for others. Keys
are compared whole; the fingerprint is what two people read to one another over the telephone.

Reference: RFC 8032 (Ed25519), through the `cryptography` package.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization as pem
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ksdp.audit.errors import InputError
from ksdp.storage.files import LARGEST_KEY, read_bounded

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_FINGERPRINT_BYTES = 16


@dataclass(frozen=True)
class Identity:
    """A pair of key files."""

    name: str
    private: Path
    public: Path
    fingerprint: str


def fingerprint(key: Ed25519PublicKey | Ed25519PrivateKey) -> str:
    """The first 128 bits of the SHA-256 of the raw public key, in groups of four hex digits."""
    public = key.public_key() if isinstance(key, Ed25519PrivateKey) else key
    digest = hashlib.sha256(public.public_bytes_raw()).digest()[:_FINGERPRINT_BYTES].hex()
    return "-".join(digest[at : at + 4] for at in range(0, len(digest), 4))


def make_identity(folder: Path, name: str, *, passphrase: bytes | None = None) -> Identity:
    """Make a key pair and write `NAME.key` (mode 0600) and `NAME.pub` into a folder."""
    if not _NAME.fullmatch(name):
        raise InputError(
            f"`name` must be 1 to 64 letters, digits, dots, dashes or underscores and start with a letter or a "
            f"digit; got {name!r}."
        )
    if passphrase == b"":
        raise InputError("`passphrase` must not be empty; leave it out for a key without one.")
    private, public = folder / f"{name}.key", folder / f"{name}.pub"
    if private.is_file() and not private.is_symlink() and not public.exists() and not public.is_symlink():
        try:  # killed between the two: the pair is made whole
            key = load_private(private, passphrase=passphrase)
        except InputError as error:
            raise InputError(f"{private} exists; a key is never overwritten ({error})") from error
        _write_new(public, _shown(key), 0o644)
        return Identity(name, private, public, fingerprint(key))
    for path in (private, public):
        if path.exists() or path.is_symlink():
            raise InputError(f"{path} exists; a key is never overwritten.")
    key = Ed25519PrivateKey.generate()
    encryption = pem.NoEncryption() if passphrase is None else pem.BestAvailableEncryption(passphrase)
    secret = key.private_bytes(pem.Encoding.PEM, pem.PrivateFormat.PKCS8, encryption)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    _write_new(private, secret, 0o600)
    try:
        _write_new(public, _shown(key), 0o644)
    except BaseException:
        private.unlink(missing_ok=True)  # half an identity would block its name
        raise
    return Identity(name, private, public, fingerprint(key))


def _shown(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes(pem.Encoding.PEM, pem.PublicFormat.SubjectPublicKeyInfo)


def _write_new(path: Path, content: bytes, mode: int) -> None:
    """Write a file that must not be there, whole or not at all; its mode is right from the first moment."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.link(part, path)  # unlike a rename it replaces nothing
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}.") from error
    finally:
        part.unlink(missing_ok=True)


def needs_passphrase(path: Path) -> bool:
    """Whether a private key is encrypted; False too where the file is no key, which loading it will say."""
    content = _read(path)
    try:
        pem.load_pem_private_key(content, None)
    except TypeError:
        return True
    except (ValueError, UnsupportedAlgorithm):
        return False
    return False


def load_private(path: Path, *, passphrase: bytes | None = None) -> Ed25519PrivateKey:
    """Read a private key."""
    content = _read(path)
    if b"-----BEGIN PUBLIC KEY-----" not in content and path.stat().st_mode & 0o077:
        raise InputError(f"{path} may be read by others than its owner; `chmod 600` it.")
    return private_key(content, str(path), passphrase=passphrase)


def private_key(content: bytes, where: str, *, passphrase: bytes | None = None) -> Ed25519PrivateKey:
    """The private key that a PEM file holds; `where` names it in what is refused."""
    if b"-----BEGIN PUBLIC KEY-----" in content:
        raise InputError(f"{where} is a public key; the private one that it belongs to must be named.")
    try:
        key = pem.load_pem_private_key(content, passphrase)
    except TypeError as error:
        wanted = "needs a passphrase" if passphrase is None else "has no passphrase, and one was given"
        raise InputError(f"the key {where} {wanted}.") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        wrong = "" if passphrase is None else ", or the passphrase is wrong"
        raise InputError(f"{where} is not a private key{wrong}.") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"{where} must be an Ed25519 key; it is another kind.")
    return key


def load_public(path: Path) -> Ed25519PublicKey:
    """Read a public key."""
    content = _read(path)
    try:
        key = pem.load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm) as error:
        private = b" PRIVATE KEY-----" in content
        more = ": it is a private one, which goes to nobody; name the `.pub` beside it" if private else ""
        raise InputError(f"{path} is not a public key{more}.") from error
    if not isinstance(key, Ed25519PublicKey):
        raise InputError(f"{path} must be an Ed25519 key; it is another kind.")
    return key


def _read(path: Path) -> bytes:
    try:
        return read_bounded(path, LARGEST_KEY)
    except OSError as error:
        raise InputError(f"the key {path} cannot be read: {error.strerror}; `ksdp keys` makes one.") from error
