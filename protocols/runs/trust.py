"""Who must be trusted with what in each kind of run, in words for those who agree to it."""

from __future__ import annotations

from ksdp.protocols.runs.final_terms import trusted_words
from ksdp.protocols.runs.programs import is_noisy
from ksdp.protocols.runs.run_terms import RunTerms
from ksdp.protocols.sums.sum_messages import what_follows


def who_must_be_trusted(terms: RunTerms) -> str:
    """Which coalition learns more than the result, before anybody takes part."""
    if terms.final is not None:
        return trusted_words(terms.final.computing, terms.mechanism)
    if is_noisy(terms.mechanism):
        return "Every round is opened, with noise; `ksdp party` says at the end against whom its guarantee holds."
    opened = f"Every round is opened: all parties see every sum. {what_follows(terms.parties)}"
    if terms.offline != "lattice":
        return opened
    return (
        f"{opened} A party that deviates while normed sums are prepared by lattices (`norms.offline`) can read "
        "every other's share of them, and nothing shows it."
    )
