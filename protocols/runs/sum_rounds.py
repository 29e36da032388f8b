"""The secure sums of one run, over its rounds."""

from __future__ import annotations

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from ksdp.audit.randomness import RandomBytes
from ksdp.protocols.channel.keys import Envelope
from ksdp.protocols.channel.rounds import RoundEngine, Rounds, from_senders
from ksdp.protocols.runs.run_terms import RunTerms
from ksdp.protocols.sums.secure_sum import SumParty
from ksdp.protocols.sums.sum_messages import Contribution, SumTerms

__all__ = ["SumRounds"]


class SumRounds:
    """One party's secure sums. A server is told nothing.

    Parameters
    ----------
    sums : SumTerms
        Of this run.
    random_bytes : callable
        Source of secrets.
    """

    def __init__(
        self,
        terms: RunTerms,
        sums: SumTerms,
        engine: RoundEngine,
        identity: Ed25519PrivateKey,
        random_bytes: RandomBytes,
    ) -> None:
        self._party = SumParty(sums, engine.name, identity, random_bytes=random_bytes)
        self._engine = engine
        self._peers = tuple(p.name for p in terms.participants if p.name != engine.name)
        self._coding = terms.precision.coding(terms.parties)

    @property
    def taken(self) -> int:
        """Sums so far."""
        return self._party.next_number

    def begin(self) -> Rounds[None]:
        """Signed keys of this session, among the parties."""
        hello = self._party.hello().to_bytes()
        hellos = yield from self._engine.exchange("hello", dict.fromkeys(self._peers, hello), self._peers)
        self._party.begin(from_senders(hellos, Envelope.from_bytes))

    def total(self, share: NDArray[np.float64]) -> Rounds[NDArray[np.float64]]:
        """The sum of the parties' shares.

        Raises
        ------
        InputError
            If an entry is out of bounds.
        ProtocolError
            If anybody deviates.
        """
        contribution = self._party.contribute(share, self._coding).to_bytes()
        arrived = yield from self._engine.exchange("sum", dict.fromkeys(self._peers, contribution), self._peers)
        return self._party.combine(from_senders(arrived, Contribution.from_bytes)).values
