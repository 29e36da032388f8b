"""Terms of a run of which something is computed on shares: its final output, or its norms."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ksdp.audit.contract import Mechanism, traits_of
from ksdp.audit.errors import InputError, SpecError
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.factorisation.pd_svd import PDPCA, PDSVD
from ksdp.audit.mechanisms.privacy.noise import FRACTION_BITS
from ksdp.audit.mechanisms.privacy.noisy import Noisy
from ksdp.protocols.shares.sizes import sizes_of

COMPUTING = 3
_TOPIC_STARTS = ("random", "random-2x", "pd-nmf-init")
_FEWEST, _MOST = 28, 56
_MOST_FEATURES = 1 << 13


@dataclass(frozen=True)
class ShareTerms:
    """Parties that compute on shares, and how."""

    computing: tuple[str, ...]
    """Names of the three parties that compute; sorted."""
    block: int
    """Vectors that are iterated, at least the rank; 0 for topics and norms."""
    rounds: int
    """Iterations; fixed, as nobody may see when to stop. 0 for topics (`sweeps` says it) and norms."""


LARGEST_NOISE = 2.0**22
"""Largest noise of all parties together, in absolute value."""
TAIL = 40.0
"""Deviations within which every number that is drawn lies, but with probability 1e-340."""


def exact_part(mechanism: Mechanism) -> Mechanism:
    """Return the mechanism without its noise."""
    return mechanism.inner if isinstance(mechanism, Noisy) else mechanism


def noise_of_party(mechanism: Mechanism, parties: int) -> float:
    """The deviation of what each party adds to every opened number: n - 1 parties' make the agreed one."""
    if not isinstance(mechanism, Noisy):
        return 0.0
    agreed = mechanism.deviation("T" if isinstance(mechanism.inner, PDNMF) else "V")
    if not agreed:
        raise SpecError("`noise` and `scale` must be above 0 in a run with noise: its size is agreed beforehand.")
    each = agreed / math.sqrt(parties - 1)
    if not (each >= 16 * 2.0**-FRACTION_BITS and TAIL * each * parties <= LARGEST_NOISE):
        raise SpecError(
            f"`noise` times `scale` must be from 2^-25 to 2^15 in a run on shares; got {agreed:g}, of which each "
            f"of {parties} parties adds {each:g}."
        )
    return each


def opens_final(mechanism: Mechanism) -> bool:
    """Whether a run opens its final output alone."""
    return traits_of(mechanism).opens == "final"


def needs_norms(mechanism: Mechanism) -> bool:
    """Whether a run takes normed sums."""
    return isinstance(mechanism, PDSVD) and not mechanism.reveal_sigma and not opens_final(mechanism)


def uses_shares(mechanism: Mechanism) -> bool:
    """Whether three of the parties compute on shares."""
    return opens_final(mechanism) or needs_norms(mechanism)


def covers_final(mechanism: Mechanism) -> bool:
    """Whether one of the same parameters that opens every round has the same final output."""
    early = isinstance(mechanism, PDNMF) and mechanism.tolerance > 0
    return opens_final(mechanism) and not early and not isinstance(mechanism, Noisy)


def check_final(mechanism: Mechanism) -> None:
    """Refuse what no parties can compute on shares."""
    noisy, mechanism = isinstance(mechanism, Noisy), exact_part(mechanism)
    if noisy and isinstance(mechanism, PDSVD) and (mechanism.reveal_sigma or isinstance(mechanism, PDPCA)):
        raise SpecError(
            f"`mechanism` must be pd-svd or pd-nmf in a run with noise; got {mechanism.name}: its values or mean "
            "would be opened without noise."
        )
    if isinstance(mechanism, PDNMF):
        _check_topics(mechanism)
        return
    if not isinstance(mechanism, PDSVD):
        raise SpecError(
            f'`opens` must be "every round" in a run of {mechanism.name}: pd-svd, sigma-svd, pd-pca and pd-nmf '
            "can be run so that they open their final output alone."
        )
    if mechanism.solver != "limit":
        raise SpecError(
            '`solver` must be "limit" where `opens` is "final": the run computes what the iteration converges to.'
        )


def _check_topics(mechanism: PDNMF) -> None:
    if mechanism.start not in _TOPIC_STARTS:
        raise SpecError(
            f'`start` must be one of {", ".join(_TOPIC_STARTS)} where `opens` is "final"; got {mechanism.start!r}.'
        )
    on_simplex = not (mechanism.weighted or any(mechanism.penalties))
    if not on_simplex and not (mechanism.beta > 0 and mechanism.delta > 0):
        raise SpecError(
            '`beta` and `delta` must be above 0 in a run whose `opens` is "final" (0.1 each does, of rows of '
            "length 1), or no regulariser set and nothing `weighted`: else no bound holds for what is on shares."
        )


