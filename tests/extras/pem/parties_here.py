"""A PEM run in one process, whose messages a test may change or lose, and tiny data."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.errors import ProtocolError
from ksdp.audit.mechanisms.pem.algorithm import PemAlgorithm
from ksdp.audit.mechanisms.pem.noise import Budget, Sampler
from ksdp.audit.randomness import RandomBytes
from ksdp.extras.pem.rounds import PemOutcome, PemTerms, pem_rounds
from ksdp.protocols.channel.rounds import Round, Rounds
from ksdp.protocols.channel.wire import pack, unpack

from ...protocols.conftest import seeded

Change = Callable[[str, str, str, int, bytes], bytes | None]
"""Of sender, receiver, kind, number of the round and what is said: what arrives; None where it is lost."""


@dataclass
class ScriptedSampler:
    """A sampler that remembers what it gave."""

    rng: np.random.Generator
    given: list[NDArray[np.int64]] = field(default_factory=list)
    label: str = "scripted"

    def draw(self, scale: float, entries: int, parties: int = 1) -> NDArray[np.int64]:
        drawn = np.rint(self.rng.normal(size=entries) * scale).astype(np.int64) * parties
        self.given.append(drawn)
        return drawn


def terms_of(
    algorithm: PemAlgorithm, holders: int, servers: int, budget: Budget, *, rows: int = 100, least: int = 1
) -> PemTerms:
    said = {"algorithm": repr(algorithm), "budget": repr(budget)}
    return PemTerms(
        tuple(f"host {i}" for i in range(holders)), tuple(f"server {j}" for j in range(servers)), "hub",
        budget, rows, repr(algorithm), least, said,
    )  # fmt: skip


def sides_of(
    terms: PemTerms, algorithm: PemAlgorithm, parts: Sequence[sp.csr_array], samplers: Sequence[Sampler],
    random: RandomBytes | None = None,
) -> dict[str, Rounds[PemOutcome]]:  # fmt: skip
    """One client at each host, named as the host."""
    held = dict(zip(terms.holders, parts, strict=True))
    noise = dict(zip(terms.servers, samplers, strict=True))
    sides = {}
    for name in terms.everybody:
        clients = {name: held[name]} if name in held else None
        sampler = noise.get(name) or ScriptedSampler(np.random.default_rng(0))
        coins = random or seeded(name)
        sides[name] = pem_rounds(terms, name, algorithm, clients, random_bytes=coins, sampler=sampler)
    return sides


def play(
    sides: dict[str, Rounds[PemOutcome]], change: Change = lambda sender, receiver, kind, number, body: body
) -> dict[str, Any]:
    """What each side came to: its outcome, or its error. Who has ended is lost; the run goes on without hosts."""
    ends: dict[str, Any] = {}
    steps: dict[str, Round] = {name: next(side) for name, side in sides.items()}
    while steps:
        mail: dict[str, dict[str, bytes]] = {name: {} for name in steps}
        for sender, step in steps.items():
            for receiver, message in step.messages.items():
                kind, number, body = unpack("round", message, 3)
                said = change(sender, receiver, step.kind, step.number, body)
                if said is not None and receiver in mail:
                    mail[receiver][sender] = pack("round", kind, number, said)
        following = {}
        for name in steps:
            lost = [other for other in sides if other not in (name, *mail[name]) and not other.startswith("host ")]
            if lost:
                ends[name] = ProtocolError(f"{lost[0]} disappeared")
                continue
            try:
                following[name] = sides[name].send(mail[name])
            except StopIteration as stop:
                ends[name] = stop.value
            except ProtocolError as error:
                ends[name] = error
        steps = following
    return ends


def one_hot(rows: int, seed: int, attributes: int = 3, values: int = 3) -> sp.csr_array:
    """Records of so many attributes, one column a value, around a few prototypes."""
    rng = np.random.default_rng(seed)
    prototypes = np.random.default_rng(0).integers(0, values, size=(3, attributes))
    picked = prototypes[rng.integers(0, 3, size=rows)]
    picked = np.where(rng.random((rows, attributes)) < 0.15, rng.integers(0, values, picked.shape), picked)
    columns = picked + values * np.arange(attributes)
    dense = np.zeros((rows, attributes * values))
    np.put_along_axis(dense, columns, 1.0, axis=1)
    return sp.csr_array(dense)
