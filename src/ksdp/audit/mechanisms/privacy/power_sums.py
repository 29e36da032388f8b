"""Power iterations whose rounds announce sums of X^T X z with normal noise."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import scipy.sparse as sp

from ksdp.audit.contract import OPENS, Noise, Observables, Release, Terms
from ksdp.audit.mechanisms.factorisation.power_iteration import first_basis, orthonormalise, start_block
from ksdp.audit.mechanisms.parameters import check_least, check_rank
from ksdp.audit.mechanisms.privacy.transcript import GaussianBasis
from ksdp.audit.numeric.array_types import Matrix, Vector
from ksdp.audit.statistic import Pool
from ksdp.audit.statistics.linear.releases import Added, Adds, moment_numbers, nothing_added
from ksdp.audit.statistics.linear.system import LinearSystem
from ksdp.audit.statistics.products import announced


@dataclass(frozen=True)
class NoisyPower(GaussianBasis):
    """Common part of noisy power iterations, which release ``V``, the last basis, and the rounds' ``sums``."""

    noise_by: ClassVar[Literal["each party", "one party"]] = "each party"

    iterations: int = 5
    start_seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, rank=1, iterations=1, start_seed=0)

    @property
    def rounds(self) -> int:
        """Announcements."""
        return self.iterations

    @property
    def kept(self) -> int:
        """Vectors of the last basis that are released."""
        return self.rank

    @property
    def summed(self) -> bool:
        """Whether what is announced are sums of what each document adds, given what was announced before."""
        return True

    @property
    def hides_rounds(self) -> bool:
        """Whether parties go several rounds on their own documents without noise."""
        return False

    def releases(self, features: int) -> tuple[Release, ...]:
        """The last basis, and every sum where every round is opened."""
        check_rank(self.rank, features)
        wide, noise = (self.rank, features), Noise("normal", self.noise_by)
        last = Release("V", (self.kept, features), noise=noise, final=True, alignment="signs")
        if self.opens == OPENS[1]:
            return (last,)
        terms = Terms("moments", equations=self.as_equations) if self.summed else None
        if self.hides_rounds:
            terms = Terms("steps")
        return last, Release("sums", (self.rounds, *wide), terms, noise, early=True)

    @abstractmethod
    def bounded(self, rows: sp.csr_array) -> sp.csr_array:
        """Documents as they enter the sums."""

    @abstractmethod
    def left(self, block: Matrix, sizes: tuple[int, ...], unknown: int) -> float:
        """The deviation of the noise in each number of a block's sum; of the first parties it is not known."""

    def divisor(self, sizes: tuple[int, ...]) -> int:
        """Return the divisor of sums over documents."""
        return sum(sizes)

    def asked(
        self, sums: Matrix, sizes: tuple[int, ...], unknown: int, known_rows: sp.csr_array | None
    ) -> tuple[Matrix, Vector]:
        """Z^T of every iteration, and the deviation of the noise in its sum."""
        start = start_block(self.start_seed, sums.shape[-1], self.rank)
        own = None if known_rows is None else self.bounded(known_rows)
        blocks = [first_basis(self.start_seed, sums.shape[-1], self.rank)]
        for seen in sums[:-1]:
            share = 0.0 if own is None else (own.T @ (own @ blocks[-1].T)).T / self.divisor(sizes)
            blocks.append(orthonormalise(np.ascontiguousarray(seen + share), start))
        deviations = [self.noise_factor * self.left(block, sizes, unknown) for block in blocks]
        return np.stack(blocks), np.array(deviations)

    def as_equations(
        self, observables: Observables, pool: Pool, added: Added = nothing_added
    ) -> tuple[Adds, LinearSystem]:
        """x <x, z> for the rows z of each block, and the noisy sums of these."""
        sums, sizes = announced(observables, "sums"), pool.sizes
        blocks, deviations = self.asked(sums, sizes, len(sizes) - pool.colluding, pool.subtracted)
        over = self.divisor(sizes)
        noise = np.repeat((np.square(deviations) + added("sums", sums)) * over**2, sums[0].size)
        system = LinearSystem(sums.ravel() * over, noise, of_all=False)
        return lambda rows: moment_numbers(self.bounded(rows), blocks), system

    def two_of_start(self, features: int) -> tuple[Vector, Vector]:
        """The first two directions that the public start spans."""
        first, second, *_ = first_basis(self.start_seed, features, self.rank)
        return first, second
