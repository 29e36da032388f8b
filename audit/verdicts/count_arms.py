"""Copies of one content tested together: runs that hold many of them beside runs that hold few.

Where order does not matter to a mechanism (`order_free`) and copies are as likely to be in as each other, the law
F_j of a value depends on how many of the copies a run holds, j. With h and l the laws of that number in runs with
and without one document (`ksdp.audit.verdicts.copies`), its arms have the laws F = sum_j h_j F_j and
G = sum_j l_j F_j, so that

    F - G = sum_j (h_j - l_j) F_j = t (H - L),

t the total variation of h and l, H the mixture of the F_j with weights (h_j - l_j) / t where that is positive, and
L that of the others: **many** copies and **few**. So D = t sup |H - L| is the D of each of the copies, exactly,
and every proof about the D of two arms is one about D / t.

Values with the laws H and L come from thinning: a run with j copies is taken with a probability in proportion to
|h_j - l_j| / p_j, p the law of j over all runs. The draw is one of its own, so that the values taken are
independent and have these laws. A copy alone sees the runs that hold it; together they see the runs that hold any,
and what is told of D is t times narrower besides: 60 copies and a party of 3 % are worth 24 times as many runs.

The largest ratios belong to numbers that hardly occur, and would make all others rare: they are cut where that
moves D by at most `SLACK`, which every p-value and band grants.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ksdp.audit.array_types import Bits, Floats, Ints
from ksdp.audit.decision_spec import DecisionSpec
from ksdp.audit.verdicts.bands import band_width
from ksdp.audit.verdicts.binomial_gap import hoeffding_log10_p
from ksdp.audit.verdicts.copies import CountLaws
from ksdp.audit.verdicts.margin import over_log10_p

SLACK = 1e-4
"""By which D may be another one for numbers of copies that hardly occur."""
_WORTH = 1.5
"""Times as much as a document's own arms must be told, for its copies to be tested together."""


@dataclass(frozen=True, eq=False)
class Thinning:
    """With what probability a run is taken, by the number of copies that it holds; one of both is 0."""

    many: Floats
    few: Floats
    told: float
    """t."""
    worth: bool
    """Whether copies tell more together than each by itself."""

    def arms(self, held: Ints, drawn: Floats, open_: Bits) -> tuple[Bits, Bits]:
        """Which runs are taken for the arm of many, and of few.

        Parameters
        ----------
        held : int64, shape (n_runs,)
            Copies that each run holds.
        drawn : shape (n_runs,)
            Uniform numbers, a stream of its own.
        open_ : bool, shape (n_runs,)
            Runs of which the values without any copy are there: chosen by no value and no bit.
        """
        return drawn < self.many[held], open_ & (drawn < self.few[held])


def thinning(laws: CountLaws) -> Thinning:
    """Of a document's copies.

    Examples
    --------
    >>> from ksdp.audit.verdicts.copies import count_laws_independent
    >>> found = thinning(count_laws_independent(60, 0.03))
    >>> found.many[:6].round(2), found.few[:3].round(2)
    (array([0.  , 0.  , 0.03, 0.19, 0.35, 0.52]), array([1.  , 0.44, 0.  ]))
    >>> round(found.told, 3), found.worth
    (0.303, True)
    """
    p = laws.all
    ratio = np.divide(laws.held - laws.left_out, p, out=np.zeros_like(p), where=p > 0)
    many, few = _cut(np.maximum(ratio, 0), p), _cut(np.maximum(-ratio, 0), p)
    m, n = float(p @ many), float(p @ few)
    own = laws.share * (1 - laws.share)
    told = laws.told
    together = m * n / (m + n) / told**2 if min(m, n, told) > 0 else 0.0
    return Thinning(many, few, told, together > _WORTH * own)


def _cut(ratio: Floats, p: Floats) -> Floats:
    """Ratios over the least bound that moves D by half of `SLACK` at most."""
    for bound in np.unique(ratio[ratio > 0]):
        if float((p * np.maximum(ratio - bound, 0)).sum()) <= SLACK / 2:
            return np.asarray(np.minimum(ratio / bound, 1.0))
    return np.zeros_like(ratio)


@dataclass(frozen=True, eq=False)
class CountTests:
    """Documents whose copies were tested together, in any order."""

    rows: Ints
    """Places among the documents that are tested, shape (n,)."""
    copies: Ints
    """Of the content of each, itself included, shape (n,)."""
    distance: Floats
    """t sup |H - L| as measured, shape (n, n_columns)."""
    told: Floats
    """t of each, shape (n,)."""
    n_many: Ints
    """Runs in each arm, shape (n,)."""
    n_few: Ints

    @property
    def arms(self) -> tuple[Floats, Floats]:
        """Sizes of arms of which D itself would be known as well: those of both arms over t^2, shape (n, 1)."""
        return (self.n_many / self.told**2)[:, None], (self.n_few / self.told**2)[:, None]

    def log10_above(self, rule: DecisionSpec) -> Floats:
        """Log10 p of "the advantage is at most the margin", shape (n, n_columns)."""
        return over_log10_p(self.distance - rule.margin - SLACK, *self.arms)

    def log10_below(self, rule: DecisionSpec) -> Floats:
        """Log10 p of "the advantage is at least the margin": Hoeffding's."""
        return hoeffding_log10_p(rule.margin - self.distance - SLACK, *self.arms)

    def bands(self, level: float) -> tuple[Floats, Floats]:
        """Ends of the bands of D, each at this level."""
        width = band_width(*self.arms, level) + SLACK
        return np.clip(self.distance - width, 0, 1), np.clip(self.distance + width, 0, 1)
