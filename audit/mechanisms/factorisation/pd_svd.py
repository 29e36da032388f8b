"""PD-SVD: the row basis V_k of all parties' rows, and its variant that reveals the singular values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.errors import CorpusError, SpecError
from ksdp.audit.mechanisms.checks import check_least, check_one_of, check_rank
from ksdp.audit.mechanisms.contract import OPENS, Announced, Database, Observables
from ksdp.audit.mechanisms.factorisation.early_rounds import different_numbers, early_rounds, numbers_of_basis
from ksdp.audit.mechanisms.factorisation.power_iteration import (
    block_power,
    first_basis,
    normalised,
    orthonormalise,
    stack,
    start_block,
)
from ksdp.audit.mechanisms.factorisation.power_limit import limit_of_power
from ksdp.audit.mechanisms.factorisation.released_blocks import power_blocks, span_of_blocks
from ksdp.audit.mechanisms.factorisation.span import ROUNDS, announced_span
from ksdp.audit.mechanisms.guarantee import Guarantee, measured

WORKED_OUT = ("span", "span_sigma", "first_blocks", "block_sums")
"""What follows from the announced blocks."""


@dataclass(frozen=True)
class PDSVD:
    """PD-SVD (PD-ML-Lite, Algorithm 4) on the ideal functionality.

    Announces ``V``, shape (rank, features): V_k^T, the leading right singular vectors of all parties' rows,
    one a row, with the signs of the block power iteration. With `reveal_sigma` also ``sigma``, shape (rank,):
    the singular values. A run that opens every round shows the blocks of all its iterations besides: ``span``,
    shape (rounds x rank, features), is a basis of the space that those of the first ten span, and
    ``span_sigma``, shape (rounds x rank,), what a party can work out of X^T X on it (`factorisation.span`): its
    singular values there. ``first_blocks``, shape (1 + early, rank, features), are the start and the blocks of the
    first three iterations (of few columns of more: `early`), orthonormal, zeros where there were fewer;
    ``block_sums``, shape (early, rank, features), are the sums of these iterations as they are. With
    ``solver="power"`` such a run announces ``iterations`` as well, shape (1,).

    Without `reveal_sigma` parties open the sums divided by norms that stay hidden. These follow from what is
    opened but for one factor of the whole run: X^T X is symmetric, so that n_s (v_t . w_s) = n_t (v_s . w_t) for
    any two rows v that were multiplied and w that were opened. An audit grants the one factor as well: who holds a
    column that nobody else uses reads it off their own share, and it is one number among thousands.

    What a coalition sees: V is public, and every other sum is announced normalised, so that a coalition
    cannot subtract its own share. With `reveal_sigma` it sees the values of everybody's rows; from V and
    sigma it can form V Sigma^2 V^T, the rank-k part of X^T X, and subtract its own share of *that*. This is a
    function of V, sigma and what it knew before, so nothing more is announced.

    The paper's section 5.2 looks at the last block alone: that is ``opens="final"``.

    Parameters
    ----------
    rank : int
        k, below the number of rows and of features of the database.
    reveal_sigma : bool
        SecSum in place of NormedSecSum.
    solver : {"limit", "power"}
        `limit` computes what the iteration converges to, directly, as does a run of a fixed number of rounds, many
        enough; `power` iterates, party by party, and shows when it stops.
    iterations : int
        Cap of the power iteration.
    tolerance : float
        It stops when the subspace moves by less (sine of the largest principal angle).
    opens : {"every round", "final"}
        `final`: iterates stay hidden inside a secure computation that opens V (and sigma) alone. Nobody sees when
        to stop, so that `power` then goes to its cap.
    start_seed : int
        What the parties agreed to draw the start from; it fixes signs, hence is part of the mechanism and not
        of a run's randomness.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> matrix = sp.csr_array(rng.random((20, 5)) * (rng.random((20, 5)) < 0.5))
    >>> seen = PDSVD(rank=2).run(Database((matrix[:8], matrix[8:])), rng)
    >>> seen["V"].shape, bool(np.allclose(seen["V"] @ seen["V"].T, np.eye(2)))
    ((2, 5), True)
    """

    name: ClassVar[str] = "pd-svd"
    guarantee: ClassVar[Guarantee] = measured("PD-ML-Lite, algorithms 3 and 4")
    noise_free: ClassVar[bool] = True
    order_free: ClassVar[bool] = True
    one_matrix: ClassVar[bool] = True  # all rounds are products with X^T X (`statistics.little_noise`)
    version: ClassVar[int] = 6  # of the final output, too: what covers every round covers it

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
    def exact_only(self) -> tuple[str, ...]:
        """What follows from exact blocks alone: with noise on normed sums their norms stay unknown."""
        return () if self.reveal_sigma else ("block_sums",)

    @property
    def rounds(self) -> int:
        """Iterations whose blocks stand for all that are opened."""
        if self.opens == "final":
            return 0
        return ROUNDS if self.solver == "limit" else min(ROUNDS, self.iterations)

    def early(self, features: int) -> int:
        """Iterations whose blocks are looked at one by one: three, of few columns more, ten at most."""
        return early_rounds(self.rank, features, self.rounds)

    @property
    def final(self) -> tuple[str, ...]:
        """The basis, and the singular values where they are revealed."""
        return ("V", "sigma") if self.reveal_sigma else ("V",)

    def observables(self, features: int) -> tuple[Announced, ...]:
        """Names and shapes of what `run` announces.

        Raises
        ------
        SpecError
            If `rank` is not below `features`.
        """
        check_rank(self.rank, features)
        equations = numbers_of_basis(self.rank, features, self.reveal_sigma)
        announced = [Announced("V", (self.rank, features), in_all=equations)]
        if self.reveal_sigma:
            announced.append(Announced("sigma", (self.rank,)))
        if self.rounds:
            size = self.rounds * self.rank
            announced += [Announced("span", (size, features), early=True), Announced("span_sigma", (size,))]
            blocks = (1 + self.early(features), self.rank, features)
            numbers = different_numbers(self.rank, features, self.rounds)
            announced.append(Announced("first_blocks", blocks, early=True, in_all=numbers))
            announced.append(Announced("block_sums", (blocks[0] - 1, *blocks[1:]), early=True, in_all=numbers))
        if self.rounds and self.solver == "power":
            announced.append(Announced("iterations", (1,)))
        return tuple(announced)

    def released(self, features: int) -> tuple[Announced, ...]:
        """The same with ``blocks``, shape (rounds, rank, features), in place of what is worked out from them."""
        plain = [a for a in self.observables(features) if a.name not in WORKED_OUT]
        blocks = [Announced("blocks", (self.rounds, self.rank, features), early=True)] if self.rounds else []
        return (*plain, *blocks)

    def release(self, database: Database, rng: np.random.Generator) -> Observables:
        """Run once; ``blocks`` are what the iterations announce, sums of norm 1 unless the values are revealed."""
        seen = dict(self.run(database, rng))
        if not self.rounds:
            return Observables(seen)
        rows, mean = stack(database.parties), self._centre(database)
        start = start_block(self.start_seed, rows.shape[1], self.rank)
        done = min(self.rounds, int(seen["iterations"][0])) if "iterations" in seen else self.rounds
        first = first_basis(self.start_seed, rows.shape[1], self.rank)
        sums, _ = power_blocks(rows, start, first, done, mean)
        blocks = sums if self.reveal_sigma else np.array([normalised(block)[0] for block in sums])
        seen = {name: array for name, array in seen.items() if name not in WORKED_OUT}
        return Observables(seen | {"blocks": np.pad(blocks, ((0, self.rounds - done), (0, 0), (0, 0)))})

    def worked_out(self, released: Observables) -> Observables:
        """The space that the blocks span; ``span_sigma`` is how much they agree on each of its directions."""
        if "blocks" not in released:
            return released
        rows, values = span_of_blocks(released["blocks"])
        plain = {name: array for name, array in released.items() if name != "blocks"}
        early = released["blocks"][: self.early(released["blocks"].shape[-1])]
        sums = {"block_sums": early} if self.reveal_sigma else {}
        start = start_block(self.start_seed, early.shape[-1], self.rank)
        first = self._first(np.array([orthonormalise(block, start) if block.any() else block for block in early]))
        return Observables(plain | {"span": rows, "span_sigma": values, "first_blocks": first} | sums)

    def _first(self, blocks: NDArray[np.float64]) -> NDArray[np.float64]:
        """The start and the first blocks, orthonormal."""
        return np.concatenate([first_basis(self.start_seed, blocks.shape[-1], self.rank)[None], blocks])

    def _centre(self, database: Database) -> NDArray[np.float64] | None:
        """What is subtracted from every row."""
        return None

    def run(self, database: Database, rng: np.random.Generator) -> Observables:
        """Decompose the rows of all parties; `rng` is not used, as the protocol draws nothing.

        Raises
        ------
        CorpusError
            If `rank` is not below the number of rows and of features of the database.
        """
        return Observables(self._decompose(database, None))

    def _decompose(self, database: Database, mean: NDArray[np.float64] | None) -> dict[str, NDArray[np.float64]]:
        parties, features = database.parties, database.parties[0].shape[1]
        smallest = min(sum(part.shape[0] for part in parties), features)
        if self.rank >= smallest:
            raise CorpusError(
                f"`rank` must be below the rows and the features of a database ({smallest}); got {self.rank}."
            )
        start = start_block(self.start_seed, features, self.rank)
        rows, done = stack(parties), self.rounds
        if self.solver == "limit":
            limit = limit_of_power(rows, start, mean)
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
            return announced
        candidates = database.chosen[1] if database.chosen else features
        return announced | self._span(rows, start, (done, self.early(candidates)), mean)

    def _span(
        self,
        rows: sp.csr_array,
        start: NDArray[np.float64],
        iterations: tuple[int, int],
        mean: NDArray[np.float64] | None,
    ) -> dict[str, NDArray[np.float64]]:
        """What the blocks of the first iterations show besides; zeros where there were fewer.

        Parameters
        ----------
        iterations : that were done, `rounds` at most, and that are looked at one by one
        """
        done, early = iterations
        span = announced_span(rows, start, done, mean)
        missing = (self.rounds - done) * self.rank
        first = first_basis(self.start_seed, rows.shape[1], self.rank)
        made = power_blocks(rows, start, first, min(done, early), mean)
        sums, blocks = (np.pad(a, ((0, early - len(a)), (0, 0), (0, 0))) for a in made)
        return {
            "span": np.pad(span.rows, ((0, missing), (0, 0))),
            "span_sigma": np.pad(span.values, (0, missing)),
            "first_blocks": self._first(blocks),
            "block_sums": sums,
        }


@dataclass(frozen=True)
class SigmaSVD(PDSVD):
    """PD-SVD with SecSum throughout: the protocols [63, 14] of PD-ML-Lite, which reveal Sigma as well as V_k.

    The yardstick of the paper's Figure 6 for what hiding Sigma is worth.
    """

    name: ClassVar[str] = "sigma-svd"
    guarantee: ClassVar[Guarantee] = measured("PD-ML-Lite, figure 6: with the singular values")

    reveal_sigma: bool = field(default=True, init=False)
