"""FedPower and its variants with noise at one place: the server's view, and what is measured of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from ksdp.audit.contract import EXACT, Database, Guarantee, Noise, Observables, Release, Terms
from ksdp.audit.corpus.matrix import clip_rows
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.factorisation.power_iteration import first_basis, orthonormalise, start_block
from ksdp.audit.mechanisms.parameters import check_least, check_one_of, check_positive, check_rank
from ksdp.audit.mechanisms.party_side import Broadcast, OneNoiseSum, PartyProgram, PartyResult, Sizes, Upload
from ksdp.audit.mechanisms.privacy.noise import check_budget, second_moment_change, worst_pair
from ksdp.audit.mechanisms.privacy.power_sums import NoisyPower
from ksdp.audit.mechanisms.privacy.transcript import Driven
from ksdp.audit.numeric.array_types import Matrix, Vector
from ksdp.audit.statistic import Pool
from ksdp.audit.statistics.linear.releases import Added, Adds, moment_numbers, nothing_added
from ksdp.audit.statistics.linear.system import LinearSystem
from ksdp.audit.statistics.products import announced

SENT = ("means", "uploads")
"""Names of the releases of a round: from the server, and from a device to it."""


@dataclass(frozen=True)
class PeriodicPower(NoisyPower):
    """Common part of the forms of FedPower: iterations of which every `period`-th announces something.

    So does the last, after fewer local iterations where `period` does not divide `iterations`. As printed,
    FedPower averages the devices' bases in the end there: a sum without noise, whatever was added before.
    """

    tells_rows: ClassVar[bool] = True

    iterations: int = 20
    period: int = 4
    target: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, period=1)
        if not 1 <= self.kept <= self.rank:
            raise SpecError(f"`target` must be from 1 to `rank` ({self.rank}); got {self.target}.")

    @property
    def rounds(self) -> int:
        """Announcements."""
        return -(-self.iterations // self.period)

    @property
    def kept(self) -> int:
        """Vectors of the last basis that are released."""
        return self.rank if self.target is None else self.target

    def announces(self, step: int) -> bool:
        """Whether an iteration, counted from 1, ends in an announcement."""
        return step % self.period == 0 or step == self.iterations

    @property
    def summed(self) -> bool:
        """Whether what is announced are sums of what each document adds, given what was announced before."""
        return self.period == 1


def moments_times(matrix: sp.csr_array, block: Matrix) -> Matrix:
    """Rows of (M_i Z)^T for M_i = X_i^T X_i / s_i, never formed; `block` is Z^T, shape (rank, features)."""
    return np.asarray((matrix.T @ (matrix @ block.T)).T / matrix.shape[0])


def bounded_moments(matrix: sp.csr_array, bound: float) -> sp.csr_array:
    """M_i = X_i^T X_i / s_i with every entry clipped to [-bound, bound]."""
    moments = sp.csr_array(matrix.T @ matrix)
    moments.data = np.clip(moments.data / matrix.shape[0], -bound, bound)
    return moments


def aligned(block: Matrix, reference: Matrix) -> Matrix:
    """The orthogonal matrix O, shape (rank, rank), with O Z^T closest to the reference (orthogonal Procrustes)."""
    turn, _ = scipy.linalg.orthogonal_procrustes(block.T, reference.T, check_finite=False)
    return np.asarray(turn.T)


def fedpower_deviations(epsilon: float, delta: float, rounds: int, sizes: Sequence[int]) -> tuple[float, float]:
    """sigma of the devices and sigma' of the server in FedPower, as printed (section 3 of Liu, Pejo & Tang).

    sigma = R / (epsilon min s_i) sqrt(2 ln(1.25 R / delta)) and sigma' = sigma max p_i, for R announcements and
    p_i the devices' shares of all rows: the classical calibration at (epsilon / R, delta / R), added up.
    """
    check_budget(epsilon, delta)
    local = rounds / (epsilon * min(sizes)) * math.sqrt(2 * math.log(1.25 * rounds / delta))
    return local, local * max(sizes) / sum(sizes)


def theorem_1(rank: int, entry_bound: float, clip: float) -> float:
    """Printed sensitivity of M Z where one *entry* of M changes: 2 sqrt(r) m z."""
    return 2 * math.sqrt(rank) * entry_bound * clip


def theorem_2(rank: int, entry_bound: float, clip: float, noise: float, delta: float) -> float:
    """Printed epsilon of one announcement of Algorithm 3: sqrt(8 r ln(1.25 / delta)) m z / sigma."""
    return math.sqrt(8 * rank * math.log(1.25 / delta)) * entry_bound * clip / noise


@dataclass(frozen=True)
class FedPower(PeriodicPower):
    r"""FedPower as printed: directions by power iteration, to which devices and server add noise in each round.

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
    rank, target, iterations, period : r, k (r unless given), T and p
    epsilon, delta : from which sigma and sigma' follow (`fedpower_deviations`)
    noise, central_noise : sigma and sigma' themselves, in their place
    reference : {"common", "first"}; what blocks are turned towards: the last basis that all know, or (as Guo et
        al.) that of the first device, which would have to hand it out without noise
    start_seed : of the agreed standard normal start
    sampler : {"fast", "discrete"}

    References
    ----------
    https://arxiv.org/abs/2103.00704, https://doi.org/10.3390/app13137373
    """

    name: ClassVar[str] = "fedpower"
    version: ClassVar[int] = 1

    epsilon: float = 1.0
    noise: float | None = None
    central_noise: float | None = None
    reference: str = "common"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_budget(self.epsilon, self.delta)
        for name, value in (("noise", self.noise), ("central_noise", self.central_noise)):
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise SpecError(f"`{name}` must be a finite number of at least 0; got {value}.")
        if (self.noise is None) != (self.central_noise is None):
            raise SpecError("`noise` and `central_noise` must be given together, or neither.")
        check_one_of(self, "reference", ("common", "first"))

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee as it is printed."""
        given = self.noise is None
        return Guarantee(
            "(epsilon, delta)",
            unit="as printed: one entry of M_i, changed by 1 / s_i; not a record",
            trust="nobody, as printed: protects from server and devices at once",
            source="Guo et al. 2021; Liu, Pejo & Tang 2023, Algorithm 1",
            epsilon=2 * self.epsilon if given else None,
            delta=2 * self.delta,
            sampler=self.sampler,
            sound=False,
            notes="Local and central noise protect against different observers; Procrustes and local steps are "
            "outside the sensitivity.",
        )

    def releases(self, features: int) -> tuple[Release, ...]:
        """The last basis; where every round is opened also what devices and the server send."""
        check_rank(self.rank, features)
        each, noise = (self.rounds, self.rank, features), Noise("normal", "each party")
        last = Release("V", (self.kept, features), noise=noise, final=True, alignment="signs")
        if self.opens == "final":
            return (last,)
        sums = Terms("moments", equations=self.as_equations, depends_on=("means",))
        rounds = partial(Release, shape=each, early=True)
        return (
            last,
            rounds("means", noise=Noise("normal", "server")),
            rounds("uploads", terms=sums if self.period == 1 else Terms("steps"), noise=noise),
            Release("scales", (self.rounds,), noise=EXACT),
        )

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
            if not self.announces(step):
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
        return PartyResult({"V": common[: self.kept]})

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
        return {name: (driven.public | server)[name] for name in self._names}

    def bounded(self, rows: sp.csr_array) -> sp.csr_array:
        """As they are."""
        return rows

    def left(self, block: Matrix, sizes: tuple[int, ...], unknown: int) -> float:
        """In the victim's upload."""
        return self.deviations(sizes)[0] * float(np.abs(block).max())

    def as_equations(
        self, observables: Observables, pool: Pool, added: Added = nothing_added
    ) -> tuple[Adds, LinearSystem]:
        """x <x, z> for the rows z of each block, and the victim's noisy uploads of these."""
        means, uploads = (announced(observables, name) for name in SENT)
        blocks, deviations = self.uploaded(means, pool.sizes)
        size = pool.sizes[0]
        noise = size**2 * np.repeat(np.square(deviations) + added("uploads", uploads), uploads[0].size)
        return lambda rows: moment_numbers(rows, blocks), LinearSystem(size * uploads.ravel(), noise, alone=True)

    def uploaded(self, means: Matrix, sizes: tuple[int, ...]) -> tuple[Matrix, Vector]:
        """Z^T of every upload, and the deviation of its noise, with `period` 1; `sizes` are the victim's first."""
        start = start_block(self.start_seed, means.shape[-1], self.rank)
        blocks = [start, *(orthonormalise(mean, start) for mean in means[:-1])]
        return np.stack(blocks), np.array([self.noise_factor * self.left(block, sizes, 1) for block in blocks])

    def neighbours(self) -> tuple[Database, Database]:
        """Records of norm 1 along spread-out directions in the span of the start, where ||Z||_max is small."""
        if self.rank < 2:
            raise SpecError("`rank` must be at least 2 for a worst case: two directions must be announced.")
        features = 1600 + self.rank
        return worst_pair(features, 40, 1.0, "replace-one", directions=self.two_of_start(features))


