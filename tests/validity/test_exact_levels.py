"""Levels of the tests given ties, of max-T and of e-BH, and what they find: replayed over many audits.

Slow on purpose (`make validity`). Each test prints the figures that it checks.
"""

from __future__ import annotations

import numpy as np
import pytest

from ksdp.audit.verdicts.ks import ks_table
from ksdp.audit.verdicts.multiplicity import adjust, bonferroni
from ksdp.audit.verdicts.over_statistics import over_statistics
from ksdp.audit.verdicts.permutation import max_t
from ksdp.audit.verdicts.tied import tied_table

from .null_audits import shared_inclusion

pytestmark = pytest.mark.validity

AUDITS = 1000
LEVEL = 0.05
ABOVE = 3 * np.sqrt(LEVEL * (1 - LEVEL) / AUDITS)


def dependent(rng: np.random.Generator, statistics: int, documents: int, runs: int, private: float) -> np.ndarray:
    """Statistics that share noise with one another, and with every document of the same run."""
    run = rng.normal(size=(1, 1, runs))
    return run + rng.normal(size=(1, documents, runs)) + private * rng.normal(size=(statistics, documents, runs))


def each_p(values: np.ndarray, inclusion: np.ndarray) -> np.ndarray:
    return np.stack([ks_table(v, inclusion).log10_p for v in values], axis=1)


TIES = {
    "rounded to integers": lambda x: x.round(0),
    "half are zero": lambda x: np.maximum(x, 0),
    "an event of one run in ten": lambda x: (x > 2.2).astype(float),
    "an event of one run in forty": lambda x: (x > 3.3).astype(float),
    "no ties": lambda x: x,
}


@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize(("runs", "share"), [(240, 0.2), (200, 0.5)])
def test_the_law_given_ties_holds_its_level_and_comes_near_it(ties: str, runs: int, share: float) -> None:
    """Single tests, and whole audits of 40 documents under Holm."""
    rng = np.random.default_rng(41)
    rates: dict[str, list[float]] = {"conservative": [], "given ties": []}
    flagged = dict.fromkeys(rates, 0)
    for _ in range(AUDITS):
        inclusion = shared_inclusion(rng, 40, runs, share)
        values = TIES[ties](dependent(rng, 1, 40, runs, 0.5)[0])
        table = ks_table(values, inclusion)
        for name, log10_p in (
            ("conservative", table.log10_p),
            ("given ties", tied_table(values, inclusion, table)),
        ):
            rates[name].append(float((log10_p <= np.log10(LEVEL)).mean()))
            flagged[name] += bool((adjust(log10_p, "holm") <= np.log10(LEVEL)).any())
    single = {name: float(np.mean(rate)) for name, rate in rates.items()}
    audits = {name: count / AUDITS for name, count in flagged.items()}
    print(f"{ties}, {runs} runs, share {share}: single tests at {LEVEL}: {single}; audits under Holm: {audits}")
    error = float(np.std(rates["given ties"])) / np.sqrt(AUDITS)  # audits are independent, their tests are not
    assert single["given ties"] <= LEVEL + 3 * error
    assert audits["given ties"] <= LEVEL + ABOVE
    assert single["given ties"] >= single["conservative"]
    if ties in ("rounded to integers", "half are zero"):
        assert single["given ties"] > 0.6 * LEVEL
    if ties == "rounded to integers":
        assert single["given ties"] > 1.5 * single["conservative"]


