"""The mechanism PD-NMF: what a coalition sees of a private distributed NMF."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.contract import EXACT, OPENS, Database, Guarantee, Observables, Release, Terms, Traits, measured
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.factorisation.nmf_kernels import Penalties, project_simplex
from ksdp.audit.mechanisms.factorisation.nmf_starts import (
    STARTS,
    LocalFit,
    SvdStart,
    initial_topics,
    merged_models,
    random_topics,
)
from ksdp.audit.mechanisms.factorisation.pd_svd import EARLY, early_rounds
from ksdp.audit.mechanisms.factorisation.rri_nmf import Factorisation, KeptSums, check_rule
from ksdp.audit.mechanisms.parameters import check_least, check_one_of
from ksdp.audit.mechanisms.schema import released

DATA_STARTS = ("nnsvd", "best-of-m", "pd-nmf-init")


Array = NDArray[np.float64]

_exact = partial(Release, noise=EXACT)


def _summed_releases(
    prefix: str,
    early: int,
    wide: tuple[int, ...],
    narrow: tuple[int, ...],
    cap: int,
    of_sums: Terms | None = None,
    of_weights: Terms | None = None,
) -> list[Release]:
    above = partial(_exact, derived_from=(f"{prefix}round_sums",), early=True)
    below = partial(_exact, derived_from=(f"{prefix}round_weights",), early=len(narrow) > 1)
    rounds = partial(_exact, early=True, recorded=False)
    return [
        above(f"{prefix}sums", (early, *wide), of_sums),
        below(f"{prefix}weights", (early, *narrow), of_weights),
        above(f"{prefix}total", wide),
        below(f"{prefix}total_weights", narrow),
        rounds(f"{prefix}round_sums", (cap, *wide)),
        rounds(f"{prefix}round_weights", (cap, *narrow)),
    ]


def _first_sweeps(prefix: str, fit: Factorisation, early: Sequence[int]) -> dict[str, Array]:
    """The recorded arrays of `_summed_releases`, of a factorisation with snapshots of the early sweeps."""
    assert fit.total is not None
    assert fit.total_denominators is not None
    moments = [fit.snapshots[number] for number in early]
    return {
        f"{prefix}sums": np.stack([moment.numerators for moment in moments]),
        f"{prefix}weights": np.stack([moment.denominators for moment in moments]),
        f"{prefix}total": fit.total,
        f"{prefix}total_weights": fit.total_denominators,
        f"{prefix}sweeps": np.array([float(fit.sweeps)]),
    }


def _topics_from(arrays: Mapping[str, Array], penalties: Penalties, seed: int) -> Array:
    """Topics before the first sweep and after each early one, from what is announced and the seed of a start."""
    _, rank, features = arrays["sums"].shape
    learnt = [arrays["start"] if "start" in arrays else random_topics(features, rank, seed)]
    for numerators, denominators in zip(arrays["sums"], arrays["weights"], strict=True):
        rated = denominators.ndim == 2  # an entry has a weight of its own
        below = denominators + penalties.beta if rated else (denominators + penalties.beta)[:, None]
        topics = np.maximum(numerators - penalties.alpha, 0.0) / np.where(below > 0.0, below, 1.0)
        if not any(penalties) and not rated:
            topics = project_simplex(topics)
        learnt.append(np.where(below > 0.0, topics, learnt[-1]))
    return np.stack(learnt)


def _every_sweep(prefix: str, fit: Factorisation, cap: int) -> dict[str, Array]:
    moments = [fit.snapshots[number] for number in range(1, fit.sweeps + 1)]
    return {
        f"{prefix}round_sums": _padded([m.numerators for m in moments], cap),
        f"{prefix}round_weights": _padded([m.denominators for m in moments], cap),
        f"{prefix}sweeps": np.array([float(fit.sweeps)]),
    }


def _padded(parts: Sequence[Array], cap: int) -> Array:
    out = np.zeros((cap, *parts[0].shape))
    out[: len(parts)] = parts
    return out


def _summed_up(prefix: str, arrays: Mapping[str, Array], early: Sequence[int]) -> dict[str, Array]:
    """The first sweeps, the last one, and all of them added up; a run that ended before repeats its last one."""
    sums, weights = arrays[f"{prefix}round_sums"], arrays[f"{prefix}round_weights"]
    done = int(arrays[f"{prefix}sweeps"][0]) if f"{prefix}sweeps" in arrays else len(sums)
    first = [min(number, done) - 1 for number in early]
    arrays_out = {
        f"{prefix}sums": sums[first],
        f"{prefix}weights": weights[first],
        f"{prefix}total": sums[:done].sum(axis=0),
        f"{prefix}total_weights": weights[:done].sum(axis=0),
    }
    return arrays_out if prefix else arrays_out | {"numerators": sums[done - 1], "denominators": weights[done - 1]}


@dataclass(frozen=True)
class PDNMF:
    """Topics: the nonnegative factorisation of all parties' rows, by secure sums (PD-NMF).

    With one party it is the centralised RRI-NMF, and with several it releases the same topics (Theorem 1; to
    rounding). Of the sums, W_t^T R_t and ||W_t||^2 of each topic, a coalition sees those over the parties outside
    it. A run that opens every round is recorded by ``T``; ``numerators`` and ``denominators``, the sums of the
    last sweep; ``sums`` and ``weights``, those of the `early` sweeps; ``topics``, before the first sweep and after
    each of these; ``total`` and ``total_weights``, over all sweeps; and ``sweeps`` where their number depends on
    data. A start that holds data is released as ``start``; PD-NMF-Init has sums of its own, of k pseudo-documents
    a party (``init_...``), and ``nnsvd`` all that `nmf_starts.SvdStart` releases.

    Parameters
    ----------
    rank : topics k
    start : of `factorisation.nmf_starts`: ``random``, ``random-2x``, ``nnsvd``, ``best-of-m`` or ``pd-nmf-init``
    sweeps : the cap, twice that for ``random-2x``
    tolerance : stop after the first sweep with ||T_new - T_old||_F <= tolerance ||T_old||_F
    alpha, beta, gamma, delta : regularisers of ||T||_1, ||T||_F^2 / 2, ||W||_1, ||W||_F^2 / 2; with any T is not
        on the simplex
    weighted : stored entries are the observed ones (ratings), the others are missing, not zero
    opens : `final` opens T alone, out of a secure computation that does all sweeps
    start_seed : the agreed, public seed of the random start

    Examples
    --------
    >>> [(array.name, array.shape) for array in PDNMF(rank=2, opens="final").releases(features=5)]
    [('T', (2, 5))]
    """

    name: ClassVar[str] = "pd-nmf"
    version: ClassVar[int] = 1  # of the final output, too: what covers every round covers it
    guarantee: ClassVar[Guarantee] = measured("PD-ML-Lite, algorithms 1 and 2")

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
    start_seed: int = 0

    def __post_init__(self) -> None:
        check_least(self, rank=1, sweeps=1, start_seed=0)
        for name in ("tolerance", *Penalties._fields):
            value = vars(self)[name]
            if not isinstance(value, Real) or isinstance(value, bool):
                raise SpecError(f"`{name}` must be a number; got {value!r}.")
            object.__setattr__(self, name, float(value))
        check_rule(self.sweeps, self.tolerance, self.penalties)
        check_one_of(self, "start", STARTS)
        check_one_of(self, "opens", OPENS)
        if not isinstance(self.weighted, bool):
            raise SpecError(f"`weighted` must be true or false; got {self.weighted!r}.")

    @property
    def _by_svd(self) -> SvdStart | None:
        """How parties make the start ``nnsvd``; None where no round is opened, and the start is exact."""
        return SvdStart(self.rank, self.start_seed) if self.start == "nnsvd" and self.opens != "final" else None

    @property
    def traits(self) -> Traits:
        """Nothing but the database is random; a corpus with negative entries is refused while it is read."""
        exact = Traits(self.opens, noise_free=True, order_free=True, rank=self.rank)
        return replace(exact, nonnegative=True, weighted=self.weighted, tells_rows=self.opens == "final")

    @property
    def cap(self) -> int:
        """The most sweeps a run does."""
        return 2 * self.sweeps if self.start == "random-2x" else self.sweeps

    @property
    def penalties(self) -> Penalties:
        """The four regularisers."""
        return Penalties(self.alpha, self.beta, self.gamma, self.delta)

    def early(self, features: int) -> tuple[int, ...]:
        """Sweeps whose sums are looked at one by one: the first three, of few columns more."""
        return tuple(range(1, early_rounds(self.rank, features, self.sweeps) + 1))

    def releases(self, features: int) -> tuple[Release, ...]:
        """The topics and, where every round is opened, the sums of every sweep and what is derived from them."""
        wide: tuple[int, ...] = (self.rank, features)
        narrow, early = wide if self.weighted else (self.rank,), self.early(features)
        # A start that holds data brings topics in an order of its own.
        topics = _exact("T", wide, final=True, alignment="permutation" if self.start in DATA_STARTS else "none")
        if self.opens == "final":
            return (topics,)
        terms = Terms("ratings" if self.weighted else "topics", "topics", gamma=self.gamma, delta=self.delta)
        terms = replace(terms, numbers=self.cap * (math.prod(wide) + math.prod(narrow)))
        # Beside those of a start no column solves the sums.
        of_sums = replace(terms, learner="always" if self._by_svd else "small")
        of_weights = replace(terms, learner="always") if self.weighted else terms
        sums = _summed_releases("", len(early), wide, narrow, self.cap, of_sums, of_weights)
        sources = ("start",) if self.start in DATA_STARTS else ()
        stops = [_exact("sweeps", (1,))] if self.tolerance > 0 else []
        arrays = [
            topics,
            _exact("numerators", wide, derived_from=("round_sums",), early=True),
            _exact("denominators", narrow, derived_from=("round_weights",)),
            *(array for array in sums if array.recorded),
            *stops,
            _exact(
                "topics", (1 + len(early), *wide), derived_from=("round_sums", "round_weights", *sources),
                early=True, alignment=topics.alignment,
            ),
        ]  # fmt: skip
        if sources:
            arrays.append(_exact("start", wide, early=True, alignment="permutation"))
        if self.start == "pd-nmf-init":
            init = _summed_releases("init_", len(early[:EARLY]), wide, (self.rank,), self.sweeps)
            arrays += [array for array in init if array.recorded]
            arrays += [replace(array, name="init_sweeps") for array in stops]
            sums += init
        if self._by_svd:
            arrays += self._by_svd.releases(features)
        if self.start == "best-of-m":
            arrays.append(Release("local_topics", wide, recorded=False))
        return (*arrays, *(array for array in sums if not array.recorded))

    @property
    def _caps(self) -> dict[str, int]:
        """Sweeps at most, by the prefix of their sums; none where not every round's sums are released."""
        if self.opens == "final":
            return {}
        return {"": self.cap} | ({"init_": self.sweeps} if self.start == "pd-nmf-init" else {})

    def release(self, database: Database, rng: np.random.Generator) -> Observables:
        """Run once; the sums of every sweep, as the coalition sees them."""
        if not self._caps:
            return self.run(database, rng)
        at = frozenset(range(1, self.cap + 1))
        start, made, beside = self._start(database, at, release=True)
        last = self._factorise(database, start, at)
        arrays = {"T": last.T, "start": start} | beside | _every_sweep("", last, self.cap)
        if made is not None:
            arrays |= _every_sweep("init_", made, self.sweeps)
        return Observables({a.name: arrays[a.name] for a in released(self, start.shape[1])})

    def derive(self, released: Observables) -> Observables:
        """Last, first and summed sweeps, from those of all."""
        if not self._caps:
            return released
        arrays, features = dict(released), released["T"].shape[1]
        early = self.early(features)
        for prefix in self._caps:
            arrays |= _summed_up(prefix, released, early[:EARLY] if prefix else early)
        arrays["topics"] = _topics_from(arrays, self.penalties, self.start_seed)
        arrays |= self._by_svd.derive(released) if self._by_svd else {}
        return Observables({a.name: arrays[a.name] for a in self.releases(features) if a.recorded})

    def factorise(self, database: Database) -> tuple[NDArray[np.float64], Factorisation]:
        """Return the start, shape (k, d), and the factorisation reached from it, W and snapshots included."""
        start = self._start(database)[0]
        return start, self._factorise(database, start)

    def _start(
        self, database: Database, at: frozenset[int] | None = None, *, release: bool = False
    ) -> tuple[NDArray[np.float64], Factorisation | None, dict[str, NDArray[np.float64]]]:
        """The start, how PD-NMF-Init came to it, and what nnsvd announced (or `release`d) on its way."""
        how, seed, at = self.local_fit, self.start_seed, self._at(database) if at is None else at
        if self.start == "pd-nmf-init":
            kept = KeptSums(database.coalition, at)
            made = merged_models(database.parties, self.rank, how, seed=seed, kept=kept)
            return made.T, made, {}
        if self._by_svd:
            start, beside = self._by_svd.run(database, release=release)
            return start, None, beside
        return initial_topics(self.start, database.parties, self.rank, how, seed=seed), None, {}

    @property
    def local_fit(self) -> LocalFit:
        """How a party's own model is fitted, where the start is made of these."""
        return LocalFit(self.sweeps, self._tolerance, self.penalties, self.weighted)

    @property
    def _tolerance(self) -> float:
        return 0.0 if self.opens == "final" else self.tolerance

    def _at(self, database: Database) -> frozenset[int]:
        return frozenset(self.early(database.parties[0].shape[1])) if self.opens != "final" else frozenset()

    def _factorise(
        self, database: Database, start: NDArray[np.float64], at: frozenset[int] | None = None
    ) -> Factorisation:
        rule = LocalFit(self.cap, self._tolerance, self.penalties)
        kept = KeptSums(database.coalition, self._at(database) if at is None else at)
        return rule.factorise(database.parties, start, weighted=self.weighted, kept=kept)

    def run(self, database: Database, rng: np.random.Generator) -> Observables:
        """Run once; `rng` is not used, as the mechanism adds no noise."""
        start, made, beside = self._start(database)
        last = self._factorise(database, start)
        arrays = {"T": last.T, "numerators": last.numerators, "denominators": last.denominators}
        arrays |= {"start": start} | beside
        if self.opens != "final":
            early = self.early(start.shape[1])
            arrays |= _first_sweeps("", last, early)
            arrays["topics"] = np.stack([start, *(last.snapshots[number].T for number in early)])
            arrays |= {} if made is None else _first_sweeps("init_", made, early[:EARLY])
        return Observables({a.name: arrays[a.name] for a in self.releases(start.shape[1]) if a.recorded})
