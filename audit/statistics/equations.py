"""Announced numbers as linear equations in who is in, and what they say of each document (`terms`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.array_types import Floats
from ksdp.audit.mechanisms.contract import Mechanism, Observables
from ksdp.audit.sparse_rows import same_rows, take_rows
from ksdp.audit.statistics.additions import at_even_steps, even_step
from ksdp.audit.statistics.additive import Additive
from ksdp.audit.statistics.contract import Documents, Pool
from ksdp.audit.statistics.exact_sums import narrow_filter, outnumbered
from ksdp.audit.statistics.first_numbers import first_numbers_say
from ksdp.audit.statistics.max_entropy import Direction, direction_of, few_to_write
from ksdp.audit.statistics.one_by_one import Fitted
from ksdp.audit.statistics.ruled_out import Possible
from ksdp.audit.statistics.solved_filters import with_least
from ksdp.audit.statistics.term_numbers import TermNumbers
from ksdp.audit.statistics.term_products import LOST
from ksdp.audit.statistics.terms import filtered

_Filter = tuple[Floats, float]
"""What of each number, shape (entries,), says that a document was in, and what an average document gets of it."""

MOST_ROWS = 2**16
"""Documents of the pool that are looked at, at most; at even steps where there are more."""
RULED_OUT = -2.0
"""What is said of documents that the run cannot have held; others are between -1 and 1, about."""
LIKELIEST = 0.999
"""How likely a document is in at most, where that many are left who may be."""


@dataclass(frozen=True, eq=False)
class Equations:
    """Sums over the documents of a run, and how well they are known."""

    sums: Floats | float = 0.0
    """Shape (entries,); or the same for all."""
    noise: Floats | float = 0.0
    """Variance of what was added to them, shape (entries,); or the same for all."""
    of_all: bool = True
    """Whether they are over the coalition's documents too, who subtract their own share of announced sums."""
    alone: bool = False
    """Whether they are over the victim's documents alone: what one party sends, not a sum over parties."""
    shrink: float = 0.0
    """Part of each number's variance over databases that is added to it: where the equations hold about."""
    exact: bool = False
    """Whether it is known that nothing was added to them."""
    lost: float = LOST
    """Of a number of exact sums, squared, as a part of it; what is said to be `noise` there is that of `LOST`."""
    possible: Possible | None = None
    """Which documents the run may have held; None: nobody is ruled out."""

    def beside(self, pool: Pool) -> sp.csr_array | None:
        """Others' documents that the sums are over."""
        return None if self.alone else pool.fixed if self.of_all else pool.beside


def own_mechanism(mechanism: Mechanism | None) -> Any:
    """The mechanism, or the one that it adds noise to."""
    return getattr(mechanism, "inner", mechanism)


def added_variance(mechanism: Mechanism | None, name: str, array: Floats) -> float:
    """Of the noise that `noisy` adds to each entry of what another mechanism releases; 0 where nobody does."""
    around: Any = mechanism
    if not hasattr(around, "inner") or not hasattr(around, "deviation") or not getattr(around, "noise", 0.0):
        return 0.0
    if not array.size:
        return 0.0
    known = around.deviation(name)
    size = around.noise * float(np.sqrt(np.square(array).mean())) if known is None else known
    return float(size) ** 2


def _who_may_be_in(pool: Pool) -> tuple[sp.csr_array, Floats]:
    """Documents of which nobody knows, with the probability that they are in."""
    rows = at_even_steps(pool.drawn, MOST_ROWS)
    shares = np.full(rows.shape[0], pool.share * pool.drawn.shape[0] / max(rows.shape[0], 1))
    if pool.fixed is not None and pool.fixed_share < 1.0:
        rows = sp.csr_array(sp.vstack([rows, pool.fixed], format="csr"))
        shares = np.concatenate([shares, np.full(pool.fixed.shape[0], pool.fixed_share)])
    return rows, shares


def _alone(pool: Pool) -> Pool:
    """The victim's own part: of its sums nobody else's documents are a part."""
    return replace(pool, fixed=None, fixed_share=1.0, honest=None, coalition=None)


def what_they_say(
    name: str,
    observables: Observables,
    documents: Documents,
    terms: Callable[[sp.csr_array], Additive],
    known: Equations,
) -> Floats:
    """<C^-1 (a_x - mean), Z - E Z> of each document, shape (n_documents,); `RULED_OUT` where it cannot be in.

    Of large corpora, where exact sums are more numbers than the documents that may be in: how much of it fits into
    the sums beside everybody else (`one_by_one`).

    Whoever may be in is as likely to be in as anybody else of these, so that E Z and C are over them alone: a
    database is any set of so many documents, and that some cannot be in says no more than that.

    Parameters
    ----------
    name : of the statistic, under which the run's filter is kept
    terms : what documents add in this run, given these
    """
    pool = documents.made_of
    if known.alone:
        pool = cast(Pool, pool.derive("the victim's own", lambda: _alone(pool)))

    found = observables.derive((name, pool), lambda: _run_says(pool, terms, known))
    if isinstance(found, _Told):
        key = ("place among those who may be in", pool)
        places = documents.of_each(key, lambda whole: same_rows(whole.matrix, found.rows))
        said = np.where(_left_before(documents), found.said[places], RULED_OUT)
        unknown = places < 0
        if unknown.any():
            others = _possibly(
                known, documents, lambda some: found.fit.of(cast(TermNumbers, terms(some))), unknown
            )
            said[unknown] = others[unknown]
        return np.asarray(said)
    if isinstance(found, Direction):
        return _possibly(known, documents, lambda some: found.of(terms(some)))
    direction, usual = cast(_Filter, found)
    return _possibly(known, documents, lambda some: terms(some).along(direction) - usual)