@pytest.mark.parametrize("rounding", [None, 0], ids=["continuous", "tied"])
def test_max_t_reaches_its_level_where_bonferroni_stays_far_below(rounding: int | None) -> None:
    """Twelve statistics that are nearly one; the runs are shared by all documents. Holm over documents."""
    rng = np.random.default_rng(42)
    names = ("bonferroni", "max-T", "joined")
    single: dict[str, list[float]] = {name: [] for name in names}
    flagged = dict.fromkeys(names, 0)
    for _ in range(AUDITS):
        inclusion = shared_inclusion(rng, 20, 200, 0.3)
        values = dependent(rng, 12, 20, 200, 0.1)
        if rounding is not None:
            values = values.round(rounding)
        each = each_p(values, inclusion)
        found = {
            "bonferroni": bonferroni(each),
            "max-T": max_t(values, inclusion, 1999, rng),
            "joined": over_statistics(values, inclusion, each, 1999, rng),
        }
        for name, log10_p in found.items():
            single[name].append(float((log10_p <= np.log10(LEVEL)).mean()))
            flagged[name] += bool((adjust(log10_p, "holm") <= np.log10(LEVEL)).any())
    rates = {name: float(np.mean(rate)) for name, rate in single.items()}
    audits = {name: count / AUDITS for name, count in flagged.items()}
    print(f"nearly equal statistics: single documents at {LEVEL}: {rates}; audits under Holm: {audits}")
    for name in names:
        assert rates[name] <= LEVEL + 3 * np.std(single[name]) / np.sqrt(AUDITS)
        assert audits[name] <= LEVEL + ABOVE
    assert rates["max-T"] > 0.85 * LEVEL
    assert rates["bonferroni"] < 0.4 * LEVEL


def test_max_t_finds_what_bonferroni_misses() -> None:
    """Ten nearly equal statistics, leaks of D = 0.25 or so, BY over 20 documents of which half leak."""
    rng = np.random.default_rng(44)
    power: dict[str, list[float]] = {"bonferroni": [], "max-T": [], "joined": []}
    false: dict[str, list[float]] = {name: [] for name in power}
    for _ in range(80):
        inclusion = shared_inclusion(rng, 20, 300, 0.5)
        values = rng.normal(size=(1, 20, 300)) + 0.1 * rng.normal(size=(10, 20, 300))
        values[:, :10] += 0.45 * inclusion[:10]
        each = each_p(values, inclusion)
        for name, log10_p in (
            ("bonferroni", bonferroni(each)),
            ("max-T", max_t(values, inclusion, 4999, rng)),
            ("joined", over_statistics(values, inclusion, each, 4999, rng)),
        ):
            sensitive = adjust(log10_p, "by") <= np.log10(LEVEL)
            power[name].append(float(sensitive[:10].mean()))
            false[name].append(float(sensitive[10:].sum() / max(sensitive.sum(), 1)))
    found = {name: float(np.mean(p)) for name, p in power.items()}
    print(f"leaks found: {found}; false discovery rates: { {n: float(np.mean(f)) for n, f in false.items()} }")
    assert found["max-T"] > found["bonferroni"] + 0.1
    assert found["joined"] > found["bonferroni"] + 0.05
    assert all(np.mean(f) <= LEVEL for f in false.values())


@pytest.mark.parametrize("rounding", [None, 0], ids=["continuous", "tied"])
def test_e_bh_holds_the_false_discovery_rate(rounding: int | None) -> None:
    """Nothing leaks; and half of the documents leak. The price beside BY is printed."""
    rng = np.random.default_rng(45)
    flagged = {"by": 0, "e-bh": 0}
    false: dict[str, list[float]] = {"by": [], "e-bh": []}
    found: dict[str, list[float]] = {"by": [], "e-bh": []}
    for audit in range(2 * AUDITS):
        inclusion = shared_inclusion(rng, 60, 240, 0.3)
        values = dependent(rng, 3, 60, 240, 0.5)
        if audit % 2:
            values[0, :30] += 1.4 * inclusion[:30]
        if rounding is not None:
            values = values.round(rounding)
        over = bonferroni(each_p(values, inclusion))
        for name in flagged:
            sensitive = adjust(over, name) <= np.log10(LEVEL)
            if audit % 2:
                false[name].append(float(sensitive[30:].sum() / max(sensitive.sum(), 1)))
                found[name].append(float(sensitive[:30].mean()))
            else:
                flagged[name] += bool(sensitive.any())
    rates = {name: count / AUDITS for name, count in flagged.items()}
    discovery = {name: float(np.mean(rate)) for name, rate in false.items()}
    power = {name: float(np.mean(rate)) for name, rate in found.items()}
    print(f"null audits flagged: {rates}; false discovery rate: {discovery}; leaks found: {power}")
    assert all(rate <= LEVEL + ABOVE for rate in rates.values())
    assert all(rate <= LEVEL for rate in discovery.values())
    assert 0.3 < power["e-bh"] <= power["by"]
