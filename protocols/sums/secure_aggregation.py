"""Secure aggregation that survives drop-outs (Bonawitz et al. 2017), in its form for a server that may lie.

A server learns the sum of the vectors of the clients that stayed, and no single one. Five rounds; client and
server are machines in `aggregation_client` and `aggregation_server`:

====  ==================  =====================================================================================
0     `advertise`         each client signs two fresh X25519 keys: one to encrypt (c), one to mask (s)
1     `share_keys`        it shares the secret half of s, and a seed b, among all (Shamir), encrypted (AES-GCM)
2     `mask`              it sends x + PRG(b) + sum of +-PRG(s with each peer), modulo 2^64
3     `agree`             it signs the list of those whose vectors arrived
4     `unmask`            shown `threshold` signatures on *its own* list, it gives its shares of b for every
                          survivor and of s for everybody else: never both for one client
====  ==================  =====================================================================================

Masks between survivors cancel; the server rebuilds b of every survivor and s of whoever left after round 1. Up to
n - threshold clients may leave, in any round.

**Who sees what.** The server: public keys, ciphertexts, masked vectors, the shares of round 4. A client: public
keys, its own shares, lists of names; not the sum, unless the server tells. Whoever carries the messages sees no
more than the server. Names, lengths and who left are public to all.

**Claim.** Clients that follow the protocol, up to c others that work with a server that may deviate at will: if

    2 threshold > n + c        (`AggregationTerms` refuses less; with c = 0: threshold > n / 2)

the server learns at most one sum, over at least threshold - c clients outside the coalition. Two lists of
survivors would need threshold signatures each, 2 threshold in all; n - c clients sign once and c sign both: n + c.
With threshold = floor(2 n / 3) + 1 this holds for every c < n / 3. Everything a client signs also binds its view
of the keys and of who shared, so a server that shows different clients different things ends with nothing.

**Not claimed.** A false sum: a client may send what it likes within the bounds, a server may announce what it
likes. That a sum hides an input that follows from it (all others being known).

Beyond the paper: every message is signed by its sender, the server included; the seed b is committed to (SHA-256),
so a false share is noticed where it would give a false sum.

Source: Bonawitz et al. (2017), https://doi.org/10.1145/3133956.3133982, figure 4 and theorem 6.5; appendix A of
Liu, Pejo & Tang (2023), Privacy-Preserving Federated Singular Value Decomposition.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.errors import InputError
from ksdp.protocols.channel.keys import VERSION, Participant, check_participants, derive_alone
from ksdp.protocols.channel.wire import pack, pack_names, pack_number
from ksdp.protocols.sums.fixed_point import FixedPoint

MAX_ENTRIES = 1 << 27
"""Of one vector: 1 GiB."""


@dataclass(frozen=True)
class AggregationTerms:
    """What all agree on before the first message.

    Parameters
    ----------
    participants : tuple of Participant
        The clients, sorted by name; at least two.
    server : Participant
        Who collects.
    threshold : int
        How many clients must stay to the end; 2 threshold > n + colluders.
    coding : FixedPoint
        For sums of at least n.
    shape : tuple of int
        Of every client's array.
    agreement : bytes
        Anything else they agreed on, and what makes this run a new one.
    colluders : int
        Clients that may work with the server, c; 0 unless stated.

    Raises
    ------
    InputError
        If the threshold is unsafe or cannot be reached, or coding or shape do not fit.
    """

    participants: tuple[Participant, ...]
    server: Participant
    threshold: int
    coding: FixedPoint
    shape: tuple[int, ...]
    agreement: bytes
    colluders: int = 0

    def __post_init__(self) -> None:
        check_participants(self.participants, 2)
        n = len(self.participants)
        if any(self.server.name == p.name or self.server.identity == p.identity for p in self.participants):
            raise InputError("`server` must not be one of the clients.")
        if not 0 <= self.colluders < n:
            raise InputError(f"`colluders` must be 0 to {n - 1}; got {self.colluders}.")
        least = (n + self.colluders) // 2 + 1
        if not least <= self.threshold <= n:
            raise InputError(
                f"`threshold` must be {least} to {n} for {n} clients of which {self.colluders} may work with the "
                f"server (2 threshold > n + colluders); got {self.threshold}."
            )
        if self.coding.parties < n:
            raise InputError(f"`coding` is for sums of {self.coding.parties}; there are {n} clients.")
        if any(size < 1 for size in self.shape) or self.entries > MAX_ENTRIES:
            raise InputError(f"`shape` must have 1 to {MAX_ENTRIES} entries; got {self.shape}.")

    @property
    def entries(self) -> int:
        """Numbers in one vector."""
        return math.prod(self.shape)

    @cached_property
    def clients(self) -> dict[str, Participant]:
        """By name, sorted."""
        return {p.name: p for p in self.participants}

    @cached_property
    def points(self) -> dict[str, int]:
        """Where each client's shares lie on the polynomials: 1 to n in the order of names."""
        return {p.name: i for i, p in enumerate(self.participants, start=1)}

    @cached_property
    def session(self) -> bytes:
        """Hash of all this, 32 bytes; no key or message of another session is taken."""
        people = (field for p in (self.server, *self.participants) for field in (p.name.encode(), p.identity))
        numbers = (pack_number(n) for n in (self.threshold, self.colluders, *self.shape))
        terms = pack("terms", self.agreement, self.coding.to_bytes(), *numbers)
        return hashlib.sha256(pack("aggregation-terms", VERSION, terms, *people)).digest()


@dataclass(frozen=True, eq=False)
class Aggregate:
    """What the server learns."""

    values: NDArray[np.float64]
    survivors: tuple[str, ...]
    """Whose vectors are in the sum."""
    dropped: tuple[str, ...]
    """All other participants."""
    reveals: str
    """What follows from it, in plain words."""


def seed_commitment(session: bytes, owner: str, seed: bytes) -> bytes:
    """What a client publishes of its seed b: 32 bytes that fix it and, the seed being 256 random bits, hide it."""
    return hashlib.sha256(pack("seed-commitment", VERSION, session, owner.encode(), seed)).digest()


def mask_key_of_seed(session: bytes, owner: str, seed: bytes) -> bytes:
    """Key of a client's own mask, which only those who rebuild its seed can take off."""
    return derive_alone(seed, "aggregation-own-mask", session, owner)


def view_of(session: bytes, key_list: bytes, sharers: tuple[str, ...]) -> bytes:
    """Hash of all that a client was shown before it sent its vector; survivors sign it with their list."""
    return hashlib.sha256(pack("aggregation-view", session, key_list, pack_names(sharers))).digest()
