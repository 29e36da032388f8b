"""PD-SVD and PD-PCA: the row basis V_k of all parties' rows, and what all rounds show together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.contract import (
    EXACT,
    OPENS,
    Database,
    Guarantee,
    Mechanism,
    Observables,
    Release,
    Terms,
    Traits,
    measured,
)
from ksdp.audit.errors import CorpusError, SpecError
from ksdp.audit.mechanisms.factorisation.power_iteration import (
    block_power,
    first_basis,
    limit_of_power,
    normalised,
    orthonormalise,
    sec_sum,
    share_of,
    stack,
    start_block,
    times,
    towards,
    transposed_times,
)
from ksdp.audit.mechanisms.parameters import check_least, check_one_of, check_rank
from ksdp.audit.numeric.array_types import Matrix, Vector

EARLY = 3
"""Rounds that are looked at one by one in any case."""
NUMBERS = 4096
"""Exact numbers from which on further rounds are not needed: two for each document, of as many as are solved for
(`statistics.linear.solve.MOST_SOLVED`). Of more documents nobody is clear where all rounds together are numbers
enough (`audit.coverage.unsolved`)."""


def early_rounds(rank: int, features: int, most: int) -> int:
    """Three rounds, or as many as have `NUMBERS` together; `most` at most.

    Each round is so many more equations in who is in: of 500 texts of 40 terms, half of them, rank 2, the sums of
    three sweeps of PD-NMF tell a document with D 0.82 and those of six everybody (decision 5).

    >>> early_rounds(7, 12_164, 20), early_rounds(7, 40, 20), early_rounds(2, 40, 20)
    (3, 15, 20)
    """
    return min(most, max(EARLY, math.ceil(NUMBERS / (rank * features))))


def numbers_of_basis(rank: int, features: int, values: bool = False) -> int:
    """Equations that singular vectors solve: k (d - k), k (k - 1) / 2, and k more with singular values."""
    return rank * features - rank * (rank + 1) // 2 + (rank if values else 0)


ROUNDS = 10
"""Iterations whose blocks stand for those of all."""
DEPENDENT = 1e-10
"""A direction of a new block that is at most this part of the block's largest adds nothing; nor does a Ritz value
at most this part of the largest."""


@dataclass(frozen=True, eq=False)
class BlockSpan:
    """The space that the blocks of the first iterations span."""

    rows: Matrix
    """Ritz vectors, orthonormal, one a row, shape (rounds x rank, features); zeros where the space is smaller.
    Each has its largest entry positive."""
    values: Vector
    """Ritz values' square roots, descending: singular values, the leading ones converged; 0 for rows of zeros."""


def announced_span(matrix: sp.csr_array, start: Matrix, rounds: int, mean: Vector | None = None) -> BlockSpan:
    """The space spanned by the blocks of iterations 1 to `rounds` from V_0 = `start`, in exact arithmetic."""
    wide = matrix.shape[0] < matrix.shape[1]
    shift = np.zeros(0) if mean is None else mean

    def forward(rows: Matrix) -> Matrix:
        image = times(matrix, rows)
        return image if mean is None else image - rows @ shift

    def backward(columns: Matrix) -> Matrix:
        rows = transposed_times(matrix, columns)
        return rows if mean is None else rows - np.outer(columns.sum(axis=0), shift)

    def step(block: Matrix) -> Matrix:
        return forward(backward(block)) if wide else backward(forward(block.T)).T

    basis, images = _krylov(forward(start) if wide else step(start.T), step, rounds)
    # The Gram matrix of the space's vectors (X^T U where U is on the side of the rows), and X^T X between them.
    form = basis.T @ images if wide else np.eye(basis.shape[1])
    image = images.T @ images if wide else basis.T @ images
    lengths, turn = np.linalg.eigh(form)
    kept = lengths > DEPENDENT * max(lengths[-1], 0.0) if len(lengths) else np.zeros(0, dtype=bool)
    root = turn[:, kept] / np.sqrt(lengths[kept])
    inside = root.T @ image @ root
    squares, axes = np.linalg.eigh((inside + inside.T) / 2)
    squares, axes = squares[::-1], axes[:, ::-1]
    turned = basis @ (root @ axes)
    directions = backward(turned) if wide else np.ascontiguousarray(turned.T)
    directions *= np.where(-directions.min(axis=1) > directions.max(axis=1), -1.0, 1.0)[:, None]
    missing = rounds * len(start) - len(directions)
    values = np.pad(np.sqrt(np.maximum(squares, 0.0)), (0, missing))
    return BlockSpan(np.pad(directions, ((0, missing), (0, 0))) if missing else directions, values)


