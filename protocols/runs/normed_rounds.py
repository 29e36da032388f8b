"""Normed sums within a run: what is set up once, then for every share the scripts of all its rows.

The rows of one iteration do not depend on each other, so that the online phases of all of them share rounds.
Offline phases follow one another, because their messages are large.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.errors import InputError
from ksdp.audit.randomness import RandomBytes
from ksdp.protocols.channel.rounds import RoundEngine, Rounds
from ksdp.protocols.channel.wire import pack
from ksdp.protocols.norms.normed_parameters import NormedSumParameters
from ksdp.protocols.norms.normed_sum import online_script
from ksdp.protocols.norms.offline_ways import OFFLINE_WAYS
from ksdp.protocols.runs.run_terms import RunTerms

_HEADERS = 128
"""Bytes around the payload of one script, at most."""
_BASE = 1 << 13


def _parameters(terms: RunTerms) -> NormedSumParameters:
    p = terms.precision
    return NormedSumParameters(terms.parties, terms.features, p.fraction_bits, p.integer_bits(terms.parties))


def check_normed(terms: RunTerms) -> None:
    """Refuse terms that no normed sum can keep.

    Raises
    ------
    InputError
        If the bits, the bound or the number of features are out of range.
    """
    try:
        _parameters(terms)
    except InputError as error:
        raise InputError(f"`precision` does not fit normed sums: {error}") from None


def largest_batch(terms: RunTerms) -> int:
    """No message of `NormedRounds` has more bytes."""
    p = _parameters(terms)
    rank = int(getattr(terms.mechanism, "rank", 1))
    online = max(p.ring.width * p.dimension, 2 * p.scalar_ring.width)
    return max(_BASE, OFFLINE_WAYS[terms.offline].largest(p), rank * (online + _HEADERS)) + (1 << 12)


class NormedRounds:
    """One party's normed sums of one run.

    Parameters
    ----------
    terms : RunTerms
        Agreed on.
    session : bytes
        Of the run.
    engine : RoundEngine
        Of this party; there is no server in such a run.
    random_bytes : callable
        Source of secrets.
    """

    def __init__(self, terms: RunTerms, session: bytes, engine: RoundEngine, random_bytes: RandomBytes) -> None:
        self._names = [p.name for p in terms.participants]
        self._parameters = _parameters(terms)
        self._session = hashlib.sha256(pack("normed-rounds", session)).digest()
        self._engine, self._random_bytes = engine, random_bytes
        self._way, self._setup = OFFLINE_WAYS[terms.offline], None
        self.taken = 0
        """Normed sums so far, of one row each."""
        self.reveals = ""
        """What follows from them, in plain words."""

    def begin(self) -> Rounds[None]:
        """Base transfers between all pairs, and keys where the terms say so."""
        me = self._names.index(self._engine.name)
        script = self._way.setup(self._session, me, self._parameters, self._random_bytes)
        (self._setup,) = yield from self._engine.play("base transfers", self._session, self._names, [script])

    def total(self, share: NDArray[np.float64]) -> Rounds[NDArray[np.float64]]:
        """Every row of the parties' sum divided by its norm, shape (rows, d).

        Raises
        ------
        InputError
            If a row is longer than the bound.
        ProtocolError
            If a row of the sum is zero or too short to have a direction.
        """
        assert self._setup is not None
        scripts, batches = [], []
        for row in share:
            batches.append(self._way.batch(self._setup, self._parameters, self.taken))
            offline = self._way.material(self._setup, self._parameters, self.taken, self._random_bytes)
            (material,) = yield from self._engine.play("normed offline", batches[-1], self._names, [offline])
            scripts.append(online_script(material, row))
            self.taken += 1
        session = hashlib.sha256(b"".join(batches)).digest()
        sums = yield from self._engine.play("normed sum", session, self._names, scripts)
        self.reveals = sums[0].reveals
        return np.stack([each.values for each in sums])
