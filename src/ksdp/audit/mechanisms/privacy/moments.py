"""One sum over all rows with noise, of second moments or terms; and the second moments of DP-disPCA's sites."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import ArpackNoConvergence, eigsh
from scipy.special import ndtri

from ksdp.audit.contract import Database, Guarantee, Noise, Release, Terms, Traits
from ksdp.audit.corpus.matrix import clip_rows
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.parameters import check_least, check_one_of, check_positive, check_rank
from ksdp.audit.mechanisms.party_side import NoisySum, PartyProgram, PartyResult, Sizes, Upload
from ksdp.audit.mechanisms.privacy.noise import (
    adjacency_words,
    analytic_multiplier,
    check_adjacency,
    check_budget,
    classical_multiplier,
    rounded_sensitivity,
    second_moment_change,
    worst_pair,
)
from ksdp.audit.mechanisms.privacy.transcript import ANY_PARTIES, Driven, GaussianBasis, GaussianReleases
from ksdp.audit.numeric.array_types import Floats, Matrix
from ksdp.audit.numeric.triangles import isometric, of_isometric, symmetric
from ksdp.audit.verdicts.certificates import knows_all_others, pair_advantage

_FULL = 0.25
"""Share of entries from which a dense product is faster."""
_LANCZOS = 500
"""Columns from which few eigenvectors by Lanczos are faster: of 3,000 in a thirtieth of the time."""


@dataclass(frozen=True)
class OneNoisySum(GaussianReleases):
    r"""Base of those that announce one sum over all rows, with noise of a deviation that is fixed before the run.

    The advantage of every attack on every document is at most :math:`2 \Phi(\Delta / 2 s) - 1`, where one record
    changes the sum by at most :math:`\Delta` in L2 norm and s is the deviation, and the whole run is
    (epsilon, delta) private by the same Gaussian.

    By default every party draws all of the noise: whoever works with all the others still sees that of one. With
    `colluders` each of M draws s / sqrt(M - colluders): to so many who put together what they know, s is left.

    Parameters
    ----------
    advantage : float in (0, 1); what bounds every attack; decides s
    noise : s itself, in its place. A small one promises little, and an audit says what it gives away.
    adjacency : {"replace-one", "add-remove"}
    colluders : parties that may put together what they know, at least 1: each knows its own noise. None: all
        but one, whatever their number.
    """

    version: ClassVar[int] = 1

    advantage: float = 0.25
    noise: float | None = None
    adjacency: str = "replace-one"
    colluders: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_adjacency(self.adjacency)
        if self.colluders is not None:
            check_least(self, colluders=1)
        if not 0 < self.advantage < 1:
            raise SpecError(f"`advantage` must be in (0, 1); got {self.advantage!r}.")
        if self.noise is not None:
            check_positive(self, "noise")

    @abstractmethod
    def entering(self, rows: sp.csr_array) -> Floats:
        """Return the contribution of these rows to the sum."""

    @abstractmethod
    def sensitivity(self, features: int) -> float:
        """Sensitivity of the sum to one record, in L2 norm."""

    @property
    @abstractmethod
    def bounds(self) -> str:
        """How one record is bounded, for a report."""

    @property
    def guarantee(self) -> Guarantee:
        """The promise, and to whom it is made."""
        return Guarantee(
            "(epsilon, delta)",
            unit=f"{adjacency_words(self.adjacency)}, {self.bounds}",
            trust="nobody: every party's noise is enough by itself, whoever works with all the others"
            if self.colluders is None
            else f"the other parties, of whom no {self.colluders + 1} may put together what they know",
            source="this package; Gaussian mechanism",
            epsilon=self.claim((), 2)[0],
            delta=self.delta,
            sampler=self.sampler,
            notes=f"A record changes the sum by at most d = {self.sensitivity(2) / self.scale(2):.4g} deviations "
            f"of the noise: no attack on it has an advantage above 2 Phi(d / 2) - 1 = {self.bound(2):.3g}.",
            advantage=self.bound(2),
        )

    def bound(self, features: int) -> float:
        """The largest advantage of any attack, also of whoever knows all other records."""
        return knows_all_others(self.sensitivity(features) / self.scale(features))

    def scale(self, features: int) -> float:
        """s: of the noise in each number that is left to those who know most."""
        if self.noise is not None:
            return float(self.noise)
        return self.sensitivity(features) / (2 * float(ndtri((1 + self.advantage) / 2)))

    def deviation(self, features: int, parties: int) -> float:
        """Standard deviation of the noise of so many parties, per announced number."""
        return self.scale(features) * (math.sqrt(parties) if self.colluders is None else 1.0)

    @property
    def holds_against(self) -> int:
        """The `colluders`; everybody else, where each party's noise is enough by itself."""
        return ANY_PARTIES if self.colluders is None else self.colluders

    def multipliers(self, sizes: Sequence[int], features: int) -> tuple[float, ...]:
        """Deviation over sensitivity of the one release."""
        return (self.scale(features) / self.sensitivity(features),)

    def noisy_sum(self, rows: sp.csr_array) -> NoisySum:
        """A party's request."""
        return NoisySum(self.entering(rows), self.scale(rows.shape[1]), colluders=self.colluders)

    def uncertified(self, features: int) -> str | None:
        """None: every run's noise is public and fixed."""
        return None

    def paired(
        self, base: Database, coins: Callable[[], np.random.Generator], final: tuple[str, ...] | None = None
    ) -> Callable[[Database], float]:
        """The advantage of the best attack that knows both databases (`Certifiable`)."""
        deviation = self.scale(base.parties[0].shape[1])

        def held(database: Database) -> Floats:
            return np.asarray(np.sum([self.entering(database.parties[i]) for i in database.outside], axis=0))

        here = held(base)

        def against(other: Database) -> float:
            return float(pair_advantage(float(np.linalg.norm(here - held(other))) / deviation))

        return against


