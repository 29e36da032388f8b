"""One party's side of every run on shares: share the input, compute, learn what is opened."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.randomness import RandomBytes
from ksdp.protocols.channel.rounds import RoundEngine, Rounds, agreed, read_from
from ksdp.protocols.channel.wire import pack_arrays, unpack_arrays
from ksdp.protocols.shares.engine import ComputingParty
from ksdp.protocols.shares.field import BYTES, Words, added, integers_of, split
from ksdp.protocols.shares.matrices import NORM_BITS, normed_rows

Arrays = dict[str, NDArray[np.float64]]
_AGREE = 1e-9


class ComputingSide:
    """Sharing, computing and opening, one party's side.

    Parameters
    ----------
    computing : tuple of str
        Names of the three parties that compute.
    """

    def __init__(self, computing: tuple[str, ...], engine: RoundEngine, random_bytes: RandomBytes) -> None:
        self._computing, self._engine, self._random_bytes = computing, engine, random_bytes
        self._me = computing.index(engine.name) if engine.name in computing else None
        self.rounds = 0

    @property
    def computes(self) -> bool:
        """Whether this is one of the three."""
        return self._me is not None

    def sum_of(self, entered: NDArray[np.int64]) -> Rounds[Words | None]:
        """Share numbers, and get a share of all parties' sum; None where this party does not compute."""
        arrived = yield from self._shared(entered, self._engine.others)
        return _added(arrived, len(entered)) if self.computes else None

    def blocks_of(
        self, blocks: Iterator[NDArray[np.int64]], entries: Mapping[str, list[int]]
    ) -> Rounds[dict[str, list[Words]] | None]:
        """Share numbers block by block, and get shares of all; None if this party does not compute."""
        received: dict[str, list[Words]] = {name: [] for name in entries}
        for number in range(max(map(len, entries.values()))):
            speak = {name: sizes[number] for name, sizes in entries.items() if number < len(sizes)}
            mine = next(blocks) if self._engine.name in speak else None
            arrived = yield from self._shared(mine, [name for name in self._engine.others if name in speak])
            for name, body in arrived.items():
                received[name].append(_added({name: body}, speak[name]))
        return received if self.computes else None

    def normed(self, share: NDArray[np.float64], bound: float, parties: int) -> Rounds[NDArray[np.float64]]:
        """Every row of the parties' sum divided by its length, as all learn it (`matrices.normed_rows`)."""
        if not np.linalg.norm(share, axis=1).max(initial=0.0) <= bound:
            raise InputError(f"a row of a share is longer than `precision.bound` ({bound:g}).")
        entered = np.rint(share.ravel() * (2.0**NORM_BITS / (parties * bound))).astype(np.int64)
        total = yield from self.sum_of(entered)
        rows = None if total is None else integers_of(total, share.shape)
        work = None if rows is None else lambda runtime: normed_rows(runtime, rows)
        return (yield from self.learn(work))["rows"]

    def _shared(
        self, mine: NDArray[np.int64] | None, speak: list[str] | tuple[str, ...]
    ) -> Rounds[dict[str, bytes]]:
        engine, shares = self._engine, dict[str, bytes]()
        if mine is not None:
            shares = dict(zip(self._computing, split(mine, self._random_bytes), strict=True))
        others = {name: share for name, share in shares.items() if name != engine.name}
        arrived = yield from engine.exchange("shares", others, speak if self.computes else ())
        if self.computes and mine is not None:
            arrived[engine.name] = shares[engine.name]
        return arrived

    def learn(self, work: Callable[[Any], Coroutine[Any, Any, Arrays]] | None) -> Rounds[Arrays]:
        """Learn the result of a computation on shares; `work` is None if this party does not compute."""
        party = None
        if work is not None:
            assert self._me is not None
            party = ComputingParty(self._me, self._random_bytes, self._computing)
            party.start(work)
        return (yield from self._learn(party))

    def _learn(self, party: ComputingParty | None) -> Rounds[Arrays]:
        computing, engine = self._computing, self._engine
        taken: Mapping[int, bytes] = {}
        going = True
        while going:
            sent = party.turn(taken) if party is not None else {}
            done = party is None or party.done
            bodies = dict.fromkeys(engine.others, b"\1" if done else b"\0")
            for place, data in sent.items():
                bodies[computing[place]] += data
            arrived = yield from engine.exchange("computation", bodies, engine.others)
            self.rounds += 1
            spoken = any(len(body) > 1 for body in (*bodies.values(), *arrived.values()))
            going = not (done and all(body[:1] == b"\1" for body in arrived.values()))
            if going and party is not None and not spoken:
                raise ProtocolError("All computing parties are waiting for each other: they are out of step.")
            taken = {at: arrived[name][1:] for at, name in enumerate(computing) if name in arrived}
        mine: Arrays = party.result if party is not None else {}
        result = dict.fromkeys(engine.others, pack_arrays(mine)) if party is not None else {}
        copies = yield from engine.exchange("opened", result, [name for name in computing if name != engine.name])
        results = {name: read_from(name, unpack_arrays, body) for name, body in copies.items()}
        if party is not None:
            results[engine.name] = mine
        return _one_of(results)


def _added(shares: Mapping[str, bytes], entries: int) -> Words:
    for name, share in shares.items():
        if len(share) != BYTES * entries:
            raise ProtocolError(f"{name} sent shares of another length than the protocol file says.")
    return added(list(shares.values()))


def _one_of(results: Mapping[str, Arrays]) -> Arrays:
    """The copy of the first computing party; the others' have the last bits of their own BLAS."""

    def same(first: Arrays, other: Arrays) -> bool:
        return other.keys() == first.keys() and all(
            other[n].shape == first[n].shape and np.allclose(other[n], first[n], rtol=_AGREE, atol=_AGREE)
            for n in first
        )

    return agreed(results, "opened different things, and the run is void", same)
