"""What the three forms of FedPower have in common, and the formulas that their papers print."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from ksdp.audit.array_types import Matrix, Vector
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.checks import check_least, check_rank
from ksdp.audit.mechanisms.contract import Announced, Observables
from ksdp.audit.mechanisms.factorisation.power_iteration import first_basis, orthonormalise, start_block
from ksdp.audit.mechanisms.privacy.announcer import Driven
from ksdp.audit.mechanisms.privacy.noise import check_budget
from ksdp.audit.mechanisms.privacy.released import GaussianReleases
from ksdp.audit.statistics.contract import Pool
from ksdp.audit.statistics.equations import Equations
from ksdp.audit.statistics.products import announced
from ksdp.audit.statistics.releases_match import Added, Adds, ReleasesMatch, moment_numbers, nothing_added

SENT = ("means", "uploads")
"""What a round is told by: what the server sent, and what a device sends to it."""


@dataclass(frozen=True)
class PeriodicPower(GaussianReleases):
    """What the forms of FedPower have in common: iterations of which every `period`-th announces something.

    As printed, FedPower averages the devices' bases at the end where the last iteration announced nothing: a sum
    without noise, whatever was added before. So `iterations` must be a multiple of `period`.
    """

    final: ClassVar[tuple[str, ...]] = ("V",)
    one_matrix: ClassVar[bool] = True  # all rounds are products with one (`statistics.little_noise`)

    rank: int = 7
    iterations: int = 20
    period: int = 4
    start_seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, rank=1, iterations=1, period=1, start_seed=0)
        if self.iterations % self.period:
            raise SpecError(f"`iterations` must be a multiple of `period` ({self.period}); got {self.iterations}.")

    @property
    def rounds(self) -> int:
        """Announcements."""
        return self.iterations // self.period

    def two_of_start(self, features: int) -> tuple[Vector, Vector]:
        """The first two directions that the public start spans."""
        first, second, *_ = first_basis(self.start_seed, features, self.rank)
        return first, second


@dataclass(frozen=True)
class SummedPower(PeriodicPower):
    """A form of FedPower with a secure sum: its runs show the last basis, and the sums."""

    def shows(self, features: int) -> tuple[Announced, ...]:
        """Names and shapes of everything that a run shows its devices."""
        check_rank(self.rank, features)
        last, sums = (self.rank, features), (self.rounds, self.rank, features)
        each = (Announced("sums", sums, early=True),) if self.opens != "final" else ()
        return (Announced("V", last), *each)

    def observed(self, driven: Driven) -> dict[str, Matrix]:
        """With `sums`, every sum as the coalition sees it."""
        sums = {"sums": np.stack([announcement.seen for announcement in driven.transcript])}
        return {name: (driven.public | sums)[name] for name in self.opened}

    @property
    def summed(self) -> bool:
        """Whether what is announced are sums of what each document adds, given what was announced before."""
        return self.period == 1

    @property
    def statistics(self) -> tuple[ReleasesMatch, ...]:
        """What a party of a run can look at as well: what each sum holds of a document."""
        return (ReleasesMatch(),) if self.summed and self.opens != "final" else ()

    @abstractmethod
    def bounded(self, rows: sp.csr_array) -> sp.csr_array:
        """Documents as they enter the sums."""

    @abstractmethod
    def left(self, sizes: tuple[int, ...], unknown: int, features: int) -> float:
        """The deviation of the noise in each number of a sum, where the first so many parties' is not known."""

    def as_equations(
        self, observables: Observables, pool: Pool, added: Added = nothing_added
    ) -> tuple[Adds, Equations]:
        """x <x, z> for the rows z of each block, and the noisy sums of these, over all rows' number."""
        sums, start = announced(observables, "sums"), start_block(self.start_seed, pool.drawn.shape[1], self.rank)
        sizes = pool.sizes
        own = None if pool.subtracted is None else self.bounded(pool.subtracted)
        blocks = [first_basis(self.start_seed, pool.drawn.shape[1], self.rank)]
        for seen in sums[:-1]:
            share = 0.0 if own is None else (own.T @ (own @ blocks[-1].T)).T / sum(sizes)
            blocks.append(orthonormalise(np.ascontiguousarray(seen + share), start))
        deviation = self.noise_factor * self.left(sizes, len(sizes) - pool.colluding, pool.drawn.shape[1])
        noise = np.full(sums.size, (deviation**2 + added("sums", sums)) * sum(sizes) ** 2)
        known = Equations(sums.ravel() * sum(sizes), noise, of_all=False)
        return lambda rows: moment_numbers(self.bounded(rows), np.stack(blocks)), known


