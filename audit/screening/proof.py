"""The audit of the listed documents by themselves, as a plan says it."""

from __future__ import annotations

from ksdp.audit.errors import SpecError
from ksdp.audit.plan import Plan
from ksdp.audit.reading import more_runs
from ksdp.audit.screening.rounds import proof_runs
from ksdp.audit.verdicts.power import minimal_detectable


def drawn_from(plan: Plan) -> int:
    """Documents that the victim's databases are drawn from."""
    return len(plan.holdings.victim)


def check_undecided(plan: Plan) -> None:
    """Refuse to list undecided documents where a leak as large as the margin would not even be detected."""
    rule = plan.spec.rule
    detectable = minimal_detectable(*plan.arms, plan.counted, len(plan.columns), rule)
    if detectable > rule.margin:
        raise SpecError(
            f"undecided documents may be listed only where these runs find a leak of `decision.margin` "
            f"({rule.margin:g}); they find {min(detectable, 1.0):.2f}. Raise `design.with_runs` (`ksdp plan` says "
            "what runs find), or list clear documents alone."
        )


def runs_for_proof(plan: Plan, listed: int) -> int:
    """Runs for a proof of the listed documents after a round (`proof_runs`); it has half of the round's level.

    Parameters
    ----------
    plan : Plan
        Of the round.
    listed : int
        Documents to prove.
    """
    level, statistics = plan.spec.decision.level, len(plan.statistics)
    each = level / (len(plan.audited) * statistics)
    # As strong as the tests, which may read a part of the runs; the proof's own may do so, too.
    runs = plan.design.runs / more_runs(plan.design.share, plan.reading.every)
    held = runs * plan.design.share
    arms = (round(held), round(runs - held), each)
    share = plan.holdings.size / listed if plan.spec.design.kind == "shared" else plan.design.share
    return proof_runs(arms, share, level / 2 / (listed * statistics))