@dataclass(frozen=True)
class Moments(OneNoisySum):
    """Releases the sum S of all parties' second moments with noise, once, and nothing else.

    Rows are clipped to norm `row_bound`, so that one record changes S by at most row_bound^2 in Frobenius norm,
    sqrt(2) times that where it is replaced. S is announced as its upper triangle, off the diagonal times sqrt(2),
    in which distances are these: ``moments``, shape (r (r + 1) / 2,). Everybody computes ``V`` from it, shape
    (rank, r): the leading eigenvectors of S, each number of it first moved towards 0 by `shrink` deviations of its
    noise (Donoho 1995, soft thresholding). Most second moments of words are next to nothing, and their noise goes.

    Parameters
    ----------
    row_bound : largest Euclidean norm of a row; longer ones are scaled down to it
    rank : k
    shrink : deviations; 0 takes S as it is

    References
    ----------
    Dwork, Talwar, Thakurta and Zhang 2014, Analyze Gauss, algorithm 1.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = sp.csr_array(rng.normal(size=(2000, 4)) * [0.5, 0.4, 0.05, 0.05])
    >>> V = Moments(rank=2, advantage=0.25).run(Database((X,)), rng)["V"]
    >>> bool(np.linalg.norm(V[:, :2]) > 1.4)
    True
    """

    name: ClassVar[str] = "moments"

    row_bound: float = 1.0
    rank: int = 7
    shrink: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_least(self, rank=1)
        check_positive(self, "row_bound")
        if not (isinstance(self.shrink, int | float) and 0 <= self.shrink < math.inf):
            raise SpecError(f"`shrink` must be a number of at least 0; got {self.shrink!r}.")

    @property
    def traits(self) -> Traits:
        """Properties, with this rank."""
        return replace(super().traits, rank=self.rank)

    @property
    def bounds(self) -> str:
        """By its norm."""
        return f"rows clipped to norm {self.row_bound:g}"

    def sensitivity(self, features: int) -> float:
        """Sensitivity of S to one record, in Frobenius norm."""
        exact = second_moment_change(self.row_bound, self.adjacency)
        return rounded_sensitivity(exact, features * (features + 1) // 2)

    def bounded(self, rows: sp.csr_array) -> sp.csr_array:
        """Documents as they enter the sum."""
        return clip_rows(rows, self.row_bound)

    def entering(self, rows: sp.csr_array) -> Floats:
        """The second moments of the bounded rows."""
        return isometric(_moments(self.bounded(rows)))

    def moment_noise(self, size: int, features: int, parties: int) -> float:
        """Standard deviation of the noise of so many parties, per announced number."""
        return self.deviation(features, parties)

    def releases(self, features: int) -> tuple[Release, ...]:
        """The basis and, where all is opened, the noisy moments."""
        check_rank(self.rank, features)
        noise, final = Noise("normal", "each party"), self.opens == "final"
        basis = partial(Release, "V", (self.rank, features), noise=noise, final=True, alignment="signs")
        if final:
            return (basis(),)
        moments = Release("moments", (features * (features + 1) // 2,), Terms("moments"), noise)
        return basis(derived_from=("moments",)), moments

    def party(self, matrix: sp.csr_array, parties: int) -> PartyProgram:
        """Announce; see the class."""
        features = matrix.shape[1]
        check_rank(self.rank, features)
        total = yield self.noisy_sum(matrix)
        least = self.shrink * self.deviation(features, parties)
        kept = np.sign(total) * np.maximum(np.abs(total) - least, 0.0)
        return PartyResult({"moments": total, "V": _leading(of_isometric(kept), self.rank)})

    def observed(self, driven: Driven) -> dict[str, Floats]:
        """The sum as the coalition sees it, without its own shares and noise; and what all make of the whole."""
        seen = {"V": driven.public["V"], "moments": driven.transcript[0].seen}
        return {name: seen[name] for name in self._names}

    def neighbours(self) -> tuple[Database, Database]:
        """Records along two of few directions."""
        return worst_pair(self.rank + 2, 20, self.row_bound, self.adjacency)


@dataclass(frozen=True)
class TermCounts(OneNoisySum):
    r"""Releases in about how many documents each term is, by one sum with noise: a public vocabulary and its idf.

    A document with n entries adds 1 / sqrt(n) to each of its columns, so that it changes the sum by at most 1, by
    sqrt(2) where it is replaced. Announced: ``totals``, shape (d,). A run among parties writes the `counted` of it
    as `reference.tsv`, which `corpus.levers.reference` takes. A budget adds up what both runs give away.

    Examples
    --------
    >>> X = sp.csr_array(np.array([[1.0, 1.0, 0.0]] * 300 + [[1.0, 0.0, 1.0]] * 100))
    >>> TermCounts.counted(TermCounts(noise=1e-3).run(Database((X,)), np.random.default_rng(0))["totals"], 400)
    array([400., 300., 100.])
    """

    name: ClassVar[str] = "term-counts"
    tells_rows: ClassVar[bool] = True

    @property
    def bounds(self) -> str:
        """By its length."""
        return "which terms it has, scaled to norm 1, sizes public"

    def sensitivity(self, features: int) -> float:
        """Sensitivity of the totals to one record."""
        return rounded_sensitivity(second_moment_change(1.0, self.adjacency), features)

    def entering(self, rows: sp.csr_array) -> Floats:
        """1 / sqrt(n) in each column where a row of n entries has one."""
        which = sp.csr_array(rows != 0)
        weights = 1 / np.sqrt(np.maximum(np.diff(which.indptr), 1))
        return np.asarray(which.T.astype(np.float64) @ weights)

    @staticmethod
    def counted(totals: Floats, documents: int) -> Floats:
        """Estimate in how many documents each term is: its total times the sum of all totals over `documents`."""
        return np.asarray(np.rint(np.clip(totals * totals.sum() / documents, 0.0, documents)))

    def releases(self, features: int) -> tuple[Release, ...]:
        """The totals."""
        return (Release("totals", (features,), noise=Noise("normal", "each party"), final=True),)

    def party(self, matrix: sp.csr_array, parties: int) -> PartyProgram:
        """Announce; see the class. Sizes are told for the reference."""
        yield Sizes(matrix.shape[0])
        return PartyResult({"totals": (yield self.noisy_sum(matrix))})

    def observed(self, driven: Driven) -> dict[str, Floats]:
        """The sum as the coalition sees it."""
        return {"totals": driven.transcript[0].seen}

    def neighbours(self) -> tuple[Database, Database]:
        """Records of two terms."""
        return worst_pair(4, 20, 1.0, self.adjacency)


def _moments(rows: sp.csr_array) -> Matrix:
    full = rows.nnz > _FULL * rows.shape[0] * rows.shape[1]
    dense = rows.toarray() if full else None
    return np.asarray((rows.T @ rows).toarray() if dense is None else dense.T @ dense)


@dataclass(frozen=True)
class DPdisPCA(GaussianBasis):
    r"""Principal components in one round: each site adds noise to what it sends, without a secure sum (DPdisPCA).

    Site s computes :math:`A_s = X_s^T X_s / N_s`, adds a symmetric Gaussian matrix, keeps the `intermediate`
    largest eigenvalues that are positive, and sends :math:`P_s = U_R \Sigma_R^{1/2}`. The aggregator decomposes
    :math:`A_c = \sum_s (N_s / N) P_s P_s^T`. Announced: ``V``, shape (rank, features), its leading eigenvectors;
    where all is opened also ``P``, shape (intermediate, features): what the aggregator gets from the victim.

    Parameters
    ----------
    rank : K
    intermediate : R, between K and the features
    epsilon, delta : of what a site sends
    row_bound : rows are clipped to this norm: the sensitivity needs it, so it is not assumed
    calibration : {"analytic", "printed"}; `printed` is sqrt(2 ln(1.25 / delta)) / (N_s epsilon), whatever the
        adjacency and the epsilon
    adjacency : {"replace-one", "add-remove"}
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
    tells_rows: ClassVar[bool] = True

    intermediate: int = 20
    epsilon: float = 1.0
    row_bound: float = 1.0
    calibration: str = "analytic"
    adjacency: str = "replace-one"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_budget(self.epsilon, self.delta)
        check_adjacency(self.adjacency)
        check_least(self, rank=1, intermediate=1)
        if self.rank > self.intermediate:
            raise SpecError(f"`rank` must be 1 to `intermediate` ({self.intermediate}); got {self.rank}.")
        check_positive(self, "row_bound")
        check_one_of(self, "calibration", ("analytic", "printed"))

    @property
    def guarantee(self) -> Guarantee:
        """The promise, and to whom it is made."""
        printed = self.calibration == "printed"
        return Guarantee(
            "(epsilon, delta)",
            unit=f"{adjacency_words(self.adjacency)}, rows clipped to norm {self.row_bound:g}, site sizes public",
            trust="nobody: each site protects itself from the aggregator and all other sites",
            source="Imtiaz & Sarwate 2018",
            epsilon=self.epsilon,
            delta=self.delta,
            sampler=self.sampler,
            sound=not printed or (self.epsilon < 1 and self.adjacency == "add-remove"),
            notes="Printed calibration: proved for epsilon < 1 and add-remove only." if printed else "",
        )

    def releases(self, features: int) -> tuple[Release, ...]:
        """The basis and, where all is opened, what the aggregator gets from the victim."""
        if self.intermediate > features:
            raise SpecError(f"`intermediate` must be at most the features ({features}); got {self.intermediate}.")
        noise = Noise("normal", "each party")
        last = Release("V", (self.rank, features), noise=noise, final=True, alignment="signs")
        root = (self.intermediate, features)
        sent = Release("P", root, Terms("moments"), noise, early=True, alignment="rotation")
        return (last,) if self.opens == "final" else (last, sent)

    def sensitivity(self, size: int, features: int) -> float:
        """Sensitivity of one site's A_s (its upper triangle) to one record of N_s = `size`."""
        exact = second_moment_change(self.row_bound, self.adjacency) / size
        return rounded_sensitivity(exact, features * (features + 1) // 2)

    def deviation(self, size: int, features: int) -> float:
        """Standard deviation of the noise in each entry of A_s."""
        if self.calibration == "printed":
            return classical_multiplier(self.epsilon, self.delta) * self.row_bound**2 / size
        return analytic_multiplier(self.epsilon, self.delta) * self.sensitivity(size, features)

    def bounded(self, rows: sp.csr_array) -> sp.csr_array:
        """Documents as they enter a site's moments."""
        return clip_rows(rows, self.row_bound)

    def moment_noise(self, size: int, features: int, parties: int) -> float:
        """In X_s^T X_s, twice off its diagonal; every site's noise is its own."""
        return math.sqrt(2) * self.deviation(size, features) * size

    @property
    def holds_against(self) -> int:
        """Everybody else: each party's noise is enough by itself."""
        return ANY_PARTIES

    def multipliers(self, sizes: Sequence[int], features: int) -> tuple[float, ...]:
        """Deviation over sensitivity of the one release that a record enters, at the site where it is smallest."""
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
        V = yield Upload(moments[np.triu_indices(features)], deviation, send=partial(_root, self.intermediate))
        return PartyResult({"V": V})

    def collected(
        self, uploads: Sequence[Matrix], beside: Sequence[Matrix], sizes: Sequence[int]
    ) -> tuple[Matrix, float]:
        """The leading eigenvectors of A_c; the aggregator adds no noise."""
        features = uploads[0].shape[1]
        total = np.zeros((features, features))
        for size, root in zip(sizes, uploads, strict=True):
            total += size / sum(sizes) * (root.T @ root)
        return _leading(total, self.rank), 0.0

    def observed(self, driven: Driven) -> dict[str, Matrix]:
        """With `P`, what the aggregator gets from the victim."""
        sent = {"P": driven.uploads[0][0]}
        return {name: (driven.public | sent)[name] for name in self._names}

    def neighbours(self) -> tuple[Database, Database]:
        """Few features and records along two directions; the noisy matrix itself is looked at, which is more
        than what the aggregator gets (its positive part).
        """
        return worst_pair(self.intermediate + 2, 20, self.row_bound, self.adjacency)


def _root(rank: int, triangle: Floats) -> Matrix:
    values, vectors = _largest(symmetric(triangle), rank)
    return np.ascontiguousarray(vectors * np.sqrt(np.maximum(values, 0.0))[:, None])


def _leading(moments: Matrix, rank: int) -> Matrix:
    return _signed(_largest(moments, rank)[1])


def _largest(moments: Matrix, rank: int) -> tuple[Floats, Matrix]:
    d, steps = len(moments), max(40, 4 * rank)
    if d >= max(_LANCZOS, 2 * steps):
        try:
            values, vectors = eigsh(
                moments, rank, which="LA", v0=np.random.default_rng(0).standard_normal(d), ncv=steps, maxiter=d
            )
        except ArpackNoConvergence:
            pass
        else:
            order = np.argsort(-values, kind="stable")
            return values[order], vectors.T[order]
    values, vectors = scipy.linalg.eigh(moments, subset_by_index=(d - rank, d - 1), check_finite=False)
    return values[::-1], vectors.T[::-1]


def _signed(rows: Matrix) -> Matrix:
    """Each row with its largest entry positive: the sign of an eigenvector is LAPACK's whim, not data."""
    largest = np.take_along_axis(rows, np.abs(rows).argmax(axis=1)[:, None], axis=1)
    return np.ascontiguousarray(rows * np.where(largest < 0, -1.0, 1.0))
