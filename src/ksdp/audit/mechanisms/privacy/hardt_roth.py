"""The noisy power method of Hardt & Roth: an (epsilon, delta) baseline for PD-SVD."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from ksdp.audit.contract import Database, Guarantee
from ksdp.audit.corpus.matrix import clip_rows
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.factorisation.power_iteration import first_basis, orthonormalise, start_block
from ksdp.audit.mechanisms.parameters import check_least, check_one_of, check_positive
from ksdp.audit.mechanisms.party_side import NoisySum, PartyProgram, PartyResult, noise_left
from ksdp.audit.mechanisms.privacy.noise import (
    adjacency_words,
    analytic_multiplier,
    check_adjacency,
    check_budget,
    rounded_sensitivity,
    second_moment_change,
    worst_pair,
)
from ksdp.audit.mechanisms.privacy.power_sums import NoisyPower
from ksdp.audit.numeric.array_types import Matrix


@dataclass(frozen=True)
class HardtRoth(NoisyPower):
    r"""Directions by power iteration, with noise in the secure sum of each round (noisy power method).

    With :math:`A = \sum_m X_m^T X_m`, for t = 1, ..., iterations, the secure sum announces

    .. math:: Y_t = \sum_m \left(X_m^T X_m Z_{t-1} + G_t^{(m)}\right), \qquad Z_t = \mathrm{orth}(Y_t),

    every party adding its own Gaussian noise, of variance sigma^2 / (M - colluders), so that the honest ones'
    noise is enough whoever else works with the server. Announced: ``V``, shape (rank, features), the last Z^T,
    and where every round is opened ``sums``, shape (iterations, rank, features), what the coalition sees of every
    Y_t^T.

    **unit = "record"** (the default): every row is clipped to norm `row_bound`, and sigma is the analytic
    calibration for all iterations together. One row changes A by at most row_bound^2 in Frobenius norm, sqrt(2)
    times that where it is replaced, and so A Z for every orthonormal Z.

    **unit = "entry-printed"**: as printed, G has entries of deviation :math:`\|Z\|_{max}\,\epsilon^{-1} \sqrt{4
    p L \ln(1/\delta)}` for p columns and L iterations. This protects one *entry* of A, changed by at most 1; a
    record changes all of them. The audit is of records: it refutes the printed claim as one about records.

    Parameters
    ----------
    epsilon, delta : of all iterations together. PD-ML-Lite's figure 5 has epsilon = 0.1 and delta = 1e-5.
    unit : {"record", "entry-printed"}
    adjacency : {"replace-one", "add-remove"}
    colluders : parties whose noise may be known to whoever sees the sum
    start_seed : agreed by all; the start holds no data
    sampler : {"fast", "discrete"}

    Notes
    -----
    The 2013 paper multiplies by A and by its transpose in turns, each a release. Here records stay with their
    parties, so that X Z is nobody's announcement, and one iteration is one release. Rounding to the grid is part
    of the sensitivity.

    References
    ----------
    https://arxiv.org/abs/1211.0975, https://arxiv.org/abs/1311.2495
    """

    exact_ratio: ClassVar[bool] = True
    name: ClassVar[str] = "hardt-roth"

    epsilon: float = 0.1
    row_bound: float = 1.0
    unit: str = "record"
    adjacency: str = "replace-one"
    colluders: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_budget(self.epsilon, self.delta)
        check_adjacency(self.adjacency)
        check_least(self, colluders=0)
        check_positive(self, "row_bound")
        check_one_of(self, "unit", ("record", "entry-printed"))

    @property
    def guarantee(self) -> Guarantee:
        """The promise, and to whom it is made."""
        record = self.unit == "record"
        return Guarantee(
            "(epsilon, delta)",
            unit=f"{adjacency_words(self.adjacency)}, rows clipped to norm {self.row_bound:g}"
            if record
            else "one entry of X^T X, changed by at most 1; not a record",
            trust=f"the secure sum, and that no more than {self.colluders} parties work with those who see it",
            source="Hardt & Roth 2013; Hardt & Price 2014, algorithm 2",
            epsilon=self.epsilon,
            delta=self.delta,
            sampler=self.sampler,
            sound=record,
            notes="" if record else "Printed calibration: as a claim about records it is refuted.",
        )

    def sensitivity(self, features: int) -> float:
        """Sensitivity of one release to one record, in Frobenius norm."""
        exact = second_moment_change(self.row_bound, self.adjacency)
        return rounded_sensitivity(exact, self.rank * features)

    def deviation(self, block: np.ndarray) -> float:
        """Standard deviation of the noise in the sum that is announced for Z^T = `block`."""
        rank, features = block.shape
        if self.unit == "entry-printed":
            printed = math.sqrt(4 * rank * self.iterations * math.log(1 / self.delta)) / self.epsilon
            return printed * float(np.abs(block).max())
        return analytic_multiplier(self.epsilon, self.delta, self.iterations) * self.sensitivity(features)

    @property
    def holds_against(self) -> int:
        """The `colluders`."""
        return self.colluders

    def multipliers(self, sizes: Sequence[int], features: int) -> tuple[float, ...]:
        """Deviation over sensitivity, equal for all releases; if an entry changes by 1 (printed unit), at most."""
        if self.unit == "entry-printed":
            # One entry moves one row of Y by a row of Z: at most sqrt(p) times the largest entry.
            each = math.sqrt(4 * self.iterations * math.log(1 / self.delta)) / self.epsilon
            return (each,) * self.iterations
        return (analytic_multiplier(self.epsilon, self.delta, self.iterations),) * self.iterations

    def claim(self, sizes: Sequence[int], features: int) -> tuple[float, float]:
        """The parameters: the noise is made to fit them."""
        return self.epsilon, self.delta

    def party(self, matrix: sp.csr_array, parties: int) -> PartyProgram:
        """Iterate; see the class."""
        matrix = clip_rows(matrix, self.row_bound)
        start = start_block(self.start_seed, matrix.shape[1], self.rank)
        block = first_basis(self.start_seed, matrix.shape[1], self.rank)
        for _ in range(self.iterations):
            share = np.asarray((matrix.T @ (matrix @ block.T)).T)
            after = partial(orthonormalise, start=start)
            block = yield NoisySum(share, self.deviation(block), after, self.colluders)
        return PartyResult({"V": block})

    def bounded(self, rows: sp.csr_array) -> sp.csr_array:
        """Documents as they enter the sums: none longer than `row_bound`."""
        return clip_rows(rows, self.row_bound)

    def left(self, block: Matrix, sizes: tuple[int, ...], unknown: int) -> float:
        """All of the noise, but for what a coalition of more than `colluders` knows."""
        return noise_left(self.deviation(block), len(sizes), self.colluders, len(sizes) - unknown)

    def divisor(self, sizes: tuple[int, ...]) -> int:
        """Sums are announced as they are."""
        return 1

    def neighbours(self) -> tuple[Database, Database]:
        """Records in the span of the start, which is public: what one changes is announced in full each time."""
        if self.rank < 2:
            raise SpecError("`rank` must be at least 2 for a worst case: two directions must be announced.")
        features = self.rank + 2
        rows = 3 + int(20 * self.deviation(first_basis(self.start_seed, features, self.rank)) / self.row_bound**2)
        return worst_pair(features, rows, self.row_bound, self.adjacency, directions=self.two_of_start(features))


@dataclass(frozen=True)
class BrokenPower(HardtRoth):
    """A control: the noisy power method with a tenth of the noise that it claims. An audit must catch it."""

    name: ClassVar[str] = "broken-power"
    noise_factor: ClassVar[float] = 0.1

    @property
    def guarantee(self) -> Guarantee:
        """The claim of the sound one, which does not hold here."""
        why = "A control, with a tenth of the noise that it claims: protects nobody, and an audit must catch it."
        return replace(super().guarantee, sound=False, notes=why)