def _krylov(block: Matrix, step: Callable[[Matrix], Matrix], rounds: int) -> tuple[Matrix, Matrix]:
    """Orthonormal columns that span block, step(block), ..., `rounds` of them, and what `step` makes of each."""
    basis, images = np.zeros((len(block), 0)), np.zeros((len(block), 0))
    for _ in range(rounds):
        size = np.linalg.norm(block, axis=0).max(initial=0.0)
        for _ in range(2):
            block = block - basis @ (basis.T @ block)
        directions, lengths, _ = np.linalg.svd(block, full_matrices=False)
        fresh = directions[:, lengths > DEPENDENT * size]
        if not fresh.shape[1]:
            break
        block = step(fresh)
        basis, images = np.hstack((basis, fresh)), np.hstack((images, block))
    return basis, images


def _power_blocks(
    matrix: sp.csr_array, start: Matrix, first: Matrix, rounds: int, mean: Vector | None
) -> tuple[Matrix, Matrix]:
    """The sums of iterations 1 to `rounds`, shape (rounds, rank, features), and the orthonormal block of each."""
    sums, blocks = np.zeros((2, rounds, *start.shape))
    block = first
    for at in range(rounds):
        sums[at] = share_of(matrix, block, mean)
        block = blocks[at] = orthonormalise(normalised(sums[at])[0], start)
    return sums, blocks


def _span_of_blocks(blocks: Matrix) -> tuple[Matrix, Vector]:
    flat, _ = normalised(blocks.reshape(-1, blocks.shape[-1]))
    _, lengths, directions = np.linalg.svd(flat, full_matrices=False)
    kept = int((lengths > DEPENDENT * lengths.max(initial=0.0)).sum())
    largest = np.take_along_axis(directions, np.abs(directions).argmax(axis=1)[:, None], axis=1)
    rows, values = np.zeros_like(flat), np.zeros(len(flat))
    rows[:kept] = (directions * np.where(largest < 0, -1.0, 1.0))[:kept]
    values[:kept] = lengths[:kept] / lengths[0] if kept else 0.0
    return rows, values


_DERIVED = ("span", "span_sigma", "first_blocks", "block_sums")
"""Names of releases that follow from the announced blocks."""
_exact = partial(Release, noise=EXACT)