@dataclass(frozen=True)
class UtilityFedPower(PeriodicPower):
    r"""Directions by power iteration, whose sums keep the noise of one device that nobody knows (FedPower).

    As FedPower, but the devices' blocks are added up under masks in pairs, all with noise of deviation sigma,
    and a Paillier step then removes every noise but one, nobody knowing whose (a server that does not follow the
    protocol can remove them all). What is announced is :math:`\sum_i p_i Y^{(i)} + N_j / n` with j uniform: the
    printed sum, divided by n, for devices of unequal sizes. Announced: ``V``, shape (rank, features), and where
    every round is opened ``sums``, shape (iterations / period, rank, features).

    **What it guarantees.** The paper claims privacy "similar to FedPower", which had none. The noise that is
    left is one device's. With `period` 1 and rows clipped to `row_bound`, the noise is added before the
    orthogonalisation and Procrustes turns nothing, so that the records are protected by an (epsilon, delta) that
    the accountant gives; with longer periods the local iterations have no noise, and nothing is claimed. Whoever
    owns the noise that was kept can subtract it: the guarantee is against the server and outsiders; a coalition
    that holds m of the n devices sees the sum without any noise with probability m / n.

    Parameters
    ----------
    rank, target, iterations, period : r, k (r unless given), T and p
    noise : sigma
    row_bound : rows are clipped to this norm; as printed they are not
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
            trust="the server, which must follow the protocol (another can take all noise away unseen), and all "
            "devices not to work with it; protects from outsiders, not from the device whose noise is kept",
            source="Liu, Pejo & Tang 2023, Algorithm 2",
            delta=self.delta if holds else None,
            sampler=self.sampler,
            notes="Epsilon follows from the devices' sizes."
            if holds
            else "Needs `row_bound` and `period` 1: otherwise nothing bounds what a record changes.",
        )

    def multipliers(self, sizes: Sequence[int], features: int) -> tuple[float, ...]:
        """sigma / n over the change of the mean by one record, sqrt(2) B^2 / s, for each announcement."""
        if self.row_bound is None or self.period != 1:
            raise SpecError("nothing is claimed without `row_bound` and with a `period` above 1.")
        change = second_moment_change(self.row_bound, "replace-one") / sum(sizes)
        return (self.noise / len(sizes) / change,) * self.iterations

    def bounded(self, rows: sp.csr_array) -> sp.csr_array:
        """None longer than `row_bound`, where there is one."""
        return rows if self.row_bound is None else clip_rows(rows, self.row_bound)

    def left(self, block: Matrix, sizes: tuple[int, ...], unknown: int) -> float:
        """One device's noise, whoever's it is."""
        return self.noise / len(sizes)

    noise_by: ClassVar[Literal["each party", "one party"]] = "one party"
    holds_against = 0

    @property
    def hides_rounds(self) -> bool:
        """Whether devices go several rounds on their own documents without noise."""
        return self.period > 1

    def party(self, matrix: sp.csr_array, parties: int) -> PartyProgram:
        """Iterate; see the class."""
        rows = sum((yield Sizes(matrix.shape[0])))
        if self.row_bound is not None:
            matrix = clip_rows(matrix, self.row_bound)
        start = start_block(self.start_seed, matrix.shape[1], self.rank)
        block = common = first_basis(self.start_seed, matrix.shape[1], self.rank)
        for step in range(1, self.iterations + 1):
            product = moments_times(matrix, block)
            if not self.announces(step):
                block = orthonormalise(product, start)
                continue
            share = matrix.shape[0] / rows * (aligned(block, common) @ product)
            block = common = yield OneNoiseSum(
                share, self.noise / parties, after=lambda total: orthonormalise(total, start)
            )
        return PartyResult({"V": common[: self.kept]})

    def neighbours(self) -> tuple[Database, Database]:
        """Records in the span of the start, which is public: what one changes is announced in full each time."""
        if self.row_bound is None or self.rank < 2:
            raise SpecError("a worst case needs `row_bound` and a `rank` of at least 2.")
        features = self.rank + 2
        return worst_pair(features, 100, self.row_bound, "replace-one", directions=self.two_of_start(features))