@dataclass(frozen=True, eq=False)
class _Told:
    """What is said of all that may be in, one after the other."""

    rows: sp.csr_array
    said: Floats
    fit: Fitted


def _run_says(
    pool: Pool, terms: Callable[[sp.csr_array], Additive], known: Equations
) -> _Told | Direction | _Filter:
    """What a run's numbers say of all that may be in, or by what they say it of a document."""
    rows, shares = pool.derive("who may be in", lambda: _who_may_be_in(pool))
    fixed = known.beside(pool) if pool.fixed_share == 1.0 else None
    same = pool.derive("the same content", lambda: same_rows(rows, rows)) if known.exact else None
    if pool.possible is not None:
        told = _of_unknown(pool.possible, rows.shape[0])
        if (before := _left(rows, shares, told)) is not None:
            rows, shares = before
            same = None if same is None else same[told]
    unknown, left, may = rows, None, None
    if known.possible is not None:
        may = known.possible(rows, lambda key, of: pool.derive(("may be in", key), lambda: of(rows)))
        left = _left(rows, shares, may)
    if left is not None:
        unknown, shares = left
        same = None if same is None else same[may]
    made = terms(unknown)
    sums = np.broadcast_to(np.asarray(known.sums, dtype=np.float64), made.entries)
    if fixed is not None:
        sums = sums - terms(fixed).summed(np.ones(fixed.shape[0]))
    fit = None
    if known.exact and isinstance(made, TermNumbers):
        fit = outnumbered(made, shares, sums, rows.nnz, same, known.lost)
    if isinstance(fit, Direction):
        return fit
    if fit is not None:
        said = np.empty(rows.shape[0])
        said[slice(None) if left is None else may] = fit.said
        if may is not None:
            said[~may] = RULED_OUT
        return _Told(rows, said, fit)
    varied = max(pool.share * (1 - pool.share), 1e-3)
    return _run_filter(made, shares, sums, known, varied, None if left is None else rows.nnz)


def _run_filter(
    made: Additive, shares: Floats, sums: Floats, known: Equations, varied: float, whole: int | None
) -> Direction | _Filter:
    """By what a run's numbers say something of a document.

    Parameters
    ----------
    varied : the variance of who is in
    whole : entries of all rows, where some of them are left out
    """
    noise = known.noise / varied
    if known.exact or np.all(known.noise):
        hidden = None if known.exact else np.broadcast_to(noise, made.entries)
        first = first_numbers_say(made, sums - made.summed(shares), shares, hidden, varied)
        if first is not None:
            return first
    if whole is not None and isinstance(made, TermNumbers):
        return narrow_filter(made, shares, sums, noise, whole)
    apart = sums - made.summed(shares)
    if known.shrink:
        noise = noise + known.shrink * made.variances
    fine = known.lost < LOST
    if np.all(known.noise) and made.entries > 0 and few_to_write(len(shares), made.entries, noisy=not fine):
        least = with_least(made, np.broadcast_to(noise * (known.lost / LOST), made.entries), fine=fine)
        return direction_of(made, apart, shares, least * varied)
    found = filtered(made, apart, noise)
    return found, float(made.along(found).mean())


def _possibly(
    known: Equations,
    documents: Documents,
    say: Callable[[sp.csr_array], Floats],
    asked: NDArray[np.bool_] | None = None,
) -> Floats:
    """What is said of documents, of some where these are `asked` for; `RULED_OUT` of all that cannot be in."""
    if known.possible is None and asked is None and documents.possible is None:
        return say(documents.matrix)
    may = _who_may(known.possible, documents)
    places = np.flatnonzero(may if asked is None else may & asked)
    said = np.full(len(documents), RULED_OUT)
    said[places] = say(take_rows(documents.matrix, places))
    return said


def _who_may(possible: Possible | None, documents: Documents) -> NDArray[np.bool_]:
    """Which documents the run may have held; which groups, all of whose documents it may have held."""
    if documents.rows is not None and documents.starts is not None:
        # What a group adds is what its documents add, not what their sum would.
        return np.logical_and.reduceat(_who_may(possible, documents.rows), documents.starts[:-1])
    before = _left_before(documents)
    if possible is None:
        return before
    return before & possible(
        documents.matrix, lambda key, of: documents.of_each(key, lambda whole: of(whole.matrix))
    )


def _left_before(documents: Documents) -> NDArray[np.bool_]:
    """Which documents the run may have held by what it announced before, each by itself."""
    return np.ones(len(documents), np.bool_) if documents.possible is None else documents.possible


def _of_unknown(possible: NDArray[np.bool_], rows: int) -> NDArray[np.bool_]:
    """The same, of those of whom nobody knows; of others' documents nobody is left out."""
    drawn = possible[:: even_step(len(possible), MOST_ROWS)]
    return np.concatenate([drawn, np.ones(rows - len(drawn), np.bool_)])


def _left(rows: sp.csr_array, shares: Floats, may: NDArray[np.bool_]) -> tuple[sp.csr_array, Floats] | None:
    """Those who may be in, with the probability that they are; None where that is everybody, or hardly anybody."""
    places = np.flatnonzero(may)
    if len(places) == rows.shape[0] or len(places) < 2:
        return None
    likelier = shares[places] * (shares.sum() / shares[places].sum())
    return take_rows(rows, places), np.minimum(likelier, LIKELIEST)
