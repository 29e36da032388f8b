"""Who must be trusted with what in each kind of run, in words for those who agree to it."""

from __future__ import annotations

from ksdp.protocols.runs.programs import is_noisy
from ksdp.protocols.runs.run_terms import RunTerms
from ksdp.protocols.runs.share_terms import opens_final, trusted_words
from ksdp.protocols.sums.secure_sum import what_follows


def who_must_be_trusted(terms: RunTerms) -> str:
    """Which coalition learns more than the result, before anybody takes part."""
    on_shares = trusted_words(terms.shares.computing, terms.mechanism) if terms.shares else ""
    if opens_final(terms.mechanism):
        return on_shares
    if is_noisy(terms.mechanism):
        return "Every round is opened, with noise; `ksdp party` says at the end against whom its guarantee holds."
    opened = f"Every round is opened: all parties see every sum. {what_follows(terms.parties)}"
    return f"{opened} {on_shares}".rstrip()
