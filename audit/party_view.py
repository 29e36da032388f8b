"""An audit as one named party sees it: whose documents are drawn, and what stands beside them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.corpus import Corpus
from ksdp.audit.design import split_parties
from ksdp.audit.errors import SpecError
from ksdp.audit.groups import Units, unit_count
from ksdp.audit.randomness import Purpose, generator
from ksdp.audit.spec import Spec

if TYPE_CHECKING:
    from ksdp.audit.plan import Plan

__all__ = ["parties_key", "parties_of", "size_base", "victim_units"]

Rows = NDArray[np.int64]


def parties_of(spec: Spec, corpus: Corpus, units: Units) -> tuple[Rows, Rows, Rows]:
    """Units that the victim's databases are drawn from, that honest parties hold, and that the coalition holds.

    With `parties.me` the victim is that party, and the others hold the rest of the corpus; without it they are
    drawn from the seed.

    Raises
    ------
    SpecError
        If the corpus names no parties, or not this one, or a group belongs to two.
    """
    if spec.parties.me is None:
        return split_parties(spec.parties, len(units), spec.seed)
    held = _holder(corpus, units)
    mine, others = np.flatnonzero(held == spec.parties.me), np.flatnonzero(held != spec.parties.me)
    if not len(mine):
        known = ", ".join(np.unique(held)[:20].tolist())
        raise SpecError(f"`parties.me` must be a party of the corpus ({known}); got {spec.parties.me!r}.")
    others = _entering(others, spec)
    none = np.zeros(0, dtype=np.int64)
    return (mine, none, others) if spec.parties.others == "colluding" else (mine, others, none)


def victim_units(plan: Plan) -> Rows:
    """Units that the victim's databases are drawn from: a named party's own, else whatever nobody else holds."""
    if plan.spec.parties.me is not None:
        return parties_of(plan.spec, plan.corpus, plan.units)[0]
    return np.setdiff1d(np.arange(len(plan.units)), np.concatenate([plan.honest, plan.coalition]))


def parties_key(spec: Spec) -> dict[str, Any]:
    """All that decides which documents of others stand in the runs; sizes without a party's name say it all."""
    drawn = spec.corpus.levers.drawn
    enter = {} if spec.parties.me is None or drawn is None else {"drawn": drawn}
    return spec.parties.model_dump(mode="json") | enter


def _entering(others: Rows, spec: Spec) -> Rows:
    """Of the other parties' units those that enter: a draw of their own, where there is one."""
    drawn = spec.corpus.levers.drawn
    if drawn is None:
        return others
    rng = generator(spec.seed, Purpose.PARTIES)
    return np.sort(rng.choice(others, math.floor(drawn * len(others)), replace=False))


def size_base(spec: Spec, corpus: Corpus) -> int:
    """Units that sizes given as fractions refer to: the whole corpus, or the named party's own.

    Raises
    ------
    SpecError
        As `parties_of`.
    """
    if spec.parties.me is None:
        return unit_count(corpus, spec.design.unit)
    party = _named(corpus)
    if spec.design.unit == "document":
        return int((party == spec.parties.me).sum())
    return len(np.unique(corpus.group[party == spec.parties.me])) if corpus.group is not None else 0


def _named(corpus: Corpus) -> NDArray[np.str_]:
    if corpus.party is None:
        raise SpecError("`parties.me` needs parties: set `corpus.party` to the column that names them.")
    return corpus.party


def _holder(corpus: Corpus, units: Units) -> NDArray[np.str_]:
    """The party of every unit."""
    party = _named(corpus)
    if units.order is None or units.starts is None:
        return party
    sorted_party = party[units.order]
    first = sorted_party[units.starts[:-1]]
    if (sorted_party != np.repeat(first, np.diff(units.starts))).any():
        raise SpecError("a group has documents of two parties; `parties.me` needs each group with one party.")
    return first
