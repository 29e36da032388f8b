"""FedPower with one noise in each mean, its utility-enhanced form (Algorithm 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import scipy.sparse as sp

from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.checks import check_positive
from ksdp.audit.mechanisms.contract import Database
from ksdp.audit.mechanisms.factorisation.power_iteration import first_basis, orthonormalise, start_block
from ksdp.audit.mechanisms.guarantee import Guarantee
from ksdp.audit.mechanisms.party_side import OneNoiseSum, PartyProgram, PartyResult, Sizes
from ksdp.audit.mechanisms.privacy.fedpower_steps import (
    SummedPower,
    aligned,
    moments_times,
)
from ksdp.audit.mechanisms.privacy.record_bounds import clip_rows, second_moment_change, worst_pair


@dataclass(frozen=True)
class UtilityFedPower(SummedPower):
    r"""Utility-enhanced FedPower (Algorithm 2 of Liu, Pejo & Tang 2023), on the ideal functionality.

    As FedPower, but the devices' blocks are added up by secure aggregation, all with noise of deviation sigma,
    and a Paillier step (`ksdp.protocols.one_noise.noise_removal`) then removes every noise but one, nobody knowing
    whose. What is announced is :math:`\sum_i p_i Y^{(i)} + N_j / n` with j uniform: the printed sum, divided by
    n, for devices of unequal sizes. Announced: ``V``, shape (rank, features), and where every round is opened
    ``sums``, shape (iterations / period, rank, features).

    **What it guarantees.** The paper claims privacy "similar to FedPower", which had none. The noise that is
    left is one device's. With `period` 1 and rows clipped to `row_bound`, the noise is added before the
    orthogonalisation and Procrustes turns nothing, so that the records are protected by an (epsilon, delta) that
    the accountant gives; with longer periods the local iterations have no noise, and nothing is claimed. Whoever
    owns the noise that was kept can subtract it: the guarantee is against the server and outsiders; a coalition
    that holds m of the n devices sees the sum without any noise with probability m / n.

    Parameters
    ----------
    rank, iterations, period : int
        k = r, T and p; T a multiple of p.
    noise : float
        sigma.
    row_bound : float, optional
        Rows are clipped to this norm; as printed they are not.
    """

    name: ClassVar[str] = "fedpower-utility"

    noise: float = 0.1
    row_bound: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(self, "noise", "row_bound")

    @property
    def guarantee(self) -> Guarantee:
        """By records, where there is one."""
        holds = self.row_bound is not None and self.period == 1
        return Guarantee(
            "(epsilon, delta)" if holds else "none",
            unit=f"one record replaced by any other, rows clipped to norm {self.row_bound:g}" if holds else "",
            trust="the server and outsiders, if no device works with them; not the device whose noise is kept",
            source="Liu, Pejo & Tang 2023, Algorithm 2",
            delta=self.delta if holds else None,
            sampler=self.sampler,
            notes="epsilon follows from the devices' sizes"
            if holds
            else "Needs `row_bound` and `period` 1: otherwise nothing bounds what a record changes.",
        )

    def multipliers(self, sizes: Sequence[int], features: int) -> tuple[float, ...]:
        """Of each announcement: sigma / n against the change of the mean by one record, sqrt(2) B^2 / s."""
        if self.row_bound is None or self.period != 1:
            raise SpecError("nothing is claimed without `row_bound` and with a `period` above 1.")
        change = second_moment_change(self.row_bound, "replace-one") / sum(sizes)
        return (self.noise / len(sizes) / change,) * self.iterations

    def bounded(self, rows: sp.csr_array) -> sp.csr_array:
        """None longer than `row_bound`, where there is one."""
        return rows if self.row_bound is None else clip_rows(rows, self.row_bound)

    def left(self, sizes: tuple[int, ...], unknown: int, features: int) -> float:
        """One device's noise, whoever's it is."""
        return self.noise / len(sizes)

    @property
    def hides_iterations(self) -> str:
        """What holds several iterations without noise between them, which no statistic follows."""
        return "sums" if self.period > 1 else ""

    def party(self, matrix: sp.csr_array, parties: int) -> PartyProgram:
        """Iterate; see the class."""
        rows = sum((yield Sizes(matrix.shape[0])))
        if self.row_bound is not None:
            matrix = clip_rows(matrix, self.row_bound)
        start = start_block(self.start_seed, matrix.shape[1], self.rank)
        block = common = first_basis(self.start_seed, matrix.shape[1], self.rank)
        for step in range(1, self.iterations + 1):
            product = moments_times(matrix, block)
            if step % self.period:
                block = orthonormalise(product, start)
                continue
            share = matrix.shape[0] / rows * (aligned(block, common) @ product)
            block = common = yield OneNoiseSum(
                share, self.noise / parties, after=lambda total: orthonormalise(total, start)
            )
        return PartyResult({"V": common})

    def neighbours(self) -> tuple[Database, Database]:
        """Records in the span of the start, which is public: what one changes is announced in full each time."""
        if self.row_bound is None or self.rank < 2:
            raise SpecError("a worst case needs `row_bound` and a `rank` of at least 2.")
        features = self.rank + 2
        return worst_pair(features, 100, self.row_bound, "replace-one", directions=self.two_of_start(features))
