"""What an audit of documents drawn at random says of all of them."""

from __future__ import annotations

import math

import numpy as np

from ksdp.audit.interim_verdicts import InterimVerdicts
from ksdp.audit.plan import Plan
from ksdp.audit.results.parts import ShareSummary
from ksdp.audit.verdicts.drawn_share import share_bounds


def share_summary(plan: Plan, interim: InterimVerdicts) -> ShareSummary | None:
    """Bounds of the share that leaks more than the margin (at all, where that is 0); None where none were drawn.

    p of "at most the margin" is that of the look which decided, scaled to the whole level as the others are.
    """
    if not isinstance(plan.spec.design.documents, int):
        return None
    rule, decisions = plan.spec.rule, interim.decisions
    scale = np.array([math.log10(rule.level / look.level) for look in plan.looks])
    above = np.minimum(decisions.log10_p_above + scale[interim.look], 0.0)
    population = len(plan.holdings.victim)
    below = decisions.log10_p_below if rule.margin else np.zeros_like(above)
    low, high = share_bounds(above, below, population, rule.level)
    return ShareSummary(len(above), population, rule.level, low, high)
