"""PD-NMF that opens its topics alone, one party's side.

1. greeting, statement: as every run (`handshake`)
2. everybody tells its number of rows
3. with PD-NMF-Init: shares of every party's own topics, weighted, go to the three computing parties
4. shares of rows go to them, block by block; where weighted, then shares of which entries these have
5. rounds of the sweeps on shares, a fixed number; then T is opened, and nothing else
6. what was opened goes to all, who compare the three copies; result: as every run

Coefficients are each party's own: with T it fits its rows by itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.mechanisms.factorisation.nmf_starts import local_models, pseudo_documents, random_topics
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.factorisation.rri_nmf import fit_coefficients
from ksdp.audit.mechanisms.factorisation.weighted_nmf import fit_observed_coefficients
from ksdp.audit.mechanisms.party_side import PartyResult
from ksdp.protocols.channel.rounds import RoundEngine, Rounds
from ksdp.protocols.channel.wire import number_of, pack_number
from ksdp.protocols.runs.run_terms import RunTerms
from ksdp.protocols.shares.field import BYTES, Residues, residues_of_bytes
from ksdp.protocols.shares.rounds import ComputingSide, Entered
from ksdp.protocols.shares.sizes import ROW_BITS, AnySizes, sizes_of
from ksdp.protocols.shares.topics import NotProjected, SharedRows, Sweeps, topics_of

MOST_ENTRIES = 1 << 25
"""Rows of all parties times features: 3 GB of residues at each computing party."""
_ROUNDING = 1e-3
_BLOCK = 1 << 19
"""Entries of a message of shares, unless a row is longer."""


def largest_rows_message(terms: RunTerms) -> int:
    """No message of a run has more bytes."""
    mechanism = terms.mechanism
    assert isinstance(mechanism, PDNMF)
    # Rounded side by side: of every row and feature as many numbers as there are topics, or two.
    at_once = (_most_rows(terms) + terms.features) * max(mechanism.rank, 2)
    return BYTES * max(_BLOCK, 13 * terms.features, at_once) + 16 * terms.features * mechanism.rank + (1 << 20)


def _most_rows(terms: RunTerms) -> int:
    assert isinstance(terms.mechanism, PDNMF)
    return MOST_ENTRIES // (terms.features * (2 if terms.mechanism.weighted else 1))


def topic_rounds(
    terms: RunTerms, engine: RoundEngine, side: ComputingSide, matrix: sp.csr_array
) -> Rounds[tuple[PartyResult, tuple[int, ...]]]:
    """The result, and the rows of every party.

    Raises
    ------
    InputError
        If this party's numbers are out of bounds, or all parties have too many rows.
    ProtocolError
        If a topic could not be projected on the simplex, or what was opened is not of rows within bounds.
    """
    mechanism, final = terms.mechanism, terms.shares
    assert isinstance(mechanism, PDNMF)
    assert final is not None
    largest = terms.parties * terms.precision.bound
    sizes = sizes_of(mechanism.rank, terms.features, mechanism.penalties, largest)
    _check(matrix, terms.precision.bound)
    rows = yield from _rows_of_all(terms, engine, matrix.shape[0])
    wanted, models = Sweeps(sizes, mechanism.cap), None
    if mechanism.start == "pd-nmf-init":
        own = pseudo_documents(local_models([matrix], mechanism.rank, mechanism.local_fit)[0])
        _check(own, terms.precision.bound)
        models = yield from _entered(side, own, dict.fromkeys(rows, mechanism.rank), largest)
        wanted = Sweeps(sizes, mechanism.cap, mechanism.sweeps)
    entered = yield from _entered(side, matrix, rows, largest)
    pattern = (yield from _pattern(side, matrix, rows)) if mechanism.weighted else None
    start = random_topics(terms.features, mechanism.rank, mechanism.start_seed)

    async def work(runtime: object) -> dict[str, NDArray[np.float64]]:
        assert entered is not None
        try:
            return {"T": await topics_of(runtime, entered, start, wanted, models, pattern)}
        except NotProjected:
            raise ProtocolError(
                "A topic could not be projected on the simplex, and nothing but this was opened: agree on a "
                "`precision.bound` closer to the data, or on `beta` and `delta` above 0."
            ) from None

    public = yield from side.learn(None if entered is None else work)
    _check_within(public["T"], sizes)
    # Opened numbers are to 2^-40: what is below zero is zero.
    public["T"] = np.maximum(public["T"], 0.0)
    fit = fit_observed_coefficients if mechanism.weighted else fit_coefficients
    own_weights = fit(matrix, public["T"], gamma=mechanism.gamma, delta=mechanism.delta)
    return PartyResult(public, {"W": own_weights}), tuple(rows.values())


def _check_within(topics: NDArray[np.float64], sizes: AnySizes) -> None:
    """Void a run whose topics are longer than any rows within the agreed bound make them, whatever these are.

    Numbers on shares that left their range are anything up to the field's size: what is opened of them is hardly
    ever this small. All look at the same topics, so that it ends for all.
    """
    if not np.linalg.norm(topics, axis=1).max() <= sizes.tau * sizes.reach * (1.0 + _ROUNDING):
        raise ProtocolError(
            "The topics that were opened are longer than rows within `precision.bound` can make them: a party has "
            "entered others, or computed something else, and the run is void."
        )


def _check(matrix: sp.csr_array, bound: float) -> None:
    data = matrix.data
    if data.size and not (data.min() >= 0 and float(data @ data) <= bound):
        raise InputError(
            f"entries must not be negative, and their squares add up to at most `precision.bound` ({bound:g})."
        )


def _rows_of_all(terms: RunTerms, engine: RoundEngine, mine: int) -> Rounds[dict[str, int]]:
    counts = yield from engine.everybody("rows", pack_number(mine))
    rows = {name: number_of(body) for name, body in counts.items()} | {engine.name: mine}
    if min(rows.values()) < 1:
        raise ProtocolError("A party has no rows.")
    most = _most_rows(terms)
    if sum(rows.values()) > most:
        raise InputError(
            f"all parties together may have {most} rows of {terms.features} features in a run that opens its "
            f"final output alone; they have {sum(rows.values())}."
        )
    return dict(sorted(rows.items()))


def _pattern(side: ComputingSide, matrix: sp.csr_array, rows: dict[str, int]) -> Rounds[SharedRows | None]:
    """Shares of which entries every party has, as 1 and 0."""
    stored = sp.csr_array((np.ones_like(matrix.data), matrix.indices, matrix.indptr), shape=matrix.shape)
    return (yield from _entered(side, stored, rows, 1.0, 0))


def _entered(
    side: ComputingSide, matrix: sp.csr_array, rows: dict[str, int], largest: float, fraction: int = ROW_BITS
) -> Rounds[SharedRows | None]:
    """Shares of every party's rows, one party's after the other's, in the order of their names."""
    features = matrix.shape[1]
    most = max(1, _BLOCK // features)
    entries = {
        name: [features * min(most, count - first) for first in range(0, count, most)]
        for name, count in rows.items()
    }
    blocks = yield from side.blocks_of(_blocks(matrix, most, 2.0**fraction / np.sqrt(largest)), entries)
    return None if blocks is None else SharedRows(_residues(blocks, sum(rows.values()), features))


def _blocks(matrix: sp.csr_array, most: int, scale: float) -> Iterator[NDArray[np.int64]]:
    for first in range(0, matrix.shape[0], most):
        part = matrix[first : first + most].toarray().ravel() * scale
        yield np.rint(part).astype(np.int64)


def _residues(blocks: dict[str, list[Entered]], rows: int, features: int) -> Residues:
    residues: Residues | None = None
    at = 0
    for name in sorted(blocks):
        for number, block in enumerate(blocks[name]):
            part = residues_of_bytes(block).reshape(-1, len(block) // features, features)
            blocks[name][number] = block[:0]  # not held twice
            if residues is None:
                residues = np.empty((len(part), rows, features), dtype=np.float32)
            residues[:, at : at + part.shape[1]] = part
            at += part.shape[1]
    assert residues is not None
    return residues
