"""A run that opens its final output alone, one party's side (`ksdp.protocols.shared`).

1. greeting, statement: as every run (`handshake`)
2. PD-PCA: shares of column sums and rows go to the three computing parties, who open the mean
3. shares of second moments go to the three computing parties
4. rounds of the computation; parties that do not compute say nothing in them
5. what was opened goes to all, who compare the three copies
6. result: as every run

A party checks that its squares add up to at most `precision.bound`: so no number on shares can wrap.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.mechanisms.factorisation.pd_pca import PDPCA
from ksdp.audit.mechanisms.factorisation.pd_svd import PDSVD
from ksdp.audit.mechanisms.party_side import PartyResult
from ksdp.audit.randomness import RandomBytes, os_random
from ksdp.protocols.channel.arrays import pack_arrays, unpack_arrays
from ksdp.protocols.channel.rounds import RoundEngine, Rounds
from ksdp.protocols.runs.final_terms import FinalTerms, trusted_words
from ksdp.protocols.runs.handshake import Outcome, agree_on_result, check_node, open_run
from ksdp.protocols.runs.run_terms import RunTerms, Statement
from ksdp.protocols.shared.engine import ComputingParty
from ksdp.protocols.shared.field import BYTES, PRIME, added, integers, split, symmetric_limbs
from ksdp.protocols.shared.means import MOST_ROWS, SUM_BITS, mean_of
from ksdp.protocols.shared.subspace import MOMENT_BITS, NotConverged, Wanted, decompose, vectors_of

__all__ = ["final_rounds", "largest_final_message"]

Arrays = dict[str, NDArray[np.float64]]
_AGREE = 1e-9


def largest_final_message(terms: RunTerms) -> int:
    """No message of a run has more bytes."""
    assert terms.final is not None
    upper = terms.features * (terms.features + 1) // 2
    opened = terms.features * terms.final.block + 64 * terms.final.block**2 * terms.final.block
    return BYTES * max(upper, 2 * opened) + (1 << 20)


def final_rounds(
    terms: RunTerms,
    name: str,
    identity: Ed25519PrivateKey,
    matrix: sp.csr_array,
    statement: Statement,
    *,
    random_bytes: RandomBytes = os_random,
) -> Rounds[Outcome]:
    """One party's side of a run.

    Parameters
    ----------
    matrix : canonical CSR, shape (n, d)
        Its rows.

    Raises
    ------
    InputError
        If `name` is no participant, the key is another's, or the party's numbers are out of bounds.
    ProtocolError
        If anybody deviates, or the iterations were too few for this data.
    """
    check_node(terms, name, identity)
    assert terms.final is not None
    mechanism = terms.mechanism
    assert isinstance(mechanism, PDSVD)
    engine = RoundEngine(name, terms.others(name))
    opened = yield from open_run(engine, terms, statement, random_bytes)
    side = _Side(terms, terms.final, engine, random_bytes)
    public: Arrays = {}
    mean = None
    if isinstance(mechanism, PDPCA):
        public |= yield from side.compute(_sums(matrix, terms.precision.bound), side.mean, terms.features + 1)
        mean = public["mean"]
    upper = terms.features * (terms.features + 1) // 2
    entered = _moments(matrix, mean, terms.precision.bound, terms.parties)
    public |= yield from side.compute(entered, side.vectors, upper)
    digest = yield from agree_on_result(engine, opened.sums.session, public)
    return Outcome(
        PartyResult(public),
        opened.sums.session.hex(),
        digest,
        opened.statements,
        reveals=trusted_words(terms.final.computing),
        asked={"rounds on shares": side.rounds},
    )


def _sums(matrix: sp.csr_array, bound: float) -> NDArray[np.int64]:
    """Column sums and the number of rows."""
    sums = np.asarray(matrix.sum(axis=0), dtype=np.float64)
    rows = matrix.shape[0]
    if rows > MOST_ROWS or not np.abs(sums).max(initial=0.0) <= bound:
        raise InputError(f"a column adds up to more than `precision.bound` ({bound:g}), or rows are too many.")
    return np.rint(np.append(sums, float(rows)) * 2.0**SUM_BITS).astype(np.int64)


def _moments(
    matrix: sp.csr_array, mean: NDArray[np.float64] | None, bound: float, parties: int
) -> NDArray[np.int64]:
    """The upper triangle of (X - 1 m^T)^T (X - 1 m^T), relative to what all may enter together.

    Raises
    ------
    InputError
        If the squares of all entries add up to more than the bound.
    """
    moments = np.asarray((matrix.T @ matrix).toarray(), dtype=np.float64)
    if mean is not None:
        sums = np.asarray(matrix.sum(axis=0), dtype=np.float64)
        moments += matrix.shape[0] * np.outer(mean, mean) - np.outer(sums, mean) - np.outer(mean, sums)
    if not np.trace(moments) <= bound:
        raise InputError(f"the squares of all entries add up to more than `precision.bound` ({bound:g}).")
    return np.rint(moments[np.triu_indices(len(moments))] * (2.0**MOMENT_BITS / (parties * bound))).astype(
        np.int64
    )


class _Side:
    """Sharing, computing and opening, one party's side."""

    def __init__(self, terms: RunTerms, final: FinalTerms, engine: RoundEngine, random_bytes: RandomBytes) -> None:
        self._terms, self._final, self._engine, self._random_bytes = terms, final, engine, random_bytes
        self._me = final.computing.index(engine.name) if engine.name in final.computing else None
        self.rounds = 0

    def mean(self, runtime: Any, entered: NDArray[np.uint8]) -> Coroutine[Any, Any, Arrays]:
        """The mean."""
        return mean_of(runtime, integers(entered, (len(entered),)), self._terms.parties)

    async def vectors(self, runtime: Any, entered: NDArray[np.uint8]) -> Arrays:
        """V, and sigma where it is revealed."""
        terms, mechanism = self._terms, self._terms.mechanism
        assert isinstance(mechanism, PDSVD)
        wanted = Wanted(
            mechanism.rank, terms.features, self._final.block, self._final.rounds,
            mechanism.start_seed, mechanism.reveal_sigma,
        )  # fmt: skip
        rows, columns = np.triu_indices(terms.features)
        diagonal = integers(entered[rows == columns], (terms.features,))
        limbs = symmetric_limbs(entered, terms.features)
        try:
            opened = await decompose(runtime, limbs, int(diagonal.sum() % PRIME), wanted)
        except NotConverged:
            raise ProtocolError(
                "The run has not converged, and nothing but this was opened: agree on a larger `final.block` or "
                "more `final.rounds`, or another `rank`, if two singular values are too close there."
            ) from None
        return vectors_of(opened, wanted, terms.parties * terms.precision.bound)

    def compute(
        self,
        entered: NDArray[np.int64],
        work: Callable[[Any, NDArray[np.uint8]], Coroutine[Any, Any, Arrays]],
        entries: int,
    ) -> Rounds[Arrays]:
        """Share what this party enters, compute on the sum, and learn the result."""
        computing, engine = self._final.computing, self._engine
        shares = dict(zip(computing, split(entered, self._random_bytes), strict=True))
        others = {name: share for name, share in shares.items() if name != engine.name}
        due = engine.others if self._me is not None else ()
        arrived = yield from engine.exchange("shares", others, due)
        if self._me is None:
            return (yield from self._learn(None))
        total = added([shares[engine.name], *arrived.values()], entries)
        del arrived, shares, others
        party = ComputingParty(self._me, self._random_bytes)
        party.start(lambda runtime: work(runtime, total))
        return (yield from self._learn(party))

    def _learn(self, party: ComputingParty | None) -> Rounds[Arrays]:
        computing, engine = self._final.computing, self._engine
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
                raise ProtocolError("All computing parties wait, and nobody speaks: they drifted apart.")
            taken = {at: arrived[name][1:] for at, name in enumerate(computing) if name in arrived}
        mine: Arrays = party.result if party is not None else {}
        told = dict.fromkeys(engine.others, pack_arrays(mine)) if party is not None else {}
        copies = yield from engine.exchange("opened", told, [name for name in computing if name != engine.name])
        found = {name: unpack_arrays(body) for name, body in copies.items()}
        if party is not None:
            found[engine.name] = mine
        return _one_of(found)


def _one_of(found: Mapping[str, Arrays]) -> Arrays:
    """The copy of the first computing party; the others' have the last bits of their own BLAS."""
    first, *others = (found[name] for name in sorted(found))
    for other in others:
        same = other.keys() == first.keys() and all(
            other[n].shape == first[n].shape and np.allclose(other[n], first[n], rtol=_AGREE, atol=_AGREE)
            for n in first
        )
        if not same:
            raise ProtocolError("The computing parties opened different things: the run is void.")
    return first