def check_given_noise(noise: float | None, central_noise: float | None) -> None:
    """Refuse deviations that are none, and one without the other."""
    for name, value in (("noise", noise), ("central_noise", central_noise)):
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise SpecError(f"`{name}` must be a finite number of at least 0; got {value}.")
    if (noise is None) != (central_noise is None):
        raise SpecError("`noise` and `central_noise` must be given together, or neither.")


def released_uploads(
    uploaded: Callable[[Matrix, tuple[int, ...]], tuple[Matrix, Matrix]],
    observables: Observables,
    pool: Pool,
    added: Added,
) -> tuple[Adds, Equations]:
    """A victim's uploads X^T X z / s, s its rows, as equations in who is among these.

    Parameters
    ----------
    uploaded : the rows z of every upload and the deviations of its noise, from the means and the parties' sizes
    added : variance of what was added to announced arrays besides
    """
    means, uploads = (announced(observables, name) for name in SENT)
    size = pool.sizes[0]
    blocks, deviations = uploaded(means, pool.sizes)
    noise = size**2 * np.repeat(np.square(deviations) + added("uploads", uploads), uploads[0].size)
    return lambda rows: moment_numbers(rows, blocks), Equations(size * uploads.ravel(), noise, alone=True)


def moments_times(matrix: sp.csr_array, block: Matrix) -> Matrix:
    """Rows of (M_i Z)^T for M_i = X_i^T X_i / s_i, never formed; `block` is Z^T, shape (rank, features)."""
    return np.asarray((matrix.T @ (matrix @ block.T)).T / matrix.shape[0])


def bounded_moments(matrix: sp.csr_array, bound: float) -> sp.csr_array:
    """M_i = X_i^T X_i / s_i with every entry clipped to [-bound, bound]."""
    moments = sp.csr_array(matrix.T @ matrix)
    moments.data = np.clip(moments.data / matrix.shape[0], -bound, bound)
    return moments


def aligned(block: Matrix, reference: Matrix) -> Matrix:
    """The orthogonal matrix O, shape (rank, rank), with O Z^T closest to the reference (orthogonal Procrustes).

    Examples
    --------
    >>> turn = np.array([[0.6, 0.8], [-0.8, 0.6]])
    >>> bool(np.allclose(aligned(turn @ np.eye(2, 5), np.eye(2, 5)), turn.T))
    True
    """
    turn, _ = scipy.linalg.orthogonal_procrustes(block.T, reference.T, check_finite=False)
    return np.asarray(turn.T)


def fedpower_deviations(epsilon: float, delta: float, rounds: int, sizes: Sequence[int]) -> tuple[float, float]:
    """sigma of the devices and sigma' of the server in FedPower, as printed (section 3 of Liu, Pejo & Tang).

    sigma = R / (epsilon min s_i) sqrt(2 ln(1.25 R / delta)) and sigma' = sigma max p_i, for R announcements and
    p_i the devices' shares of all rows: the classical calibration at (epsilon / R, delta / R), added up.

    Examples
    --------
    >>> [round(s, 3) for s in fedpower_deviations(1.0, 1e-5, 2, [100, 300])]
    [0.1, 0.075]
    """
    check_budget(epsilon, delta)
    local = rounds / (epsilon * min(sizes)) * math.sqrt(2 * math.log(1.25 * rounds / delta))
    return local, local * max(sizes) / sum(sizes)


def theorem_1(rank: int, entry_bound: float, clip: float) -> float:
    """Printed sensitivity of M Z where one *entry* of M changes: 2 sqrt(r) m z."""
    return 2 * math.sqrt(rank) * entry_bound * clip


def theorem_2(rank: int, entry_bound: float, clip: float, noise: float, delta: float) -> float:
    """Printed epsilon of one announcement of Algorithm 3: sqrt(8 r ln(1.25 / delta)) m z / sigma.

    Examples
    --------
    The paper states 30.6 for these numbers; its own formula gives a tenth of it.

    >>> round(theorem_2(10, 0.05, 0.2, 0.1, 1e-5), 2)
    3.06
    """
    return math.sqrt(8 * rank * math.log(1.25 / delta)) * entry_bound * clip / noise
