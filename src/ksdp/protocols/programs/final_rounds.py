"""A run that opens its final output alone, one party's side (`ksdp.protocols.shares`).

1. greeting, statement: as every run (`handshake`)
2. singular vectors: PD-PCA first shares column sums and rows, of which three parties open the mean; then shares of
   second moments go to the three. Topics: everybody tells its number of rows; with PD-NMF-Init shares of every
   party's own topics, weighted, go to the three; then shares of rows, block by block, and where weighted of which
   entries these have
   With noise: everybody shares what it adds to the result
3. rounds of the computation; parties that do not compute say nothing in them
4. what was opened goes to all, who compare the three copies
5. result: as every run

A party checks that its squares add up to at most `precision.bound`: so no number on shares can wrap. Coefficients
are each party's own: with T it fits its rows by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.mechanisms.factorisation.nmf_starts import local_models, pseudo_documents, random_topics
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.factorisation.pd_svd import PDPCA, PDSVD, hidden_mean, rows_mean
from ksdp.audit.mechanisms.factorisation.rri_nmf import fit_coefficients
from ksdp.audit.mechanisms.factorisation.weighted_nmf import fit_observed_coefficients
from ksdp.audit.mechanisms.party_side import PartyResult
from ksdp.audit.mechanisms.privacy.noisy import Noisy
from ksdp.audit.randomness import RandomBytes, os_random
from ksdp.protocols.channel.rounds import RoundEngine, Rounds, read_from
from ksdp.protocols.channel.wire import pack_number, rows_of
from ksdp.protocols.programs.rounds import NoiseSource, RunOutcome, agree_on_result, noised, open_run, vetted_noise
from ksdp.protocols.programs.run_terms import RunTerms, Statement
from ksdp.protocols.programs.share_terms import LARGEST_NOISE, TAIL, exact_part, noise_of_party, trusted_words
from ksdp.protocols.shares.field import (
    BYTES,
    MODULI,
    PRIME,
    Integers,
    Residues,
    Words,
    integers_of,
    residues,
    symmetric_residues,
)
from ksdp.protocols.shares.matrices import MOST_ROWS, SUM_BITS, mean_of
from ksdp.protocols.shares.rounds import Arrays, ComputingSide
from ksdp.protocols.shares.sizes import ROW_BITS, sizes_of
from ksdp.protocols.shares.subspace import MOMENT_BITS, Decomposition, NotConverged, decompose, vectors_of
from ksdp.protocols.shares.topics import NotProjected, SharedRows, Sweeps, topics_of

MOST_ENTRIES = 1 << 25
"""Rows of all parties times features: 3 GB of residues at each computing party."""
_BLOCK = 1 << 19
"""Entries of a message of shares, unless a row is longer."""


def _largest_rows_message(terms: RunTerms) -> int:
    mechanism = exact_part(terms.mechanism)
    assert isinstance(mechanism, PDNMF)
    # Rounded side by side: of every row and feature as many numbers as there are topics, or two.
    at_once = (_most_rows(terms) + terms.features) * max(mechanism.rank, 2)
    return BYTES * max(_BLOCK, 13 * terms.features, at_once) + 16 * terms.features * mechanism.rank + (1 << 20)


def _most_rows(terms: RunTerms) -> int:
    mechanism = exact_part(terms.mechanism)
    assert isinstance(mechanism, PDNMF)
    return MOST_ENTRIES // (terms.features * (2 if mechanism.weighted else 1))


def _topics(
    terms: RunTerms, engine: RoundEngine, side: ComputingSide, matrix: sp.csr_array, noise: NoiseSource
) -> Rounds[tuple[PartyResult, tuple[int, ...]]]:
    mechanism, final = exact_part(terms.mechanism), terms.shares
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
    added = yield from _noise(terms, side, (mechanism.rank, terms.features), noise)
    start = random_topics(terms.features, mechanism.rank, mechanism.start_seed)

    async def work(runtime: object) -> dict[str, NDArray[np.float64]]:
        assert entered is not None
        try:
            return {"T": await topics_of(runtime, entered, start, wanted, models, pattern, added)}
        except NotProjected:
            raise ProtocolError(
                "A topic could not be projected on the simplex, and nothing but this was opened: agree on a "
                "`precision.bound` closer to the data, or on `beta` and `delta` above 0."
            ) from None

    public = yield from side.learn(None if entered is None else work)
    _check_within(public["T"], sizes.longest, terms)
    # Opened numbers are to 2^-40: what is below zero is zero.
    public["T"] = np.maximum(public["T"], 0.0)
    fit = fit_observed_coefficients if mechanism.weighted else fit_coefficients
    own_weights = fit(matrix, public["T"], gamma=mechanism.gamma, delta=mechanism.delta)
    return PartyResult(public, {"W": own_weights}), tuple(rows.values())


def _noise(
    terms: RunTerms, side: ComputingSide, shape: tuple[int, int], source: NoiseSource
) -> Rounds[Integers | None]:
    """Shares of all parties' noise, in steps of 2^-31; None where there is none, or none of them is here."""
    deviation = noise_of_party(terms.mechanism, terms.parties)
    if not deviation:
        return None
    nothing = np.zeros(shape)
    drawn = noised(nothing, deviation, LARGEST_NOISE / terms.parties, source).noise
    total = yield from side.sum_of(drawn.ravel())
    return None if total is None else integers_of(total, shape)


