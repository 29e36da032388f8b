"""How far apart a document's arms must be measured for each verdict, and how many runs would bring it there."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtri

from ksdp.audit.array_types import Floats, Ints
from ksdp.audit.spec.models import DecisionSpec
from ksdp.audit.verdicts.arms import ArmTests
from ksdp.audit.verdicts.binomial_gap import LIKELY, spread
from ksdp.audit.verdicts.margin import SIDES
from ksdp.audit.verdicts.multiplicity import strictest_distance_log10_p, strictest_log10_p


def detectable_distance(
    n_with: Ints, n_without: Ints, documents: int, statistics: int, rule: DecisionSpec, level: float | None = None
) -> Floats:
    """The measured D at which a document is surely detected, whatever the others do.

    From the asymptotic law 2 exp(-2 N D^2) with N = n m / (n + m); 1 where the arms cannot reach it.
    """
    log_p = math.log(10) * strictest_distance_log10_p(level or rule.level, documents, statistics, rule.error)
    effective = n_with * n_without / np.maximum(n_with + n_without, 1)
    return np.asarray(np.minimum(np.sqrt((math.log(2) - log_p) / (2 * np.maximum(effective, 1e-9))), 1.0))


def likely_distance(tested: ArmTests) -> Floats:
    """Each document's largest D, less the noise that it holds, shape (n_documents,)."""
    return _less_noise(*largest_distance(tested))


def largest_distance(tested: ArmTests) -> tuple[Floats, Ints, Ints]:
    """Each document's largest D, 0 where none is known, and the sizes of its arms."""
    measured = np.nan_to_num(tested.distance, nan=0.0)
    top = measured.argmax(axis=1)[:, None]
    m, n = (np.take_along_axis(arm, top, axis=1)[:, 0] for arm in (tested.n_with, tested.n_without))
    return np.take_along_axis(measured, top, axis=1)[:, 0], m, n


def _less_noise(distance: Floats, n_with: Ints, n_without: Ints) -> Floats:
    """The true D, about: E[D^2] = (pi^2 / 12) / N where there is no leak, N = n m / (n + m)."""
    effective = np.maximum(n_with * n_without / np.maximum(n_with + n_without, 1), 1e-9)
    return np.asarray(np.sqrt(np.maximum(distance**2 - math.pi**2 / 12 / effective, 0)))


def sensitive_distance(
    n_with: Ints, n_without: Ints, documents: int, statistics: int, rule: DecisionSpec, level: float | None = None
) -> Floats:
    """The measured D at which a document is surely called sensitive, whatever the others do; above 1: no D is."""
    levels = (level or rule.level,) * 2
    return np.asarray(rule.margin + _needed_gaps(n_with, n_without, levels, rule, documents, statistics)[0])


def runs_to_decide(
    distance: Floats,
    n_with: Ints,
    n_without: Ints,
    levels: tuple[float, float],
    rule: DecisionSpec,
    documents: int,
    statistics: int,
) -> Floats:
    """What must be added to D, or taken off it, shrinks like 1 / sqrt(runs), so the present ones say how many.

    The measured D holds noise, which is taken off for the true D. The measurement to come is granted the noise
    that the largest of all statistics stays below with probability one half, ln(4 S) = 2 N x^2, where it must stay
    below the margin, and none where it must be above. The document is taken to be the next that is decided, at the
    levels given.
    """
    runs = (n_with + n_without).astype(np.float64)
    effective = np.maximum(n_with * n_without / np.maximum(runs, 1), 1e-9)
    true = _less_noise(distance, n_with, n_without)
    noise = np.sqrt(math.log(4 * statistics) / (2 * effective))
    over, under = _needed_gaps(n_with, n_without, levels, rule, documents, statistics)
    room = rule.margin - true
    with np.errstate(divide="ignore", invalid="ignore"):
        clear = np.where(room > 0, runs * ((under + noise) / room) ** 2, np.inf)
        found = np.where(room < 0, runs * (over / room) ** 2, np.inf)
    needed = np.fmin(clear, found)
    return np.where(np.isfinite(needed), np.ceil(np.maximum(needed, runs + 1)), np.inf)


def _needed_gaps(
    n_with: Ints, n_without: Ints, levels: tuple[float, float], rule: DecisionSpec, documents: int, statistics: int
) -> tuple[Floats, Floats]:
    """How far above the margin, and how far below it, a lone document must be measured with these arms."""
    if rule.margin == 0:
        found = detectable_distance(n_with, n_without, documents, statistics, rule, levels[0])
        return found, np.full(np.shape(n_with), np.inf)
    high = min(strictest_log10_p(levels[0], documents, statistics, rule.error), -0.31)
    low = min(strictest_log10_p(levels[1], documents, 1, rule.error), -0.31)
    return least_over(n_with, n_without, high), clearing_gap(n_with, n_without, 10**low)


def clearing_gap(n_with: Ints, n_without: Ints, level: float) -> Floats:
    """How far below the margin the measured D must be for a p of `level`; infinite where an arm is empty.

    The normal quantile of the largest spread, and an eighth of that spread for what the exact bound rounds.
    """
    return np.asarray((0.125 - float(ndtri(level))) * spread(n_with, n_without))


def least_over(n_with: Ints, n_without: Ints, wanted: float) -> Floats:
    """The smallest t with `margin.over_log10_p` at the wanted log10 p or below; infinite where an arm is empty."""
    depth = math.log(SIDES) - min(wanted * math.log(10), math.log(LIKELY))
    return np.asarray(np.sqrt(2 * depth) * spread(n_with, n_without))
