"""How much noise of public size certifies documents: from pairs of runs, rounded up to a public grid.

What one document moves the final output by is measured on pairs of runs (`audit.certifying`). Noise of deviation
s leaves of a pair that is a distance apart a total variation of 2 Phi(distance / 2s) - 1, and the certificate
bounds the mean over pairs; so one set of pairs tells what every s certifies. More noise certifies no fewer
documents, pair by pair. So the least noise that certifies all but the allowed number of a random sample is an
order statistic of what each document needs, and its confidence limit needs no correction for the grid.

The size is chosen by looking at private data. It is one of `GRID`, so that it tells at most `CHOICE_BITS` of them.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.privacy.noisy import Noisy
from ksdp.audit.numeric.array_types import Floats
from ksdp.audit.plan import Plan
from ksdp.audit.screening.rounds import most_allowed
from ksdp.audit.specs.models import Spec
from ksdp.audit.verdicts.certificates import certified_bound, pair_advantage, pair_distance
from ksdp.audit.verdicts.multiplicity import share_upper_limit

GRID = tuple(float(f"{2.0 ** (step / 4):.4g}") for step in range(-39, 25))
"""Sizes of noise, in units of `scale`: 2^-10 to 2^6, four in every doubling."""
CHOICE_BITS = math.log2(len(GRID))


@dataclass(frozen=True)
class CertifiedNoise:
    """The least noise of the grid that certifies enough of a sample of documents."""

    noise: float
    """In units of the mechanism's `scale`."""
    pairs: int
    documents: int
    """Of the sample."""
    certified: int
    """Of these."""
    limit: float
    """Upper confidence limit of the share of all documents that pairs like these do not certify."""


def check_pairs(spec: Spec, pairs: int, documents: int) -> None:
    """Refuse so few pairs that nobody would be certified, had noise hidden everything.

    Raises
    ------
    InputError
        Names the least that such pairs can prove.
    """
    least = float(certified_bound(np.zeros((1, pairs)), spec.certificate_level, documents)[0])
    if not spec.rule.accepts(least):
        raise InputError(
            f"`certificate.pairs` must be more than {pairs}: of {documents:,} documents they prove no bound below "
            f"{least:.2f}, and the margin is {spec.rule.limits}."
        )


def certified_noise(
    plan: Plan, advantages: Floats, *, documents: int, level: float, population: int, quota: float
) -> CertifiedNoise:
    """The least noise whose certificate covers enough documents.

    Parameters
    ----------
    plan : Plan
        Whose pairs these are: of `noisy` with the largest noise of `GRID`, whose distances are not rounded away.
    advantages : shape (n_documents, n_pairs)
        Of a random sample of documents (`audit.certifying.paired_advantages`).
    documents : int
        That the certificate's correction counts.
    level : float
        Of the confidence limit of the share that is not certified.
    population : int
        Documents that the sample was drawn from.
    quota : float
        The largest such share.

    Raises
    ------
    InputError
        If no noise of the grid is enough.
    """
    mechanism, spec, drawn = plan.mechanism, plan.spec, len(advantages)
    assert isinstance(mechanism, Noisy)
    apart, among = mechanism.noise * pair_distance(advantages), max(documents, drawn)

    def missed(noise: float) -> int:
        bounds = certified_bound(pair_advantage(apart / noise), spec.certificate_level, among)
        return drawn - int(spec.rule.accepts(bounds).sum())

    allowed = most_allowed(drawn, level, population, quota)
    fewest = -1 if allowed is None else allowed
    place = bisect_left(GRID, True, key=lambda noise: missed(noise) <= fewest)
    if place == len(GRID):
        raise InputError(
            f"no noise up to {GRID[-1]:g} times `scale` certifies {1 - quota:.1%} of the documents within "
            f"{spec.rule.limits}: {missed(GRID[-1])} of {drawn} are not. Ask for a larger margin or quota."
        )
    noise, left = GRID[place], missed(GRID[place])
    limit = share_upper_limit(left, drawn, level, population)
    return CertifiedNoise(noise, advantages.shape[1], drawn, drawn - left, limit)
