"""A run that opens its final output alone, one party's side (`ksdp.protocols.shared`).

For singular vectors (for topics `final_topics`):

1. greeting, statement: as every run (`handshake`)
2. PD-PCA: shares of column sums and rows go to the three computing parties, who open the mean
3. shares of second moments go to the three computing parties
4. rounds of the computation; parties that do not compute say nothing in them
5. what was opened goes to all, who compare the three copies
6. result: as every run

A party checks that its squares add up to at most `precision.bound`: so no number on shares can wrap.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.factorisation.pd_svd import PDPCA, PDSVD
from ksdp.audit.mechanisms.party_side import PartyResult
from ksdp.audit.randomness import RandomBytes, os_random
from ksdp.protocols.channel.rounds import RoundEngine, Rounds
from ksdp.protocols.runs.final_topics import largest_rows_message, topic_rounds
from ksdp.protocols.runs.handshake import RunOutcome, agree_on_result, check_node, open_run
from ksdp.protocols.runs.run_terms import RunTerms, Statement
from ksdp.protocols.runs.share_terms import trusted_words
from ksdp.protocols.shares.field import BYTES, PRIME, integers, symmetric_residues
from ksdp.protocols.shares.matrices import MOST_ROWS, SUM_BITS, mean_of
from ksdp.protocols.shares.rounds import Arrays, ComputingSide, Entered
from ksdp.protocols.shares.subspace import MOMENT_BITS, Decomposition, NotConverged, decompose, vectors_of


def largest_final_message(terms: RunTerms) -> int:
    """No message of a run has more bytes."""
    assert terms.shares is not None
    if isinstance(terms.mechanism, PDNMF):
        return largest_rows_message(terms)
    upper = terms.features * (terms.features + 1) // 2
    opened = terms.features * terms.shares.block + 64 * terms.shares.block**2 * terms.shares.block
    return BYTES * max(upper, 2 * opened) + (1 << 20)


def final_rounds(
    terms: RunTerms,
    name: str,
    identity: Ed25519PrivateKey,
    matrix: sp.csr_array,
    statement: Statement,
    *,
    random_bytes: RandomBytes = os_random,
) -> Rounds[RunOutcome]:
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
    assert terms.shares is not None
    engine = RoundEngine(name, terms.others(name))
    opened = yield from open_run(engine, terms, statement, random_bytes)
    side = ComputingSide(terms.shares.computing, engine, random_bytes)
    if isinstance(terms.mechanism, PDNMF):
        result, sizes = yield from topic_rounds(terms, engine, side, matrix)
    else:
        result, sizes = (yield from _vectors(terms, side, matrix)), ()
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


def _vectors(terms: RunTerms, side: ComputingSide, matrix: sp.csr_array) -> Rounds[PartyResult]:
    """The singular vectors, and what else is final."""
    public: Arrays = {}
    mean = None
    if isinstance(terms.mechanism, PDPCA):
        sums = yield from side.sum_of(_sums(matrix, terms.precision.bound))
        public |= yield from side.learn(
            None
            if sums is None
            else lambda runtime: mean_of(
                runtime, integers(sums, (len(sums),)), terms.parties, terms.parties * terms.precision.bound
            )
        )
        mean = public["mean"]
    entered = yield from side.sum_of(_moments(matrix, mean, terms.precision.bound, terms.parties))
    public |= yield from side.learn(
        None if entered is None else lambda runtime: _decomposed(runtime, terms, entered)
    )
    return PartyResult(public)


async def _decomposed(runtime: Any, terms: RunTerms, entered: Entered) -> Arrays:
    """V, and sigma where it is revealed."""
    mechanism, final = terms.mechanism, terms.shares
    assert isinstance(mechanism, PDSVD)
    assert final is not None
    task = Decomposition(
        mechanism.rank, terms.features, final.block, final.rounds, mechanism.start_seed, mechanism.reveal_sigma
    )
    rows, columns = np.triu_indices(terms.features)
    diagonal = integers(entered[rows == columns], (terms.features,))
    moments = symmetric_residues(entered, terms.features)
    try:
        opened = await decompose(runtime, moments, int(diagonal.sum() % PRIME), task)
    except NotConverged:
        raise ProtocolError(
            "The run has not converged, and nothing but this was opened: agree on a larger `shares.block` than "
            f"{final.block} or more `shares.rounds` than {final.rounds}, or another `rank`, if two singular "
            "values are too close there."
        ) from None
    return vectors_of(opened, task, terms.parties * terms.precision.bound)


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
