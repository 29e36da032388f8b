"""FedPower as printed (Algorithm 1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from ksdp.audit.array_types import Matrix
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.checks import check_announce, check_one_of, check_rank
from ksdp.audit.mechanisms.contract import Announced, Database, Observables
from ksdp.audit.mechanisms.factorisation.power_iteration import orthonormalise, start_block
from ksdp.audit.mechanisms.guarantee import Guarantee
from ksdp.audit.mechanisms.party_side import Broadcast, PartyProgram, PartyResult, Sizes, Upload
from ksdp.audit.mechanisms.privacy.announcer import Driven
from ksdp.audit.mechanisms.privacy.fedpower_steps import (
    SENT,
    PeriodicPower,
    aligned,
    check_given_noise,
    fedpower_deviations,
    moments_times,
    released_uploads,
)
from ksdp.audit.mechanisms.privacy.noise import check_budget
from ksdp.audit.mechanisms.privacy.record_bounds import worst_pair
from ksdp.audit.statistics.contract import Pool
from ksdp.audit.statistics.equations import Equations
from ksdp.audit.statistics.releases_match import Added, Adds, ReleasesMatch, nothing_added


@dataclass(frozen=True)
class FedPower(PeriodicPower):
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
    version: ClassVar[int] = 3

    epsilon: float = 1.0
    noise: float | None = None
    central_noise: float | None = None
    reference: str = "common"
    announce: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_budget(self.epsilon, self.delta)
        check_given_noise(self.noise, self.central_noise)
        check_one_of(self, "reference", ("common", "first"))
        check_announce(self.announce, ("V", "means", "uploads", "scales"))

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
        blocks = (Announced(name, each, early=True) for name in SENT)
        return (last,) if self.opens == "final" else (last, *blocks, Announced("scales", (self.rounds,)))

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

    @property
    def statistics(self) -> tuple[ReleasesMatch, ...]:
        """What the server can look at as well: with `period` 1 uploads are sums over the victim's documents."""
        shown = set(SENT) <= set(self.announce or self.opened)
        return (ReleasesMatch(SENT),) if shown and self.period == 1 else ()

    @property
    def hides_iterations(self) -> str:
        """What holds several iterations without noise between them, which no statistic follows."""
        return "uploads" if self.period > 1 else ""

    def as_equations(
        self, observables: Observables, pool: Pool, added: Added = nothing_added
    ) -> tuple[Adds, Equations]:
        """x <x, z> for the rows z of each block, and the victim's noisy uploads of these."""
        return released_uploads(self.uploaded, observables, pool, added)

    def uploaded(self, means: Matrix, sizes: tuple[int, ...]) -> tuple[Matrix, Matrix]:
        """Z^T of every upload, and the deviation of its noise, with `period` 1; `sizes` are the victim's first."""
        start = start_block(self.start_seed, means.shape[-1], self.rank)
        blocks = [start, *(orthonormalise(mean, start) for mean in means[:-1])]
        local = self.noise_factor * self.deviations(sizes)[0]
        return np.stack(blocks), np.array([local * float(np.abs(block).max()) for block in blocks])

    def neighbours(self) -> tuple[Database, Database]:
        """Records of norm 1 along spread-out directions in the span of the start, where ||Z||_max is small."""
        if self.rank < 2:
            raise SpecError("`rank` must be at least 2 for a worst case: two directions must be announced.")
        features = 1600 + self.rank
        return worst_pair(features, 40, 1.0, "replace-one", directions=self.two_of_start(features))
