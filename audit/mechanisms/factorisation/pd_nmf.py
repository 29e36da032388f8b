"""The mechanism PD-NMF: what a coalition sees of a private distributed NMF."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.contract import Announced, Database, Observables
from ksdp.audit.mechanisms.factorisation.nmf_inputs import check_rule
from ksdp.audit.mechanisms.factorisation.nmf_iterations import Factorisation
from ksdp.audit.mechanisms.factorisation.nmf_kernels import Penalties
from ksdp.audit.mechanisms.factorisation.nmf_starts import STARTS, LocalFit, initial_topics
from ksdp.audit.mechanisms.factorisation.rri_nmf import pd_nmf_iter
from ksdp.audit.mechanisms.factorisation.weighted_nmf import weighted_nmf_iter
from ksdp.audit.mechanisms.guarantee import Guarantee, measured

__all__ = ["PDNMF"]

SUMS = ("T", "numerators", "denominators")
DATA_STARTS = ("nnsvd", "best-of-m", "pd-nmf-init")


@dataclass(frozen=True)
class PDNMF:
    """Private distributed NMF on the ideal functionality: secure sums are plain sums.

    With one party it is the centralised RRI-NMF, and with several it announces the same topics (Theorem 1; to
    rounding). T is public. Of the sums, the coalition sees those over the parties outside it, because it can
    subtract its own share exactly. Nothing in a run is random but the database: the start is the agreed one.

    Attributes
    ----------
    rank : int
        Topics k.
    start : str
        A name in `factorisation.nmf_starts`: ``random``, ``random-2x``, ``nnsvd``, ``best-of-m`` or
        ``pd-nmf-init``.
    sweeps : int
        Cap on the sweeps, twice that for ``random-2x``.
    tolerance : float
        Stop after the first sweep with ||T_new - T_old||_F <= tolerance ||T_old||_F.
    alpha, beta, gamma, delta : float
        Regularisers: of ||T||_1, ||T||_F^2 / 2, ||W||_1, ||W||_F^2 / 2. With any of them T is not on the simplex.
    weighted : bool
        Stored entries are the observed ones (ratings), the others are missing, not zero.
    announce : subset of ("T", "numerators", "denominators", "start")
        The sums are W_t^T R_t, shape (k, d), and ||W_t||^2, shape (k,), or (k, d) where weighted. ``start`` is the
        start where it depends on data, which makes it a part of the transcript.
    at : "last" and numbers of sweeps
        When T and the sums are looked at: "T" is the last one, "T@3" that of sweep 3. A run that has converged
        before repeats its last one.
    start_seed : int
        The agreed, public seed of the random start.

    Notes
    -----
    PD-ML-Lite, Algorithms 1 and 2. ``sweeps`` is announced in any case, as an array of shape (1,): everybody sees
    when a protocol ends. What PD-NMF-Init announces on its way (its own sums) is not among these observables, only
    the start it ends with: the sums are those of PD-NMF on k pseudo-documents a party, with the random start.

    Examples
    --------
    >>> PDNMF(rank=2, at=("last", 3)).observables(features=5)
    (Announced(name='T', shape=(2, 5)), Announced(name='T@3', shape=(2, 5)),
     Announced(name='denominators', shape=(2,)), Announced(name='denominators@3', shape=(2,)),
     Announced(name='sweeps', shape=(1,)))
    """

    name: ClassVar[str] = "pd-nmf"
    version: ClassVar[int] = 1
    guarantee: ClassVar[Guarantee] = measured("PD-ML-Lite, algorithms 1 and 2")
    nonnegative: ClassVar[bool] = True
    """A corpus with negative entries is refused while it is read, with file, row and column."""

    rank: int = 7
    start: str = "random"
    sweeps: int = 20
    tolerance: float = 1e-4
    alpha: float = 0.0
    beta: float = 0.0
    gamma: float = 0.0
    delta: float = 0.0
    weighted: bool = False
    announce: tuple[str, ...] = ("T", "denominators")
    at: tuple[str | int, ...] = ("last",)
    start_seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("rank", 1), ("sweeps", 1), ("start_seed", 0)):
            value = getattr(self, name)
            if not _is_number(value, Integral) or value < least:
                raise SpecError(f"`{name}` must be a whole number of at least {least}; got {value!r}.")
        for name in ("tolerance", *Penalties._fields):
            value = getattr(self, name)
            if not _is_number(value, Real):
                raise SpecError(f"`{name}` must be a number; got {value!r}.")
            object.__setattr__(self, name, float(value))
        check_rule(self.sweeps, self.tolerance, self.penalties)
        if self.start not in STARTS:
            raise SpecError(f"`start` must be one of {', '.join(STARTS)}; got {self.start!r}.")
        if not isinstance(self.weighted, bool):
            raise SpecError(f"`weighted` must be true or false; got {self.weighted!r}.")
        self._check_views()

    def _check_views(self) -> None:
        for name in ("announce", "at"):
            value = getattr(self, name)
            if not isinstance(value, (list, tuple)) or not value or len(set(map(repr, value))) != len(value):
                raise SpecError(f"`{name}` must be a list of different entries, at least one; got {value!r}.")
            object.__setattr__(self, name, tuple(value))
        for name in self.announce:
            if name not in (*SUMS, "start"):
                raise SpecError(f"`announce` must be among {', '.join((*SUMS, 'start'))}; got {name!r}.")
        if "start" in self.announce and self.start not in DATA_STARTS:
            raise SpecError(f"`announce` must not name the start where `start` holds no data; got {self.start!r}.")
        for when in self.at:
            if when != "last" and not (_is_number(when, Integral) and 1 <= int(when) <= self.cap):
                raise SpecError(f'`at` must hold "last" or sweeps from 1 to {self.cap}; got {when!r}.')

    @property
    def cap(self) -> int:
        """The most sweeps a run does."""
        return 2 * self.sweeps if self.start == "random-2x" else self.sweeps

    @property
    def penalties(self) -> Penalties:
        """The four regularisers."""
        return Penalties(self.alpha, self.beta, self.gamma, self.delta)

    @property
    def final(self) -> tuple[str, ...]:
        """The topics, where the last ones are announced."""
        return ("T",) if "T" in self.announce and "last" in self.at else ()

    def observables(self, features: int) -> tuple[Announced, ...]:
        """Names and shapes of what `run` announces for a corpus of `features` columns."""
        wide: tuple[int, ...] = (self.rank, features)
        shapes = dict.fromkeys((*SUMS, "start"), wide)
        if not self.weighted:
            shapes["denominators"] = (self.rank,)
        announced = []
        for what in self.announce:
            moments: tuple[str | int, ...] = ("last",) if what == "start" else self.at
            announced += [Announced(_label(what, when), shapes[what]) for when in moments]
        return (*announced, Announced("sweeps", (1,)))

    def factorise(self, database: Database) -> tuple[NDArray[np.float64], Factorisation]:
        """Return the start, shape (k, d), and the factorisation reached from it, W and snapshots included."""
        start = initial_topics(
            self.start,
            database.parties,
            self.rank,
            LocalFit(self.sweeps, self.tolerance, self.penalties, self.weighted),
            seed=self.start_seed,
        )
        iterate = weighted_nmf_iter if self.weighted else pd_nmf_iter
        return start, iterate(
            database.parties,
            start,
            sweeps=self.cap,
            tolerance=self.tolerance,
            penalties=self.penalties,
            coalition=database.coalition,
            at=frozenset(int(when) for when in self.at if when != "last"),
        )

    def run(self, database: Database, rng: np.random.Generator) -> Observables:
        """Run once; `rng` is not used, as the mechanism adds no noise.

        Raises
        ------
        CorpusError
            Where the database holds negative entries.
        SpecError
            Where a party is too small for the start.
        """
        start, last = self.factorise(database)
        arrays = {"sweeps": np.array([float(last.sweeps)])}
        for what in self.announce:
            if what == "start":
                arrays[what] = start
                continue
            for when in self.at:
                moment = last if when == "last" else last.snapshots[int(when)]
                arrays[_label(what, when)] = getattr(moment, what)
        return Observables(arrays)


def _is_number(value: object, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _label(what: str, when: str | int) -> str:
    return what if when == "last" else f"{what}@{when}"
