"""Bounds on every attack: what a secret draw, noise, copies and paired runs prove of each document.

Paired runs differ in one document only (`verdicts.certificates`). Pair r begins with a base: a database drawn as
the design draws one. For a document in it, the base is the run with the document, and the other run has somebody
else in its place; for a document that is not, the base is the run without, and the other has the document in the
place of somebody. Both are couplings of the document's two arms, and so is a toss between them. All documents
share the bases, so that each costs one run a pair.

Where documents are copies, no run shows which of them was in. That bound needs no run. It holds where a mechanism
announces the same whichever order documents stand in (`order_free`), and where all copies are as likely to be in
as each other: the shared design and the literal one. Documents are copies where they are the same, bit for bit,
in what the mechanism is handed: after levers and weighting. Copies that other parties hold do not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.contract import Mechanism, traits_of
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.privacy.noisy import Noisy
from ksdp.audit.mechanisms.schema import Certifiable, final_output, why_uncertified
from ksdp.audit.numeric.array_types import Floats, Ints
from ksdp.audit.plan import Plan
from ksdp.audit.randomness import Purpose, generator
from ksdp.audit.runs import stacked
from ksdp.audit.specs.design import Literal, Shared
from ksdp.audit.verdicts.certificates import certified_bound, told_by_count, told_by_independent_count
from ksdp.audit.verdicts.laws import ArmTests
from ksdp.audit.verdicts.margins import distance_band
from ksdp.audit.verdicts.verdict import ProvedBy

# A sound audit contradicts its certificate once in a hundred thousand, as its controls fail it.
_CONTRADICTION = 1e-5


@dataclass(frozen=True, eq=False)
class Bound:
    """A bound on the advantage of every attack on each audited document, in the order of the plan."""

    by: ProvedBy
    advantage: Floats
    """Shape (n_documents,); 1 where nothing is proved."""
    trust: str
    """Assumption of the bound."""
    any_knowledge: bool
    """Whether it also holds for somebody who knows all other documents of a run."""
    every_size: bool = False
    """Whether it is the same for parties of any size."""
    level: float = 0.0
    """Probability that any of the bounds is wrong."""
    copies: Ints | None = None
    """Documents of the content of each that may be in a run, itself included, if copies prove it."""
    pairs: Floats | None = None
    """Advantages of pairs of runs, shape (n_documents, n_pairs), if these prove it."""

    def contradicted(self, tested: ArmTests, documents: int, looks: int) -> NDArray[np.bool_]:
        """Return which documents were measured to be above their bound: then `trust` is misplaced."""
        if self.pairs is None:
            return above_bound(tested, self.advantage, documents, looks)
        # Both sides at a level of their own, so strict that only a wrong law of the noise gets here.
        sure = certified_bound(self.pairs, _CONTRADICTION / 2, documents)
        return above_bound(tested, sure, documents, looks, _CONTRADICTION / 2)


def known_bounds(plan: Plan) -> tuple[Bound, ...]:
    """Return all that is proved before any run, the strongest kind first."""
    copies = copies_bound(plan)
    return common_bounds(plan) if copies is None else (*common_bounds(plan), copies)


def common_bounds(plan: Plan) -> tuple[Bound, ...]:
    """Return the bounds that are the same for every document: of a secret draw, and of noise."""
    audited = len(plan.audited)
    bounds = []
    if plan.spec.proved_by_draw:
        bounds.append(
            Bound(ProvedBy.DRAW, np.ones(audited), "nobody learns the draw", any_knowledge=True, every_size=True)
        )
    if (promise := plan.promise) is not None:
        every = np.full(audited, promise.bound)
        trust = "; ".join(filter(None, [promise.trust, plan.corpus.taken_as_known]))
        bounds.append(Bound(ProvedBy.NOISE, every, trust, any_knowledge=True, every_size=promise.every_size))
    return tuple(bounds)


def least_bound(bounds: Sequence[Bound], documents: int) -> Floats:
    """The least of some bounds on each document; 1 where none is."""
    return np.asarray(np.minimum.reduce([np.ones(documents), *(bound.advantage for bound in bounds)]))


def check_certifiable(mechanism: Mechanism, design: object, features: int) -> None:
    """Refuse what paired runs prove nothing about."""
    if not isinstance(design, Shared | Literal) or (isinstance(design, Shared) and design.poisson):
        raise SpecError("a certificate needs `design.kind` shared or literal, with databases of a fixed size.")
    if (why := why_uncertified(mechanism, features)) is not None:
        raise SpecError(
            f"mechanism {mechanism.name!r} {why}; nothing bounds every attack on it: no `certificate`."
        )


def knows_all(mechanism: Mechanism) -> float | None:
    """The advantage of whoever knows all other documents of a run, if it is the same for every document."""
    if isinstance(mechanism, Noisy) and not mechanism.noise:
        mechanism = mechanism.inner
    return 1.0 if traits_of(mechanism).noise_free else None


def paired_advantages(plan: Plan, first: int, stop: int) -> Floats:
    """Advantages of the best attack on each of some pairs, shape (n_audited, stop - first)."""
    mechanism, design = plan.mechanism, plan.design
    check_certifiable(mechanism, design, plan.corpus.features)
    assert isinstance(mechanism, Certifiable)
    assert isinstance(design, Shared | Literal)
    final = final_output(plan.mechanism, plan.corpus.features) if plan.spec.statistics.sees == "final" else None
    advantages = np.empty((len(plan.audited), stop - first))
    for at, pair in enumerate(range(first, stop)):
        rng = generator(design.seed, Purpose.CERTIFICATE, pair)
        base = np.sort(design.pool[rng.choice(len(design.pool), design.size, replace=False)])
        coins = partial(generator, design.seed, Purpose.CERTIFICATE_COINS, pair)
        against = mechanism.paired(stacked(plan, base), coins, final)
        outside = np.setdiff1d(design.pool, base, assume_unique=True)
        for row, unit in enumerate(plan.audited):
            own = generator(design.seed, Purpose.CERTIFICATE, pair, int(unit))
            advantages[row, at] = against(stacked(plan, _exchanged(base, outside, int(unit), own)))
    return advantages


def _exchanged(
    base: NDArray[np.int64], outside: NDArray[np.int64], unit: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """The base with a unit in the place of another, or another in its place, sorted."""
    at = int(np.searchsorted(base, unit))
    changed = base.copy()
    if at < len(base) and base[at] == unit:
        changed[at] = outside[rng.integers(len(outside))]
    else:
        changed[rng.integers(len(base))] = unit
    return np.sort(changed)


def certify(advantages: Floats, documents: int, level: float) -> Bound:
    """Bound every document by the advantages of pairs of runs, shape (n_documents, n_pairs)."""
    bound = certified_bound(advantages, level, documents)
    return Bound(
        ProvedBy.PAIRS, bound, "the noise is what the mechanism says", False, level=level, pairs=advantages
    )


def above_bound(
    tested: ArmTests, bound: Floats, documents: int, looks: int, level: float = _CONTRADICTION
) -> NDArray[np.bool_]:
    """Return which documents have a measured lower bound above a bound that was proved for every attack."""
    each = level / (documents * tested.distance.shape[1] * looks)
    low, _ = distance_band(np.nan_to_num(tested.distance), tested.n_with, tested.n_without, each)
    return np.asarray(low.max(axis=1) > bound)


def copies_bound(plan: Plan) -> Bound | None:
    """Bound every document by its number of copies; None if there are no copies that hide one another."""
    design = plan.design
    if not isinstance(design, Shared | Literal) or plan.units.order is not None:
        return None
    if plan.spec.statistics.runs_of is not None:  # what is alike here was not alike in the runs
        return None
    if not traits_of(plan.mechanism).order_free:
        return None
    alike = plan.corpus.first_alike[design.pool]
    _, content, several = np.unique(alike, return_inverse=True, return_counts=True)
    if several.max() == 1:
        return None
    count = several[content][np.searchsorted(design.pool, plan.audited)]
    different, places = np.unique(count, return_inverse=True)
    bounds = np.array([_told(int(copies), design) for copies in different])
    trust = "the mechanism announced the same whichever of their copies is in, as it says (`order_free`)"
    return Bound(ProvedBy.COPIES, bounds[places], trust, any_knowledge=False, copies=count.astype(np.int64))


def _told(copies: int, design: Shared | Literal) -> float:
    if isinstance(design, Shared) and design.poisson:
        return told_by_independent_count(copies, design.share)
    return told_by_count(copies, len(design.pool), design.size)