def _check_within(rows: NDArray[np.float64], longest: float, terms: RunTerms) -> None:
    """Void a run of which longer rows were opened than any data make, with all parties' noise."""
    # Numbers on shares that left their range are anything up to the field's size: what is opened of them is hardly
    # ever this small. All look at the same rows, so that it ends for all.
    deviation = np.sqrt(terms.parties) * noise_of_party(terms.mechanism, terms.parties)
    if not np.linalg.norm(rows, axis=1).max() <= longest + deviation * (np.sqrt(rows.shape[1]) + TAIL):
        raise ProtocolError(
            "What was opened is longer than rows within `precision.bound` and all parties' noise can make it: a "
            "party has entered others, or computed something else. The run is void, and its result is not used."
        )


def _check(matrix: sp.csr_array, bound: float) -> None:
    data = matrix.data
    if data.size and not (data.min() >= 0 and float(data @ data) <= bound):
        raise InputError(
            f"entries must not be negative, and their squares add up to at most `precision.bound` ({bound:g})."
        )


def _rows_of_all(terms: RunTerms, engine: RoundEngine, mine: int) -> Rounds[dict[str, int]]:
    counts = yield from engine.everybody("rows", pack_number(mine))
    rows = {name: read_from(name, rows_of, body) for name, body in counts.items()} | {engine.name: mine}
    most = _most_rows(terms)
    if sum(rows.values()) > most:
        raise InputError(
            f"all parties together may have {most} rows of {terms.features} features in a run that opens its "
            f"final output alone; they have {sum(rows.values())}."
        )
    return dict(sorted(rows.items()))


def _pattern(side: ComputingSide, matrix: sp.csr_array, rows: dict[str, int]) -> Rounds[SharedRows | None]:
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


def _residues(blocks: dict[str, list[Words]], rows: int, features: int) -> Residues:
    out, at = np.empty((MODULI, rows * features), dtype=np.float32), 0
    for name in sorted(blocks):
        while blocks[name]:  # not held twice
            part = residues(blocks[name].pop(0))
            out[:, at : at + part.shape[1]] = part
            at += part.shape[1]
    return out.reshape(MODULI, rows, features)


def largest_final_message(terms: RunTerms) -> int:
    """No message of a run has more bytes."""
    assert terms.shares is not None
    mechanism = exact_part(terms.mechanism)
    if isinstance(mechanism, PDNMF):
        return _largest_rows_message(terms)
    upper = terms.features * (terms.features + 1) // 2
    opened = terms.features * terms.shares.block + 64 * terms.shares.block**2 * terms.shares.block
    return BYTES * max(upper, 2 * opened) + (1 << 20)