def share_terms(
    mechanism: Mechanism,
    features: int,
    names: tuple[str, ...],
    computing: tuple[str, ...] | None = None,
    block: int | None = None,
    rounds: int | None = None,
) -> ShareTerms:
    """The terms with their defaults: three parties compute themselves; 2 k + 10 vectors, 28 to 56 iterations."""
    final, mechanism = opens_final(mechanism), exact_part(mechanism)
    if len(names) < COMPUTING:
        hidden = '`opens` "final"' if final else f"{mechanism.name} with hidden norms"
        instead = '`opens` must be "every round"' if final else "Sigma must be open (`reveal_sigma`, or sigma-svd)"
        raise InputError(
            f"{hidden} needs a third organisation (no two can compute on shares), or {instead}; "
            f"got {len(names)} parties."
        )
    if computing is None:
        if len(names) > COMPUTING:
            raise InputError(f"`shares.computing` must name the three of {len(names)} parties that compute.")
        computing = names
    if len(set(computing)) != COMPUTING or not set(computing) <= set(names):
        raise InputError(f"`shares.computing` must name three of {', '.join(names)}.")
    if final and features > _MOST_FEATURES:
        raise InputError(f'`features` must be at most {_MOST_FEATURES} where `opens` is "final"; got {features}.')
    if isinstance(mechanism, PDNMF) or not final:
        if block or rounds:
            why = "`sweeps` says it" if final else "`iterations` says it"
            raise InputError(
                f"`shares.block` and `shares.rounds` must be left out of a run of {mechanism.name}: {why}."
            )
        return ShareTerms(tuple(sorted(computing)), 0, 0)
    most = features - 1
    assert isinstance(mechanism, PDSVD)
    block = min(2 * mechanism.rank + 10, most) if block is None else block
    if not mechanism.rank <= block <= most:
        raise InputError(f"`shares.block` must be from {mechanism.rank} to {most}; got {block}.")
    return ShareTerms(tuple(sorted(computing)), block, enough_rounds(mechanism.rank) if rounds is None else rounds)


def enough_rounds(rank: int) -> int:
    """Iterations of 2 k + 10 vectors that text needs, and a few more (`python -m benchmarks iterations`).

    After r iterations the residual is about (lambda_b+1 / lambda_k)^r of its start, and the higher the rank, the
    closer are these two.
    """
    return min(max(_FEWEST, 22 + rank), _MOST)


def check_sizes(mechanism: Mechanism, features: int, largest: float) -> None:
    """Refuse regularisers, or a rank, with which numbers on shares would not fit."""
    mechanism = exact_part(mechanism)
    if isinstance(mechanism, PDNMF) and opens_final(mechanism):
        sizes_of(mechanism.rank, features, mechanism.penalties, largest)


def trusted_words(computing: tuple[str, ...], mechanism: Mechanism) -> str:
    """Name those who could learn more than what is opened."""
    if not opens_final(mechanism):
        return (
            "Hidden is one number, the length that all norms have in common: their ratios follow from what is "
            f"opened. Any two of {', '.join(computing)} that put together what they hold learn every party's "
            "share of every normed sum. PD-ML-Lite's SPDZ would hold against all parties but one."
        )
    noisy, mechanism = isinstance(mechanism, Noisy), exact_part(mechanism)
    topics = isinstance(mechanism, PDNMF)
    opened = "the result, and that it converged"
    if noisy:
        opened = "the result with its noise, that it converged, and that no two singular values are too close"
    if isinstance(mechanism, PDNMF):
        projected = "" if mechanism.weighted or any(mechanism.penalties) else "that all could be projected, "
        with_noise = " with their noise" if noisy else ""
        opened = f"the topics{with_noise}, {projected}and how many rows every party has"
    return (
        f"Opened: {opened}. Any two of "
        f"{', '.join(computing)} that put together what they hold learn every party's "
        f"{'rows, its documents entry by entry' if topics else 'second moments'}; "
        "one of them alone, and everybody else together, nothing but what was opened."
    ) + (_NOISE_WORDS if noisy else "")


_NOISE_WORDS = (
    " A party that subtracts its own noise sees what was audited; each further party that adds none, or tells its "
    "noise, takes as much away again. All of this holds if the parties that compute follow the protocol "
    "(semi-honest): one that does not can have another function of the data opened, as long and with this noise, "
    "and learn a bit by whether the run ends. That it ends without a result follows from the data without noise."
)
