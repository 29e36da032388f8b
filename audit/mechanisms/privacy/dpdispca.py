"""DPdisPCA: every site sends a noisy square root of its second moments once (Imtiaz & Sarwate 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from ksdp.audit.array_types import Matrix
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.checks import check_announce, check_least, check_one_of, check_positive
from ksdp.audit.mechanisms.contract import Announced, Database
from ksdp.audit.mechanisms.guarantee import Guarantee
from ksdp.audit.mechanisms.party_side import PartyProgram, PartyResult, Sizes, Upload
from ksdp.audit.mechanisms.privacy.announcer import Driven
from ksdp.audit.mechanisms.privacy.noise import (
    analytic_multiplier,
    check_budget,
    classical_multiplier,
    rounded_sensitivity,
)
from ksdp.audit.mechanisms.privacy.record_bounds import (
    adjacency_words,
    check_adjacency,
    clip_rows,
    second_moment_change,
)
from ksdp.audit.mechanisms.privacy.record_bounds import worst_pair as worst
from ksdp.audit.mechanisms.privacy.released import GaussianReleases


@dataclass(frozen=True)
class DPdisPCA(GaussianReleases):
    r"""DPdisPCA (Imtiaz & Sarwate 2018), one round, no secure sum: every site protects itself.

    Site s computes :math:`A_s = X_s^T X_s / N_s`, adds a symmetric Gaussian matrix, keeps the `intermediate`
    largest eigenvalues that are positive, and sends :math:`P_s = U_R \Sigma_R^{1/2}`. The aggregator decomposes
    :math:`A_c = \sum_s (N_s / N) P_s P_s^T`. Announced: ``V``, shape (rank, features), its leading eigenvectors;
    where all is opened also ``P``, shape (intermediate, features): what the aggregator gets from the victim.

    Parameters
    ----------
    rank : int
        K.
    intermediate : int
        R, between K and the features.
    epsilon, delta : float
        Of what a site sends.
    row_bound : float
        Rows are clipped to this norm: the sensitivity needs it, so it is not assumed.
    calibration : {"analytic", "printed"}
        `printed` is sqrt(2 ln(1.25 / delta)) / (N_s epsilon), whatever the adjacency and the epsilon.
    adjacency : {"replace-one", "add-remove"}
    announce : subset of ("V", "P")
    sampler : {"fast", "discrete"}

    Notes
    -----
    Where the slides are not followed. Their 1 / N_s is the Frobenius sensitivity where a record comes or goes and
    N_s stays (a row of zeros in its place: N_s is public); where one is replaced it is sqrt(2) / N_s. The
    classical calibration holds for epsilon < 1. The noisy matrix is indefinite: an SVD would keep large *negative*
    eigenvalues and turn them positive; the largest eigenvalues are kept and negative ones dropped. Sites weigh as
    their N_s. The upper triangle is drawn and mirrored; its L2 sensitivity is below the Frobenius norm of the
    whole.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> rng = np.random.default_rng(0)
    >>> X = sp.csr_array(rng.normal(size=(4000, 5)) * [1, 0.8, 0.1, 0.1, 0.1])
    >>> V = DPdisPCA(rank=2, intermediate=3, epsilon=2.0).run(Database((X[:1000], X[1000:])), rng)["V"]
    >>> bool(np.linalg.norm(V[:, :2]) > 1.35)
    True
    """

    name: ClassVar[str] = "dpdispca"
    final: ClassVar[tuple[str, ...]] = ("V",)

    rank: int = 7
    intermediate: int = 20
    epsilon: float = 1.0
    row_bound: float = 1.0
    calibration: str = "analytic"
    adjacency: str = "replace-one"
    announce: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_budget(self.epsilon, self.delta)
        check_adjacency(self.adjacency)
        check_least(self, rank=1, intermediate=1)
        if self.rank > self.intermediate:
            raise SpecError(f"`rank` must be 1 to `intermediate` ({self.intermediate}); got {self.rank}.")
        check_positive(self, "row_bound")
        check_one_of(self, "calibration", ("analytic", "printed"))
        check_announce(self.announce, ("V", "P"))

    @property
    def _printed_holds(self) -> bool:
        return self.epsilon < 1 and self.adjacency == "add-remove"

    @property
    def guarantee(self) -> Guarantee:
        """What is promised, to whom."""
        printed = self.calibration == "printed"
        return Guarantee(
            "(epsilon, delta)",
            unit=f"{adjacency_words(self.adjacency)}, rows clipped to norm {self.row_bound:g}, site sizes public",
            trust="the aggregator and all other sites; nobody need be trusted (each site protects itself)",
            source="Imtiaz & Sarwate 2018",
            epsilon=self.epsilon,
            delta=self.delta,
            sampler=self.sampler,
            sound=not printed or self._printed_holds,
            notes="Printed calibration: proved for epsilon < 1 and add-remove only." if printed else "",
        )

    def shows(self, features: int) -> tuple[Announced, ...]:
        """Names and shapes of everything that a run shows its parties and the aggregator."""
        if self.intermediate > features:
            raise SpecError(f"`intermediate` must be at most the features ({features}); got {self.intermediate}.")
        last = Announced("V", (self.rank, features))
        return (
            (last,) if self.opens == "final" else (last, Announced("P", (self.intermediate, features), early=True))
        )

    def sensitivity(self, size: int, features: int) -> float:
        """Of one site's A_s (its upper triangle), by one record of N_s = `size`."""
        exact = second_moment_change(self.row_bound, self.adjacency) / size
        return rounded_sensitivity(exact, features * (features + 1) // 2)

    def deviation(self, size: int, features: int) -> float:
        """Of the noise in each entry of A_s."""
        if self.calibration == "printed":
            return classical_multiplier(self.epsilon, self.delta) * self.row_bound**2 / size
        return analytic_multiplier(self.epsilon, self.delta) * self.sensitivity(size, features)

    def bounded(self, rows: sp.csr_array) -> sp.csr_array:
        """Documents as they enter a site's moments."""
        return clip_rows(rows, self.row_bound)

    def moment_noise(self, size: int, features: int, parties: int) -> float:
        """In each number of X_s^T X_s; every site's noise is its own."""
        return self.deviation(size, features) * size

    def multipliers(self, sizes: Sequence[int], features: int) -> tuple[float, ...]:
        """Of the one release that a record enters, at the site where it is smallest."""
        return (min(self.deviation(n, features) / self.sensitivity(n, features) for n in sizes),)

    def claim(self, sizes: Sequence[int], features: int) -> tuple[float, float]:
        """The parameters: with the analytic calibration the noise is made to fit them."""
        return self.epsilon, self.delta

    def party(self, matrix: sp.csr_array, parties: int) -> PartyProgram:
        """Run the one round; see the class."""
        size, features = matrix.shape
        yield Sizes(size)
        clipped = clip_rows(matrix, self.row_bound)
        moments = (clipped.T @ clipped).toarray() / size
        deviation = self.deviation(size, features)
        V = yield Upload(moments[np.triu_indices(features)], deviation, send=partial(self._root, features))
        return PartyResult({"V": V})

    def _root(self, features: int, upper: Matrix) -> Matrix:
        """P_s, of the noisy upper triangle."""
        noisy = np.zeros((features, features))
        noisy[np.triu_indices(features)] = upper
        noisy.T[np.triu_indices(features)] = upper
        return _root(noisy, self.intermediate)

    def collected(
        self, uploads: Sequence[Matrix], beside: Sequence[Matrix], sizes: Sequence[int]
    ) -> tuple[Matrix, float]:
        """The leading eigenvectors of A_c; the aggregator adds no noise."""
        features = uploads[0].shape[1]
        total = np.zeros((features, features))
        for size, root in zip(sizes, uploads, strict=True):
            total += size / sum(sizes) * (root.T @ root)
        first = features - self.rank
        _, vectors = scipy.linalg.eigh(total, subset_by_index=(first, features - 1), check_finite=False)
        return _signed(vectors.T[::-1]), 0.0

    def observed(self, driven: Driven) -> dict[str, Matrix]:
        """With `P`, what the aggregator gets from the victim."""
        sent = {"P": driven.uploads[0][0]}
        return {name: (driven.public | sent)[name] for name in self.announce or self.opened}

    def neighbours(self) -> tuple[Database, Database]:
        """Few features and records along two directions; the noisy matrix itself is looked at, which is more
        than what the aggregator gets (its positive part)."""
        return worst(self.intermediate + 2, 20, self.row_bound, self.adjacency)


def captured_energy(V: Matrix, second_moments: Matrix) -> float:
    """q(V) = tr(V A V^T), the captured energy of the slides, for rows of V orthonormal.

    Examples
    --------
    >>> captured_energy(np.eye(1, 2), np.diag([3.0, 1.0]))
    3.0
    """
    return float(np.einsum("id,de,ie->", V, second_moments, V))


def _root(symmetric: Matrix, rank: int) -> Matrix:
    """Rows sqrt(lambda_i) u_i^T of the largest eigenvalues; zeros for those that are not positive."""
    d = len(symmetric)
    values, vectors = scipy.linalg.eigh(symmetric, subset_by_index=(d - rank, d - 1), check_finite=False)
    rows = vectors.T * np.sqrt(np.maximum(values, 0.0))[:, None]
    return np.ascontiguousarray(rows[::-1])


def _signed(rows: Matrix) -> Matrix:
    """Each row with its largest entry positive: the sign of an eigenvector is LAPACK's whim, not data."""
    largest = np.take_along_axis(rows, np.abs(rows).argmax(axis=1)[:, None], axis=1)
    return np.ascontiguousarray(rows * np.where(largest < 0, -1.0, 1.0))
