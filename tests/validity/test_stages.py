"""Looks and fresh runs: the level over all looks, what they save, and effects without the winner's curse.

Slow on purpose (`make validity`). Each test prints the figure that it checks.
"""

import numpy as np
import pytest

from ksdp.audit.specs.models import DecisionSpec
from ksdp.audit.testing import compare_arms
from ksdp.audit.verdicts.decide import decide
from ksdp.audit.verdicts.effects import best_threshold, measure_effect
from ksdp.audit.verdicts.laws import ArmTests
from ksdp.audit.verdicts.looks import LOOKS, InterimVerdicts, Look, after_look, open_documents

from .null_audits import dependent_values, shared_inclusion

pytestmark = pytest.mark.validity

AUDITS = 1000


def arms_of(values: np.ndarray, inclusion: np.ndarray, rows: np.ndarray, runs: int) -> ArmTests:
    some = {str(n): np.ascontiguousarray(v[rows, :runs]) for n, v in enumerate(values)}
    return compare_arms(some, np.ascontiguousarray(inclusion[rows, :runs]))


def looked(
    values: np.ndarray, inclusion: np.ndarray, rule: DecisionSpec, shares: tuple[float, ...] = ()
) -> tuple[InterimVerdicts, int]:
    """All looks of one audit, those of audits or with equal levels, and the document-runs that they measured."""
    runs = inclusion.shape[1]
    looks = dict.fromkeys(shares, 1 / len(shares)) if shares else LOOKS
    interim: InterimVerdicts | None = None
    measured = before = 0
    for number, (share, part) in enumerate(looks.items()):
        rows = np.arange(len(inclusion)) if interim is None else open_documents(interim)
        end = round(share * runs)
        measured, before = measured + len(rows) * (end - before), end
        tests = arms_of(values, inclusion, rows, end)
        interim = after_look(interim, tests, number, Look(end, rule.level * part), rule, [])
        if not len(open_documents(interim)):
            break
    assert interim is not None
    return interim, measured


RULES = {"by": DecisionSpec(), "holm": DecisionSpec(error="fwer")}


def test_four_looks_flag_an_audit_without_a_leak_at_most_one_time_in_twenty() -> None:
    rng = np.random.default_rng(31)
    flagged = dict.fromkeys(RULES, 0)
    for _ in range(AUDITS):
        values, inclusion = dependent_values(rng, 60, 480), shared_inclusion(rng, 60, 480, 0.2)
        for name, rule in RULES.items():
            interim, _ = looked(values, inclusion, rule)
            flagged[name] += bool(interim.decisions.detected.any())
    rates = {name: count / AUDITS for name, count in flagged.items()}
    print("false-flag rate of an audit of its four looks at level 0.05:", rates)
    assert max(rates.values()) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / AUDITS)


@pytest.mark.parametrize("looks", [(1.0,), (0.3, 0.6, 1.0)], ids=len)
def test_false_discoveries_over_all_looks_stay_at_their_rate(looks: tuple[float, ...]) -> None:
    """Half of the documents leak, so looks decide some of them early; the share is counted at the end."""
    rng = np.random.default_rng(32)
    shares, found = [], []
    for _ in range(AUDITS // 2):
        values, inclusion = dependent_values(rng, 60, 300), shared_inclusion(rng, 60, 300, 0.3)
        values[0, :30] += 1.6 * inclusion[:30]
        interim, _ = looked(values, inclusion, RULES["by"], looks)
        sensitive = interim.decisions.detected
        shares.append(sensitive[30:].sum() / max(sensitive.sum(), 1))
        found.append(sensitive[:30].mean())
    print(f"{len(looks)} looks: false discovery rate {np.mean(shares)}, power {np.mean(found)}")
    assert np.mean(shares) <= 0.05
    assert np.mean(found) > 0.5


def test_looks_decide_as_the_fixed_design_does_with_fewer_runs() -> None:
    """Leaks as strong as real ones: most documents are decided at the first look."""
    rng = np.random.default_rng(33)
    rule = DecisionSpec(margin=0.45)
    agree, spent, decided = [], [], []
    for _ in range(100):
        runs, documents = 3000, 40
        inclusion = shared_inclusion(rng, documents, runs, 0.25)
        values = rng.normal(size=(2, documents, runs))
        values[0] += np.r_[np.full(24, 1.8), np.full(8, 0.5), np.zeros(8)][:, None] * inclusion
        interim, measured = looked(values, inclusion, rule, (0.05, 0.2, 0.5, 1.0))
        fixed = decide(arms_of(values, inclusion, np.arange(documents), runs), rule).verdict
        agree.append((fixed == interim.decisions.verdict).mean())
        decided.append(((fixed != "undecided") & (interim.decisions.verdict == "undecided")).mean())
        spent.append(measured / (runs * documents))
    print(
        f"same verdicts {np.mean(agree):.3f}, left open {np.mean(decided):.4f}, of the runs {np.mean(spent):.2f}"
    )
    assert np.mean(agree) >= 0.97
    assert np.mean(spent) <= 0.5


def test_clear_is_wrong_in_at_most_one_audit_in_twenty_over_all_looks() -> None:
    rng = np.random.default_rng(34)
    rule = DecisionSpec(margin=0.3)
    wrong = 0
    for _ in range(AUDITS):
        inclusion = rng.random((20, 900)) < 0.5
        values = (rng.random((20, 900)) + 0.3 * inclusion)[None]
        interim, _ = looked(values, inclusion, rule, (0.4, 0.7, 1.0))
        wrong += bool((interim.decisions.verdict == "clear").any())
    print("audits that cleared a document at the margin at any look:", wrong / AUDITS)
    assert wrong / AUDITS <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / AUDITS)


def test_the_advantage_on_fresh_runs_is_free_of_the_winner_s_curse() -> None:
    """A hundred documents of one true advantage; the few that are flagged were lucky, and fresh runs say so."""
    rng = np.random.default_rng(35)
    true, naive, fresh, covered, lower = 0.3, [], [], [], []
    for _ in range(150):
        inclusion = rng.random((100, 260)) < 0.5
        values = {str(s): rng.random((100, 260)) + true * inclusion for s in range(3)}
        tests = compare_arms(values, inclusion)
        decided = decide(tests, DecisionSpec())
        for row in np.flatnonzero(decided.detected):
            best = decided.strongest[row]
            naive.append(tests.distance[row, best])
            mine, bits = values[str(best)][row], inclusion[row]
            attack = best_threshold(mine[bits], mine[~bits])
            again = rng.random(200) < 0.5
            new = rng.random(200) + true * again
            effect = measure_effect(int(row), str(best), attack, new[again], new[~again], 0.05)
            # The true advantage of the very attack that is measured.
            t = attack.threshold
            exact = (min(max(t, 0), 1) - min(max(t - true, 0), 1)) * (1 if attack.above else -1)
            fresh.append(effect.advantage - exact)
            covered.append(effect.advantage_low <= exact <= effect.advantage_high)
            lower.append(effect.epsilon_low)
    print(f"flagged {len(naive)}: measured D {np.mean(naive):.3f}, true {true}; on fresh runs off by")
    print(f"{np.mean(fresh):+.4f} on average, interval holds {np.mean(covered):.3f}")
    assert np.mean(naive) > true + 0.05
    assert abs(np.mean(fresh)) < 3 * np.std(fresh) / np.sqrt(len(fresh)) + 1e-3
    assert np.mean(covered) >= 0.95 - 3 * np.sqrt(0.05 * 0.95 / len(covered))
