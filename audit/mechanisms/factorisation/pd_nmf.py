"""The mechanism PD-NMF: what a coalition sees of a private distributed NMF."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.checks import check_one_of
from ksdp.audit.mechanisms.contract import OPENS, Announced, Database, Observables
from ksdp.audit.mechanisms.factorisation.nmf_inputs import check_rule
from ksdp.audit.mechanisms.factorisation.nmf_iterations import Factorisation
from ksdp.audit.mechanisms.factorisation.nmf_kernels import Penalties
from ksdp.audit.mechanisms.factorisation.nmf_starts import STARTS, LocalFit, initial_topics, merged_models
from ksdp.audit.mechanisms.factorisation.rri_nmf import pd_nmf_iter
from ksdp.audit.mechanisms.factorisation.weighted_nmf import weighted_nmf_iter
from ksdp.audit.mechanisms.guarantee import Guarantee, measured

__all__ = ["PDNMF"]

SUMS = ("T", "numerators", "denominators")
DATA_STARTS = ("nnsvd", "best-of-m", "pd-nmf-init")
EARLY = 3
"""Sweeps whose sums are looked at one by one; those of all sweeps added up stand for the others."""


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
    opens : {"every round", "final"}
        `final`: iterates stay hidden inside a secure computation that opens T alone. Nobody sees when to stop, so
        that all sweeps are done.
    announce : subset of ("T", "numerators", "denominators", "start")
        What an experiment looks at, in place of everything that a run opens; nothing is cleared by it. ``start``
        is the start where it depends on data.
    at : "last" and numbers of sweeps
        When `announce`d arrays are looked at: "T" is the last one, "T@3" that of sweep 3. A run that has converged
        before repeats its last one.
    start_seed : int
        The agreed, public seed of the random start.

    Notes
    -----
    PD-ML-Lite, Algorithms 1 and 2. The sums of a topic are W_t^T R_t, shape (k, d), and ||W_t||^2, shape (k,), or
    (k, d) where weighted. A run that opens every round shows ``T``, ``numerators`` and ``denominators`` of the
    last sweep; ``sums`` and ``weights``, those of sweeps 1 to 3, first axis sweeps; ``total`` and
    ``total_weights``, those of all sweeps added up; ``sweeps``, shape (1,), where it depends on data: everybody
    sees when a protocol ends. Topics of earlier sweeps follow from these sums and from what the coalition knows.
    Where the start holds data it is announced as ``start``, and with PD-NMF-Init so are its own sums:
    ``init_sums``, ``init_weights``, ``init_total``, ``init_total_weights`` and ``init_sweeps``, of k
    pseudo-documents a party.

    Examples
    --------
    >>> mechanism = PDNMF(rank=2, announce=("T", "denominators"), at=("last", 3))
    >>> {array.name: array.shape for array in mechanism.observables(features=5)}
    {'T': (2, 5), 'T@3': (2, 5), 'denominators': (2,), 'denominators@3': (2,), 'sweeps': (1,)}
    """

    name: ClassVar[str] = "pd-nmf"
    version: ClassVar[int] = 2
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
    opens: str = OPENS[0]
    announce: tuple[str, ...] = ()
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
            least = 1 if name == "at" else 0
            if (
                not isinstance(value, (list, tuple))
                or len(value) < least
                or len(set(map(repr, value))) != len(value)
            ):
                raise SpecError(f"`{name}` must be a list of different entries; got {value!r}.")
            object.__setattr__(self, name, tuple(value))
        check_one_of(self, "opens", OPENS)
        if self.opens == "final" and self.announce:
            raise SpecError('`announce` must be left out where `opens` is "final": a run shows T alone.')
        for name in self.announce:
            if name not in (*SUMS, "start"):
                raise SpecError(f"`announce` must be among {', '.join((*SUMS, 'start'))}; got {name!r}.")
        if "start" in self.announce and self.start not in DATA_STARTS:
            raise SpecError(f"`announce` must not name the start where `start` holds no data; got {self.start!r}.")
        for when in self.at:
            if when != "last" and not (_is_number(when, Integral) and 1 <= int(when) <= self.cap):
                raise SpecError(f'`at` must hold "last" or sweeps from 1 to {self.cap}; got {when!r}.')
        if not self.announce and self.at != ("last",):
            raise SpecError("`at` must be left out where `announce` is: the sums of every sweep are looked at.")

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
        return ("T",) if not self.announce or ("T" in self.announce and "last" in self.at) else ()

    @property
    def early(self) -> tuple[int, ...]:
        """Sweeps whose sums are looked at one by one."""
        return tuple(range(1, min(EARLY, self.sweeps) + 1))

    @property
    def opened(self) -> tuple[str, ...]:
        """Everything that a run shows its parties."""
        return tuple(a.name for a in self._opened(1))

    def _opened(self, features: int) -> tuple[Announced, ...]:
        wide: tuple[int, ...] = (self.rank, features)
        narrow = wide if self.weighted else (self.rank,)
        if self.opens == "final":
            return (Announced("T", wide),)
        found = [
            Announced("T", wide),
            Announced("numerators", wide, early=True),
            Announced("denominators", narrow),
            *self._sums("", wide, narrow),
        ]
        if self.start in DATA_STARTS:
            found.append(Announced("start", wide, early=True))
        if self.start == "pd-nmf-init":
            found += self._sums("init_", wide, (self.rank,))
        return tuple(found)

    def _sums(self, prefix: str, wide: tuple[int, ...], narrow: tuple[int, ...]) -> list[Announced]:
        rounds = (len(self.early),)
        found = [
            Announced(f"{prefix}sums", (*rounds, *wide), early=True),
            Announced(f"{prefix}weights", (*rounds, *narrow), early=len(narrow) > 1),
            Announced(f"{prefix}total", wide, early=True),
            Announced(f"{prefix}total_weights", narrow, early=len(narrow) > 1),
        ]
        return [*found, Announced(f"{prefix}sweeps", (1,))] if self.tolerance > 0 else found

    def observables(self, features: int) -> tuple[Announced, ...]:
        """Names and shapes of what `run` announces for a corpus of `features` columns."""
        if not self.announce:
            return self._opened(features)
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
        start, _ = self._start(database)
        return start, self._factorise(database, start)

    def _start(self, database: Database) -> tuple[NDArray[np.float64], Factorisation | None]:
        """The start, and how PD-NMF-Init came to it."""
        how = LocalFit(self.sweeps, self._tolerance, self.penalties, self.weighted)
        parties, seed = database.parties, self.start_seed
        if self.start == "pd-nmf-init":
            made = merged_models(parties, self.rank, how, seed=seed, coalition=database.coalition, at=self._at)
            return made.T, made
        return initial_topics(self.start, parties, self.rank, how, seed=seed), None

    @property
    def _tolerance(self) -> float:
        return 0.0 if self.opens == "final" else self.tolerance

    @property
    def _at(self) -> frozenset[int]:
        if self.announce:
            return frozenset(int(when) for when in self.at if when != "last")
        return frozenset(self.early) if self.opens != "final" else frozenset()

    def _factorise(self, database: Database, start: NDArray[np.float64]) -> Factorisation:
        iterate = weighted_nmf_iter if self.weighted else pd_nmf_iter
        return iterate(
            database.parties,
            start,
            sweeps=self.cap,
            tolerance=self._tolerance,
            penalties=self.penalties,
            coalition=database.coalition,
            at=self._at,
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
        start, made = self._start(database)
        last = self._factorise(database, start)
        if not self.announce:
            arrays = self._every_round("", last) | ({} if made is None else self._every_round("init_", made))
            arrays["start"] = start
            return Observables({a.name: arrays[a.name] for a in self._opened(start.shape[1])})
        arrays = {"sweeps": np.array([float(last.sweeps)])}
        for what in self.announce:
            if what == "start":
                arrays[what] = start
                continue
            for when in self.at:
                moment = last if when == "last" else last.snapshots[int(when)]
                arrays[_label(what, when)] = getattr(moment, what)
        return Observables(arrays)

    def _every_round(self, prefix: str, found: Factorisation) -> dict[str, NDArray[np.float64]]:
        """Everything that a factorisation among parties announces, the last sweep's own without the prefix."""
        last = {"T": found.T, "numerators": found.numerators, "denominators": found.denominators}
        if not self._at:
            return last
        assert found.total is not None
        assert found.total_denominators is not None
        moments = [found.snapshots[number] for number in self.early]
        sums = {
            "sums": np.stack([moment.numerators for moment in moments]),
            "weights": np.stack([moment.denominators for moment in moments]),
            "total": found.total,
            "total_weights": found.total_denominators,
            "sweeps": np.array([float(found.sweeps)]),
        }
        return ({} if prefix else last) | {prefix + name: array for name, array in sums.items()}


def _is_number(value: object, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _label(what: str, when: str | int) -> str:
    return what if when == "last" else f"{what}@{when}"
