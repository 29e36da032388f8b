"""Errors, as types.

::

    KsdpError
    ├── InputError         the person's input is refused; nothing was written (exit 2)
    │   ├── SpecError      a key or value of the spec
    │   ├── CorpusError    a file, row or column of the corpus
    │   │   └── CorpusAway what is at a URL cannot be read now; another time it may be
    │   └── StaleDecision  somebody, or a newer audit, was faster; `newer` is what the reviewer had not seen
    ├── StoreError         the store cannot be read or written
    │   ├── DamagedFile    what is stored is not what was written, or was lost
    │   │   └── DamagedBlock  a block's checksum or shape is not what its key promises
    │   └── Unreachable    what is kept at a URL: its server does not answer, or refuses
    ├── ClearanceError     a clearance is refused; `failed` says which check
    ├── ProtocolError      a protocol run ended: a party left, lied, repeated itself or sent what nobody may send
    └── InvalidAudit       the controls failed: no verdict of this audit may be used (exit 5)

No message ever holds the text of a document: only file names, row numbers, ids and column names.
"""

from __future__ import annotations


class KsdpError(Exception):
    """Base of everything ksdp raises on purpose."""

    def _render_traceback_(self) -> list[str]:
        """One line under a notebook's cell, where IPython would show every frame of ours."""
        return [f"{type(self).__name__}: {self}"]


class InputError(KsdpError, ValueError):
    """Input that is refused before any work; the message names the place and the reason."""


class SpecError(InputError):
    """A key or a value of the spec is wrong."""


class CorpusError(InputError):
    """A file, a row or a column of the corpus is wrong."""


class CorpusAway(CorpusError):
    """A file of the corpus is at a URL and cannot be read now: its server is silent, or it is being changed."""


class StoreError(KsdpError):
    """The store cannot be read or written."""


class NotFound(InputError, StoreError):
    """The store does not hold the thing that a person named."""


class DamagedFile(StoreError):
    """A stored file was changed or lost. This is never the same as a file that was never there."""


class DamagedBlock(DamagedFile):
    """A stored block is not what its key promises."""


class Unreachable(StoreError):
    """A file at a URL cannot be read or written now: its server does not answer, or refuses."""


class ClearanceError(KsdpError):
    """A clearance, or a signed dossier, is refused.

    Parameters
    ----------
    failed : str
        The check that failed, for machines: `file`, `content`, `signature`, `signer`, `early`, `expired`,
        `corpus`, `mechanism`, `spec`, `drawn`, `coverage`, `sizes`, `appetite` or `files`.
    message : str
        The same for people.
    """

    def __init__(self, failed: str, message: str) -> None:
        super().__init__(message)
        self.failed = failed


class ProtocolError(KsdpError):
    """A protocol run ended without a result; no message holds a secret or a share."""


class InvalidAudit(KsdpError):
    """The controls that every audit carries have failed."""