def final_rounds(
    terms: RunTerms,
    name: str,
    matrix: sp.csr_array,
    statement: Statement,
    *,
    random_bytes: RandomBytes = os_random,
    noise: NoiseSource = vetted_noise,
) -> Rounds[RunOutcome]:
    """One party's side of a run."""
    assert terms.shares is not None
    opened = yield from open_run(terms, name, statement, random_bytes)
    engine = opened.engine
    side = ComputingSide(terms.shares.computing, engine, random_bytes)
    if isinstance(exact_part(terms.mechanism), PDNMF):
        result, sizes = yield from _topics(terms, engine, side, matrix, noise)
    else:
        result, sizes = (yield from _vectors(terms, side, matrix, noise)), ()
    digest = yield from agree_on_result(engine, opened.sums.session, result.public, sizes)
    return RunOutcome(
        result,
        opened.sums.session.hex(),
        digest,
        opened.statements,
        reveals=trusted_words(terms.shares.computing, terms.mechanism),
        asked={"rounds on shares": side.rounds},
        sizes=sizes,
    )


def _vectors(
    terms: RunTerms, side: ComputingSide, matrix: sp.csr_array, noise: NoiseSource
) -> Rounds[PartyResult]:
    public: Arrays = {}
    mean = None
    if hidden_mean(terms.mechanism):
        mean = rows_mean([matrix])
    elif isinstance(terms.mechanism, PDPCA):
        sums = yield from side.sum_of(_sums(matrix, terms.precision.bound))
        public |= yield from side.learn(
            None
            if sums is None
            else lambda runtime: mean_of(
                runtime, integers_of(sums, (len(sums),)), terms.parties, terms.parties * terms.precision.bound
            )
        )
        mean = public["mean"]
    entered = yield from side.sum_of(_moments(matrix, mean, terms.precision.bound, terms.parties))
    mechanism = exact_part(terms.mechanism)
    assert isinstance(mechanism, PDSVD)
    added = yield from _noise(terms, side, (mechanism.rank, terms.features), noise)
    public |= yield from side.learn(
        None if entered is None else lambda runtime: _decomposed(runtime, terms, entered, added)
    )
    if isinstance(terms.mechanism, Noisy):
        _check_within(public["V"], 1.0, terms)
    return PartyResult(public)


async def _decomposed(runtime: Any, terms: RunTerms, entered: Words, noise: Integers | None) -> Arrays:
    """V, and sigma where it is revealed."""
    mechanism, final = exact_part(terms.mechanism), terms.shares
    assert isinstance(mechanism, PDSVD)
    assert final is not None
    task = Decomposition(
        mechanism.rank, terms.features, final.block, final.rounds, mechanism.start_seed, mechanism.reveal_sigma
    )
    rows, columns = np.triu_indices(terms.features)
    diagonal = integers_of(entered[rows == columns], (terms.features,))
    moments = symmetric_residues(entered, terms.features)
    try:
        opened = await decompose(runtime, moments, int(diagonal.sum() % PRIME), task, noise)
    except NotConverged:
        raise ProtocolError(
            "The run has not converged, and nothing but this was opened: agree on a larger `shares.block` than "
            f"{final.block} or more `shares.rounds` than {final.rounds}, or another `rank`, if two singular "
            "values are too close there."
        ) from None
    if isinstance(opened, np.ndarray):
        return {"V": opened}
    return vectors_of(opened, task, terms.parties * terms.precision.bound)


def _sums(matrix: sp.csr_array, bound: float) -> NDArray[np.int64]:
    sums = np.asarray(matrix.sum(axis=0), dtype=np.float64)
    rows = matrix.shape[0]
    if rows > MOST_ROWS or not np.abs(sums).max(initial=0.0) <= bound:
        raise InputError(f"a column adds up to more than `precision.bound` ({bound:g}), or rows are too many.")
    return np.rint(np.append(sums, float(rows)) * 2.0**SUM_BITS).astype(np.int64)


def _moments(
    matrix: sp.csr_array, mean: NDArray[np.float64] | None, bound: float, parties: int
) -> NDArray[np.int64]:
    """The upper triangle of (X - 1 m^T)^T (X - 1 m^T), relative to what all may enter together."""
    moments = np.asarray((matrix.T @ matrix).toarray(), dtype=np.float64)
    if mean is not None:
        sums = np.asarray(matrix.sum(axis=0), dtype=np.float64)
        moments += matrix.shape[0] * np.outer(mean, mean) - np.outer(sums, mean) - np.outer(mean, sums)
    if not np.trace(moments) <= bound:
        raise InputError(f"the squares of all entries add up to more than `precision.bound` ({bound:g}).")
    return np.rint(moments[np.triu_indices(len(moments))] * (2.0**MOMENT_BITS / (parties * bound))).astype(
        np.int64
    )
