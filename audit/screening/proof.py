"""The audit of the listed documents by themselves, as a plan says it."""

from __future__ import annotations

from ksdp.audit.plan import Plan
from ksdp.audit.screening.rounds import proof_runs, round_level

__all__ = ["pool_of", "runs_for_proof"]


def pool_of(plan: Plan) -> int:
    """Documents that the victim's databases are drawn from."""
    return len(plan.units) - len(plan.honest) - len(plan.coalition)


def runs_for_proof(plan: Plan, listed: int, number: int, rounds: int, level: float) -> int:
    """Runs for a proof of the listed documents after a round (`proof_runs`).

    Parameters
    ----------
    plan : Plan
        Of the round.
    listed : int
        Documents to prove.
    number, rounds : int
        This round, and the most there may be.
    level : float
        Of all rounds together.
    """
    held, statistics = plan.design.runs * plan.design.share, len(plan.statistics)
    each = round_level(level, number, rounds) / (len(plan.audited) * statistics)
    arms = (round(held), round(plan.design.runs - held), each)
    share = plan.party_rows / listed if plan.spec.design.kind == "shared" else plan.design.share
    return proof_runs(arms, share, round_level(level, number + 1, rounds) / (listed * statistics))
