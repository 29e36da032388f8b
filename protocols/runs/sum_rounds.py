"""The secure sums of one run, over its rounds."""

from __future__ import annotations

import hashlib

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from ksdp.audit.errors import ProtocolError
from ksdp.audit.randomness import RandomBytes
from ksdp.protocols.channel.keys import Envelope
from ksdp.protocols.channel.rounds import Bodies, RoundEngine, Rounds, from_senders
from ksdp.protocols.channel.wire import pack, unpack
from ksdp.protocols.runs.run_terms import RunTerms
from ksdp.protocols.sums.secure_sum import SumParty
from ksdp.protocols.sums.sum_messages import Contribution, SumTerms


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
        self._heard = bytes(32)
        """Hash of all sums so far, sent with the next share: nobody goes on from another sum than the others."""

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
        said = pack("summed", self._heard, contribution)
        arrived = yield from self._engine.exchange("sum", dict.fromkeys(self._peers, said), self._peers)
        total = self._party.combine(from_senders(self._opened(arrived), Contribution.from_bytes)).values
        self._heard = hashlib.sha256(pack("heard", self._heard, total.astype("<f8").tobytes())).digest()
        return total

    def _opened(self, arrived: Bodies) -> dict[str, bytes]:
        """The contributions, if everybody has heard the same sums so far."""
        contributions = {}
        for peer, body in arrived.items():
            heard, contributions[peer] = unpack("summed", body, 2)
            if heard != self._heard:
                raise ProtocolError(
                    f"{peer} received another sum than {self._engine.name}: a party sent different values "
                    "to different parties. The run is void."
                )
        return contributions