@dataclass(frozen=True)
class PDSVD:
    """Directions: the leading right singular vectors of all parties' rows, by secure sums (PD-SVD).

    Releases ``V``, shape (rank, features), the leading right singular vectors of all parties' rows with the signs
    of the block power iteration (final: those towards the rows of the start), and with `reveal_sigma` the singular
    values ``sigma``. A run that opens every
    round shows the ``blocks`` of all iterations besides. Recorded are a basis of the space that the first ten span
    (``span``), the singular values there (``span_sigma``), the start and the blocks of the `early` rounds,
    orthonormal, zeros where there were fewer (``first_blocks``), and the sums of these (``block_sums``); with
    ``solver="power"`` also ``iterations``.

    Without `reveal_sigma` parties open sums divided by hidden norms. These follow from what is opened but for one
    factor of the whole run: X^T X is symmetric, so that n_s (v_t . w_s) = n_t (v_s . w_t) for any two rows v that
    were multiplied and w that were opened. An audit grants the factor: who holds a column that nobody else uses
    reads it off.

    A coalition cannot subtract its share of a normalised sum. From V and sigma it can form V Sigma^2 V^T and
    subtract from that; this is a function of V, sigma and what it knew before.

    Parameters
    ----------
    rank : k, below the rows and the features of the database
    reveal_sigma : SecSum in place of NormedSecSum
    solver : `limit` computes what the iteration converges to; `power` iterates, and shows when it stops
    iterations, tolerance : of `power`: the cap, and the sine of the largest principal angle below which it stops
    opens : `final` opens V (and sigma) alone, out of a secure computation; `power` then goes to its cap
    start_seed : what the parties agreed to draw the start from; it fixes signs
    """

    name: ClassVar[str] = "pd-svd"
    guarantee: ClassVar[Guarantee] = measured("PD-ML-Lite, algorithms 3 and 4")
    version: ClassVar[int] = 1  # of the final output, too: what covers every round covers it

    rank: int = 7
    reveal_sigma: bool = False
    solver: Literal["limit", "power"] = "limit"
    iterations: int = 1000
    tolerance: float = 1e-9
    start_seed: int = 0
    opens: str = OPENS[0]

    def __post_init__(self) -> None:
        check_least(self, rank=1, iterations=1, start_seed=0)
        check_one_of(self, "solver", ("limit", "power"))
        check_one_of(self, "opens", OPENS)
        if not 0 <= self.tolerance < 1:
            raise SpecError(f"`tolerance` must be in [0, 1); got {self.tolerance}.")

    @property
    def traits(self) -> Traits:
        """Nothing but the database is random."""
        return Traits(self.opens, noise_free=True, order_free=True, rank=self.rank)

    @property
    def rounds(self) -> int:
        """Iterations whose blocks stand for all that are opened."""
        if self.opens == "final":
            return 0
        return ROUNDS if self.solver == "limit" else min(ROUNDS, self.iterations)

    def early(self, features: int) -> int:
        """Iterations whose blocks are looked at one by one: three, of few columns more, ten at most."""
        return early_rounds(self.rank, features, self.rounds)

    def releases(self, features: int) -> tuple[Release, ...]:
        """The basis, the singular values where they are revealed, and the blocks where every round is opened."""
        check_rank(self.rank, features)
        wide, centre = (self.rank, features), self._centre_name
        equations = numbers_of_basis(self.rank, features, self.reveal_sigma)
        arrays = [
            _exact("V", wide, Terms("moments", "V", centre, numbers=equations), final=True, alignment="signs")
        ]
        if self.reveal_sigma:
            arrays.append(_exact("sigma", (self.rank,), final=True))
        if self.rounds:
            size, early = self.rounds * self.rank, self.early(features)
            numbers = min(size * features, features * (features + 1) // 2)
            derived = partial(_exact, derived_from=("blocks",))
            rounds = partial(derived, early=True)
            terms = Terms("moments", "first_blocks", centre, numbers=numbers)
            arrays += [
                derived("span", (size, features), early=True, alignment="rotation"),
                derived("span_sigma", (size,)),
                rounds("first_blocks", (1 + early, *wide), terms),
                # with noise on normed sums their norms stay unknown
                rounds("block_sums", (early, *wide), replace(terms, exact_only=not self.reveal_sigma)),
            ]
        if self.rounds and self.solver == "power":
            arrays.append(_exact("iterations", (1,)))
        if self.rounds:
            arrays.append(_exact("blocks", (self.rounds, *wide), early=True, recorded=False))
        return tuple(arrays)

    def release(self, database: Database, rng: np.random.Generator) -> Observables:
        """Run once; ``blocks`` are what the iterations announce, sums of norm 1 unless the values are revealed."""
        seen = dict(self.run(database, rng))
        if not self.rounds:
            return Observables(seen)
        parts, mean = self._centred(database)
        rows = stack(parts)
        start = start_block(self.start_seed, rows.shape[1], self.rank)
        done = min(self.rounds, int(seen["iterations"][0])) if "iterations" in seen else self.rounds
        first = first_basis(self.start_seed, rows.shape[1], self.rank)
        sums, _ = _power_blocks(rows, start, first, done, mean)
        blocks = sums if self.reveal_sigma else np.array([normalised(block)[0] for block in sums])
        seen = {name: array for name, array in seen.items() if name not in _DERIVED}
        return Observables(seen | {"blocks": np.pad(blocks, ((0, self.rounds - done), (0, 0), (0, 0)))})

    def derive(self, released: Observables) -> Observables:
        """The space that the blocks span; ``span_sigma`` is how much they agree on each of its directions."""
        if "blocks" not in released:
            return released
        rows, values = _span_of_blocks(released["blocks"])
        plain = {name: array for name, array in released.items() if name != "blocks"}
        early = released["blocks"][: self.early(released["blocks"].shape[-1])]
        sums = {"block_sums": early} if self.reveal_sigma else {}
        start = start_block(self.start_seed, early.shape[-1], self.rank)
        first = self._first(np.array([orthonormalise(block, start) if block.any() else block for block in early]))
        return Observables(plain | {"span": rows, "span_sigma": values, "first_blocks": first} | sums)

    def _first(self, blocks: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.concatenate([first_basis(self.start_seed, blocks.shape[-1], self.rank)[None], blocks])

    @property
    def _centre_name(self) -> str:
        return ""

    def _centred(self, database: Database) -> tuple[Sequence[sp.csr_array], Vector | None]:
        """The parties' rows, and what is subtracted from all of them."""
        return database.parties, None

    def run(self, database: Database, rng: np.random.Generator) -> Observables:
        """Decompose the rows of all parties; `rng` is not used, as the protocol draws nothing."""
        return Observables(self._decompose(*self._centred(database)))

    def _decompose(self, parties: Sequence[sp.csr_array], mean: Vector | None) -> dict[str, NDArray[np.float64]]:
        features = parties[0].shape[1]
        smallest = min(sum(part.shape[0] for part in parties), features)
        if self.rank >= smallest:
            raise CorpusError(
                f"`rank` must be below the rows and the features of a database ({smallest}); got {self.rank}."
            )
        start = start_block(self.start_seed, features, self.rank)
        rows, done = stack(parties), self.rounds
        if self.solver == "limit":
            limit = limit_of_power(rows, start, mean, signs=bool(self.rounds))
            announced, values = {"V": limit.block}, limit.values
        else:
            tolerance = self.tolerance if self.rounds else 0.0
            run = block_power(parties, start, iterations=self.iterations, tolerance=tolerance, mean=mean)
            announced, values = {"V": run.block}, run.values
            done = min(done, run.iterations)
            if self.rounds:
                announced["iterations"] = np.array([run.iterations], dtype=np.float64)
        if self.reveal_sigma:
            announced["sigma"] = values
        if not self.rounds:
            # Each row's sign follows from that row alone: parties that compute on shares know nothing else of it.
            return announced | {"V": towards(announced["V"], start)}
        return announced | self._span(rows, start, (done, self.early(features)), mean)

    def _span(
        self,
        rows: sp.csr_array,
        start: NDArray[np.float64],
        iterations: tuple[int, int],
        mean: NDArray[np.float64] | None,
    ) -> dict[str, NDArray[np.float64]]:
        done, early = iterations
        span = announced_span(rows, start, done, mean)
        missing = (self.rounds - done) * self.rank
        first = first_basis(self.start_seed, rows.shape[1], self.rank)
        made = _power_blocks(rows, start, first, min(done, early), mean)
        sums, blocks = (np.pad(a, ((0, early - len(a)), (0, 0), (0, 0))) for a in made)
        return {
            "span": np.pad(span.rows, ((0, missing), (0, 0))),
            "span_sigma": np.pad(span.values, (0, missing)),
            "first_blocks": self._first(blocks),
            "block_sums": sums,
        }


@dataclass(frozen=True)
class SigmaSVD(PDSVD):
    """PD-SVD whose sums are released with their lengths, and so the singular values, too."""

    name: ClassVar[str] = "sigma-svd"
    guarantee: ClassVar[Guarantee] = measured("PD-ML-Lite, figure 6: with the singular values")

    reveal_sigma: bool = field(default=True, init=False)


OWN_ENTRIES = 2**27
"""Most entries, zeros included, of the rows of several parties that subtract their own means."""


@dataclass(frozen=True)
class PDPCA(PDSVD):
    """Principal components: PD-SVD of rows from which a mean is subtracted (PD-PCA).

    With ``centre="all"`` it is the mean of all parties' rows, by secure sums of columns and of row counts: the
    result is the centralised PCA, and ``mean`` is released. A coalition sees the mean of the rows outside it.
    Explained variances are sigma^2 / (n - 1).

    With ``centre="own"`` each party subtracts its own mean and nobody announces one: Algorithm 6, but for a slip
    in its formula, which multiplies the *sum* of a party's rows by n_m / n where their mean is meant. What the
    parties' means differ by adds nothing to V. A document is in its party's mean, too, so that equations in who is
    in hold about, and nobody is clear where these would be enough (`hidden_mean`).

    All else is as in `PDSVD`, of the centred rows.
    """

    name: ClassVar[str] = "pd-pca"
    guarantee: ClassVar[Guarantee] = measured("PD-ML-Lite, algorithm 6")

    centre: Literal["all", "own"] = "all"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_one_of(self, "centre", ("all", "own"))

    @property
    def traits(self) -> Traits:
        """Properties; parties that release the mean of all add up how many documents they have."""
        return replace(super().traits, tells_rows=self.centre == "all")

    @property
    def _centre_name(self) -> str:
        return "mean" if self.centre == "all" else "own mean"

    def releases(self, features: int) -> tuple[Release, ...]:
        """The mean, where it is that of all, and those of `PDSVD`."""
        mean = (_exact("mean", (features,), final=True),) if self.centre == "all" else ()
        return (*mean, *super().releases(features))

    def _centred(self, database: Database) -> tuple[Sequence[sp.csr_array], Vector | None]:
        parts = database.parties
        if self.centre == "all" or len(parts) == 1:
            return parts, rows_mean(parts)
        if database.rows * parts[0].shape[1] > OWN_ENTRIES:
            raise CorpusError(
                f'`centre` must be "all" where several parties have more than {OWN_ENTRIES:,} entries, zeros '
                f"included; got {database.rows:,} rows of {parts[0].shape[1]:,}."
            )
        return [sp.csr_array(part.toarray() - rows_mean([part])) for part in parts], None

    def run(self, database: Database, rng: np.random.Generator) -> Observables:
        """Centre and decompose the rows of all parties; `rng` is not used, as the protocol draws nothing."""
        parts, mean = self._centred(database)
        released = self._decompose(parts, mean)
        if self.centre == "all":
            outside = [database.parties[i] for i in database.outside]
            released["mean"] = rows_mean(outside) if mean is None or database.coalition else mean
        return Observables(released)


def rows_mean(parts: Sequence[sp.csr_array]) -> Vector:
    """The mean of some parties' rows, by sums in their order; zeros where there are none."""
    sums = [np.asarray(part.sum(axis=0), dtype=np.float64) for part in parts]
    return np.asarray(sec_sum(sums) / max(sum(part.shape[0] for part in parts), 1))


def hidden_mean(mechanism: Mechanism | None) -> bool:
    """Whether documents enter less a mean that is not released, so that equations in who is in hold about."""
    return isinstance(mechanism, PDPCA) and mechanism.centre == "own"
