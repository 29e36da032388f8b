"""Statistics of groups of documents that are in or out together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.contract import Observables
from ksdp.audit.errors import InputError
from ksdp.audit.numeric.array_types import Floats
from ksdp.audit.numeric.kernels import one_thread
from ksdp.audit.numeric.sparse_rows import take_rows
from ksdp.audit.statistic import Documents, Pool, Statistic, sentence_of, statistic_traits
from ksdp.audit.statistics.linear.coordinate_descent import between
from ksdp.audit.statistics.linear.operator import ContributionOperator, FactoredContributions
from ksdp.audit.statistics.linear.solve import LEAST, lost
from ksdp.audit.statistics.linear.system import LIKELIEST, RULED_OUT, LinearModel, LinearSystem
from ksdp.audit.statistics.linear.tilting import MOST_NOISY, MOST_WRITTEN, span_of


class WrappedStatistic:
    """A statistic of `statistic`: it reads the same arrays and knows the same, unless it says otherwise."""

    statistic: Statistic

    @property
    def version(self) -> int:
        """Version of the inner statistic; the mean over a group does not change."""
        return self.statistic.version

    @property
    def needs(self) -> tuple[str, ...]:
        """Arrays that must be announced."""
        return self.statistic.needs

    @property
    def needs_any(self) -> tuple[str, ...]:
        """Arrays of which one must be announced."""
        return statistic_traits(self.statistic).needs_any

    @property
    def needs_background(self) -> tuple[str, ...]:
        """Names of the background knowledge that the adversary needs."""
        return statistic_traits(self.statistic).needs_background

    @property
    def reads(self) -> tuple[str, ...]:
        """Further arrays, where they are announced."""
        return statistic_traits(self.statistic).reads

    @property
    def weighs(self) -> bool:
        """Whether the other one does."""
        return statistic_traits(self.statistic).weighs


@dataclass(frozen=True)
class GroupMean(WrappedStatistic):
    """Mean of `statistic` over the documents of each group.

    The group vector (the sum of its documents) hides what its documents do not share; their mean does not. The
    mean and not the largest, because it is the same test whether a statistic rises or falls with membership.
    """

    statistic: Statistic
    """Any statistic of documents."""
    family: str = "groups"

    @property
    def sentence(self) -> str:
        """Sentence of the statistic, for a group's documents."""
        return f"The mean over the group’s documents. Of each: {sentence_of(self.statistic)}"

    @property
    def name(self) -> str:
        """Its name and `-of-rows`."""
        return f"{self.statistic.name}-of-rows"

    def evaluate(self, observables: Observables, documents: Documents) -> NDArray[np.float64]:
        """One number a group, shape (n_groups,)."""
        if documents.rows is None or documents.starts is None:
            raise InputError(f"`{self.name}` is a statistic of groups; these are documents.")
        values = self.statistic.evaluate(observables, documents.rows)
        return np.add.reduceat(values, documents.starts[:-1]) / np.diff(documents.starts)


@runtime_checkable
class _Equates(Protocol):
    def linear_model(self, observables: Observables, pool: Pool) -> LinearModel | None: ...


def solves_groups(statistic: Statistic) -> bool:
    """Whether the statistic solves a linear system and so can score groups."""
    return isinstance(statistic, _Equates)


def groups_solved(groups: int, documents: int, numbers: int) -> bool:
    """Whether equations of so many groups are solved for, all of whose documents add to so many numbers."""
    # With twice as many numbers, as with so many terms, it takes a second or two a run.
    return groups <= 1024 and documents * numbers <= MOST_NOISY


