"""What a mechanism promises, beside what was proved about it, in words. Values in, plain text out."""

from __future__ import annotations

from ksdp.dashboards.words import count, decimal, percent
from ksdp.storage.audits.claims import StoredClaim
from ksdp.storage.audits.history import Summary


def promised(summary: Summary, claim: StoredClaim | None = None) -> str | None:
    """What the mechanism claims, beside what was proved; nothing where it claims no differential privacy.

    Parameters
    ----------
    claim : StoredClaim, optional
        What the store has about the claim.
    """
    guarantee = summary.guarantee
    if guarantee.kind != "(epsilon, delta)":
        return None
    epsilon = (
        "an epsilon that follows from the sizes" if guarantee.epsilon is None else f"epsilon {guarantee.epsilon:g}"
    )
    sentences = [f"It claims {epsilon} at delta {guarantee.delta:g}, for {guarantee.unit}."]
    if not guarantee.sound:
        sentences.append(f"The claim does not hold. {guarantee.notes}")
    if claim is None:
        sentences.append("Whether runs on its worst case refute that was not tried in this store (ksdp claim).")
    elif claim.finding.refuted:
        sentences.append(f"REFUTED: it does not keep its claim. {proved(claim)}")
    else:
        sentences.append(f"{proved(claim)} That does not refute it.")
    fresh = summary.fresh
    if fresh:
        sentences.append(
            f"Fresh runs of this audit prove at least {decimal(fresh.largest_epsilon_low)} (delta 0) for one "
            "document, against an adversary who does not know the others."
        )
    if guarantee.sampler:
        sentences.append(
            f"Its noise is drawn by the {guarantee.sampler.name} sampler: {guarantee.sampler.description}."
        )
    return " ".join(sentences)


def proved(claim: StoredClaim) -> str:
    """What runs on the mechanism's worst case proved, beside what it claims for it."""
    finding = claim.finding
    return (
        f"Claimed epsilon {finding.claimed_epsilon:.3g} at delta {finding.claimed_delta:g}; proved on its worst "
        f"case: at least {finding.measured_low:.3g} ({count(finding.runs)} runs an arm, confidence "
        f"{percent(finding.confidence)})."
    )
