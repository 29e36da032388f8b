"""Certified bounds against the true total variation, and against what is measured. Each test prints its line."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from ksdp.audit.verdicts.bands import distance_band
from ksdp.audit.verdicts.certificate import certified_bound, pair_advantage
from ksdp.audit.verdicts.ks import ks_table

pytestmark = pytest.mark.validity

REPLAYS, DOCUMENTS = 1000, 10
SCATTER = 0.1


def true_mean(shift: float) -> float:
    """Of the advantage over all pairs."""
    weight = lambda x: pair_advantage(abs(x)) * norm.pdf(x, shift, SCATTER)  # noqa: E731
    return float(quad(weight, shift - 1, shift + 1, points=[0.0, shift], limit=200)[0])


def total_variation(shift: float, tau: float) -> float:
    """Of the two laws, by integration."""
    free = np.sqrt(1 + tau**2)
    gap = lambda t: abs(norm.pdf(t, shift, np.hypot(free, SCATTER)) - norm.pdf(t, 0, free))  # noqa: E731
    return float(quad(gap, -15, 17, limit=400)[0] / 2)


@pytest.mark.parametrize("pairs", [50, 800])
@pytest.mark.parametrize("tau", [0.0, 1.0], ids=["nothing hidden by the others", "others hide half"])
def test_the_bound_covers_and_is_never_below_what_is_measured(pairs: int, tau: float) -> None:
    """What is announced is s + x with the document and s without it, s ~ N(0, tau^2), with noise N(0, 1)."""
    rng = np.random.default_rng(1)
    shift = np.linspace(0.02, 2.0, DOCUMENTS)
    mean, truth = np.array([true_mean(s) for s in shift]), np.array([total_variation(s, tau) for s in shift])
    assert (truth <= mean + 1e-9).all()
    below, under, contradicted, width = 0, 0, 0, 0.0
    inclusion = np.arange(600) % 3 == 0
    for _ in range(REPLAYS):
        # The run's own value of the document scatters around its shift, so that pairs differ.
        found = pair_advantage(np.abs(shift[:, None] + SCATTER * rng.normal(size=(DOCUMENTS, pairs))))
        bound = certified_bound(found, 0.05, DOCUMENTS)
        noise = np.sqrt(1 + tau**2) * rng.normal(size=(DOCUMENTS, 600))
        held = inclusion * (shift[:, None] + SCATTER * rng.normal(size=noise.shape))
        bits = np.broadcast_to(inclusion, noise.shape)
        table = ks_table(noise + held, np.ascontiguousarray(bits))
        low, _ = distance_band(table.distance, table.n_with, table.n_without, 0.05 / DOCUMENTS)
        below += bool((bound < truth).any())
        under += bool((bound < mean).any())
        contradicted += bool((bound < low).any())
        width += float((bound - found.mean(axis=1)).mean()) / REPLAYS
    print(
        f"{pairs} pairs, tau {tau}: below the truth in {below / REPLAYS}, below the mean over all pairs in "
        f"{under / REPLAYS}, below what is measured {contradicted} times; adds {width:.3f}"
    )
    assert below <= under <= 0.05 * REPLAYS
    assert contradicted == 0


@pytest.mark.parametrize("share", [0.01, 0.3])
def test_the_mean_is_covered_where_few_pairs_tell_everything(share: float) -> None:
    """Values 0 and 1: what the empirical variance does not see."""
    rng = np.random.default_rng(2)
    missed = [certified_bound((rng.random((1, 200)) < share) * 1.0, 0.2, 1)[0] < share for _ in range(REPLAYS)]
    print(f"share {share}: the mean is above the bound in {np.mean(missed)} at 0.2")
    assert np.mean(missed) <= 0.2