@dataclass(frozen=True)
class OfGroups(WrappedStatistic):
    """Membership by the equations of `statistic`, with one unknown a group: the most even draw (`tilting`).

    All is 0 where groups are too many, or others' documents are drawn anew in each run.
    """

    statistic: Statistic
    """One with `linear_model`."""
    family: str = "groups"

    sentence = "Whether the announced numbers hold what the group’s documents add to them together."

    @property
    def name(self) -> str:
        """Its name and `-of-groups`."""
        return f"{self.statistic.name}-of-groups"

    def evaluate(self, observables: Observables, documents: Documents) -> Floats:
        """One number a group, shape (n_groups,)."""
        pool = documents.source_pool
        if documents.rows is None or documents.starts is None or pool.group is None:
            return np.zeros(len(documents))
        if pool.fixed is not None and pool.fixed_share < 1.0:
            return np.zeros(len(documents))
        model = cast(_Equates, self.statistic).linear_model(observables, pool)
        if model is None:
            return np.zeros(len(documents))
        terms, system = model
        direction = observables.derive((self.name, pool), lambda: _direction(terms, system, pool))
        if direction is None:
            return np.zeros(len(documents))
        numbers, offset = direction
        rows = documents.rows
        score = np.add.reduceat(terms(rows.matrix).matvec(numbers), documents.starts[:-1]) + offset
        may = np.ones(rows.matrix.shape[0], np.bool_)
        if system.possible is not None:
            may = system.possible(rows.matrix, lambda key, of: rows.of_each(key, lambda all_: of(all_.matrix)))
        return np.where(np.logical_and.reduceat(may, documents.starts[:-1]), between(score), RULED_OUT)


def _direction(
    terms: Callable[..., ContributionOperator], system: LinearSystem, pool: Pool
) -> tuple[Floats, float] | None:
    assert pool.group is not None
    group, may = pool.group, np.ones(pool.drawn.shape[0], np.bool_)
    entries = terms(take_rows(pool.drawn, np.zeros(1, np.int64))).shape[1]
    if not groups_solved(int(group.max()) + 1, len(group), entries):
        return None
    if system.possible is not None:
        may &= system.possible(pool.drawn, lambda key, of: pool.derive(("may be in", key), lambda: of(pool.drawn)))
    out = np.bincount(group, ~may) > 0
    remaining = np.flatnonzero(~out)
    if len(remaining) < 2:
        out[:], remaining = False, np.arange(len(out))
    places = np.cumsum(~out) - 1
    rows = np.flatnonzero(~out[group])
    with one_thread():
        adds, lose = _added(terms, pool.drawn, rows, places[group[rows]], (len(remaining), entries))
        sums = np.broadcast_to(np.asarray(system.sums, np.float64), entries)
        beside = system.beside(pool)
        if beside is not None:
            sums = sums - terms(beside).rmatvec(np.ones(beside.shape[0]))
        share = min(pool.share * len(out) / len(remaining), LIKELIEST)
        shares = np.full(len(remaining), share)
        squares = np.square(adds).sum(axis=0)
        noise = np.broadcast_to(np.asarray(system.noise, np.float64), entries) + system.shrink * squares
        noise = noise + lost(share * lose) + LEAST * float(squares.mean())
        taken = _some(squares, len(remaining))
        units = 1.0 / np.sqrt(noise[taken])
        residual = (sums - share * adds.sum(axis=0))[taken]
        direction, offset = span_of(adds[:, taken] * units, 1.0).direction(residual * units, shares)
    numbers = np.zeros(entries)
    numbers[taken] = direction * units
    return numbers, offset


def _added(
    terms: Callable[..., ContributionOperator],
    drawn: sp.csr_array,
    rows: NDArray[Any],
    place: NDArray[Any],
    shape: Any,
) -> tuple[Floats, Floats]:
    adds, plain = np.zeros(shape), np.zeros(shape[1])
    for start in range(0, len(rows), 1024):
        part = slice(start, start + 1024)
        made = terms(take_rows(drawn, rows[part]))
        written = made.written()
        which = sp.csr_array(
            (np.ones(len(written)), (place[part], np.arange(len(written)))), (shape[0], len(written))
        )
        adds += which @ written
        every = np.ones(len(written))
        plain += (made.unreduced() if isinstance(made, FactoredContributions) else made).rmatvec(every)
    return adds, plain


def _some(squares: Floats, groups: int) -> NDArray[np.int64]:
    """The numbers that are looked at: all that anybody adds to, or as many at even steps as are solved for."""
    touched = np.flatnonzero(squares > 0.0)
    if not len(touched):
        return np.arange(len(squares))
    most = max(int(MOST_WRITTEN // (groups * max(groups, 128))), 1)
    return np.asarray(touched[:: -(-len(touched) // most)])
