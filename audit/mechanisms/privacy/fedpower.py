"""FedPower as printed (Algorithm 1), and its utility-enhanced form with one noise (Algorithm 2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from ksdp.audit.array_types import Matrix
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.checks import check_one_of, check_positive, check_rank, check_some_of
from ksdp.audit.mechanisms.contract import Announced, Database
from ksdp.audit.mechanisms.factorisation.power_iteration import orthonormalise, start_block
from ksdp.audit.mechanisms.guarantee import Guarantee
from ksdp.audit.mechanisms.party_side import Broadcast, OneNoiseSum, PartyProgram, PartyResult, Sizes, Upload
from ksdp.audit.mechanisms.privacy.announcer import Driven
from ksdp.audit.mechanisms.privacy.fedpower_steps import (
    aligned,
    basis_and_sums,
    check_schedule,
    fedpower_deviations,
    moments_times,
    with_sums,
)
from ksdp.audit.mechanisms.privacy.noise import check_budget
from ksdp.audit.mechanisms.privacy.record_bounds import clip_rows, second_moment_change, worst_pair
from ksdp.audit.mechanisms.privacy.released import GaussianReleases

__all__ = ["FedPower", "UtilityFedPower"]


@dataclass(frozen=True)
class FedPower(GaussianReleases):
    r"""FedPower (Guo et al. 2021; Algorithm 1 of Liu, Pejo & Tang 2023), with the noise and the claim as printed.

    Each device iterates :math:`Y^{(i)} = M_i Z^{(i)}`, :math:`M_i = X_i^T X_i / s_i`, `period` times by itself;
    every `period`-th time it turns its block by the orthogonal Procrustes solution towards the others', adds
    noise of deviation :math:`\|Z^{(i)}\|_{max} \sigma` and sends it to the server, which adds noise of deviation
    :math:`\max_i \|Z^{(i)} D^{(i)}\|_{max} \sigma'` to the weighted mean and sends it to all. Announced: ``V``,
    shape (rank, features), the last basis; where every round is opened also ``means``, shape (iterations / period,
    rank, features): what the server sends to all; ``uploads``, of the same shape: what it gets from the victim;
    and ``scales``, shape (iterations / period,): the largest entry of its turned basis, which the server needs
    for its own noise and gets without any (with `period` 1 it is public).

    **The printed claim is unsound**: (2 epsilon, 2 delta) adds up what protects against different observers (the
    server sees no central noise, the devices see both); the Procrustes turn, and the local iterations, are
    outside the sensitivity, and so is everything but one entry of M_i: a record of norm 1 moves M Z by up to
    sqrt(2) / s_i where the noise is scaled for the largest entry of Z. An audit by records refutes it.

    Parameters
    ----------
    rank, iterations, period : int
        k = r, T and p; T a multiple of p.
    epsilon, delta : float
        From which sigma and sigma' follow (`fedpower_deviations`).
    noise, central_noise : float, optional
        sigma and sigma' themselves, in their place.
    reference : {"common", "first"}
        What blocks are turned towards: the last basis that all know, or (as Guo et al.) that of the first device,
        which would have to hand it out without noise.
    announce : subset of ("V", "means", "uploads", "scales")
        What an experiment looks at, in place of everything that a run opens; nothing is cleared by it.
    start_seed : int
        Of the agreed standard normal start.
    sampler : {"fast", "discrete"}

    References
    ----------
    https://arxiv.org/abs/2103.00704, https://doi.org/10.3390/app13137373
    """

    name: ClassVar[str] = "fedpower"
    final: ClassVar[tuple[str, ...]] = ("V",)

    rank: int = 7
    iterations: int = 20
    period: int = 4
    epsilon: float = 1.0
    noise: float | None = None
    central_noise: float | None = None
    reference: str = "common"
    announce: tuple[str, ...] = ()
    start_seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_budget(self.epsilon, self.delta)
        check_schedule(self)
        for name in ("noise", "central_noise"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise SpecError(f"`{name}` must be a finite number of at least 0; got {value}.")
        if (self.noise is None) != (self.central_noise is None):
            raise SpecError("`noise` and `central_noise` must be given together, or neither.")
        check_one_of(self, "reference", ("common", "first"))
        check_some_of(self, "announce", ("V", "means", "uploads", "scales"))

    @property
    def rounds(self) -> int:
        """Announcements."""
        return self.iterations // self.period

    @property
    def guarantee(self) -> Guarantee:
        """What is printed."""
        given = self.noise is None
        return Guarantee(
            "(epsilon, delta)",
            unit="as printed: one entry of M_i, changed by 1 / s_i; not a record",
            trust="as printed: server and devices at once",
            source="Guo et al. 2021; Liu, Pejo & Tang 2023, Algorithm 1",
            epsilon=2 * self.epsilon if given else None,
            delta=2 * self.delta,
            sampler=self.sampler,
            sound=False,
            notes="Local and central noise protect against different observers; Procrustes and local steps are "
            "outside the sensitivity.",
        )

    def shows(self, features: int) -> tuple[Announced, ...]:
        """Names and shapes of everything that a run shows its devices and the server."""
        check_rank(self.rank, features)
        last, each = Announced("V", (self.rank, features)), (self.rounds, self.rank, features)
        if self.opens == "final":
            return (last,)
        blocks = (Announced("means", each, early=True), Announced("uploads", each, early=True))
        return last, *blocks, Announced("scales", (self.rounds,))

    def deviations(self, sizes: Sequence[int]) -> tuple[float, float]:
        """sigma and sigma', before the factors ||Z||_max."""
        if self.noise is not None and self.central_noise is not None:
            return self.noise, self.central_noise
        return fedpower_deviations(self.epsilon, self.delta, self.rounds, sizes)

    def multipliers(self, sizes: Sequence[int], features: int) -> tuple[float, ...]:
        """As the paper has it: sigma against the change 1 / min s_i of an entry, for each announcement."""
        return (self.deviations(sizes)[0] * min(sizes),) * self.rounds

    def claim(self, sizes: Sequence[int], features: int) -> tuple[float, float]:
        """(2 epsilon, 2 delta), as printed; with `noise` given, the epsilon that its formula gives for it."""
        needed, _ = fedpower_deviations(1.0, self.delta, self.rounds, sizes)
        epsilon = self.epsilon if self.noise is None else needed / self.noise if self.noise else math.inf
        return 2 * epsilon, 2 * self.delta

    def party(self, matrix: sp.csr_array, parties: int) -> PartyProgram:
        """Iterate; see the class."""
        sizes = yield Sizes(matrix.shape[0])
        local, _ = self.deviations(sizes)
        start = start_block(self.start_seed, matrix.shape[1], self.rank)
        block = common = start
        for step in range(1, self.iterations + 1):
            product = moments_times(matrix, block)
            if step % self.period:
                block = orthonormalise(product, start)
                continue
            reference = common if self.reference == "common" else (yield Broadcast(block))
            turn = aligned(block, reference)
            block = common = yield Upload(
                turn @ product,
                float(np.abs(block).max()) * local,
                beside=np.array([np.abs(turn @ block).max()]),
                after=lambda mean: orthonormalise(mean, start),
            )
        return PartyResult({"V": common})

    def collected(
        self, uploads: Sequence[Matrix], beside: Sequence[Matrix], sizes: Sequence[int]
    ) -> tuple[Matrix, float]:
        """The mean by rows, and sigma' max_i ||Z^(i) D^(i)||_max, which devices must tell the server."""
        mean = np.einsum("i,ikd->kd", np.array(sizes) / sum(sizes), np.stack(uploads))
        return mean, float(np.max(beside)) * self.deviations(sizes)[1]

    def observed(self, driven: Driven) -> dict[str, Matrix]:
        """With `uploads`, what the server gets from the victim; with `scales`, what it gets without noise."""
        server = {
            "means": np.stack(driven.means),
            "uploads": np.stack([uploads[0] for uploads in driven.uploads]),
            "scales": np.stack([beside[0][0] for beside in driven.beside]),
        }
        return {name: (driven.public | server)[name] for name in self.announce or self.opened}

    def neighbours(self) -> tuple[Database, Database]:
        """Records of norm 1 along spread-out directions in the span of the start, where ||Z||_max is small."""
        if self.rank < 2:
            raise SpecError("`rank` must be at least 2 for a worst case: two directions must be announced.")
        features = 1600 + self.rank
        start = start_block(self.start_seed, features, self.rank)
        block = orthonormalise(start, start)
        return worst_pair(features, 40, 1.0, "replace-one", directions=tuple(block[:2]))


