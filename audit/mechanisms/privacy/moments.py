"""Second moments in few public directions, as one secure sum with noise of public scale: safe by construction."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.special import ndtri

from ksdp.audit.array_types import Floats
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.checks import check_least, check_positive, check_rank
from ksdp.audit.mechanisms.contract import Announced, Database
from ksdp.audit.mechanisms.guarantee import Guarantee
from ksdp.audit.mechanisms.party_side import NoisySum, PartyProgram, PartyResult
from ksdp.audit.mechanisms.privacy.announcer import Driven
from ksdp.audit.mechanisms.privacy.noise import rounded_sensitivity
from ksdp.audit.mechanisms.privacy.record_bounds import (
    adjacency_words,
    check_adjacency,
    clip_rows,
    second_moment_change,
    worst_pair,
)
from ksdp.audit.mechanisms.privacy.released import GaussianReleases
from ksdp.audit.verdicts.certificate import knows_all_others, pair_advantage

_FULL = 0.25
"""Share of entries from which a dense product is faster."""


@dataclass(frozen=True)
class Moments(GaussianReleases):
    r"""Announces the upper triangle of :math:`S = \sum_m (X_m^T X_m + G_m)`, once, and nothing else.

    Rows are clipped to norm `row_bound`, so that one record changes the triangle by at most row_bound^2 in L2
    norm, sqrt(2) times that where it is replaced. G_m is normal, of the public deviation s per entry, fixed
    before the run, and drawn *in full by every party*: whoever works with all the others still sees the noise of
    one. The advantage of every attack on every document is then at most :math:`2 \Phi(\Delta / 2 s) - 1`, and the
    whole run is (epsilon, delta) private by the same Gaussian. Announced: ``moments``, shape (r (r + 1) / 2,),
    and ``V``, shape (rank, r), the leading eigenvectors of S, which everybody computes from it.

    The error that the noise makes is small where the eigenvalues wanted are large beside its spectral norm, about
    2 s sqrt(r M): with few columns r, and many documents. So it belongs after `corpus.levers.basis`, a public
    basis of few directions, or on tables of few columns.

    Parameters
    ----------
    advantage : float in (0, 1)
        What bounds every attack; decides s.
    noise : float, optional
        s itself, in its place. A small one promises little, and an audit says what it gives away.
    row_bound : float
        Largest Euclidean norm of a row; longer ones are scaled down to it.
    adjacency : {"replace-one", "add-remove"}

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = sp.csr_array(rng.normal(size=(2000, 4)) * [0.5, 0.4, 0.05, 0.05])
    >>> V = Moments(rank=2, advantage=0.25).run(Database((X,)), rng)["V"]
    >>> bool(np.linalg.norm(V[:, :2]) > 1.4)
    True
    """

    name: ClassVar[str] = "moments"
    version: ClassVar[int] = 1
    final: ClassVar[tuple[str, ...]] = ("V",)

    rank: int = 7
    advantage: float = 0.25
    noise: float | None = None
    row_bound: float = 1.0
    adjacency: str = "replace-one"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_adjacency(self.adjacency)
        check_least(self, rank=1)
        check_positive(self, "row_bound")
        if not 0 < self.advantage < 1:
            raise SpecError(f"`advantage` must be in (0, 1); got {self.advantage!r}.")
        if self.noise is not None:
            check_positive(self, "noise")

    @property
    def guarantee(self) -> Guarantee:
        """What is promised, to whom."""
        bound = self.bound(self.rank + 1)
        return Guarantee(
            "(epsilon, delta)",
            unit=f"{adjacency_words(self.adjacency)}, rows clipped to norm {self.row_bound:g}",
            trust="nobody: every party's noise is enough by itself, whoever works with all the others",
            source="this package; Gaussian mechanism",
            epsilon=self.claim((), self.rank + 1)[0],
            delta=self.delta,
            sampler=self.sampler,
            notes=f"The advantage of every attack on every record is at most {bound:.3g}.",
        )

    def bound(self, features: int) -> float:
        """The largest advantage of any attack, also of whoever knows all other records."""
        return knows_all_others(self.sensitivity(features) / self.scale(features))

    def sensitivity(self, features: int) -> float:
        """Of the triangle, in L2 norm, by one record."""
        exact = second_moment_change(self.row_bound, self.adjacency)
        return rounded_sensitivity(exact, features * (features + 1) // 2)

    def scale(self, features: int) -> float:
        """s: of every party's noise, per entry."""
        if self.noise is not None:
            return float(self.noise)
        return self.sensitivity(features) / (2 * float(ndtri((1 + self.advantage) / 2)))

    def bounded(self, rows: sp.csr_array) -> sp.csr_array:
        """Documents as they enter the sum."""
        return clip_rows(rows, self.row_bound)

    def moment_noise(self, size: int, features: int, parties: int) -> float:
        """Of so many parties, in each number of the triangle."""
        return self.scale(features) * math.sqrt(parties)

    def shows(self, features: int) -> tuple[Announced, ...]:
        """Names and shapes of everything that a run shows its parties."""
        check_rank(self.rank, features)
        last = Announced("V", (self.rank, features))
        return (
            (last,) if self.opens == "final" else (last, Announced("moments", (features * (features + 1) // 2,)))
        )

    def multipliers(self, sizes: Sequence[int], features: int) -> tuple[float, ...]:
        """Of the one release, where a single party's noise is left."""
        return (self.scale(features) / self.sensitivity(features),)

    def party(self, matrix: sp.csr_array, parties: int) -> PartyProgram:
        """Announce; see the class."""
        features = matrix.shape[1]
        check_rank(self.rank, features)
        clipped = clip_rows(matrix, self.row_bound)
        share = _triangle(clipped)
        total = yield NoisySum(share, self.scale(features))
        return PartyResult({"moments": total, "V": self._leading(total, features)})

    def observed(self, driven: Driven) -> dict[str, Floats]:
        """The sum as the coalition sees it, without its own shares and noise; and what all make of the whole."""
        public, transcript = driven.public, driven.transcript
        seen = {"V": public["V"], "moments": transcript[0].seen}
        return {name: seen[name] for name in self.opened}

    def uncertified(self, features: int) -> str | None:
        """None: every run's noise is public and fixed."""
        return None

    def paired(
        self, base: Database, coins: Callable[[], np.random.Generator], final: tuple[str, ...] | None = None
    ) -> Callable[[Database], float]:
        """The advantage of the best attack that knows both databases (`audit.certifying.Certifiable`).

        Two normals of one covariance: exact with one honest party, above it with more. V follows from the moments,
        so that whoever sees it alone has no better attack.
        """
        deviation = self.scale(base.parties[0].shape[1])
        here = self._held(base)

        def against(other: Database) -> float:
            return float(pair_advantage(float(np.linalg.norm(here - self._held(other))) / deviation))

        return against

    def _held(self, database: Database) -> Floats:
        """The triangle of the victim's and the honest parties' moments."""
        held = [clip_rows(database.parties[i], self.row_bound) for i in database.outside]
        return np.asarray(np.sum([_triangle(rows) for rows in held], axis=0))

    def neighbours(self) -> tuple[Database, Database]:
        """Records along two of few directions."""
        return worst_pair(self.rank + 2, 20, self.row_bound, self.adjacency)

    def _leading(self, triangle: Floats, features: int) -> Floats:
        """Leading eigenvectors as rows, each with its largest entry positive."""
        moments = np.zeros((features, features))
        moments[np.triu_indices(features)] = triangle
        first = features - self.rank
        # LAPACK reads the upper triangle alone.
        _, vectors = scipy.linalg.eigh(
            moments, lower=False, subset_by_index=(first, features - 1), check_finite=False
        )
        rows = vectors.T[::-1]
        largest = np.take_along_axis(rows, np.abs(rows).argmax(axis=1)[:, None], axis=1)
        return np.ascontiguousarray(rows * np.where(largest < 0, -1.0, 1.0))


def _triangle(rows: sp.csr_array) -> Floats:
    """The upper triangle of X^T X; by a dense product where rows of few columns are full, as after a basis."""
    full = rows.nnz > _FULL * rows.shape[0] * rows.shape[1]
    dense = rows.toarray() if full else None
    moments = (rows.T @ rows).toarray() if dense is None else dense.T @ dense
    return np.asarray(moments)[np.triu_indices(rows.shape[1])]
