"""What parties agree on for a run that opens its final output alone."""

from __future__ import annotations

from dataclasses import dataclass

from ksdp.audit.errors import InputError, SpecError
from ksdp.audit.mechanisms.contract import Mechanism, opens_of
from ksdp.audit.mechanisms.factorisation.pd_svd import PDSVD

__all__ = ["COMPUTING", "FinalTerms", "check_final", "final_terms", "opens_final", "trusted_words"]

COMPUTING = 3
ROUNDS = 24
"""Iterations unless said otherwise."""
MOST_FEATURES = 1 << 13


@dataclass(frozen=True)
class FinalTerms:
    """How the final output is computed on shares."""

    computing: tuple[str, ...]
    """Names of the three parties that compute; sorted."""
    block: int
    """Vectors that are iterated, at least the rank."""
    rounds: int
    """Iterations; fixed, as nobody may see when to stop."""


def opens_final(mechanism: Mechanism) -> bool:
    """Whether a run opens its final output alone."""
    return opens_of(mechanism) == "final"


def check_final(mechanism: Mechanism) -> None:
    """Refuse what no parties can compute on shares.

    Raises
    ------
    SpecError
        Naming the parameter.
    """
    if not isinstance(mechanism, PDSVD):
        raise SpecError(
            f'`opens` must be "every round" in a run of {mechanism.name}: pd-svd, sigma-svd and pd-pca can be run '
            "so that they open their final output alone."
        )
    if mechanism.solver != "limit":
        raise SpecError(
            '`solver` must be "limit" where `opens` is "final": the run computes what the iteration converges to.'
        )


def final_terms(
    mechanism: Mechanism,
    features: int,
    names: tuple[str, ...],
    computing: tuple[str, ...] | None = None,
    block: int | None = None,
    rounds: int | None = None,
) -> FinalTerms:
    """The terms with their defaults: three parties compute themselves; 2 k + 10 vectors, 24 iterations.

    Raises
    ------
    InputError
        If there are too few parties, or it is not said which three of more compute; if a number does not fit.
    """
    if len(names) < COMPUTING:
        raise InputError(
            f'`opens` "final" needs a third organisation (no two can compute on shares), or `opens` must be '
            f'"every round"; got {len(names)} parties.'
        )
    if computing is None:
        if len(names) > COMPUTING:
            raise InputError(f"`final.computing` must name the three of {len(names)} parties that compute.")
        computing = names
    if len(set(computing)) != COMPUTING or not set(computing) <= set(names):
        raise InputError(f"`final.computing` must name three of {', '.join(names)}.")
    if features > MOST_FEATURES:
        raise InputError(f'`features` must be at most {MOST_FEATURES} where `opens` is "final"; got {features}.')
    most = features - 1
    assert isinstance(mechanism, PDSVD)
    block = min(2 * mechanism.rank + 10, most) if block is None else block
    if not mechanism.rank <= block <= most:
        raise InputError(f"`final.block` must be from {mechanism.rank} to {most}; got {block}.")
    return FinalTerms(tuple(sorted(computing)), block, ROUNDS if rounds is None else rounds)


def trusted_words(computing: tuple[str, ...]) -> str:
    """Who could learn more than the result."""
    return (
        "Opened: the result, and that it converged. Any two of "
        f"{', '.join(computing)} that put together what they hold learn every party's second moments; "
        "one of them alone, and everybody else together, nothing but the result."
    )
