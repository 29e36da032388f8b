"""Privacy-enhanced FedPower (Algorithm 3 of Liu, Pejo & Tang 2023)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from ksdp.audit.contract import Database, Guarantee
from ksdp.audit.corpus.matrix import clip_rows
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.factorisation.power_iteration import first_basis, orthonormalise, start_block
from ksdp.audit.mechanisms.parameters import check_least, check_one_of, check_positive
from ksdp.audit.mechanisms.party_side import LocalNoise, NoisySum, PartyProgram, PartyResult, Sizes, noise_part
from ksdp.audit.mechanisms.privacy.fedpower import (
    PeriodicPower,
    bounded_moments,
    moments_times,
    theorem_1,
    theorem_2,
)
from ksdp.audit.mechanisms.privacy.noise import (
    adjacency_words,
    analytic_multiplier,
    check_adjacency,
    check_budget,
    rounded_sensitivity,
    second_moment_change,
    worst_pair,
)
from ksdp.audit.numeric.array_types import Matrix


@dataclass(frozen=True)
class PrivateFedPower(PeriodicPower):
    r"""Directions by power iteration: the devices bound their inputs and add noise before a secure sum (FedPower).

    In every iteration device i computes :math:`Y^{(i)} = M_i Z^{(i)} + N^{(i)}`; every `period`-th time the
    secure sum announces :math:`\sum_i p_i Y^{(i)}`, whose orthogonalisation is everybody's next Z; in between,
    each goes on with its own. With `distributed`, N has variance sigma^2 / (n - colluders): the sum has what one
    device's noise of deviation sigma would have given it. Announced: ``V``, shape (rank, features), and where
    every round is opened ``sums``, shape (iterations / period, rank, features).

    **unit = "record"** (the default): rows are clipped to norm `row_bound`, Z is orthonormal, and one record
    changes M_i Z by at most B^2 / s_i in Frobenius norm, sqrt(2) times that where it is replaced. sigma is
    calibrated to (epsilon, delta) of all announcements together, or given (`noise`).

    **unit = "entry-printed"**: Theorem 1. The *entries* of M_i are clipped to `entry_bound`, those of Z to
    `clip`, and one entry of M_i, changed, changes M_i Z by at most 2 sqrt(r) m z. This protects no record: a
    record changes every entry. The claim is Theorem 2's epsilon times the number of iterations. (For r = 10, m =
    0.05, z = 0.2, sigma = 0.1 and delta = 1e-5 the paper states epsilon = 30.6; its formula gives 3.06.)

    Parameters
    ----------
    rank, target, iterations, period : r, k (r unless given), T and p
    epsilon, delta : of all announcements together; with `noise` given, `epsilon` is not used
    noise : sigma
    distributed : scale the devices' noise by their number; needs the secure sum
    colluders : devices whose noise may be known to whoever sees the sum
    unit : {"record", "entry-printed"}
    row_bound, entry_bound, clip : B; m and z, which only the printed unit has: clipped entries can make Z longer
        than orthonormal
    adjacency : {"replace-one", "add-remove"}
    sampler : {"fast", "discrete"}

    Notes
    -----
    The paper counts every iteration alike. With `period` above 1 the local iterations are protected by one
    device's noise only, which `distributed` has made small: the accountant counts them so, as (period - 1) further
    releases an announcement with multiplier sigma_i s_i / B^2. The printed accounting misses this.
    """

    name: ClassVar[str] = "fedpower-private"

    iterations: int = 5
    period: int = 1
    epsilon: float = 1.0
    noise: float | None = None
    distributed: bool = True
    colluders: int = 0
    unit: str = "record"
    row_bound: float = 1.0
    entry_bound: float = 0.05
    clip: float = 0.2
    adjacency: str = "replace-one"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_budget(self.epsilon, self.delta)
        check_adjacency(self.adjacency)
        check_positive(self, "row_bound", "entry_bound", "clip", "noise")
        check_one_of(self, "unit", ("record", "entry-printed"))
        if self.unit == "entry-printed" and self.noise is None:
            raise SpecError("`noise` must be given with the printed unit: its claim follows from it.")
        check_least(self, colluders=0)

    @property
    def guarantee(self) -> Guarantee:
        """The promise, and to whom it is made."""
        record = self.unit == "record"
        return Guarantee(
            "(epsilon, delta)",
            unit=f"{adjacency_words(self.adjacency)}, rows clipped to norm {self.row_bound:g}, sizes public"
            if record
            else f"one entry of M_i, clipped to {self.entry_bound:g}; not a record",
            trust=f"the secure sum, and that no more than {self.colluders} devices work with those who see it",
            source="Liu, Pejo & Tang 2023, Algorithm 3" + ("; record-level accounting derived here" * record),
            epsilon=self.epsilon if record and self.noise is None else None,
            delta=self.delta if record else self.delta * self.iterations,
            sampler=self.sampler,
            sound=record,
            notes="" if record else "Theorems 1 and 2 as printed; as a claim about records it is refuted.",
        )

    def sigma(self, sizes: Sequence[int], features: int) -> float:
        """The deviation that one device would need alone; given, or calibrated."""
        if self.noise is not None:
            return self.noise
        alike = math.sqrt(math.fsum(1 / m**2 for m in self._multipliers(1.0, sizes, features)))
        return analytic_multiplier(self.epsilon, self.delta) * alike

    @property
    def holds_against(self) -> int:
        """The `colluders`."""
        return self.colluders

    def multipliers(self, sizes: Sequence[int], features: int) -> tuple[float, ...]:
        """Deviation over sensitivity of each announcement, and of the local iterations between two of them."""
        if self.unit == "entry-printed":
            each = self.sigma(sizes, features) / theorem_1(self.rank, self.entry_bound, self.clip)
            return (each,) * self.iterations
        return self._multipliers(self.sigma(sizes, features), sizes, features)

    def claim(self, sizes: Sequence[int], features: int) -> tuple[float, float]:
        """By records the accountant's, or the parameter that the noise was made for; by entries as printed."""
        if self.unit == "entry-printed":
            assert self.noise is not None
            each = theorem_2(self.rank, self.entry_bound, self.clip, self.noise, self.delta)
            return self.iterations * each, self.iterations * self.delta
        if self.noise is None:
            return self.epsilon, self.delta
        return super().claim(sizes, features)

    def _each(self, sigma: float, n: int) -> float:
        part = noise_part(sigma, n, self.colluders)
        return part if self.distributed else sigma

    def _multipliers(self, sigma: float, sizes: Sequence[int], features: int) -> tuple[float, ...]:
        each, rows = self._each(sigma, len(sizes)), sum(sizes)
        change = second_moment_change(self.row_bound, self.adjacency)
        entries = self.rank * features
        # The noise of the smallest honest devices is what is sure to be there.
        honest = sorted(sizes)[: len(sizes) - self.colluders]
        total = each * math.sqrt(math.fsum(s**2 for s in honest)) / rows
        announced = total / rounded_sensitivity(change / rows, entries)
        local = each / rounded_sensitivity(change / min(sizes), entries)
        return (announced,) * self.rounds + (local,) * (self.iterations - self.rounds)

    @property
    def summed(self) -> bool:
        """Entries of the moments that are clipped are no sums over documents."""
        return self.unit == "record" and self.period == 1

    def bounded(self, rows: sp.csr_array) -> sp.csr_array:
        """None longer than `row_bound`."""
        return clip_rows(rows, self.row_bound)

    def left(self, block: Matrix, sizes: tuple[int, ...], unknown: int) -> float:
        """Each device's noise weighs as its rows do; that of `colluders` is known."""
        each, others = self._each(self.sigma(sizes, block.shape[1]), len(sizes)), sorted(sizes[1:unknown])
        hidden = others if unknown < len(sizes) else others[: max(len(others) - self.colluders, 0)]
        return each * math.sqrt(math.fsum(s**2 for s in (sizes[0], *hidden))) / sum(sizes)

    def party(self, matrix: sp.csr_array, parties: int) -> PartyProgram:
        """Iterate; see the class."""
        size, features = matrix.shape
        sizes = yield Sizes(size)
        each = self._each(self.sigma(sizes, features), parties)
        start = start_block(self.start_seed, features, self.rank)
        block = first_basis(self.start_seed, features, self.rank)
        by_record = self.unit == "record"
        matrix = clip_rows(matrix, self.row_bound) if by_record else bounded_moments(matrix, self.entry_bound)
        weight = size / sum(sizes)
        for step in range(1, self.iterations + 1):
            product = moments_times(matrix, block) if by_record else np.asarray((matrix @ block.T).T)
            if not self.announces(step):
                block = self._orth((yield LocalNoise(product, each)), start)
            else:
                own = weight * product, weight * each
                block = yield NoisySum(*own, lambda total: self._orth(total, start), attackers=self.colluders)
        return PartyResult({"V": block[: self.kept]})

    def _orth(self, block: Matrix, start: Matrix) -> Matrix:
        out = orthonormalise(block, start)
        return out if self.unit == "record" else np.clip(out, -self.clip, self.clip)

    def neighbours(self) -> tuple[Database, Database]:
        """By records, in the span of the public start; by entries, a record that moves all of them by much."""
        if self.rank < 2:
            raise SpecError("`rank` must be at least 2 for a worst case: two directions must be announced.")
        if self.unit == "record":
            features = self.rank + 2
            directions = self.two_of_start(features)
            rows = 100
            if self.noise is None:
                rows = 3 + int(40 * analytic_multiplier(self.epsilon, self.delta, self.iterations) * math.sqrt(2))
            return worst_pair(features, rows, self.row_bound, self.adjacency, directions=directions)
        features = max(4 * math.ceil(1 / self.clip) ** 2, 4 * self.rank)
        features += features % 2
        flat = np.full(features, 1 / math.sqrt(features))
        halves = flat * np.where(np.arange(features) < features // 2, 1.0, -1.0)
        # Entries B^2 / d of each row: M_i just keeps within the bound, and half of it depends on the first row.
        bound = math.sqrt(self.entry_bound * features)
        return worst_pair(features, 3, bound, self.adjacency, directions=(flat, halves))
