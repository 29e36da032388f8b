"""A spec that was opened: its mechanism, its corpus, and who holds which documents."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.contract import Mechanism, traits_of
from ksdp.audit.corpus.groups import Units, make_units, unit_count
from ksdp.audit.corpus.matrix import Corpus, require_nonnegative
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.recorded import is_own
from ksdp.audit.randomness import Purpose, generator
from ksdp.audit.registry import lent, mechanism_of
from ksdp.audit.specs.design import as_rows
from ksdp.audit.specs.models import PartiesSpec, Spec

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Holdings:
    """The units that each side holds; the victim's document is at stake."""

    units: Units
    """Units that have a verdict and are in or out as a whole: the documents of the corpus, or its groups."""
    victim: Rows
    """Units that the victim's databases are drawn from, sorted."""
    honest: Rows
    """Units that other parties, outside the coalition, hold."""
    coalition: Rows
    """Units that the coalition holds in every run."""
    counted: int
    """Units that sizes given as fractions refer to: of the whole corpus, or of the party that is named."""
    size: int
    """Units in the victim's part of a database."""
    drawn: bool
    """Whether honest parties enter half of their units, drawn anew in each run; all of them otherwise."""

    @property
    def unknown(self) -> int:
        """Candidate units: a run may hold them or not."""
        return len(self.victim) + (len(self.honest) if self.drawn else 0)

    @property
    def share(self) -> float:
        """Part of these that is in a run."""
        return (self.size + self.entering * self.drawn) / max(self.unknown, 1)

    @property
    def entering(self) -> int:
        """Units of honest parties in a run."""
        return (len(self.honest) + 1) // 2 if self.drawn else len(self.honest)


@dataclass(frozen=True, eq=False)
class Opened:
    """A spec with what it names: read once, and handed on."""

    spec: Spec
    corpus: Corpus
    mechanism: Mechanism
    holdings: Holdings
    """The units that each side holds."""
    own: Mapping[str, Any] = field(default_factory=dict)
    """Mechanisms and statistics that only this process has, by the names that the spec has for them."""

    @classmethod
    def of(cls, spec: Spec, corpus: Corpus, own: Mapping[str, Any] | None = None) -> Opened:
        """Find the mechanism, and derive who holds which units; refuse what does not fit."""
        with lent(own or {}):
            mechanism = mechanism_of(spec.mechanism)
        if is_own(mechanism):
            spec = spec.model_copy(update={"store": spec.store.model_copy(update={"precision": "float64"})})
        if traits_of(mechanism).nonnegative:
            require_nonnegative(corpus.matrix)
        return cls(spec, corpus, mechanism, holdings_of(spec, corpus), own or {})


def holdings_of(spec: Spec, corpus: Corpus) -> Holdings:
    """Derive from a spec who holds which units."""
    units = make_units(corpus, spec.design.unit)
    rng = generator(spec.seed, Purpose.PARTIES)
    if spec.parties.me is None:
        victim, honest, coalition = split_parties(spec.parties, len(units), rng)
    else:
        victim, others = _named_party(spec.parties.me, _holder(corpus, units))
        others, none = _entering(others, spec.corpus.levers.drawn, rng), np.zeros(0, dtype=np.int64)
        honest, coalition = (none, others) if spec.parties.others == "colluding" else (others, none)
    counted = len(units) if spec.parties.me is None else len(victim)
    if spec.design.pool is not None:
        victim = _known_part(as_rows(spec.design.pool, counted), victim, spec)
    size = as_rows(spec.design.party_size, counted)
    return Holdings(units, victim, honest, coalition, counted, size, spec.parties.others == "drawn")


def split_parties(parties: PartiesSpec, documents: int, rng: np.random.Generator) -> tuple[Rows, Rows, Rows]:
    """Draw the other parties' fixed rows: (victim's pool, honest rows, coalition rows)."""
    honest = 0 if parties.honest is None else as_rows(parties.honest, documents)
    coalition = 0 if parties.coalition is None else as_rows(parties.coalition, documents)
    if honest + coalition >= documents:
        raise SpecError(f"`parties` must leave documents to audit; they take {honest + coalition} of {documents}.")
    order = rng.permutation(documents)
    ends = np.sort(order[:honest]), np.sort(order[honest : honest + coalition])
    return np.sort(order[honest + coalition :]), *ends


def _named_party(me: str, holder: NDArray[np.str_]) -> tuple[Rows, Rows]:
    mine = np.flatnonzero(holder == me)
    if not len(mine):
        names = ", ".join(np.unique(holder)[:20].tolist())
        raise SpecError(f"`parties.me` must be a party of the corpus ({names}); got {me!r}.")
    return mine, np.flatnonzero(holder != me)


def _known_part(size: int, victim: Rows, spec: Spec) -> Rows:
    """The units that databases are drawn from, where these are some of the victim's."""
    if size > len(victim):
        raise SpecError(f"`design.pool` must be at most {len(victim)} {spec.design.unit}s; got {size}.")
    return np.sort(generator(spec.seed, Purpose.POOL).choice(victim, size, replace=False))


def parties_key(spec: Spec) -> dict[str, Any]:
    """All that decides which documents of others stand in the runs; sizes without a party's name say it all."""
    drawn = spec.corpus.levers.drawn
    enter = {} if spec.parties.me is None or drawn is None else {"drawn": drawn}
    return spec.parties.model_dump(mode="json") | enter


def _entering(others: Rows, drawn: float | None, rng: np.random.Generator) -> Rows:
    if drawn is None:
        return others
    return np.sort(rng.choice(others, math.floor(drawn * len(others)), replace=False))


def size_base(spec: Spec, corpus: Corpus) -> int:
    """Units that sizes given as fractions refer to: the whole corpus, or the named party's own."""
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
    party = _named(corpus)
    if units.order is None or units.starts is None:
        return party
    sorted_party = party[units.order]
    first = sorted_party[units.starts[:-1]]
    if (sorted_party != np.repeat(first, np.diff(units.starts))).any():
        raise SpecError("a group has documents of two parties; `parties.me` needs each group with one party.")
    return first
