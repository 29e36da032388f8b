"""Looking again and again: within an audit, and over a year of audits. Each test prints what it checks."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.opened import Opened
from ksdp.audit.planning import make_plan
from ksdp.audit.randomness import Purpose, generator
from ksdp.audit.specs.design import Block, mechanism_rng
from ksdp.audit.specs.models import DecisionSpec, Spec
from ksdp.audit.verdicts.decide import decide
from ksdp.audit.verdicts.laws import ArmTests, KSTable, ks_table
from ksdp.audit.verdicts.multiplicity import adjust
from ksdp.audit.verdicts.online import advance, level_now, spent_level, start

pytestmark = pytest.mark.validity


def one_column(table: KSTable) -> ArmTests:
    """A table of distances as the tests of one column."""
    shape = (len(table.distance), 1)
    parts = (table.n_with, table.n_without, table.distance, table.log10_p, np.zeros(shape))
    return ArmTests(*(np.asarray(part).reshape(shape) for part in parts))


def test_five_looks_keep_level_and_coverage() -> None:
    """Thirty documents that share runs; looks decide at their own level; verdicts of all looks count."""
    rng = np.random.default_rng(1)
    done = [0.2, 0.4, 0.6, 0.8, 1.0]
    levels = [0.05 / len(done)] * len(done)
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
            any_naive |= bool((adjust(t.log10_p, "fwer") <= math.log10(0.05)).any())
            bands_hold &= bool((d.band_low <= 0).all())
        flagged, naive, covered = flagged + any_flag, naive + any_naive, covered + bands_hold
    print(f"flags {flagged / audits}, Holm at every look {naive / audits}, bands {covered / audits}")
    assert flagged / audits <= 0.05
    assert covered / audits >= 0.95
    assert naive / audits > flagged / audits


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
            rejected = adjust(np.log10(p), "fdr") <= math.log10(spent_level(0.05, night))
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
    plan = make_plan(Opened.of(Spec.model_validate(tables | {"design": design}), corpus))
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
            if adjust(seen[drawn], "fdr").min() <= math.log10(0.05):
                rows, p = log10_p_of_nothing(corpus, seed, number)
                assert set(rows) == set(drawn)
                hopes, proved = hopes + 1, proved + (adjust(p, "fdr").min() <= math.log10(0.05))
                break
    print(
        f"of {audits} audits of nothing {hopes} name a number that would prove somebody, and {proved} of these do"
    )
    assert hopes > 0.1 * audits
    assert proved <= 0.05 * hopes + 3 * math.sqrt(0.05 * hopes)
