"""Looking again and again: within an audit, and over a year of audits. Each test prints what it checks."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.corpus import Corpus
from ksdp.audit.decision_spec import DecisionSpec
from ksdp.audit.design import Block
from ksdp.audit.design_streams import mechanism_rng
from ksdp.audit.planning import make_plan
from ksdp.audit.randomness import Purpose, generator
from ksdp.audit.spec import Spec
from ksdp.audit.verdicts.arms import ArmTests
from ksdp.audit.verdicts.bands import band_width
from ksdp.audit.verdicts.decide import decide
from ksdp.audit.verdicts.ks import KSTable, ks_distances, ks_table
from ksdp.audit.verdicts.multiplicity import adjust, adjust_e, e_from_p
from ksdp.audit.verdicts.online import advance, level_now, spent_level, start
from ksdp.audit.verdicts.sequential import anytime_band_width, look_levels

pytestmark = pytest.mark.validity


def one_column(table: KSTable) -> ArmTests:
    """A table of distances as the tests of one column."""
    shape = (len(table.distance), 1)
    parts = (table.n_with, table.n_without, table.distance, table.log10_p, np.zeros(shape))
    return ArmTests(*(np.asarray(part).reshape(shape) for part in parts))


@pytest.mark.parametrize("spending", ["obrien-fleming", "pocock"])
def test_five_looks_keep_level_and_coverage(spending: str) -> None:
    """Thirty documents that share runs; looks decide at their own level; verdicts of all looks count."""
    rng = np.random.default_rng(1)
    done = [0.2, 0.4, 0.6, 0.8, 1.0]
    levels = look_levels(done, 0.05, spending)
    flagged = covered = naive = 0
    audits = 1500
    for _ in range(audits):
        inclusion = rng.random((30, 250)) < 0.3
        values = rng.normal(size=(1, 250)) + rng.normal(size=(30, 250))
        any_flag = any_naive = False
        bands_hold = True
        for part, level in zip(done, levels, strict=True):
            runs = round(250 * part)
            t = ks_table(values[:, :runs], inclusion[:, :runs])
            d = decide(one_column(t), DecisionSpec(level=float(level)))
            any_flag |= bool(d.detected.any())
            any_naive |= bool((adjust(t.log10_p, "holm") <= math.log10(0.05)).any())
            bands_hold &= bool((d.band_low <= 0).all())
        flagged, naive, covered = flagged + any_flag, naive + any_naive, covered + bands_hold
    print(f"{spending}: flags {flagged / audits}, Holm at every look {naive / audits}, bands {covered / audits}")
    assert flagged / audits <= 0.05
    assert covered / audits >= 0.95
    assert naive / audits > flagged / audits


def test_the_band_for_every_moment_holds_at_every_moment() -> None:
    """A plateau of D = 0.3, looked at after every twentieth run."""
    rng = np.random.default_rng(2)
    replays, ends = 400, np.arange(200, 2001, 20)
    broken = 0
    for _ in range(replays):
        inclusion = rng.random((1, 2000)) < 0.5
        values = rng.random((1, 2000)) + 0.3 * inclusion
        n = np.array([inclusion[0, :end].sum() for end in ends])
        h = np.array([ks_distances(values[:, :end], inclusion[:, :end])[0] for end in ends])
        width = anytime_band_width(n, ends - n, 0.2)
        broken += bool((np.abs(h / (n * (ends - n)) - 0.3) > width).any())
        # Not vacuous: some three times the band for one moment.
        assert (width < 3.2 * band_width(n, ends - n, 0.2)).all()
    print(f"broken somewhere: {broken / replays} at level 0.2")
    assert broken / replays <= 0.2


def test_a_year_of_nightly_audits_keeps_its_false_discovery_rate() -> None:
    """365 audits, 30 of them of a protocol that leaks; LORD++, and testing each at 0.05."""
    rng = np.random.default_rng(3)
    shares, found, naive = [], [], []
    for _ in range(2000):
        leaks = np.zeros(365, dtype=bool)
        leaks[rng.choice(365, 30, replace=False)] = True
        p = np.where(leaks, rng.random(365) ** 8, rng.random(365))
        state = start(0.05)
        for value in p:
            state = advance(state, float(value))
        rejected = np.zeros(365, dtype=bool)
        rejected[np.array(state.rejections, dtype=np.int64) - 1] = True
        shares.append((rejected & ~leaks).sum() / max(rejected.sum(), 1))
        found.append((rejected & leaks).sum() / 30)
        naive.append(((p <= 0.05) & ~leaks).sum() / max((p <= 0.05).sum(), 1))
    print(f"LORD++: FDR {np.mean(shares):.4f}, power {np.mean(found):.3f}; each at 0.05: FDR {np.mean(naive):.3f}")
    assert np.mean(shares) <= 0.05
    assert np.mean(found) > 0.2
    assert np.mean(naive) > 0.2
    quiet = start(0.05)
    assert level_now(quiet) < 0.05


def test_a_year_of_spent_levels_keeps_its_false_discovery_rate() -> None:
    """Each night forty documents, ten leak; BY at the level of the night; strongly dependent nulls."""
    rng = np.random.default_rng(4)
    shares, found = [], []
    for _ in range(300):
        false = true = 0
        for night in range(1, 366):
            null = np.where(rng.random(30) < 0.7, rng.random(), rng.random(30))
            p = np.concatenate([null, rng.random(10) ** 12])
            rejected = adjust(np.log10(p), "by") <= math.log10(spent_level(0.05, night))
            false, true = false + int(rejected[:30].sum()), true + int(rejected[30:].sum())
        shares.append(false / max(false + true, 1))
        found.append(true / 3650)
    print(f"spending: FDR {np.mean(shares):.4f}, power {np.mean(found):.3f}")
    assert np.mean(shares) <= 0.05
    assert np.mean(found) > 0.1


def log10_p_of_nothing(corpus: Corpus, seed: int, documents: int | None) -> tuple[NDArray, NDArray]:
    """Rows that are audited, and their p, where runs announce nothing but noise: one number a document."""
    tables = {"seed": seed, "corpus": {"path": "none"}, "mechanism": {"name": "pd-svd", "rank": 1}}
    design = {"party_size": 0.5, "with_runs": 50, "documents": documents}
    plan = make_plan(Spec.model_validate(tables | {"design": design}), corpus)
    runs = [mechanism_rng(plan.design, 0, run).random(len(corpus)) for run in range(plan.design.runs)]
    values = np.ascontiguousarray(np.stack(runs, axis=1)[plan.audited])
    return plan.audited, ks_table(values, plan.design.inclusion(Block(0, 0, plan.design.runs))).log10_p


def test_how_many_are_drawn_cannot_be_chosen_by_what_was_seen() -> None:
    """Audits of nothing, of all 200 documents; then the first number whose drawn ones these runs would prove."""
    audits, hopes, proved = 200, 0, 0
    counts = np.random.default_rng(6).poisson(2.0, (200, 6)).astype(float) + 1
    corpus = Corpus(sp.csr_array(counts), np.arange(200).astype(str))
    for seed in range(audits):
        _, seen = log10_p_of_nothing(corpus, seed, None)
        for number in range(1, 200):
            drawn = generator(seed, Purpose.TARGETS).choice(200, number, replace=False, shuffle=False)
            if adjust(seen[drawn], "by").min() <= math.log10(0.05):
                rows, p = log10_p_of_nothing(corpus, seed, number)
                assert set(rows) == set(drawn)
                hopes, proved = hopes + 1, proved + (adjust(p, "by").min() <= math.log10(0.05))
                break
    print(
        f"of {audits} audits of nothing {hopes} name a number that would prove somebody, and {proved} of these do"
    )
    assert hopes > 0.1 * audits
    assert proved <= 0.05 * hopes + 3 * math.sqrt(0.05 * hopes)


def test_products_of_e_values_keep_the_false_discovery_rate() -> None:
    """Five independent audits of two hundred documents, their evidence multiplied; nulls depend on each other."""
    rng = np.random.default_rng(5)
    shares, found = [], []
    for _ in range(2000):
        null = np.where(rng.random((5, 180)) < 0.5, rng.random((5, 1)), rng.random((5, 180)))
        p = np.concatenate([null, rng.random((5, 20)) ** 8], axis=1)
        rejected = adjust_e(e_from_p(np.log10(p)).sum(axis=0)) <= math.log10(0.05)
        shares.append(rejected[:180].sum() / max(rejected.sum(), 1))
        found.append(rejected[180:].mean())
    print(f"e-BH on products: FDR {np.mean(shares):.4f}, power {np.mean(found):.3f}")
    assert np.mean(shares) <= 0.05
    assert np.mean(found) > 0.5
