"""Who is at the two ends of a link: places in a run, and the processes that have them, one after the other.

A process that is restarted has its place again if it kept it (`kept_run`): the same ticket, and a number of
processes that is higher. A copy of what it kept that is older, or as old, is not let in.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from ksdp.audit.errors import ProtocolError
from ksdp.protocols.network.framing import Resume

TICKET_BYTES = 16
_NOBODY = bytes(TICKET_BYTES)


class LinkError(ProtocolError):
    """There is no way on with one peer.

    Parameters
    ----------
    peer : str
        Which.
    word : str
        The reason, of `links.ABORTS`, as the others are told.
    """

    def __init__(self, message: str, peer: str, word: str) -> None:
        super().__init__(message)
        self.peer, self.word = peer, word


class OtherRunError(LinkError):
    """The peer is in another run by now: the one that is kept here is over."""


@dataclass(frozen=True)
class Ticket:
    """One party's place in a run that is written down."""

    own: bytes
    attempt: int = 1
    """Processes that had it, this one with them."""
    peers: Mapping[str, bytes] = field(default_factory=dict)
    """The peers' tickets; empty before the run began."""
    rounds: int = 0
    """That are on the disk here."""


class LinkEnds:
    """Both ends of one link.

    Parameters
    ----------
    peer : str
        Name of the other end.
    ticket : Ticket, optional
        Of this end, where it is written down; otherwise it is this process's alone.
    """

    def __init__(self, peer: str, ticket: Ticket | None) -> None:
        mine = ticket or Ticket(secrets.token_bytes(TICKET_BYTES))
        self._peer, self._own, self._attempt = peer, mine.own, mine.attempt
        self._process = secrets.token_bytes(TICKET_BYTES)
        self.theirs = mine.peers.get(peer, _NOBODY)
        """The peer's ticket; zeros while it is not known."""
        self._kept = self.theirs != _NOBODY
        self._heard = (0, _NOBODY)
        """The peer's latest process."""

    def hello(self, received: int, stored: int, *, fixed: bool) -> Resume:
        """What this end says first on a connection; `fixed` once the peer may not be another any more."""
        known = self.theirs if fixed or self._kept else _NOBODY
        return Resume(self._own, self._process, known, self._attempt, received, stored)

    def meet(self, said: Resume, *, fixed: bool) -> str:
        """Take in the peer's first word: whether it has `connected`, `reconnected` or `restarted`.

        Raises
        ------
        OtherRunError
            If it means a run begun since.
        ProtocolError
            If it is not who it was.
        ConnectionAbortedError
            If it keeps a place in an earlier run; it will hear that this is over.
        """
        known = self.theirs if fixed or self._kept else _NOBODY
        if known not in (_NOBODY, said.own):
            if self._kept and not said.received:
                raise OtherRunError(f"{self._peer} has begun another run since.", self._peer, "fault")
            raise ProtocolError("was restarted during a run without its place: all parties must begin again")
        if said.other not in (_NOBODY, self._own):
            if not fixed:
                raise ConnectionAbortedError
            raise ProtocolError("means another run than this one")
        again, (attempt, process) = said.own == self.theirs, self._heard
        if again and (said.attempt < attempt or (said.attempt == attempt and said.process != process)):
            raise ProtocolError("has its place twice: an old copy of what it keeps was started")
        self.theirs, self._heard = said.own, (said.attempt, said.process)
        if not again:
            return "connected"
        return "reconnected" if process in (_NOBODY, said.process) else "restarted"