@dataclass(frozen=True)
class UtilityFedPower(GaussianReleases):
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
    sampler : {"fast", "discrete"}
    """

    name: ClassVar[str] = "fedpower-utility"
    final: ClassVar[tuple[str, ...]] = ("V",)

    rank: int = 7
    iterations: int = 20
    period: int = 4
    noise: float = 0.1
    row_bound: float | None = None
    start_seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_schedule(self)
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

    def shows(self, features: int) -> tuple[Announced, ...]:
        """Names and shapes of everything that a run shows its devices."""
        return basis_and_sums(self.opens, self.rank, self.iterations // self.period, features)

    def observed(self, driven: Driven) -> dict[str, Matrix]:
        """With `sums`, every sum as the coalition sees it."""
        return with_sums(driven, self.opened)

    def multipliers(self, sizes: Sequence[int], features: int) -> tuple[float, ...]:
        """Of each announcement: sigma / n against the change of the mean by one record, sqrt(2) B^2 / s."""
        if self.row_bound is None or self.period != 1:
            raise SpecError("nothing is claimed without `row_bound` and with a `period` above 1.")
        change = second_moment_change(self.row_bound, "replace-one") / sum(sizes)
        return (self.noise / len(sizes) / change,) * self.iterations

    def party(self, matrix: sp.csr_array, parties: int) -> PartyProgram:
        """Iterate; see the class."""
        rows = sum((yield Sizes(matrix.shape[0])))
        if self.row_bound is not None:
            matrix = clip_rows(matrix, self.row_bound)
        start = start_block(self.start_seed, matrix.shape[1], self.rank)
        block = common = orthonormalise(start, start)
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
        start = start_block(self.start_seed, features, self.rank)
        block = orthonormalise(start, start)
        return worst_pair(features, 100, self.row_bound, "replace-one", directions=tuple(block[:2]))
