"""Which learners a spec asks for."""

from __future__ import annotations

from ksdp.audit.errors import SpecError
from ksdp.audit.spec import StatisticsSpec
from ksdp.audit.verdicts.learned import BOOSTED, CHOSEN
from ksdp.audit.verdicts.learners import GAUSSIAN
from ksdp.audit.verdicts.raw_filter import RAW

LEARNED = "learned"
"""The family of learned columns; their names begin with it."""
LEARNED_PREFIX = f"{LEARNED}-"
LEARNED_SENTENCE = "A small model, trained on other runs, that combines all statistics into one guess."


def requested_learners(spec: StatisticsSpec) -> tuple[list[str], tuple[str, ...]]:
    """The other families, and the learners asked for.

    Raises
    ------
    SpecError
        If there is no such learner, or nothing for one to learn from.
    """
    families = [family for family in spec.families if family != LEARNED]
    asked = [n.removeprefix(LEARNED_PREFIX) for n in spec.names if n.startswith(LEARNED_PREFIX)]
    known = (*GAUSSIAN, CHOSEN, BOOSTED, RAW)
    unknown = [name for name in asked if name not in known]
    if unknown:
        names = ", ".join(LEARNED_PREFIX + name for name in known)
        raise SpecError(f"`statistics.names` must be among {names}; got {LEARNED_PREFIX + unknown[0]!r}.")
    wanted = {*asked, *((*GAUSSIAN, CHOSEN) if LEARNED in spec.families else ())}
    if wanted - {RAW} == {CHOSEN}:
        raise SpecError(f"`statistics.names` must name a learner beside {LEARNED_PREFIX}{CHOSEN}, to choose from.")
    if wanted and not families and len(asked) == len(spec.names):
        raise SpecError("`statistics` must hold others beside the learned ones, to learn from.")
    return families, tuple(name for name in (*GAUSSIAN, BOOSTED, CHOSEN, RAW) if name in wanted)
