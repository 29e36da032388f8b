"""Advice in sentences that a person can act on; the most important first."""

from __future__ import annotations

from ksdp.audit.screening.advice import Advice, Tried
from ksdp.audit.screening.lever_space import described


def advice_sentences(advice: Advice) -> tuple[str, ...]:
    """What to run, what it gives away, gains and costs; or why nothing is recommended."""
    if advice.best is not None:
        return _recommended(advice, advice.tried[advice.best])
    tried = f"{len(advice.tried)} tried"
    if not any(one.useful for one in advice.tried):
        return (
            f"No setting within these levers gains anything over working alone: {tried}. Work alone, or with "
            "other parties.",
        )
    if advice.unsettled:
        named = described(advice.tried[advice.unsettled[0]].setting) or "the spec as it stands"
        return (
            f"No setting within these levers was shown to be both useful and safe: {tried}. It is not settled for "
            f"{len(advice.unsettled)} of them ({named}, for one): draw more documents and runs.",
        )
    sentence = f"No setting within these levers is both useful and safe: {tried}."
    if advice.needed is not None:
        sentence += f" Useful and safe from about {advice.needed:,} documents on; there are {advice.documents:,}."
    return (sentence,)


def _recommended(advice: Advice, one: Tried) -> tuple[str, ...]:
    assert one.leak is not None
    assert one.gain is not None
    gained = (
        f"Run {described(one.setting) or 'the spec as it stands'}: it gains {one.gain.mean:+.4f} "
        f"({one.gain.low:+.4f} to {one.gain.high:+.4f}) over working alone"
    )
    if one.kept is not None:
        gained += (
            f", {one.kept.mean:.0%} ({one.kept.low:.0%} to {one.kept.high:.0%}) of what the exact run gains "
            "without any protection"
        )
    sentences = [f"{gained}."]
    if one.promised is not None:
        sentences.append(
            f"No attack on any document has an advantage above {one.promised:.2f}: the mechanism's noise proves "
            "it."
        )
    limit = (
        f"at least {1 - one.leak.limit:.1%} of the documents are at or below it"
        if one.leak.limit <= advice.quota or not one.proved(advice.margin)
        else f"up to {one.leak.limit:.1%} of all may measure above it by chance"
    )
    sentences.append(
        f"Measured, on {one.leak.documents} random documents: {one.leak.above} above the margin of "
        f"{advice.margin:g}, so that {limit}, to {advice.confidence:.0%} certain over all settings together."
    )
    sentences.append(f"A run opens {one.announced:,} numbers.")
    if one.cannot_run is not None:
        sentences.append(f"Parties cannot run it yet as it is: {one.cannot_run}")
    return tuple(sentences)
