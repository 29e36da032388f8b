"""What a party keeps of a run that goes on, so that a process started anew can: entries on the disk, encrypted.

::

    "KSDPRUN1" | agreement (32) | salt (32)          then, entry by entry,
    length (8) | nonce (12) | AES-256-GCM of kind (1) and body, over the number of the entry

The key is HKDF-SHA256 of the party's identity with agreement and salt, so that who has the file alone has nothing.
An entry cut short at the end was never on the disk as a whole, and nothing that follows from it was sent: it is
dropped. One that was changed, or stands elsewhere, is refused.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from ksdp.audit.errors import InputError, StoreError
from ksdp.storage.locks import lock
from ksdp.storage.runs.results import JOURNAL, TRANSCRIPT
from ksdp.storage.synced import write_all

_MAGIC = b"KSDPRUN1"
_SALT, _NONCE, _LENGTH = 32, 12, 8
_MOST = 1 << 40
"""Bytes of an entry."""


class Journal:
    """The entries of one run; only one process may have it.

    Parameters
    ----------
    path : Path
        The file; made (mode 0600) where there is none.
    identity : Ed25519PrivateKey
        Of the party.
    agreement : bytes
        32 bytes: the hash of the run's terms.

    Raises
    ------
    InputError
        If the file is of another run, was damaged, or was written with another key.
    StoreError
        If it cannot be read or written.
    """

    def __init__(self, path: Path, identity: Ed25519PrivateKey, agreement: bytes) -> None:
        self._path = path
        head = _MAGIC + agreement
        with _writing(path):
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            found = os.pread(self._file, len(head) + _SALT, 0)
            if len(found) < len(head) + _SALT:  # new, or cut short before anything else was written
                os.ftruncate(self._file, 0)
                found = head + secrets.token_bytes(_SALT)
                write_all(self._file, found)
        if found[: len(head)] != head:
            raise InputError(
                f"{path} is of a run of another protocol file that did not end here. Name another folder; or "
                "remove it, and give that run up."
            )
        self._start = len(found)
        key = HKDF(SHA256(), 32, found[len(_MAGIC) :], b"ksdp journal 1").derive(identity.private_bytes_raw())
        self._cipher = AESGCM(key)
        self._count, self._end = 0, self._start
        for _ in self._read(os.fstat(self._file).st_size):
            pass
        os.ftruncate(self._file, self._end)

    def entries(self) -> Iterator[tuple[int, bytes]]:
        """All that are there now, in order."""
        for _, kind, body in self._read(self._end):
            yield kind, body

    def add(self, kind: int, body: bytes) -> None:
        """Write one more; it is on the disk after the next `sync`."""
        nonce = secrets.token_bytes(_NONCE)
        sealed = self._cipher.encrypt(nonce, bytes([kind]) + body, _place(self._count))
        with _writing(self._path):
            write_all(self._file, len(sealed).to_bytes(_LENGTH, "big") + nonce + sealed)
        self._count += 1
        self._end += _LENGTH + _NONCE + len(sealed)

    def sync(self) -> None:
        """Return when everything is on the disk."""
        with _writing(self._path):
            os.fsync(self._file)

    def remove(self) -> None:
        """Forget it: the file is gone."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._file, 0)
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._file)

    def _read(self, size: int) -> Iterator[tuple[int, int, bytes]]:
        """Entries with their numbers, up to this byte; the first time that also says where they end."""
        at, number = self._start, 0
        while at + _LENGTH + _NONCE <= size:
            header = os.pread(self._file, _LENGTH + _NONCE, at)
            length = int.from_bytes(header[:_LENGTH], "big")
            if length > _MOST:
                raise self._damaged()
            end = at + len(header) + length
            if end > size:
                return
            try:
                opened = self._cipher.decrypt(
                    header[_LENGTH:], os.pread(self._file, length, at + len(header)), _place(number)
                )
            except InvalidTag:
                raise self._damaged() from None
            if number >= self._count:
                self._count, self._end = number + 1, end
            yield number, opened[0], opened[1:]
            at, number = end, number + 1

    def _damaged(self) -> InputError:
        return InputError(
            f"{self._path} is damaged, or was written with another key: the run cannot be taken up. Remove it, "
            "and all parties begin again."
        )


@contextlib.contextmanager
def open_journal(folder: Path, identity: Ed25519PrivateKey, agreement: bytes) -> Iterator[Journal]:
    """The journal of the run whose result this folder will hold, for this process alone while the context lasts.

    Raises
    ------
    StoreError
        If another process has it.
    """
    busy = f"another process takes part in a run whose result goes to {folder}."
    with lock(folder / TRANSCRIPT, busy=busy):
        journal = Journal(folder / JOURNAL, identity, agreement)
        try:
            yield journal
        finally:
            journal.close()


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    """What the system refuses is said with the file's name."""
    try:
        yield
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}.") from error


def _place(number: int) -> bytes:
    return number.to_bytes(8, "big")
