"""Faults that are planted in the verdict path, one at a time, and a program that asks the tests about each.

A mutant is a module, a piece of its text and what stands there instead. The text must occur exactly once: who
rewrites a module chooses its mutants anew, and `run` says so loudly.

    python tests/validity/mutants.py [FILE ...]

prints one JSON line a mutant, of these files or of all. Everything is imported, and the tests are collected, once
for each list of tests; each mutant gets a fork, in which the functions of its module get the code of the changed
text. A constant of a module is changed for that module alone. Kernels of the verdicts run uncompiled.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

__all__ = ["MUTANTS", "Mutant", "changed"]

ROOT = Path(__file__).resolve().parents[2]
VERDICTS = ("tests/audit/verdicts/test_verdict_path.py",)
STEP_UPS = ("tests/audit/verdicts/test_multiplicity.py",)
MATCH = ("tests/audit/statistics/linear/test_match.py",)
COPIES = ("tests/audit/verdicts/test_certificates.py", "tests/audit/test_copies.py")
STEPS = ("tests/audit/statistics/linear/test_filter_steps.py",)
RULED_OUT = "tests/audit/statistics/linear/test_ruled_out.py"
ONE_BY_ONE = "tests/audit/statistics/linear/test_one_by_one.py"
MOMENTS = "tests/audit/statistics/linear/test_moments.py"
EQUATIONS = "tests/audit/statistics/linear/test_max_entropy.py"
MAX_ENTROPY = "tests/audit/statistics/linear/test_max_entropy.py"
EXPLAINED = "tests/audit/statistics/linear/test_explained.py"
SOLVED = "tests/audit/statistics/linear/test_solved_parts.py"
PRECISION = "tests/audit/test_observed_precision.py"
FIRST_NUMBERS = "tests/audit/statistics/linear/test_first_numbers.py"
BITS = "tests/audit/test_bits.py"
LITTLE_NOISE = "tests/audit/statistics/linear/test_little_noise.py"
BASIS = "tests/audit/statistics/linear/test_basis_equations.py"
SOLVED_FILTERS = "tests/audit/statistics/linear/test_solved_filters.py"
NOISY = "tests/audit/mechanisms/privacy/test_noisy.py"
ROUNDS = ("tests/audit/statistics/linear/test_rounds_match.py", RULED_OUT, *STEPS)
FIRST_ROUND = "tests/audit/statistics/linear/test_first_round.py"
RELEASES = ("tests/audit/statistics/linear/test_releases.py", FIRST_ROUND)
PEM = ("tests/audit/statistics/linear/test_releases.py",)
LOW_FPR = ("tests/audit/verdicts/test_low_fpr.py",)
CANARIES = ("tests/audit/test_canaries.py",)
PARTS = ("tests/audit/test_document_parts.py",)
KEPT = ("tests/audit/statistics/linear/test_kept_columns.py",)
COUNTED = ("tests/audit/mechanisms/test_counted.py",)
COUNTS = ("tests/audit/statistics/linear/test_document_counts.py",)
PLANTED = ("tests/audit/mechanisms/test_planted.py", "tests/audit/screening/test_planting.py")
LEARNT = ("tests/audit/statistics/test_simulated.py",)
SENSITIVITY = ("tests/audit/mechanisms/test_sensitivity.py",)
TOGETHER = ("tests/audit/mechanisms/test_joint.py", *KEPT)


@dataclass(frozen=True)
class Mutant:
    """One planted fault."""

    file: str
    """Under the root of the repository."""
    old: str
    new: str
    tests: tuple[str, ...] = VERDICTS
    """Files of the tests that must kill it."""

    @property
    def module(self) -> str:
        """Its dotted name."""
        return "ksdp." + self.file.removeprefix("src/ksdp/").removesuffix(".py").replace("/", ".")


def _of(file: str, *changes: tuple[str, str], tests: tuple[str, ...] = VERDICTS) -> list[Mutant]:
    return [Mutant(file, old, new, tests) for old, new in changes]


# Not here, as they change nothing that can be said:
# - `0.0 if sensitive` for p below the margin, `& ~sensitive` and `margin > 0` in clear: measured above the
#   margin, or with margin 0, p below it is 1 already;
# - "called clear", and dropping `must_call & ~called`, of a canary whose D is 1: its p below any margin is
#   1, and its D is above the one that surely suffices;
# - arms exchanged in `largest_log10_tail`, which sorts them; `d <= gap` there, where the chance is above a
#   fifth and called 1; the order in which its intervals are halved;
# - which arm `ks` looks up, and tied values of it taken one by one there: the last of them has the upper
#   end of the step, the first the lower one;
# - `columns` in the sort for the strongest, which is stable;
# - `return low` in the bisection of a certified bound: 2^-32 of it;
# - `_CERTAIN` of a document that is certified in all views, which is taken out before the correction;
# - arms exchanged in `epsilon_lower_bound`, which asks both;
# - `apart = turned` in `Expected.sums`: the part in the expected space is one vector each, and cancels;
# - `topics @ rows.T` turned round in `FirstOrderTopics`, which is a quadratic form.
MUTANTS: list[Mutant] = [
    *_of(
        "audit/spec/models.py",
        ("self.decision.margin / drawn)", "self.decision.margin)"),
        ("self.decision.margin / drawn)", "self.decision.margin * drawn)"),
        ("min(1.0, self.decision.margin / drawn)", "self.decision.margin / drawn"),
        (" and self.decision.accepts(drawn)", ""),
        ("self.decision.accepts(drawn)", "not self.decision.accepts(drawn)"),
        tests=("tests/audit/spec/test_models.py",),
    ),
    *_of(
        "audit/spec/models.py",
        ("self.decision.accepts(drawn)", "drawn <= self.decision.margin"),
        ("(bound <= accepted)", "(bound <= self.margin)"),
        ("min(self.margin, low - LOW_FPR)", "self.margin"),
        ("min(self.margin, low - LOW_FPR)", "min(self.margin, low)"),
        ("min(self.margin, low - LOW_FPR)", "low - LOW_FPR"),
        ("(low - (1 - drawn) * LOW_FPR) / drawn", "low / drawn"),
        ("(low - (1 - drawn) * LOW_FPR) / drawn", "low"),
        tests=LOW_FPR,
    ),
    *_of(
        "audit/verdicts/low_fpr.py",
        ("betainc(k, n + 1 - k, LOW_FPR) <= most", "betainc(k, n + 1 - k, LOW_FPR) > most"),
        ("rank = 1 + bisect_left(", "rank = bisect_left("),
        ("betaincc(k, n + 1 - k, LOW_FPR) > most", "betaincc(k, n + 1 - k, 2 * LOW_FPR) > most"),
        ("np.array([p for _, p in included]) + bdtr(", "bdtr("),
        ("bdtr(counts[0], n_with, self.limit)", "bdtr(counts[0] - 1, n_with, self.limit)"),
        ("np.minimum(2 * above, 1.0)", "np.minimum(above, 1.0)"),
        tests=LOW_FPR,
    ),
    *_of(
        "audit/plan.py",
        ('return home.__module__.startswith("ksdp.") and all(map(_ours, held))', "return True"),
        (" and all(map(_ours, held))", ""),
        ("home = part if isinstance(part, FunctionType) else type(part)", "home = _ours"),
        ("and plan.units.order is None and reads", "and reads"),
        (" and reads_one_document(plan.statistics)\n", "\n"),
        ("apart = isinstance(plan.design, Shared) and", "apart ="),
        ("or set(columns) - set(statistics)", ""),
        ("(len(plan.statistics) if plan.strongest is None else 1)", "len(plan.statistics)"),
        tests=PARTS,
    ),
    *_of(
        "audit/sampling.py",
        ("self._places[places]", "places"),
        ("kept[: len(documents)] if places is None else kept[places]", "kept[: len(documents)]"),
        ("np.flatnonzero(strongest == number)", "np.flatnonzero(strongest != number)"),
        ("np.concatenate([self._everywhere, held])", "self._everywhere"),
        (
            "self._among_all(together), self._documents.at(together)",
            "self._among_all(together), self._documents.at(np.sort(together))",
        ),
        tests=("tests/audit/test_run_subsampling.py",),
    ),
    *_of(
        "audit/plan.py", ("return by_place or not reads_one_document(statistics)", "return by_place"), tests=PARTS
    ),
    *_of(
        "audit/planning.py",
        ("if few or isinstance(design, Balanced)", "if few"),
        ("if few or isinstance(design, Balanced)", "if isinstance(design, Balanced)"),
        (" and len(design.audited) < len(design.pool)", ""),
        ("Purpose.AUDITED, *design.audited.tolist()", "Purpose.AUDITED"),
        tests=("tests/audit/test_plan.py",),
    ),
    *_of(
        "flows/audits/run.py",
        ('"explored": True', '"explored": False'),
        tests=("tests/flows/audits/test_chosen_statistics.py",),
    ),
    *_of(
        "audit/verdicts/looks.py",
        ("np.full_like(interim.decisions.verdict, Verdict.UNDECIDED)", "interim.decisions.verdict"),
        ("nothing = np.zeros_like(interim.decisions.detected)", "nothing = interim.decisions.detected"),
        tests=("tests/flows/audits/test_chosen_statistics.py",),
    ),
    *_of(
        "flows/prepare.py",
        ("(seen := sorted(before & names))", "(seen := sorted(before - before))"),
        tests=("tests/flows/audits/test_chosen_statistics.py",),
    ),
    *_of(
        "audit/sampling.py",
        ("given.dtype.name != wanted", "given.dtype.kind != wanted[0]"),
        tests=("tests/api/test_declared.py",),
    ),
    *_of("tasks/repeats.py", ("if first != second]", "if not first]"), tests=("tests/tasks/test_repeats.py",)),
    *_of(
        "audit/screening/clearance.py",
        ("attempt=name or given.hash", "attempt=given.hash"),
        ("as_rows(parties[name], units)", "parties[name]"),
        ('for name in ("honest", "coalition")', 'for name in ("honest",)'),
        ('for name in ("honest", "coalition")', 'for name in ("coalition",)'),
        tests=("tests/audit/screening/test_attempts.py",),
    ),
    *_of(
        "audit/plan.py",
        ("self._first_copies(own) if self._of_few(block) else own", "own"),
        ("np.zeros_like(numbers) if self._of_few(block) else numbers", "numbers"),
        ("runs[self.inclusion(block).any(axis=0)]", "runs[self.design.inclusion(block).any(axis=0)]"),
        ("block.start >= self.few_from", "block.start > self.few_from"),
        tests=("tests/audit/test_few_left.py",),
    ),
    *_of(
        "audit/sampling.py",
        ("block.start + at)[held_as]", "block.start + at)[plan.design.targets(block.lane)]"),
        tests=("tests/audit/test_few_left.py",),
    ),
    *_of(
        "audit/run_subsampling.py",
        ("early = min(self.early, done)", "early = 0"),
        ("return early + (done - early) // self.every", "return done // self.every"),
        ("(read - self.early) * (self.every - 1)", "read * (self.every - 1)"),
        tests=("tests/audit/test_run_subsampling.py", "tests/audit/test_run_subsampling.py"),
    ),
    *_of(
        "audit/verdicts/looks.py",
        ("Look(end, level * part)", "Look(end, level)"),
        ("parts.get(end, 0.0) + before, 0.0", "before, 0.0"),
        ("parts.get(end, 0.0) + before, 0.0", "part, 0.0"),
        (">= _LEAST_WITH", ">= 0"),
        tests=("tests/audit/verdicts/test_looks.py",),
    ),
    *_of(
        "audit/run_subsampling.py",
        ("if block.start < reading.early:", "if block.start < 2 * reading.early:"),
        ("if block.start < reading.early:", "if False:"),
        tests=("tests/audit/test_run_subsampling.py",),
    ),
    *_of(
        "audit/party_view.py",
        ("_entering(others, spec.corpus.levers.drawn, rng)", "others"),
        ("len(units) if spec.parties.me is None else len(victim)", "len(units)"),
        ("self.size + self.entering * self.drawn", "self.size + self.entering"),
        ("self.size + self.entering * self.drawn", "self.size"),
        ("(len(self.honest) + 1) // 2 if self.drawn", "len(self.honest) if self.drawn"),
        ("if spec.parties.me is None or drawn is None else", "if True else"),
        ("as_rows(spec.design.pool, counted)", "as_rows(spec.design.pool, len(units))"),
        ("if size > len(victim)", "if False"),
        tests=("tests/audit/test_party_view.py",),
    ),
    *_of(
        "protocols/programs/secret_draw.py",
        ("_number(key, unit) < below", "_number(key, unit) <= 2 * below"),
        (".derive(identity.private_bytes_raw())", ".derive(bytes(32))"),
        (".derive(identity.private_bytes_raw())", ".derive(identity.public_key().public_bytes_raw())"),
        tests=("tests/protocols/programs/test_secret_draw.py",),
    ),
    *_of(
        "flows/runs/party.py",
        ("if verified.clearance.drawn != drawn:", "if False:"),
        ("np.flatnonzero(verified.clearance.allows(entering.ids))", "np.arange(len(entering))"),
        tests=("tests/flows/runs/test_levers_run.py",),
    ),
    *_of(
        "audit/verdicts/laws.py",
        ("best = max(best, end * n - upto * m, under * m - start * n)", "best = max(best, end * n - upto * m)"),
        ("best = max(best, end * n - upto * m, under * m - start * n)", "best = max(best, under * m - start * n)"),
        ("if inclusion[row, run] == pick:", "if inclusion[row, run]:"),
        ("return [KSTable(n_with, n_without, *found)", "return [KSTable(n_without, n_with, *found)"),
        ("upto = below - end", "upto = below"),
        ("under = below - start", "under = below"),
        ("for arm in (n_with, n_without))", "for arm in (n_with, n_with))"),
    ),
    *_of(
        "audit/verdicts/ties.py",
        (
            "while high >= low and (high - 1) * total - mean >= h:",
            "while high >= low and (high - 1) * total - mean > h:",
        ),
        (
            "while low <= high and mean - (low - 1) * total >= h:",
            "while low <= high and mean - (low - 1) * total > h:",
        ),
        ("while low <= high and mean - (low - 1) * total >= h:", "while False:"),
        ("if step + 1 == ends[at]:", "if step == ends[at]:"),
        ("if step + 1 == ends[at]:", "if True:"),
        ("mean = (step + 1) * m", "mean = step * m"),
        ("if i == len(ordered) or ordered[i] != ordered[start]:", "if True:"),
        ("out[rows] = np.minimum(log_p / _LN10, out[rows])", "out[rows] = log_p"),
        (
            "h = np.rint(np.nan_to_num(table.distance) * pairs)",
            "h = np.rint(np.nan_to_num(table.distance) * pairs + 1)",
        ),
    ),
    *_of(
        "audit/verdicts/tails.py",
        ("up = held * runs >= size * held_of_all", "up = True"),
        ("up = held * runs >= size * held_of_all", "up = held * runs <= size * held_of_all"),
        ("stop = highest + 1 if up else lowest - 1", "stop = highest if up else lowest"),
        ("log_tail += math.log(2.0) + math.log(looked_at)", "log_tail += math.log(looked_at)"),
        ("log_tail += math.log(2.0) + math.log(looked_at)", "log_tail += math.log(2.0)"),
        ("if log_tail < log_p[row]:", "if log_tail > log_p[row]:"),
        ("inside += (value >= edge) if side else (value <= edge)", "inside += value >= edge"),
        (
            "inside += (value >= edge) if side else (value <= edge)",
            "inside += (value > edge) if side else (value < edge)",
        ),
        ("_edge(ordered[row], sizes[k], side == 1)", "_edge(ordered[row], sizes[k], True)"),
        ("counts[side, k - 1] = 0", "pass"),
        ("_FEWEST = 3", "_FEWEST = 4"),
        ("return (whole, at) if 2 * whole <= runs else (0, at)", "return (size, at)"),
        ("table.log10_p[:] /= math.log(10)", "table.log10_p[:] /= 1.0"),
    ),
    *_of(
        "audit/verdicts/margins.py",
        ("max(math.log((SIDES + 1) / level), math.log(SIDES / LIKELY))", "math.log((SIDES + 1) / level)"),
        ("math.log((SIDES + 1) / level)", "math.log(SIDES / level)"),
        ("math.log((SIDES + 1) / level)", "math.log(1 / level)"),
        ("np.sqrt(depth * (1 / m + 1 / n) / 2)", "np.sqrt(depth / (m + n) / 2)"),
        ("np.sqrt(depth * (1 / m + 1 / n) / 2)", "np.sqrt(depth * (1 / m + 1 / n)) / 2"),
        ("np.where(known, np.clip(distance + width, 0, 1), 1.0)", "np.clip(np.nan_to_num(distance), 0, 1)"),
        (
            "np.where(known, np.clip(distance + width, 0, 1), 1.0)",
            "np.where(known, np.clip(distance + width, 0, 1), 0.0)",
        ),
        ("np.where(known, np.clip(distance - width, 0, 1), 0.0)", "np.where(known, np.clip(distance, 0, 1), 0.0)"),
    ),
    *_of(
        "audit/verdicts/multiplicity.py",
        ("log10_p.min(axis=1) + np.log10(log10_p.shape[1])", "log10_p.min(axis=1)"),
        ("log10_p.min(axis=1) + np.log10(log10_p.shape[1])", "log10_p.max(axis=1)"),
        ("np.log10(np.arange(count, 0, -1))", "np.log10(np.arange(count, 0, -1) - 1 + 1e-9)"),
        (
            "np.maximum.accumulate(log10_p[order] + np.log10(np.arange(count, 0, -1)))",
            "log10_p[order] + np.log10(np.arange(count, 0, -1))",
        ),
        ("stepped = np.minimum.accumulate(stepped[::-1])[::-1]", "pass"),
        (
            "out[order] = np.minimum(stepped, 0.0)\n    return out\n",
            "out[:] = np.minimum(stepped, 0.0)\n    return out\n",
        ),
        ("main - np.log10(1 - TAIL_SHARE), other - np.log10(TAIL_SHARE)", "main, other"),
        (
            "main - np.log10(1 - TAIL_SHARE), other - np.log10(TAIL_SHARE)",
            "main - np.log10(TAIL_SHARE), other - np.log10(1 - TAIL_SHARE)",
        ),
        ("np.log10(level) + np.log10(share) - np.log10(statistics)", "np.log10(level) + np.log10(share)"),
        ("np.log10(level) + np.log10(share) - ", "np.log10(level) - "),
        (
            "strictest_log10_p(level, documents, statistics, error) + float(np.log10(1 - TAIL_SHARE))",
            "strictest_log10_p(level, documents, statistics, error)",
        ),
    ),
    *_of(
        "audit/testing.py",
        ("weighted_minimum(distances, tails),", "distances,"),
        ("weighted_minimum(distances, tails),", "weighted_minimum(tails, distances),"),
        ("tied_table(v, inclusion, table, o)", "tied_table(v, inclusion, tables[0], o)"),
        ("dealt = np.ascontiguousarray(inclusion[:, order])", "dealt = np.ascontiguousarray(inclusion)"),
        ("part.log10_p[:NULL_CONTROLS].min(axis=1)", "part.log10_p[:NULL_CONTROLS].max(axis=1)"),
        ("if smallest < _CONTROL_LEVEL / len(null):", "if smallest < _CONTROL_LEVEL / len(null) ** 2:"),
        ("if smallest < _CONTROL_LEVEL / len(null):", "if smallest < _CONTROL_LEVEL:"),
        ("elif lowest < _CONTROL_LEVEL / len(dealt):", "elif False:"),
        ("elif lowest < _CONTROL_LEVEL / len(dealt):", "elif lowest < _CONTROL_LEVEL / len(dealt) / 10:"),
        ("float(planted.max()) > bar:", "float(planted.min()) > bar:"),
        ("if canaries is not None and canaries.reason is not None:", "if False:"),
        ("(math.log(2) - 2 * m * n / (m + n) * 0.45**2)", "(math.log(2) - 0 * m * n / (m + n) * 0.45**2)"),
    ),
    *_of(
        "audit/testing.py",
        ("distance=np.where(upside_down, 0.0, tests.distance)", "distance=tests.distance"),
        ("log10_p=np.where(upside_down, 0.0, tests.log10_p)", "log10_p=tests.log10_p"),
        ("log10_tail=np.where(upside_down, 0.0, tests.log10_tail)", "log10_tail=tests.log10_tail"),
        ("held * sizes[1] > (total - held) * sizes[0]", "held > total - held"),
        ("held * sizes[1] > (total - held) * sizes[0]", "held * sizes[1] <= (total - held) * sizes[0]"),
        ("(~higher & ~np.isnan(tests.distance[:, 0]))", "(~higher)"),
    ),
    *_of(
        "audit/verdicts/laws.py",
        ("while i < len(first) and not first[i] > place:", "if i < len(first) and not first[i] > place:"),
        ("while j < len(second) and not second[j] > place:", "if j < len(second) and not second[j] > place:"),
        ("np.abs(one - other)", "one - other"),
        ("np.abs(one - other)", "other - one"),
        tests=("tests/audit/verdicts/test_verdict_path.py", "tests/audit/results/test_gap.py"),
    ),
    *_of(
        "audit/verdicts/effects.py",
        ("values > self.threshold if", "values >= self.threshold if"),
        ("else values <= self.threshold", "else values < self.threshold"),
        ("values > self.threshold if self.above else values <= self.threshold", "values > self.threshold"),
        ("gap.share_without > gap.share_with", "gap.share_without < gap.share_with"),
        ("gap.share_without > gap.share_with", "True"),
        ("np.arange(len(values)) < len(held)", "np.arange(len(values)) < len(free)"),
        ("table.n_with, table.n_without, level)", "table.n_with, table.n_with, level)"),
        ("table.n_with, table.n_without, level)", "table.n_with, table.n_without, level / 2)"),
        ("(attack.hits(arm))) for arm in (held, free))", "(attack.hits(arm))) for arm in (free, held))"),
        ("share_interval(hits, len(held), level / 2)", "share_interval(hits, len(held), level)"),
        ("share_interval(alarms, len(free), level / 2)", "share_interval(alarms, len(free), level)"),
        ("for rate in (0.01, 0.001)", "for rate in (0.001, 0.01)"),
        ("tpr_at_fpr(held, free, rate, 1 - level)", "tpr_at_fpr(free, held, rate, 1 - level)"),
        ("tpr_at_fpr(held, free, rate, 1 - level)", "tpr_at_fpr(held, free, rate, level)"),
        ("n_with=len(held)", "n_with=len(free)"),
        ("n_without=len(free)", "n_without=len(held)"),
        ("advantage=tpr - fpr", "advantage=tpr"),
        ("tpr_low - fpr_high", "tpr_low - fpr_low"),
        ("tpr_low - fpr_high", "tpr - fpr_high"),
        ("tpr_high - fpr_low", "tpr_high - fpr_high"),
        ("tpr_high - fpr_low", "tpr_high - fpr"),
        ("band_low=float(low[0])", "band_low=float(high[0])"),
        ("float(table.log10_p[0])", "0.0"),
        ("alarms, len(free), margin)", "alarms, len(free), 0.0)"),
        ("above_log10_p(hits, len(held), alarms,", "above_log10_p(hits, len(held), 0,"),
        ("epsilon_lower_bound(held, free, 1 - level)", "epsilon_lower_bound(held, free, level)"),
        ("tpr_at_fpr_01=rare.tpr if rare", "tpr_at_fpr_01=rare.tpr_low if rare"),
        ("tpr_at_fpr_01_low=rare.tpr_low if rare", "tpr_at_fpr_01_low=rare.tpr if rare"),
        ("tpr_at_fpr_001=rarer.tpr if rarer", "tpr_at_fpr_001=rare.tpr if rare"),
        ("tpr_at_fpr_001_low=rarer.tpr_low if rarer", "tpr_at_fpr_001_low=rarer.tpr if rarer"),
        ("= hits / len(held)", "= hits / len(free)"),
        ("= alarms / len(free)", "= alarms / len(held)"),
    ),
    *_of(
        "audit/verdicts/effects.py",
        ("self.high < self.claimed", "self.high > self.claimed"),
        ("for first, second in (arms, arms[::-1])", "for first, second in (arms,)"),
        ("*(error[::-1] for error in errors)", "*errors"),
        ("1 / float(dp_accounting.get_sigma_gaussian(epsilon, delta)))", "0.0)"),
        ("high.append((rate, 1 - test.tpr_low))", "high.append((rate, 1 - test.tpr_high))"),
        ("2 * records * delta *", "records * delta *"),
        ("/ (2 * len(scores) * len(halves))", ""),
        ("hits = max(right, 2 * half - right)", "hits = right"),
        tests=("tests/audit/verdicts/test_effects.py",),
    ),
    *_of(
        "audit/verdicts/controls.py",
        ("if distance:", "if distance == count:"),
        ("elif missed:", "elif False:"),
        ("(tested.distance[:, 0] < _WHOLE)", "(tested.distance[:, 0] < 0.5)"),
        ("smallest = min(smallest,", "smallest = max(smallest,"),
        ("known = ~np.isnan(tests.distance[:, 0])", "known = tests.distance[:, 0] > 2"),
        ("decided = decide(tested, rule, level=level)", "decided = decide(tested, rule)"),
        ("(must_detect & ~decided.detected) | ", ""),
        ("(must_detect & ~decided.detected)", "~decided.detected"),
        ("(must_call & ~called)", "~called"),
        ("detectable_distance(*of) < _SURE", "detectable_distance(*of) < 0"),
        ("count += len(tested)", "count = len(tested)"),
        ("missed += int(wrong.sum())", "missed += int(wrong.all()) - 1"),
    ),
    *_of(
        "audit/verdicts/margins.py",
        ("effective = m * n / np.maximum(m + n, 1)", "effective = np.maximum(m, n)"),
        ("-2 * effective * np.maximum(short, 0) ** 2", "-2 * effective * short ** 2"),
        ("-2 * effective * np.maximum(short, 0) ** 2", "-4 * effective * np.maximum(short, 0) ** 2"),
        ("hoeffding_log10_p(gap - d, m, n)", "hoeffding_log10_p(d - gap, m, n)"),
        ("near = np.flatnonzero((out > math.log10(_DEEP)) & (d < gap) & (m > 0))", "near = np.zeros(0, np.int64)"),
        ("np.minimum(np.log10(np.maximum(tails, _DEEP)), out[rows])", "np.log10(np.maximum(tails, _DEEP))"),
        ("np.ceil(measured * n / step - 1e-9)", "np.floor(measured * n / step)"),
        ("np.ceil(measured * n / step - 1e-9)", "np.floor(measured * n / step + 1)"),
        ("table[last - place]", "table[last - place + 1]"),
        ("last, first = math.ceil(gap * n / step)", "last, first = math.floor(gap * n / step)"),
        ("return (0 if rate <= 0.0 else trials), 1", "return 0, 1"),
        ("return (0 if rate <= 0.0 else trials), 1", "return trials, 1"),
        ("first = -((-n * (low_a + at)) // m) - step * last", "first = (n * (low_a + at)) // m - step * last"),
        ("first = -((-n * (low_a + at)) // m) - step * last", "first = (n * (low_a + at)) // m + 1 - step * last"),
        ("sure[begin] += of_a[at]", "pass"),
        ("values[k] += values[k + 1]", "values[k + 1] += values[k]"),
        ("lowest, highest = max(0.0, -gap), min(1.0, 1.0 - gap)", "lowest, highest = 0.0, min(1.0, 1.0 - gap)"),
        ("lowest, highest = max(0.0, -gap), min(1.0, 1.0 - gap)", "lowest, highest = max(0.0, -gap), 1.0"),
        ("lowest, highest = max(0.0, -gap), min(1.0, 1.0 - gap)", "lowest, highest = max(0.0, -gap), 0.35"),
        ("min(max(lowest + i * width + gap, 0.0), 1.0)", "min(max(lowest + j * width + gap, 0.0), 1.0)"),
        ("min(max(lowest + i * width + gap, 0.0), 1.0)", "min(max(lowest + i * width, 0.0), 1.0)"),
        ("_window(n, min(max(lowest + j * width, 0.0), 1.0)", "_window(n, min(max(lowest + i * width, 0.0), 1.0)"),
        ("best[k] = max(best[k], chance[k])", "best[k] = chance[k]"),
        ("depth += 2", "depth += 1"),
        ("left[0], right[0] = 0, cells", "left[0], right[0] = middle, middle + 1"),
        ("            best[k] = 1.0\n", "            pass\n"),
    ),
    *_of(
        "audit/verdicts/margins.py",
        ("over = np.nan_to_num(tested.distance) - rule.margin", "over = np.nan_to_num(tested.distance)"),
        (
            "over = np.nan_to_num(tested.distance) - rule.margin",
            "over = rule.margin - np.nan_to_num(tested.distance)",
        ),
        (
            "if rule.margin == 0:\n        return _where_tested(tested, tested.log10_p)",
            "if rule.margin < 0:\n        return _where_tested(tested, tested.log10_p)",
        ),
        ("out = over_log10_p(over, tested", "out = hoeffding_log10_p(over, tested"),
        ("SIDES = 2.4", "SIDES = 1.2"),
        ("math.log10(SIDES) + hoeffding_log10_p(", "hoeffding_log10_p("),
        ("np.where(log10_p < math.log10(LIKELY), log10_p, 0.0)", "np.minimum(log10_p, 0.0)"),
        ("*arms, float(rule.margin)).reshape", "*arms, float(rule.margin / 2)).reshape"),
        (
            "apart = alarms / max(n_without, 1) - hits / max(n_with, 1)",
            "apart = hits / max(n_with, 1) - alarms / max(n_without, 1)",
        ),
        ("*sizes, -margin)[0]", "*sizes, margin)[0]"),
        ("*sizes, -margin)[0]", "*sizes, 0.0)[0]"),
        ("(np.minimum(tested.n_with, tested.n_without) > 0) & np.isfinite(tested.distance)", "tested.n_with > 0"),
    ),
    *_of(
        "audit/verdicts/margins.py",
        ("out = np.maximum(out, tested.log10_low_below)", "pass"),
        ("out = np.maximum(out, tested.log10_low_below)", "out = tested.log10_low_below"),
        ("out = weighted_minimum(out, tested.log10_low_above)", "pass"),
        ("out = weighted_minimum(out, tested.log10_low_above)", "out = np.minimum(out, tested.log10_low_above)"),
        tests=LOW_FPR,
    ),
    *_of("audit/verdicts/looks.py", ("rule.accepts(bound)", "(bound <= rule.margin)"), tests=LOW_FPR),
    *_of(
        "audit/verdicts/multiplicity.py",
        ("rank / (1 / rank).sum()", "rank"),
        ("uniform * rank * (rank + 1) / (2 * count)", "uniform * rank"),
        ("uniform * rank * (rank + 1) / (2 * count)", "uniform * rank * (rank + 1) / count"),
        ("(1 - uniform) * rank / ", "rank / "),
        ("np.asarray(beta / count)", "np.asarray(beta)"),
        ("np.log10(step_shape(count, uniform))", "np.log10(step_shape(count, 0.0))"),
        ("CLEARING = 0.9", "CLEARING = 0.99"),
        ("np.searchsorted(bars, log10_p) + 1", "np.searchsorted(bars, log10_p) + 2"),
        ("np.where(first <= count, 1 / first, 0.0)", "1 / first"),
        ("np.sort(evidence[picked])", "np.sort(evidence[picked])[::-1]"),
        ("count - int((evidence > 0).sum())", "len(evidence) - int((evidence > 0).sum())"),
        ("size * (size + nothing) / inside.cumsum()", "size * size / inside.cumsum()"),
        ("(size * (size + nothing) / inside.cumsum()).max()", "(size * (size + nothing) / inside.cumsum())[-1]"),
        ("size * (size + nothing) / inside", "(size + nothing) / inside"),
        ("min(max(most / len(inside), level), 1.0)", "max(most / len(inside), level)"),
        ("min(max(most / len(inside), level), 1.0)", "min(most / len(inside), 1.0)"),
        ("min(rank, documents) - 1", "0"),
        tests=STEP_UPS,
    ),
    *_of(
        "audit/verdicts/decide.py",
        ("among or len(tested)", "len(tested)"),
        ("level, among = level or rule.level,", "level, among = rule.level,"),
        ("clear_level = level * rule.for_clear / rule.level", "clear_level = rule.for_clear"),
        ("clear_level = level * rule.for_clear / rule.level", "clear_level = level"),
        ("over_statistics = bonferroni(tested.log10_p)", "over_statistics = tested.log10_p.min(axis=1)"),
        ("detected = adjusted <= math.log10(level)", "detected = over_statistics <= math.log10(level)"),
        ("detected = adjusted <= math.log10(level)", "detected = adjusted <= math.log10(rule.level)"),
        ("detected = adjusted <= math.log10(level)", "detected = adjusted < math.log10(level)"),
        (
            "above, below = log10_above(tested, rule), log10_below(tested, rule)",
            "below, above = log10_above(tested, rule), log10_below(tested, rule)",
        ),
        ("if rule.margin == 0:", "if rule.margin < 0:"),
        ("if rule.margin == 0:", "if rule.margin >= 0:"),
        ("p_above = bonferroni(above)", "p_above = above.min(axis=1)"),
        ("p_above = bonferroni(above)", "p_above = above.max(axis=1)"),
        ("share = math.log10(2) if fresh else 0.0", "share = 0.0"),
        ("share = math.log10(2) if fresh else 0.0", "share = math.log10(2)"),
        ("np.minimum(adjusted_among(p_above, rule, among) + share, 0.0)", "np.minimum(p_above + share, 0.0)"),
        ("sensitive = adjusted_above <= math.log10(level)", "sensitive = adjusted <= math.log10(level)"),
        (
            "sensitive = adjusted_above <= math.log10(level)",
            "sensitive = detected | (adjusted_above <= math.log10(level))",
        ),
        (
            "sensitive = adjusted_above <= math.log10(level)",
            "sensitive = detected & (adjusted_above <= math.log10(level))",
        ),
        ("sensitive = adjusted_above <= math.log10(level)", "sensitive = p_above <= math.log10(level)"),
        (
            "sensitive = adjusted_above <= math.log10(level)",
            "sensitive = adjusted_above <= math.log10(rule.level)",
        ),
        ("sensitive = adjusted_above <= math.log10(level)", "sensitive = adjusted_above < math.log10(level)"),
        ("p_below = below.max(axis=1)", "p_below = below.min(axis=1)"),
        ("p_below = below.max(axis=1)", "p_below = bonferroni(below)"),
        ("p_below = below.max(axis=1)", "p_below = below[:, 0]"),
        (
            "adjusted_among(np.where(sensitive, 0.0, p_below), rule, among, CLEARING)",
            "np.where(sensitive, 0.0, p_below)",
        ),
        (
            "np.where(sensitive, 0.0, p_below), rule, among, CLEARING)",
            "np.where(sensitive, 0.0, p_below), rule, among)",
        ),
        (
            "adjusted_among(np.where(sensitive, 0.0, p_below), rule, among, CLEARING)",
            "adjusted_among(np.where(sensitive, 0.0, p_below), rule, len(tested), CLEARING)",
        ),
        ("(adjusted_below <= math.log10(clear_level))", "(adjusted_below <= math.log10(level))"),
        ("(adjusted_below <= math.log10(clear_level))", "(adjusted_below <= math.log10(rule.level))"),
        ("(adjusted_below <= math.log10(clear_level))", "(adjusted_below >= math.log10(clear_level))"),
        ("(adjusted_below <= math.log10(clear_level))", "(p_below <= math.log10(clear_level))"),
        (
            "(adjusted_below <= math.log10(clear_level)) & ~sensitive",
            "(measured.max(axis=1) < rule.margin) & ~sensitive",
        ),
        (
            "(adjusted_below <= math.log10(clear_level)) & ~sensitive",
            "(adjusted_below <= math.log10(clear_level)) & ~detected",
        ),
        ("clear_level / (among * statistics)\n", "clear_level / among\n"),
        ("clear_level / (among * statistics)\n", "clear_level / (len(tested) * statistics)\n"),
        ("clear_level / (among * statistics)\n", "level / (among * statistics)\n"),
        ("np.where(clear, Verdict.CLEAR, Verdict.UNDECIDED)", "np.where(clear, Verdict.UNDECIDED, Verdict.CLEAR)"),
        (
            "np.lexsort((columns, -measured, tested.log10_p), axis=1)[:, 0]",
            "np.lexsort((columns, -measured, tested.log10_p), axis=1)[:, -1]",
        ),
        ("np.lexsort((columns, -measured, tested.log10_p)", "np.lexsort((columns, measured, tested.log10_p)"),
        ("np.lexsort((columns, -measured, tested.log10_p)", "np.lexsort((columns, tested.log10_p, -measured)"),
        ("1 + int(sensitive.sum()), 1 + int(clear.sum())", "1, 1"),
        ("1 + int(sensitive.sum()), 1 + int(clear.sum())", "1 + int(clear.sum()), 1 + int(sensitive.sum())"),
        ("(level, among, statistics, rule.error, rank=rank)", "(level, among, 1, rule.error, rank=rank)"),
        ("(clear_level, among, 1, rule.error, rank=next_", "(level, among, 1, rule.error, rank=next_"),
        (
            "(clear_level, among, 1, rule.error, rank=next_",
            "(clear_level, among, statistics, rule.error, rank=next_",
        ),
        ("rank=next_, uniform=CLEARING)", "rank=next_)"),
        ("np.where(verdict == Verdict.UNDECIDED, needed, np.nan)", "needed"),
        ("log10_above(tested, rule) if above else tested.log10_p", "tested.log10_p"),
        (
            "adjusted_among(bonferroni(p), rule, among) <= math.log10(level))",
            "bonferroni(p) <= math.log10(level))",
        ),
        ("adjusted_among(bonferroni(p), rule, among) <= ", "adjusted_among(p.min(axis=1), rule, among) <= "),
        ("adjusted_among(bonferroni(p), rule, among) <= ", "adjusted_among(bonferroni(p), rule, among) < "),
        ("np.concatenate([log10_p, np.zeros(among - len(log10_p))])", "log10_p"),
    ),
    *_of(
        "audit/verdicts/power.py",
        ("(math.log(2) - log_p) / (2 * ", "(-log_p) / (2 * "),
        ("distance**2 - math.pi**2 / 12 / effective", "distance**2"),
        ("top = measured.argmax(axis=1)", "top = measured.argmin(axis=1)"),
        ("np.asarray(rule.margin + _needed_gaps(", "np.asarray(0.0 + _needed_gaps("),
        ("_needed_gaps(n_with, n_without, wanted, rule)[0])", "_needed_gaps(n_with, n_without, wanted, rule)[1])"),
        ("noise = np.sqrt(math.log(4 * statistics)", "noise = np.sqrt(math.log(4)"),
        ("true = _less_noise(distance, n_with, n_without)", "true = distance"),
        ("room = rule.margin - true", "room = true - rule.margin"),
        ("runs * ((under + noise) / room) ** 2", "runs * (under / room) ** 2"),
        ("runs * (over / room) ** 2", "runs * (under / room) ** 2"),
        ("needed = np.fmin(clear, found)", "needed = np.fmax(clear, found)"),
        (
            "(strictest_log10_p(level or rule.level, documents, statistics, rule.error),) * 2",
            "(strictest_log10_p(level or rule.level, documents, 1, rule.error),) * 2",
        ),
        ("high, low = wanted", "low, high = wanted"),
        ("rank=rank, uniform=CLEARING)", "rank=rank)"),
        ("(0.125 - float(ndtri(level)))", "(0.125 + float(ndtri(level)))"),
        ("math.log(SIDES) - min(wanted * math.log(10), math.log(LIKELY))", "-min(wanted * math.log(10), -1.6)"),
        ("min(wanted * math.log(10), math.log(LIKELY))", "wanted * math.log(10)"),
        ("np.sqrt(2 * depth) * spread", "np.sqrt(depth) * spread"),
    ),
    *_of(
        "audit/verdicts/looks.py",
        (
            "(interim.decisions.verdict == Verdict.UNDECIDED) & ~",
            "(interim.decisions.verdict != Verdict.SENSITIVE) & ~",
        ),
        (
            "(interim.decisions.verdict == Verdict.UNDECIDED) & ~interim.settled",
            "interim.decisions.verdict == Verdict.UNDECIDED",
        ),
        ("among = counted.documents", "among = len(tests)"),
        (
            "before.counted if before is not None else counted or LookScope(len(tests))",
            "counted or LookScope(len(tests))",
        ),
        ("decide(tests, rule, level=look.level, among=among,", "decide(tests, rule, among=among,"),
        ("decide(tests, rule, level=look.level, among=among,", "decide(tests, rule, level=look.level,"),
        ("fresh=counted.fresh)", "fresh=False)"),
        ("== Verdict.CLEAR) & (not counted.may_clear)", "== Verdict.CLEAR)"),
        ("== Verdict.CLEAR) & (not counted.may_clear)", "== Verdict.SENSITIVE) & (not counted.may_clear)"),
        ("decisions if counted.may_clear else without_clear(decisions, tests, rule)", "decisions"),
        ("math.log10(rule.level / look.level)", "0.0"),
        ("np.minimum(getattr(decisions, name) + scale, 0.0)", "np.minimum(getattr(decisions, name) - scale, 0.0)"),
        (
            "flagged_by(tests.columns([c]), rule, look.level, among,",
            "flagged_by(tests.columns([0]), rule, look.level, among,",
        ),
        ("rule, look.level, among, above=True)", "rule, look.level, among)"),
        ("rule, look.level, among, above=True)", "rule, look.level, len(tests), above=True)"),
        ("rule, look.level, among, above=True)", "rule, rule.level, among, above=True)"),
        (
            "flagged_by(tests.columns(paper), rule, look.level, among)",
            "flagged_by(tests, rule, look.level, len(tests))",
        ),
        ("np.minimum(getattr(before.decisions, name)[at], scaled[name])", "scaled[name]"),
        (
            "np.minimum(getattr(before.decisions, name)[at], scaled[name])",
            "np.minimum(getattr(before.decisions, name)[: len(at)], scaled[name])",
        ),
        ("before.decisions.detected[at] | decisions.detected", "decisions.detected"),
        ("before.decisions.detected[at] | decisions.detected", "before.decisions.detected[at]"),
        ("_put(before.look, np.full(len(tests), number), at)", "before.look"),
        ("before.alone[at] | np.stack(alone, axis=1)", "np.stack(alone, axis=1)"),
        ("before.alone[at] | np.stack(alone, axis=1)", "before.alone[at]"),
        ("before.paper[at] | own", "own"),
        ("_put(before.settled, settled, at)", "before.settled"),
        ('"log10_adjusted_below", "log10_p_below")', '"log10_adjusted_below")'),
        ('"log10_adjusted_above", "log10_adjusted_below",', '"log10_adjusted_below",'),
        ("open_ = decisions.verdict != Verdict.SENSITIVE", "open_ = decisions.verdict == Verdict.UNDECIDED"),
        ("open_ = decisions.verdict != Verdict.SENSITIVE", "open_ = np.ones(len(tests), np.bool_)"),
        ("log10_p_below=nothing,", "log10_p_below=decisions.log10_p_below,"),
        ("log10_adjusted_below=nothing,", "log10_adjusted_below=decisions.log10_adjusted_below,"),
        ("(likely_distance(tests) <= rule.margin)", "(likely_distance(tests) > rule.margin)"),
        ("chosen = decisions.detected & ", "chosen = "),
        ("(strongest > rule.margin)", "(distance.max(axis=1) > rule.margin)"),
        ("(strongest > rule.margin)", "(strongest > 0)"),
        ("(strongest > rule.margin) & (decisions.verdict == Verdict.UNDECIDED)", "(strongest > rule.margin)"),
        ("chosen & (rule.margin > 0) & interim", "chosen & interim"),
        ("(rule.margin > 0) & interim.counted.fresh", "(rule.margin > 0)"),
        ("rule, len(at)) + math.log10(2)", "rule, len(at))"),
        ("adjusted_among(np.asarray(log10_p, dtype=np.float64), rule, len(at)) + ", "np.asarray(log10_p) + "),
        ("rule, len(at)) + math.log10(2)", "rule, len(interim.look)) + math.log10(2)"),
        ("np.minimum(adjusted[at], found)", "found"),
        ("at[found <= math.log10(rule.level)]", "at[log10_p <= math.log10(rule.level)]"),
        ("at[found <= math.log10(rule.level)]", "np.flatnonzero(found <= math.log10(rule.level))"),
        ("    out[at] = part\n", "    out[: len(at)] = part\n"),
    ),
    *_of(
        "audit/verdicts/looks.py",
        ("rule.accepts(bound) & ", "(bound <= rule.margin) & "),
        ("rule.accepts(bound) & ", "(rule.margin > 0) & "),
        (" & (decisions.verdict != Verdict.SENSITIVE)\n", "\n"),
        ("& (decisions.verdict != Verdict.SENSITIVE)\n", "& (decisions.verdict == Verdict.UNDECIDED)\n"),
        ("np.where(proved, Proof.EVERY_ATTACK.value", "np.where(proved, Proof.STATISTICS.value"),
        ("np.where(proved, np.nan, decisions.runs_to_decide)", "decisions.runs_to_decide"),
    ),
    *_of(
        "audit/certifying.py",
        (
            "certified_bound(advantages, _CONTRADICTION / 2, documents)",
            "certified_bound(advantages, level, documents)",
        ),
        ("certified_bound(advantages, _CONTRADICTION / 2, documents)", "advantages.mean(axis=1)"),
        ("(documents * tested.distance.shape[1] * looks)", "(documents * tested.distance.shape[1])"),
        ("(documents * tested.distance.shape[1] * looks)", "(documents * looks)"),
        ("(documents * tested.distance.shape[1] * looks)", "(tested.distance.shape[1] * looks)"),
        ("np.nan_to_num(tested.distance)", "np.nan_to_num(tested.distance, nan=1.0) + 1"),
        ("bound=certified_bound(advantages, level, documents)", "bound=sure"),
        ("bound=certified_bound(advantages, level, documents)", "bound=certified_bound(advantages, level, 3)"),
        ("mean=advantages.mean(axis=1)", "mean=advantages.max(axis=1)"),
        ("largest=advantages.max(axis=1)", "largest=advantages.mean(axis=1)"),
        ("pairs=advantages.shape[1]", "pairs=len(advantages)"),
        (".max(axis=1) > bound", ".min(axis=1) > bound"),
        (".max(axis=1) > bound", ".max(axis=1) < bound"),
        ("if at < len(base) and base[at] == unit:", "if False:"),
        ("if at < len(base) and base[at] == unit:", "if True:"),
        ("changed[at] = outside[rng.integers(len(outside))]", "changed[at] = base[rng.integers(len(base))]"),
        ("changed[rng.integers(len(base))] = unit", "changed[0] = unit"),
        ("return np.sort(changed)", "return changed"),
    ),
    *_of(
        "audit/verdicts/certificates.py",
        ("hypergeom(documents - 1, copies - 1, size - 1)", "hypergeom(documents - 1, copies - 1, size)"),
        ("hypergeom(documents - 1, copies - 1, size - 1)", "hypergeom(documents, copies, size - 1)"),
        ("hypergeom(documents - 1, copies - 1, size).pmf", "hypergeom(documents - 1, copies, size).pmf"),
        ("pmf(count - 1)\n", "pmf(count)\n"),
        (
            "binom(copies - 1, share).pmf(count - 1), binom(copies - 1, share)",
            "binom(copies, share).pmf(count - 1), binom(copies, share)",
        ),
        ("np.abs(self.held - self.left_out).sum() / 2", "np.abs(self.held - self.left_out).max()"),
        ("np.abs(self.held - self.left_out).sum() / 2", "np.abs(self.held - self.left_out).sum() / 4"),
        ("self.share * self.held + (1 - self.share)", "self.share * self.held + (0.5 - self.share)"),
        ("size / documents)", "size / (2 * documents))"),
        tests=COPIES,
    ),
    *_of(
        "audit/certifying.py",
        ("not isinstance(design, Shared | Literal) or plan", "plan"),
        (" or plan.units.order is not None", ""),
        ("if not traits_of(plan.mechanism).order_free:", "if False:"),
        ("alike = plan.corpus.first_alike[design.pool]", "alike = plan.corpus.first_alike"),
        ("several[content]", "np.repeat(several.max(), len(content))"),
        ("if isinstance(design, Shared) and design.poisson", "if True"),
        ("if isinstance(design, Shared) and design.poisson", "if False"),
        ("len(design.pool), design.size)", "design.size + 1, design.size)"),
        tests=COPIES,
    ),
    *_of(
        "audit/spec/models.py",
        ("(bound <= accepted)", "(bound < accepted)"),
        ("(bound <= accepted)", "(bound >= accepted)"),
        ("(bound <= accepted) & (self.margin > 0)", "(bound <= self.margin)"),
    ),
    *_of(
        "audit/verdicts/control_outcome.py",
        ("not documents or not self.valid", "not documents"),
        ("not documents or not self.valid", "not self.valid"),
        tests=COPIES,
    ),
    *_of(
        "audit/results/summarise.py",
        ("below = plan.spec.rule.accepts(copies.bound)", "below = copies.bound < 1"),
        ("above_bound(interim.tests, copies.bound, plan.counted, len(plan.looks))", "np.zeros(1)"),
        ("0 if copies is None else copies.contradicted, same", "0, same"),
        tests=COPIES,
    ),
    *_of(
        "audit/verdicts/certificates.py",
        ("ndtr(np.asarray(distance, dtype=np.float64) / 2)", "ndtr(np.asarray(distance, dtype=np.float64))"),
        ("math.log(documents / level)", "math.log(1 / level)"),
        ("math.log(documents / level)", "math.log(documents)"),
        (
            "np.where(won, low, middle), np.where(won, middle, high)",
            "np.where(won, middle, low), np.where(won, high, middle)",
        ),
        ("np.ones(len(advantages))", "advantages.max(axis=1)"),
        ("(mean[:, None] - advantages)", "(advantages - mean[:, None])"),
        ("np.maximum(1 - mean, np.finfo(np.float64).tiny)", "np.ones_like(mean)"),
        ("logsumexp(each, axis=0) - math.log(len(STAKES))", "logsumexp(each, axis=0)"),
        ("logsumexp(each, axis=0) - math.log(len(STAKES))", "each.max(axis=0)"),
    ),
    *_of(
        "audit/views.py",
        (
            "clear = verdicts == Verdict.SENSITIVE, verdicts == Verdict.CLEAR",
            "clear = verdicts == Verdict.SENSITIVE, verdicts != Verdict.SENSITIVE",
        ),
        ("np.where(certified, _CERTAIN, below).max(axis=0)", "np.where(certified, _CERTAIN, below).min(axis=0)"),
        ("np.where(certified, _CERTAIN, below).max(axis=0)", "below.max(axis=0)"),
        ("np.where(certified, _CERTAIN, below).max(axis=0)", "below[0]"),
        ("decided = sensitive.any(axis=0) | certified.all(axis=0)", "decided = sensitive.any(axis=0)"),
        ("decided = sensitive.any(axis=0) | certified.all(axis=0)", "decided = certified.all(axis=0)"),
        ("decided = sensitive.any(axis=0) |", "decided = sensitive.all(axis=0) |"),
        (
            "adjusted_among(np.where(decided, 0.0, below), rule, among or len(below), CLEARING)",
            "np.where(decided, 0.0, below)",
        ),
        ("rule, among or len(below), CLEARING)", "rule, len(below), CLEARING)"),
        ("rule, among or len(below), CLEARING)", "rule, among or len(below))"),
        ("math.log10(rule.for_clear)", "math.log10(rule.level)"),
        ("math.log10(rule.for_clear)", "math.log10(rule.for_clear / len(views))"),
        (" & (rule.margin > 0)\n", "\n"),
        ("np.where(proved | certified.all(axis=0)", "np.where(proved | certified.any(axis=0)"),
        ("np.where(sensitive.any(axis=0), Verdict.SENSITIVE", "np.where(sensitive.all(axis=0), Verdict.SENSITIVE"),
        ("adjusted.min(axis=0) + math.log10(len(views))", "adjusted.min(axis=0)"),
        ("adjusted.min(axis=0) + math.log10(len(views))", "adjusted.max(axis=0) + math.log10(len(views))"),
        ("view=adjusted.argmin(axis=0)", "view=adjusted.argmax(axis=0)"),
        ("sensitive_in=sensitive", "sensitive_in=clear"),
        ("clear_in=clear", "clear_in=sensitive"),
    ),
    *_of(
        "audit/results/summarise.py",
        ("rule.accepts(certificate.bound)", "certificate.bound <= rule.margin"),
        ("rule.accepts(certificate.bound)", "(certificate.bound < rule.margin) & (rule.margin > 0)"),
        (
            "(below & (interim.decisions.verdict == Verdict.SENSITIVE)).sum()),\n        contradicted=int(",
            "(~below & (interim.decisions.verdict == Verdict.SENSITIVE)).sum()),\n        contradicted=int(",
        ),
        ("else int(certificate.contradicted.sum())", "else int(certificate.contradicted.all())"),
        ("judged.contradicted(above,", "judged.contradicted(0,"),
    ),
    *_of("audit/verdicts/control_outcome.py", ("return self.reason is None", "return True")),
    *_of(
        "audit/verdicts/laws.py",
        ("picked = np.asarray(chosen, dtype=np.int64)", "picked = np.arange(len(chosen))"),
    ),
    *_of(
        "audit/verdicts/controls.py",
        ("len(held) != database.parties[0].shape[0] or", ""),
        (" or len(np.unique(held)) != len(held)", ""),
        ("bits[held] = True", "bits[: len(held)] = True"),
        ('units.word == "document" or corpus.group is None', "corpus.group is None"),
        ("weights=~bits", "weights=bits"),
        ("place = np.searchsorted(units.ids, corpus.group)", "place = np.searchsorted(corpus.group, units.ids)"),
        ("Purpose.CANARY, lane, run)", "Purpose.CANARY, lane, 0)"),
        ("noise + np.float32(SHIFT) * handed", "noise"),
        ("noise + np.float32(SHIFT) * handed", "np.float32(SHIFT) * handed"),
        ("SHIFT = 16.0", "SHIFT = 4.0"),
        tests=CANARIES,
    ),
    *_of(
        "audit/statistics/linear/solve.py",
        ("written -= written.mean(axis=0)", "pass"),
        ("tall = len(written) >= written.shape[1]", "tall = True; written = written[: written.shape[1]]"),
        ("return np.asarray((scaled - written.T @ inside) / root)", "return np.asarray(scaled / root)"),
        ("np.full(entries, least) + noise)", "np.full(entries, least))"),
        ("ridge * scale * direction)", "0.0 * direction)"),
        ("terms.summed(along - along.mean())", "terms.summed(along)"),
        tests=ROUNDS,
    ),
    *_of(
        "audit/statistics/linear/contributions.py",
        ("(since > 0) & (since < rank)", "since > 0"),
        ("(since > 0) & (since < rank)", "since < rank"),
        ("before[None, :] // rank + 1", "before[None, :] // rank"),
        ("taken[-1] = True", "pass"),
        ("numbers - flat @ mean", "numbers"),
        ("found = products[i, at] - gamma", "found = products[i, at]"),
        ("below = gram[at, at] + delta", "below = gram[at, at]"),
        ("taken &= outside", "pass"),
        ("np.maximum(-products, 0.0)", "np.maximum(products, 0.0)"),
        tests=ROUNDS,
    ),
    *_of(
        "audit/statistics/linear/operator.py",
        ("found -= rows_times(self.numbers, self.taken * (self.basis @ rows.T))", "pass"),
        ("self.taken * (self.basis @ rows.T)", "self.basis @ rows.T"),
        ("total + rows_times(self.scalars, single) if len(single) else total", "total"),
        ("weighed *= shares[:, None]", "pass"),
        ("found -= (self.taken * (self.numbers.T", "found += (self.taken * (self.numbers.T"),
        ("found[j] -= 2.0 * crossed[j, u] * basis[u, j]", "found[j] -= crossed[j, u] * basis[u, j]"),
        ("found[j] += form[u, v] * basis[u, j] * basis[v, j]", "pass"),
        ("place[columns] = np.arange(len(columns))", "pass"),
        ("np.maximum(found, 0.0) * step", "np.maximum(found, 0.0)"),
        tests=STEPS,
    ),
    *_of(
        "audit/statistics/linear/solve.py",
        ("if bent == 0.0:", "if False:"),
        ("direction[i] = part * direction[i] + left[i]", "direction[i] = left[i]"),
        ("left[i] -= length * image[i]", "pass"),
        ("size, float(left @ left)", "size, size"),
        ("self._mean = self.laid(made.mean * scale)", "self._mean = self.laid(0.0 * scale)"),
        ("image[i] = image[i] * scale[i] + ridge[i] * direction[i]", "image[i] = image[i] * scale[i]"),
        ("image[i] = (image[i] - less[i]) * scale[i]", "image[i] = image[i] * scale[i]"),
        ("alone += apart @ self._scalars", "pass"),
        ("total += weights[i, r] * (sums[r] - less[r])", "total += weights[i, r] * sums[r]"),
        ("total += scalars[i, s] * single[s]", "pass"),
        ("* (length * scale)", "* scale"),
        tests=STEPS,
    ),
    *_of(
        "audit/statistics/linear/operator.py",
        ("above, below = -gamma, delta", "above, below = 0.0, delta"),
        ("above, below = -gamma, delta", "above, below = -gamma, 0.0"),
        ("left[p] += before * weight", "pass"),
        ("left[p] -= found * after[columns[p]]", "pass"),
        ("sums += apart * direction[0, step, j]", "sums += left[p] * direction[0, step, j]"),
        ("found * sums + found * found * squares", "found * sums"),
        ("share * (apart * apart if squared else apart)", "share * apart"),
        ("share * (square if squared else found)", "share * found"),
        ("(found if not squared else found * found)", "found"),
        tests=ROUNDS,
    ),
    *_of(
        "audit/coverage.py",
        ("if array.hidden_rounds)", ")"),
        ("for n in a.shape[:1])", "for n in ())"),
        tests=("tests/audit/test_coverage.py",),
    ),
    *_of(
        "audit/coverage.py",
        ("combine = trained >= numbers or", "combine = trained > 0 or"),
        ("combine = trained >= numbers or", "combine = "),
        tests=("tests/audit/mechanisms/test_joint.py",),
    ),
    *_of(
        "audit/mechanisms/privacy/fedpower.py",
        ("hidden_rounds=self.period > 1", "hidden_rounds=False"),
        tests=("tests/audit/test_coverage.py",),
    ),
    *_of(
        "audit/mechanisms/privacy/fedpower.py",
        ("return self.period > 1", "return True"),
        tests=("tests/audit/test_coverage.py",),
    ),
    *_of(
        "audit/statistics/linear/solve.py",
        ("gram += _KNOWN", "gram += 0.0"),
        ("(apart - terms.summed(found)) / noise", "apart / noise"),
        ("right = terms.along(apart / noise)", "right = terms.along(apart)"),
        ("        return None\n    return np.asarray(scipy", "        return right\n    return np.asarray(scipy"),
        ("return 0.0 < least < np.inf and least < LITTLE", "return least < LITTLE"),
        ("and least < LITTLE * float(terms.variances.mean())", ""),
        ("not fits_dense_solver(terms.rows.shape[0]) or", ""),
        ("if (rows == rows[:, :1]).all():", "if True:"),
        ("* factors[:, item]", "* 1.0"),
        ("found[np.ix_(users[first:last], users[first:last])] += mine", "found[:] += mine[:1]"),
        ("written /= np.sqrt(noise)", "pass"),
        ("return noise + LEAST * float", "return noise + 1e6 * float"),
        ("LOST * (squares + _BESIDE * squares.mean())", "1e-5 * squares.mean() + 0.0 * squares"),
        tests=(SOLVED_FILTERS,),
    ),
    *_of(
        "audit/statistics/linear/operator.py",
        ("found[indptr[i] + p, 1, step] = own * own", "found[indptr[i] + p, 1, step] = own"),
        ("found[indptr[i] + p, 0, step] = own * apart", "found[indptr[i] + p, 0, step] = own * left[p]"),
        ("left[p] = apart - own * after[columns[p]]", "pass"),
        tests=(SOLVED_FILTERS,),
    ),
    *_of("audit/statistics/linear/solve.py", ("if exactly is not None:", "if False:"), tests=(SOLVED_FILTERS,)),
    *_of("audit/statistics/linear/releases.py", ("noise = lost(whole)", "pass"), tests=(SOLVED_FILTERS,)),
    *_of(
        "audit/statistics/linear/releases.py",
        ("noise = known.noise + LOST", "noise = known.noise + 1.0"),
        tests=(SOLVED_FILTERS,),
    ),
    *_of(
        "audit/mechanisms/privacy/noisy.py",
        ("np.maximum(a, 0.0) if n in final else a", "np.maximum(a, 0.0)"),
        ("np.maximum(a, 0.0) if n in final else a", "a"),
        tests=(NOISY,),
    ),
    *_of(
        "audit/statistics/linear/releases.py",
        ("rated = weights.ndim == 3  # an entry has a weight of its own", "rated = False"),
        ("done = min(done, before) if exact else done", "pass"),
        ("return np.asarray((mean * outside + own) / (outside + pool.subtracted.shape[0]))", "return mean"),
        ("added_variance(pool.mechanism, n, a) if n", "0.0 if n"),
        ("if not exact:\n            noise", "if False:\n            noise"),
        ("whole, noise, of_all=False, exact", "whole, noise, exact"),
        ("if exact:\n            first", "if False:\n            first"),
        ("if exact:\n            first", "if True:\n            first"),
        tests=(*ROUNDS, ONE_BY_ONE),
    ),
    *_of(
        "audit/statistics/linear/releases.py",
        ("max(EARLY, math.ceil(MORE * int(documents) / numbers))", "EARLY"),
        ("max(EARLY, math.ceil(MORE * int(documents) / numbers))", "99"),
        ("if is_exact(pool) else min(done, EARLY)", ""),
        ("else min(done, EARLY)", "else min(done, 1)"),
        tests=(MAX_ENTROPY, SOLVED, SOLVED_FILTERS),
    ),
    *_of(
        "audit/mechanisms/factorisation/pd_svd.py",
        ("max(EARLY, math.ceil(NUMBERS / (rank * features)))", "EARLY"),
        ("return min(rounds * rank * features, ", "return max(rounds * rank * features, "),
        tests=(MAX_ENTROPY, "tests/audit/test_coverage.py"),
    ),
    *_of(
        "audit/statistics/linear/releases.py",
        ("if counts is None or not known.exact or pool.fixed", "if counts is None or pool.fixed"),
        ("or pool.fixed is not None or not fits", "or not fits"),
        ("columns = np.flatnonzero(counts)", "columns = np.flatnonzero(counts)[1:]"),
        ("marked(rows).toarray()[:, columns]", "rows.toarray()[:, columns]"),
        tests=("tests/audit/statistics/linear/test_beside_counts.py",),
    ),
    *_of(
        "audit/mechanisms/contract.py",
        ("[(run_prefix(place), one)", '[("", one)'),
        ("in enumerate(runs, start=1)]", "in enumerate(runs[:1], start=1)]"),
        ("len(runs) < 2", "True"),
        tests=("tests/audit/test_coverage.py", *KEPT),
    ),
    *_of(
        "audit/statistics/linear/counts.py",
        ("        counts=counts,\n", ""),
        tests=("tests/audit/statistics/linear/test_beside_counts.py",),
    ),
    *_of(
        "audit/statistics/linear/solve.py",
        ("if fits_dense_solver(made.rows.shape[0]) or not", "if not"),
        ("noise = lost(_plain(made).summed(shares)) / varied", "noise = lost(apart) / varied"),
        ("if not is_low_noise(made, noise):", "if False:"),
        (".mean())) * varied", ".mean()))"),
        ("apart[:numbers] * units", "apart[-numbers:] * units"),
        ("np.zeros(made.entries - numbers)]", "np.ones(made.entries - numbers)]"),
        ("n, 1)) // max(wide, 1), _rows", "n, 1)), _rows"),
        ("first < (whole if exact else 1)", "first < 1"),
        ("MOST_EXACT if exact else MOST_WRITTEN", "MOST_WRITTEN"),
        tests=(FIRST_NUMBERS,),
    ),
    *_of(
        "audit/mechanisms/factorisation/nmf_starts.py",
        ("for sign in (1.0, -1.0)", "for sign in (-1.0, 1.0)"),
        ("np.abs(v)  # by Perron and Frobenius all", "np.maximum(v, 0.0)  # all"),
        ("sides[0] >= sides[1]", "sides[0] < sides[1]"),
        ("float(squares[0, t]) * dot(positive, positive)", "float(squares[0, t])"),
        ("sigma[t] <= NOTHING * sigma[0]", "sigma[t] <= 0.0"),
        tests=("tests/audit/mechanisms/factorisation/test_nmf_starts.py",),
    ),
    *_of(
        "audit/statistics/linear/releases.py",
        ("return Observables({**observables, **of_first})", "return observables"),
        ("[:rounds]", ""),
        ("mean = wide.mean(axis=1, keepdims=True)", "mean = wide[:1, :1]"),
        ("about=own is not pool.mechanism", "about=False"),
        tests=(FIRST_ROUND,),
    ),
    *_of(
        "audit/mechanisms/privacy/noisy.py",
        ("if self.noise else set[str]()", "if not self.noise else set[str]()"),
        ("return (*brought, *(one", "return (*brought[:0], *(one"),
        ("if set(one.needs) <= shown", "if True"),
        tests=(FIRST_ROUND,),
    ),
    *_of(
        "audit/statistics/linear/system.py",
        ("pool.fixed if self.of_all else pool.remaining", "pool.fixed"),
        ("pool.fixed if self.of_all else pool.remaining", "pool.remaining"),
        ("if pool.fixed is not None and pool.fixed_share < 1.0:", "if False:"),
        ("sums = sums - terms(fixed).summed(np.ones(fixed.shape[0]))", "pass"),
        ("np.asarray(known.sums, dtype=np.float64)", "np.zeros(())"),
        ("noise = noise + known.shrink * made.variances", "pass"),
        ("shares[places] * (shares.sum() / shares[places].sum())", "shares[places]"),
        ("return float(size) ** 2", "return 0.0"),
        ("if left is not None:\n        unknown, shares = left", "if False:\n        pass"),
        ("said = np.full(len(documents), RULED_OUT)", "said = np.zeros(len(documents))"),
        ("said[~may] = RULED_OUT", "pass"),
        ("return before & possible(", "return possible("),
        ("np.where(_left_before(documents), found.said[places], RULED_OUT)", "found.said[places]"),
        ("if pool.possible is not None:\n", "if False:\n"),
        ("else same[may]", "else same[: int(may.sum())]"),
        ("else same[told]", "else same[: int(told.sum())]"),
        ("is None and documents.possible is None:", "is None:"),
        ("np.ones(rows - len(drawn), np.bool_)", "np.zeros(rows - len(drawn), np.bool_)"),
        ("if documents.rows is not None and documents.starts is not None:", "if False:"),
        ("np.logical_and.reduceat", "np.logical_or.reduceat"),
        (
            "if known.exact and isinstance(made, FactoredContributions):",
            "if isinstance(made, FactoredContributions):",
        ),
        (
            "if known.exact and isinstance(made, FactoredContributions)",
            "if known.possible and isinstance(made, FactoredContributions)",
        ),
        ("np.all(known.noise) and made.entries > 0", "made.entries > 0"),
        ("least * varied)", "least)"),
        ("np.minimum(likelier, LIKELIEST)", "likelier"),
        tests=(EQUATIONS, *ROUNDS, ONE_BY_ONE, SOLVED, *KEPT),
    ),
    *_of(
        "audit/statistics/linear/solve.py",
        ("_within(made, used, sums) - narrow.summed", "sums[: narrow.entries] - narrow.summed"),
        ("float(narrow.mean @ found)", "0.0"),
        ("rows.nnz, 1) * entries", "rows.nnz, 1) * 1"),
        ("start, seen - narrow.summed(shares + start)", "start, seen - narrow.summed(shares)"),
        (
            "start = made.along(_spread(made, used, found)) - usual",
            "start = made.along(_spread(made, used, found))",
        ),
        (">= MORE * made.rows.shape[0]", ">= 0"),
        ("with_parts(narrow, used, seen -", "with_parts(narrow, used, 0.0 * seen -"),
        ("narrow.summed(shares + found.parts)", "narrow.summed(shares)"),
        ("rows[:, columns] = narrow[", "rows[:, : len(columns)] = narrow["),
        ("single[:] = narrow[len(rows) * len(columns) :]", "pass"),
        (
            "np.concatenate([rows[:, columns].ravel(), single])",
            "np.concatenate([rows[:, columns].ravel(), 0.0 * single])",
        ),
        ("or pairs > MOST_PAIRS", ""),
        ("apart = seen - narrow.summed(shares)", "apart = seen"),
        ("same), used, apart)\n            if", "same), used, 0.0 * apart)\n            if"),
        tests=(*ROUNDS, ONE_BY_ONE, SOLVED, EXPLAINED, MAX_ENTROPY, *KEPT),
    ),
    *_of(
        "audit/statistics/linear/coordinate_descent.py",
        ("LEFT * float(sizes[adds].min())", "np.inf"),
        ("LEFT * float(sizes[adds].min())", "1e-9 * float(sizes[adds].min())"),
        ("inside = inside * (once.shares[adds].sum() / inside[adds].sum())", "pass"),
        ("2.0 * told[adds].sum() > once.shares[adds].sum()", "True"),
        ("return told - once.shares if", "return told if"),
        ("along = once.made.along(left * np.square(factors))", "along = once.made.along(left)"),
        ("doubted |= adds & (speaks > doubt)", "pass"),
        ("adds & (np.abs(inside - told) > DOUBT[0])", "np.zeros(len(told), np.bool_)"),
        ("told[places] = _solved", "_ = _solved"),
        ("np.rint(told + more)", "told + more"),
        ("0.0, once.several[places]", "0.0, 1.0"),
        ("if len(places) > MOST * len(told):", "if False:"),
        tests=(EXPLAINED,),
    ),
    *_of(
        "audit/statistics/linear/coordinate_descent.py",
        ("np.bincount(which, shares)", "shares[places]"),
        ("(parts / self.several)[self.which]", "parts[self.which]"),
        ("self.several - self.shares]", "1.0 - self.shares]"),
        ("contents(made.rows)", "(*np.tile(np.arange(made.rows.shape[0]), (2, 1)), np.ones(made.rows.shape[0]))"),
        ("contents_of(same)", "contents_of(np.arange(len(same)))"),
        tests=(EXPLAINED, ONE_BY_ONE),
    ),
    *_of(
        "audit/statistics/linear/operator.py",
        ("scalars[start:end] @ scalars[:end].T", "0.0 * (scalars[start:end] @ scalars[:end].T)"),
        ("0.5 * numbers @ form", "numbers @ form"),
        ("left += between", "pass"),
        ("left *= np.matmul(mine", "np.matmul(mine"),
        ("found[:end, start:end] = total, total.T", "found[:end, start:end] = total, 0.0"),
        tests=(SOLVED, MAX_ENTROPY),
    ),
    *_of(
        "audit/statistics/linear/coordinate_descent.py",
        ("<= mark**2 * np", "<= 4 * mark**2 * np"),
        ("<= mark**2 * np", "<= mark**2 / 9 * np"),
        ("apart - once.made.summed(parts)\n", "apart\n"),
        ("parts, once.bounds, [FIRST]", "parts, 9.0 * once.bounds, [FIRST]"),
        ("parts, once.bounds, _marks(), BETWEEN):", "parts, 9.0 * once.bounds, _marks(), BETWEEN):"),
        ("np.bincount(once.which, start)", "start[: len(parts)]"),
        ("PLENTY * len(parts)", "1e9 * len(parts)"),
        ("once.of_each(_gone_through", "(_gone_through"),
        ("apart - once.made.summed(exactly)", "apart"),
        ("[SETTLED] * SLOW + [2 * SETTLED]", "[SETTLED] * SLOW + [SETTLED]"),
        ("(parts == before) & (", "("),
        ("known = weights[i, r], known and same[r]", "known = weights[i, r], known"),
        ("inner -= numbers[i, u] * (products[i, u] + left[a])", "pass"),
        ("total += scalars[i, s] * scalars[i, s]", "pass"),
        ("kept[self.columns] = True", "kept[: len(self.columns)] = True"),
        ("found / (1.0 + np.abs(found))", "found"),
        tests=(ONE_BY_ONE, EXPLAINED),
    ),
    *_of(
        "audit/statistics/linear/coordinate_descent.py",
        ("parts[i] = new", "pass"),
        ("single[s] -= step * scalars[i, s]", "pass"),
        ("total += scalars[i, s] * single[s]", "pass"),
        ("across[places[p], 0] += step * values[p, 1]", "pass"),
        ("across[places[p], 1] -= step * values[p, 2]", "pass"),
        ("found[i] = parts[i] + total", "found[i] = total"),
        ("max(found[i], bounds[0, i])", "found[i]"),
        ("(len(resting) and resting[i])", "False"),
        tests=(ONE_BY_ONE,),
    ),
    *_of(
        "audit/statistics/linear/operator.py",
        ("columns[indices[at]] += square * total", "columns[indices[at]] += square"),
        ("rows[r] += weights[i, r] * weights[i, r] * size", "rows[r] += weights[i, r] * weights[i, r]"),
        ("np.sqrt(total) * _one_over_root(rows)", "_one_over_root(rows)"),
        tests=(ONE_BY_ONE,),
    ),
    *_of(
        "audit/statistics/linear/tilting.py",
        ("times *= _MORE", "pass"),
        ("np.diag_indices_from(matrix), 1.0", "np.diag_indices_from(matrix), 64.0"),
        ("scipy.linalg.cho_factor(np.eye(len(matrix))", "scipy.linalg.cho_factor(2.0 * np.eye(len(matrix))"),
        tests=("tests/audit/statistics/linear/test_max_entropy.py",),
    ),
    *_of(
        "audit/coverage.py",
        ("exact and fits_dense_solver(documents)", "False"),
        ("exact and fits_dense_solver(documents)", "exact"),
        ("exact and fits_dense_solver(documents)", "fits_dense_solver(documents)"),
        ("traits_of(mechanism).noise_free and any", "any"),
        ("and any(array.early for array in arrays)", ""),
        ("plan.units.sizes[plan.holdings.victim].sum()", "plan.units.sizes.sum()"),
        tests=(PRECISION,),
    ),
    *_of(
        "audit/statistics/linear/releases.py",
        ("if is_exact(pool) and fits_dense_solver(pool.drawn.shape[0]) else LOST", "if False else LOST"),
        ("of_all=False, exact=exact, lost=_lost(pool, sums)", "of_all=False, exact=exact"),
        ("return lost_of(numbers) if is_exact(pool) and fits", "return lost_of(numbers) if fits"),
        tests=(PRECISION, *ROUNDS, SOLVED_FILTERS),
    ),
    *_of(
        "audit/statistics/linear/operator.py",
        ("LOST if (numbers == numbers.astype(np.float32)).all() else LOST_ON_WIRE", "LOST_ON_WIRE"),
        ("LOST if (numbers == numbers.astype(np.float32)).all() else LOST_ON_WIRE", "LOST"),
        ("LOST_ON_WIRE = 2.0**-58", "LOST_ON_WIRE = 2.0**-66"),
        ("LOST_ON_WIRE = 2.0**-58", "LOST_ON_WIRE = 2.0**-50"),
        tests=(PRECISION,),
    ),
    *_of(
        "audit/statistics/linear/solve.py",
        ("LEAST_OF_FINE_RATINGS if fine else LEAST_OF_RATINGS", "LEAST_OF_RATINGS"),
        ("LEAST_OF_FINE_RATINGS if fine else LEAST_OF_RATINGS", "LEAST_OF_FINE_RATINGS"),
        tests=(PRECISION, SOLVED_FILTERS),
    ),
    *_of(
        "audit/statistics/linear/system.py",
        ("noise * (known.lost / LOST)", "noise"),
        ("noisy=not fine", "noisy=True"),
        ("fine = known.lost < LOST", "fine = False"),
        ("same, known.lost)", "same)"),
        tests=(PRECISION, SOLVED_FILTERS),
    ),
    *_of(
        "audit/plan.py",
        ('({"observed": self.precision} if self', "({} if self"),
        ("numbers * np.dtype(self.precision).itemsize", "numbers * self.bytes_a_value"),
        tests=(PRECISION,),
    ),
    *_of(
        "audit/statistics/linear/solve.py",
        ("lambda likely: lost * float(", "lambda likely: LOST * float("),
        tests=(PRECISION, SOLVED),
    ),
    *_of(
        "audit/statistics/linear/solve.py",
        ("documents <= MOST_SOLVED", "documents < MOST_SOLVED"),
        ("documents <= MOST_SOLVED", "False"),
        ("now / varied / np.square(lengths)", "1e-5 * np.ones(len(gram))"),
        ("np.clip(shares + found, 0.0, 1.0)", "shares"),
        ("if not now < _LESS * before:", "if True:"),
        ("ridged + rounding * times", "ridged + rounding"),
        ("apart * np.square(factors)", "apart * factors"),
        ("gram /= lengths[:, None]", "pass"),
        ("and 2.0 * told.sum() > shares.sum()", ""),
        ("parts * (shares.sum() / parts.sum())", "parts"),
        ("same = gram[np.ix_(alike, alike)] > 1.0 - _SAME", "same = np.eye(len(alike)) > 0.5"),
        ("np.diff(short) > _SAME * short[:-1]", "short[1:] < 0.0"),
        ("adds = sizes > _NOTHING**2 * sizes.max()", "adds = sizes > 0.0"),
        ("astype(np.float32))) < many", "astype(np.float32))) < 0"),
        ("left < LEFT * sizes[adds].min(initial=np.inf)", "True"),
        ("left < LEFT * sizes[adds].min(initial=np.inf)", "False"),
        ("return np.asarray(lost / np", "return np.asarray(1e14 * lost / np"),
        tests=(SOLVED, MAX_ENTROPY),
    ),
    *_of(
        "audit/statistics/linear/tilting.py",
        ("self.noise * (inverse.T @ inverse)", "self.noise * (inverse @ inverse.T)"),
        ("sums[: len(inverse)], trans=1)", "sums[: len(inverse)])"),
        ("sums = turn.across(sums)", "pass"),
        ("in reversed(self.turns)", "in self.turns"),
        ("self.least > _PLAIN * noise and bool(", "bool("),
        ("bool(np.square(self.right.T @ short).sum() <= noise)", "True"),
        ("self.right.T @ short", "self.right @ short"),
        ('vector, "T")', 'vector, "N")'),
        ('whole, "N")', 'whole, "T")'),
        ("np.full((len(terms), 1), noise**0.5)", "np.zeros((len(terms), 1))"),
        ("float(whole[-1]) * self.noise**0.5", "0.0"),
        ("Direction(numbers * units, usual)", "Direction(numbers, usual)"),
        ("made.along(self.numbers) + self.usual", "made.along(self.numbers)"),
        ("whole = _solved(self.right, found)", "whole = found"),
        ("terms * scale[:, None]", "terms"),
        ("laid[pivots] = across[:rank].T", "laid[:] = across[:rank].T"),
        ("laid * lengths[:, None]", "laid"),
        ("> len(terms) * _ROUNDING", "> -1.0"),
        ("> len(terms) * _ROUNDING", "> 1e-3"),
        ("shares) - seen + ridge @ found", "shares) - seen"),
        ("beta=1.0, c=ridge", "beta=0.0, c=ridge"),
        ("usual, found = logit(shares)", "usual, found = 0.0 * logit(shares)"),
        ("length /= 2.0", "break"),
        ("curved * (1.0 + _RAISED * times)", "curved + _RAISED * times * curved.max()"),
        ("not gained > SETTLED", "True"),
        tests=(MAX_ENTROPY, SOLVED),
    ),
    *_of(
        "audit/mechanisms/privacy/power_sums.py",
        ("equations=self.as_equations) if self.summed", "equations=self.as_equations) if not self.summed"),
        ("len(sizes) - pool.colluding", "len(sizes)"),
        ("share = 0.0 if own is None else", "share = 0.0 if True else"),
        ('added("sums", sums)) * over**2', 'added("sums", sums))'),
        ("np.ascontiguousarray(seen + share)", "np.ascontiguousarray(sums[0] + share)"),
        ('np.square(deviations) + added("sums", sums)', "np.square(deviations)"),
        ("own = None if known is None else self.bounded(known)", "own = None"),
        ("self.noise_factor * self.left(", "self.left("),
        ("moment_numbers(self.bounded(rows), blocks)", "moment_numbers(rows, blocks)"),
        ("LinearSystem(sums.ravel() * over, noise, of_all=False)", "LinearSystem(sums.ravel() * over, noise)"),
        (
            "LinearSystem(sums.ravel() * over, noise, of_all=False)",
            "LinearSystem(sums.ravel() * over, of_all=False)",
        ),
        ("for seen in sums[:-1]:", "for seen in sums[1:]:"),
        tests=RELEASES,
    ),
    *_of(
        "audit/statistics/linear/moments.py",
        ("noise**2 / max(n * varied, 1e-3)", "0.05 * spread"),
        ("parts -= parts.mean()", "pass"),
        (" * isometric(np.ones((rows.shape[1],) * 2))", ""),
        ("(2.0 - np.eye(r))", "1.0"),
        ("covariance -= np.outer(total, total) / len(some) ** 2", "pass"),
        ("rows if noise is not None else rows[:0]", "rows[:0]"),
        ("variance = added * max(n * varied, 1e-3)", "variance = added"),
        ("of_isometric(numbers), -usual", "of_isometric(numbers), usual"),
        ("np.full(len(rows), share)", "np.full(len(rows), 0.5)"),
        tests=(MOMENTS,),
    ),
    *_of(
        "audit/statistics/linear/moments.py",
        ("parties = 1 + (pool.remaining is not None)", "parties = 1"),
        ("share * (dense.T @ dense)", "0.0 * (dense.T @ dense)"),
        tests=(MOMENTS,),
    ),
    *_of(
        "audit/registry.py",
        ("left += _imported(data, package)", "pass"),
        ("if found is None or found.origin is None or read is None:", "if name != module:"),
        ("for name, data in _files(module)", "for name, data in list(_files(module))[1:]"),
        ("{*own_modules(names), *(type(one)", "{*(type(one)"),
        ("not any(folder in above and home in folder.parents for folder in _installed())", "True"),
        tests=("tests/audit/test_registry.py",),
    ),
    *_of(
        "audit/spec/own_names.py",
        ("elif isinstance(tables, dict):", "elif False:"),
        tests=("tests/audit/test_registry.py",),
    ),
    *_of("audit/plan.py", ('({"code": code} if code else {})', "{}"), tests=("tests/audit/test_registry.py",)),
    *_of(
        "tasks/audit_ref.py",
        ("ref.code is not None and ref.code != code_of(plan)", "False"),
        ("return content_key(code) if code else None", "return None"),
        tests=("tests/tasks/test_audit_ref.py",),
    ),
    *_of(
        "storage/schedules/changes.py",
        ("by_name = spec.text is not None or any(named.values())", "by_name = spec.text is not None"),
        ("by_name = spec.text is not None or any(named.values())", "by_name = False"),
        ("contents(Path(file))).hexdigest() for name, file", "file.encode()).hexdigest() for name, file"),
        tests=("tests/storage/schedules/test_changes.py",),
    ),
    *_of(
        "flows/schedules/scheduled_run.py",
        ('{"columns": columns or {}, "code": code,', '{"columns": {}, "code": code,'),
        tests=("tests/flows/schedules/test_changes.py",),
    ),
    *_of(
        "audit/numeric/sparse_rows.py",
        ("equal = columns[p] == other_columns[q] and values[p] == other_values[q]", "equal = True"),
        ("equal = starts[i + 1] - starts[i] == places[j + 1] - places[j]", "equal = True"),
        ("at += 1\n", "break\n"),
        ("place[which], several[order]", "which, several"),
        tests=("tests/audit/test_sparse_rows.py",),
    ),
    *_of(
        "audit/statistics/linear/pilot.py",
        ("(noise < LITTLE * variances).sum()", "(noise < variances).sum()"),
        ("(noise < LITTLE * variances).sum()", "(noise < LITTLE).sum()"),
        ("min(few, features * (features + 1) // 2) if products else few", "few"),
        ("round(more * _of_filter(one, seen, pool))", "_of_filter(one, seen, pool)"),
        ("if in_rows and pool.group is None and is_low_noise(made, noise):", "if is_low_noise(made, noise):"),
        ("if in_rows and pool.group is None and is_low_noise(made, noise):", "if False:"),
        ('replace(cast(Any, mechanism), sampler="fast")', "mechanism"),
        ("total += _of_run(", "total = _of_run("),
        ("min(few, int(root) * features)", "few"),
        ("few_to_write(rows.shape[0], numbers) or numbers", "numbers"),
        ("numbers) or numbers <= MOST_ENTRIES", "numbers)"),
        ("noise / (every * max(pool.share * (1 - pool.share), 1e-3))", "noise / every"),
        ("return max(found)", "return min(found)"),
        tests=(LITTLE_NOISE,),
    ),
    *_of(
        "audit/coverage.py",
        ("return bool(numbers) and numbers >= self.needed", "return numbers >= self.needed"),
        ("numbers >= self.needed * self.count", "True"),
        tests=(LITTLE_NOISE,),
    ),
    *_of("audit/coverage.py", (" + unblurred(_little_noise(plan), who)", ""), tests=(LITTLE_NOISE,)),
    *_of(
        "audit/coverage.py",
        ("decoded(found.bits, who) or", "() or"),
        ("(unlearnt(found, trained, who) if follows else ())", "()"),
        ("if not learnt and not found_by_lattice(who.count", "if not found_by_lattice(who.count"),
        ("told_by(_UNEQUAL * found.numbers)", "told_by(found.numbers)"),
        ("(1.0 - found.interaction) * needed", "needed"),
        ("(needed + found.numbers / runs)", "needed"),
        ("seen >= _MOSTLY", "seen > 0.0"),
        tests=(BITS,),
    ),
    *_of(
        "audit/mechanisms/recorded.py",
        ("runs < _ENOUGH_A_DOCUMENT * documents", "False"),
        (" / (1.0 - (documents + 1) / runs)", ""),
        ("[np.ones(runs), bits]", "[np.ones(runs)]"),
        tests=(BITS,),
    ),
    *_of(
        "audit/statistics/linear/pilot.py",
        ("order[4 * half : held + 2 * half]", "order[: held + 2 * half]"),
        ("places = pool.places_of(np.concatenate", "places = np.sort(np.concatenate"),
        ("*others)), [place]", "*others)), [place, int(always.sum() + halves[0].sum())]"),
        tests=(BITS,),
    ),
    *_of(
        "audit/bits.py",
        ("documents * entropy + documents**2 * REDUCED < bits", "documents**2 * REDUCED < bits"),
        ("documents * entropy + documents**2 * REDUCED < bits", "documents * entropy < bits"),
        ("np.maximum(noise, digit)", "digit"),
        ("np.maximum(noise, digit)", "np.maximum(noise, 1e-300)"),
        ("random = within.any(axis=0)", "random = np.zeros(within.shape[1], np.bool_)"),
        ("> _HIDDEN * noise)", "> 0.0 * noise)"),
        ("np.where(random, _deviation(within, digit), 0.0)", "within.std(axis=0)"),
        ("np.repeat(np.divide(_sizes(arrays), counts), counts)", "np.ones(len(bits))"),
        ("digit / math.sqrt(12.0)", "0.0 * digit"),
        ("np.where(told, exact, _not_noise(values))", "np.where(told, exact, 0.0)"),
        ("np.where(told, exact, _not_noise(values))", "exact"),
        ("whole = values.var(axis=(0, 1)) * signal", "whole = values.var(axis=(0, 1))"),
        ("- values[:, 1] - values[:, 2]", "- values[:, 1]"),
        ("mean(axis=0) / 4.0", "mean(axis=0) / 64.0"),
        ("np.where(left > 0.0, 1.0, 0.0)", "np.zeros(len(left))"),
        ("or not np.isfinite(values).all()", ""),
        tests=(BITS,),
    ),
    *_of(
        "audit/statistics/linear/releases.py",
        ("if squares or t != u", "if t != u"),
        ("if squares or t != u", "if True"),
        ("np.square(sigma[pairs[own, 0]])", "0.0"),
        ("np.stack([V, V])", "np.stack([np.roll(V, 1, axis=0), V])"),
        ("fits_dense_solver(documents) or numbers >= FEWEST", "numbers >= FEWEST"),
        ("fits_dense_solver(documents) or numbers >= FEWEST * documents", "True"),
        ('"solver", "") == "limit"', '"solver", "") != ""'),
        ("mean is not None or any(", "any("),
        ("data.min(initial=0.0) < 0.0", "data.min(initial=0.0) < -99.0"),
        ("None if touched.all() else WithinBasis", "None if True else WithinBasis"),
        ("noise if self.worth(terms(pool.drawn), noise, pool.share) else None", "noise"),
        ("noise=np.maximum(known.noise, missed)", "noise=known.noise"),
        ("if _ROUNDS & set(arrays):", "if False:"),
        tests=(BASIS,),
    ),
    *_of(
        "audit/statistics/linear/system.py",
        ("within | (found[:, 0] <= _BESIDE * lengths)", "within"),
        ("within | (found[:, 0] <= _BESIDE * lengths)", "within | (found[:, 0] <= lengths)"),
        tests=(BASIS,),
    ),
    *_of(
        "audit/statistics/linear/system.py",
        ("np.ascontiguousarray(_at_most(self.total))", "np.ascontiguousarray(self.total * 1.5)"),
        ("sums * (1 + TOLERANCE) + SMALLEST", "sums * (1 + TOLERANCE)"),
        ("topic < SMALLEST, 0.0, topic", "topic < 0.0, 0.0, topic"),
        ("np.ascontiguousarray(_at_most(self.total))", "np.ascontiguousarray(self.total * 0.5)"),
        ("_beyond(found[:, 0], self.gamma)", "_beyond(found[:, 0], 0.0)"),
        ("products - gamma * (1 + TOLERANCE)", "products - gamma"),
        ("panel_of(_at_least(self.topic)[None, :])", "panel_of(self.topic[None, :])"),
        ("if data[at] != 0.0 and not columns", "if not columns"),
        ("float(self.topic @ self.topic) + self.delta", "float(self.topic @ self.topic)"),
        ("if self.public else self._weights(rows)", "if True else self._weights(rows)"),
        ("and not columns[indices[at]]:", "and columns[indices[at]]:"),
        (
            "_fit(indptr, indices, data, nothing, weights, _at_most(self.total)",
            "_fit(indptr, indices, data, nothing, weights, self.total * 1.5",
        ),
        (
            "_fit(indptr, indices, data, nothing, weights, _at_most(self.total)",
            "_fit(indptr, indices, data, nothing, weights, self.total * 0.5",
        ),
        ("weight * first[i, k].entry > most", "first[i, k].entry > most"),
        ("np.where(lengths[:, None] > 0, rows.data[at], 0.0)", "rows.data[at]"),
        ("_at_most(self.squares)", "self.squares * 1.5"),
        ("_at_most(self.squares)", "self.squares * 0.5"),
        ("_beyond(above[:, 0], self.gamma)", "_beyond(above[:, 0], 0.0)"),
        ("below[:, 1] + self.delta", "below[:, 1]"),
        ("by_sums & by_weights", "by_sums"),
        ("by_sums & by_weights", "by_weights"),
        tests=ROUNDS,
    ),
    *_of(
        "audit/mechanisms/privacy/fedpower.py",
        ("for mean in means[:-1])]", "for mean in means[1:])]"),
        ("self.deviations(sizes)[0] * float(np.abs(block).max())", "self.deviations(sizes)[0]"),
        ("equations=self.as_equations) if self.period == 1", "equations=self.as_equations) if True"),
        tests=RELEASES,
    ),
    *_of(
        "audit/mechanisms/privacy/fedpower.py",
        ("size**2 * np.repeat", "np.repeat"),
        ('np.square(deviations) + added("uploads", uploads)', "np.square(deviations)"),
        ("LinearSystem(size * uploads.ravel(), noise, alone=True)", "LinearSystem(size * uploads.ravel(), noise)"),
        ("LinearSystem(size * uploads.ravel(), noise", "LinearSystem(uploads.ravel(), noise"),
        tests=RELEASES,
    ),
    *_of(
        "audit/mechanisms/pem/mechanisms.py",
        ("self.equations(both, pool.share)", "self.equations(both, 0.0)"),
        ("self.equations([one], pool.share)", "self.equations([one], 0.0)"),
        ("self.equations(parts, pool.share)", "self.equations(parts, 0.0)"),
        ('added("sums", sums)', 'added("counts", sums)'),
        ('added("counts", counts)', "0.0"),
        ('added("gradients", gradients)', "0.0"),
        ('added("items", items)', "0.0"),
        ('added("pairs", pairs)', "0.0"),
        tests=(*PEM, FIRST_ROUND),
    ),
    *_of(
        "audit/mechanisms/privacy/dp_nmf.py",
        ("pool.drawn[:0] if pool.subtracted is None else pool.subtracted", "pool.drawn[:0]"),
        ("clipped_sweeps(clip_rows(rows, self.row_bound), topics", "clipped_sweeps(rows, topics"),
        ("self.deviation(sums.shape[-1]) ** 2", "self.deviation(sums.shape[-1])"),
        ("own_noise + added(name, a)", "own_noise"),
        ("own_noise + added(name, a)", 'own_noise + added("sums", a)'),
        ("LinearSystem(known, noise, of_all=False)", "LinearSystem(known, noise)"),
        ("total = seen + self._share(own, W, squares, T, t)", "total = seen"),
        tests=RELEASES,
    ),
    *_of(
        "audit/statistics/linear/contributions.py",
        ("scalars=weights * made.weights", "scalars=weights"),
        ("weights[i, step] *= bound / length", "pass"),
        ("left -= 2.0 * w[u]", "left -= w[u]"),
        tests=RELEASES,
    ),
    *_of(
        "audit/mechanisms/pem/added.py",
        ("return servers * 2 *", "return 2 *"),
        ("* 4.0**-block.fraction_bits", "* 2.0**-block.fraction_bits"),
        ("* keep[records.indices]", ""),
        ("- label[:, None]", ""),
        ("off *= np.divide(", "np.divide("),
        ("FactoredContributions.plain(rows, own, own)", "FactoredContributions.plain(rows, own, 0 * own)"),
        ("both = held[:, pairs[:, 0]]", "both = held[:, pairs[:, 1]]"),
        tests=PEM,
    ),
    *_of(
        "audit/mechanisms/pem/mechanisms.py",
        ("hidden, rate = self.servers - self.colluding", "hidden, rate = self.servers"),
        ("values.ravel() / rate", "values.ravel()"),
        ("hidden) + more) / rate**2", "hidden) + more)"),
        ("hidden) + more) / rate**2", "hidden)) / rate**2"),
        ("coins = (1 - rate) / rate / max(1 - share, 1e-3)", "coins = 0.0"),
        ("of_all=False, shrink=coins", "shrink=coins"),
        tests=(*PEM, FIRST_ROUND),
    ),
    *_of(
        "audit/statistics/linear/expected.py",
        ("own.alpha + own.beta * topics", "0.0 * topics"),
        ("left[p] = data[p] - said", "left[p] = data[p]"),
        ("return row_dots(found, self.coefficients)", "return found.sum(axis=1)"),
        ("shares[:, None] * self.coefficients)", "self.coefficients)"),
        ("np.square(self.left), np.square(self.coefficients)", "self.left, self.coefficients"),
        ("np.where(self.topics > 0.0, numbers, 0.0)", "numbers"),
        ("gamma=self.gamma, delta=self.delta", "gamma=0.0, delta=0.0"),
        ("traits_of(own_mechanism(documents.source_pool.mechanism)).weighted", "False"),
        tests=ROUNDS,
    ),
    *_of(
        "audit/statistics/linear/expected.py",
        ("if total.size > MOST_ENTRIES:", "if total.size <= MOST_ENTRIES:"),
        ("return total / self._variances", "return total * self._variances"),
        ("float(np.abs(total).max()) or 1.0", "float(np.abs(total).max())"),
        (".astype(np.float64) * scale)", ".astype(np.float64))"),
        ("slice(start, start + step * _PART, step)", "slice(start, start + _PART, step)"),
        ("range(0, len(self.weights), step * _PART)", "range(0, min(len(self.weights), _PART), _PART)"),
        ("toarray() - self.mean - weights", "toarray() - weights"),
        ("- self.mean - weights @ self.basis", "- self.mean"),
        ("- self.mean - weights @ self.basis", "- self.mean + weights @ self.basis"),
        ("covariance += terms.T @ terms", "covariance = terms.T @ terms"),
        ("total += terms.sum(axis=0)", "total = terms.sum(axis=0)"),
        ("count += len(terms)", "count = len(terms)"),
        ("covariance -= np.outer(total, total) / max(count, 1)", "pass"),
        ("np.outer(total, total) / max(count, 1)", "np.outer(total, total)"),
        ("_shrunk(covariance.trace() / entries)", "_shrunk(covariance.trace())"),
        ("np.vstack([self.mean, self.basis])", "np.vstack([0.0 * self.mean, self.basis])"),
        ("squares = np.square(self.weights)", "squares = np.abs(self.weights)"),
        ("(np.square(self.rows.data), self.rows.indices", "(self.rows.data, self.rows.indices"),
        ("- 2.0 * (self.rows.T @ weighed).T", "- (self.rows.T @ weighed).T"),
        ("found[r] = whole[r] + (known", "found[r] = whole[r] - (known"),
        ("keepdims=True)), rounding)", "keepdims=True)), 0.0)"),
        ("_shrunk(found.mean(axis=1, keepdims=True))", "_shrunk(found.mean())"),
        ("np.maximum(SHRINK * mean,", "np.minimum(SHRINK * mean,"),
        tests=MATCH,
    ),
    *_of(
        "audit/statistics/linear/expected.py",
        ("here = turn @ found[:, part]", "here = found[:, part].copy()"),
        ("here -= within @ basis[:, part]", "here -= basis[:, part]"),
        ("turned_beyond[part]", "turned_beyond[: here.shape[1]]"),
        ("along += here", "along = here"),
        ("along *= weights", "pass"),
        ("self.values[rank:] - self.rest", "self.values[rank:]"),
        ("self.values[: len(basis), None] - self.rest", "self.values[: len(basis), None]"),
        ("* apart[:, part] - along @ beyond[:, part]", "* apart[:, part] + along @ beyond[:, part]"),
        ("* apart[:, part] - along @ beyond[:, part]", "* apart[:, part]"),
        ("- along @ beyond[:, part]", "- along @ beyond[:, : apart[:, part].shape[1]]"),
        ('derive(("expected", rank, centred)', 'derive(("expected", centred)'),
        ('derive(("expected", rank, centred)', 'derive(("expected", rank)'),
        ("pool.share * pool.drawn.shape[0] / max(drawn.shape[0], 1)", "pool.share"),
        ("parts.append((1.0, pool.fixed))", "parts.append((share, pool.fixed))"),
        ("parts.append((1.0, pool.fixed))", "pass"),
        ("size + pool.fixed.shape[0], total", "size, total"),
        ("total + np.asarray(pool.fixed.sum(axis=0)).ravel()", "total"),
        ("share * np.asarray(drawn.sum(axis=0)).ravel()", "np.asarray(drawn.sum(axis=0)).ravel()"),
        ("if not 0 < rank < min(features, size):", "if not 0 < rank <= min(features, size):"),
        ("mean = total / size if centred", "mean = total / size if not centred"),
        ("mean * np.sqrt(size)", "mean * size"),
        ("- size * float(mean @ mean)", ""),
        ("max(features - len(values), 1)", "features"),
        ("drawn @ basis.T - basis @ mean", "drawn @ basis.T"),
        ("basis @ mean, basis, mean)", "basis @ mean, basis, 0 * mean)"),
        ("moments = -np.outer(less, less)", "moments = np.outer(less, less)"),
        ("moments += weight * (rows.T", "moments += (rows.T"),
        ("found = -less * float(less @ vector)", "found = 0 * less"),
        ("found += weight * (rows.T", "found += (rows.T"),
        ("order = np.argsort(-values", "order = np.argsort(values"),
        ("basis = np.ascontiguousarray(rows[:rank])", "basis = np.ascontiguousarray(rows[-rank:])"),
        ("min(rank + BEYOND, features - 1)", "rank"),
        tests=MATCH,
    ),
    *_of(
        "audit/statistics/linear/expected.py",
        ("_total(self.some, found) - self._at_expected", "_total(self.some, found)"),
        ("(found <= 0.0) & (self.topics <= 0.0)", "(found <= 0.0) | (self.topics <= 0.0)"),
        ("apart[(found <= 0.0) & (self.topics <= 0.0)] = 0.0", "pass"),
        ("np.ascontiguousarray(products), form, upper=np.inf)", "np.ascontiguousarray(products), form)"),
        ("(weights.T @ weights) @ topics", "0 * topics"),
        (".T - (weights.T", ".T + (weights.T"),
        ('("expected topics", rank)', '"expected topics"'),
        ("max(1, int(pool.share * drawn.shape[0]))", "drawn.shape[0]"),
        ("drawn.shape[0]))), [pool.fixed]", "drawn.shape[0]))), []"),
        ("if topics.shape != (rank, drawn.shape[1]):", "if topics.shape[1] != drawn.shape[1]:"),
        (
            "weights = coefficients_under(topics, rows @ topics.T)\n    additions",
            "weights = rows @ topics.T\n    additions",
        ),
        ("at_even_steps(pool.drawn, MOST_EACH_RUN)", "at_even_steps(pool.drawn, 1)"),
        tests=MATCH,
    ),
    *_of(
        "audit/statistics/linear/expected.py",
        ("len(found), has_mean(observables))", "len(found), False)"),
        ("return row_dots(filtered, weights)", "return row_dots(weights, weights)"),
        ("filtered - rows_times(weights, picture.topics @ rows.T)", "filtered"),
        ("filtered - rows_times", "filtered + rows_times"),
        (
            "coefficients_under(picture.topics, _expected_products(documents, picture))",
            "_expected_products(documents, picture)",
        ),
        ("additions.filtered(picture.sums(found))", "picture.sums(found)"),
        ("additions.filtered(picture.sums(found))", "additions.filtered(found)"),
        ('derive(("matched", picture)', 'derive("matched"'),
        ("filtered = filtered - rows @ additions.mean", "pass"),
        ("products - additions.basis @ additions.mean", "products"),
        tests=MATCH,
    ),
    *_of(
        "audit/mechanisms/counted.py",
        ("counts >= self.at_least", "counts > self.at_least"),
        ("self.kept(np.sum(counts, axis=0))", "self.kept(counts[0])"),
        ("for party in database.outside]", "for party in range(len(counts))]"),
        ("Database(parties, database.coalition, database.held, chosen)", "Database(parties, database.coalition)"),
        ("indices[data != 0]", "indices"),
        ("wide[..., kept] = seen", "wide[..., : int(kept.sum())] = seen"),
        ("Release(KEPT_COLUMNS, (features,), noise=EXACT, final=True)", "Release(KEPT_COLUMNS, (features,))"),
        ("traits.opens != OPENS[0]", "False"),
        ("traits.weighted", "False"),
        tests=COUNTED,
    ),
    *_of(
        "audit/statistics/linear/counts.py",
        ("(np.asarray(rows.data) != 0).astype(np.float64)", "np.asarray(rows.data)"),
        ("np.asarray(pool.share * drawn + pool.fixed_share * others)", "np.asarray(pool.share * drawn)"),
        ("return np.asarray(counts - _beside(pool)) if known else counts", "return counts"),
        ("_apart(observables, pool) > 0.5", "_apart(observables, pool) > 1.5"),
        ("possible = _within(observables, pool)", "possible = None"),
        ("for by in (1, 2)]", "for by in (2, 1)]"),
        ("np.where(kept, stays, goes)", "np.where(kept, goes, stays)"),
        ("np.maximum(drawn - 1.0, 0.0)", "drawn"),
        tests=COUNTS,
    ),
    *_of(
        "audit/mechanisms/contract.py",
        ("[(run_prefix(place), one)", '[("", one)'),
        ("in enumerate(runs, start=1)]", "in enumerate(runs[:1], start=1)]"),
        ("len(runs) < 2", "True"),
        tests=("tests/audit/test_coverage.py", *KEPT),
    ),
    *_of(
        "audit/statistics/linear/counts.py",
        ("(*announced.shape[:-1], int(kept.sum()))", "announced.shape"),
        ("announced.shape[-1:] == (len(kept),)", "False"),
        ("a.name.startswith(prefix)", "True"),
        ("expected_counts(pool) >= pool.mechanism.at_least", "expected_counts(pool) >= 0"),
        ("possible(some.matrix)", "None"),
        ("        possible=may,\n", ""),
        tests=(*COUNTS, *KEPT),
    ),
    *_of(
        "audit/mechanisms/factorisation/pd_nmf.py",
        ('"always" if self._by_svd else "small"', '"small"'),
        ('{"weights": "always"} if self.weighted', "{} if self.weighted"),
        tests=("tests/audit/test_coverage.py",),
    ),
    *_of(
        "audit/coverage.py",
        (
            "min(enough_numbers(self.share), telling_numbers(self.share, self.margin))",
            "enough_numbers(self.share)",
        ),
        (
            "min(enough_numbers(self.share), telling_numbers(self.share, self.margin))",
            "telling_numbers(self.share, self.margin)",
        ),
        ("min(enough_numbers(self.share), telling_numbers(self.share, self.margin))", "0.5"),
        ("a.in_all or math.prod(a.shape)", "math.prod(a.shape)"),
        ("share * (1.0 - share) * (2.0", "(2.0"),
        ("return apart / (1.0 + apart)", "return apart"),
        ("(1.0 - share) * (whole", "(whole"),
        ("float(norm.cdf(-at)) - peak)", "float(norm.cdf(-at)) + peak)"),
        ("most = max(numbers", "most = min(numbers"),
        ("and exact_throughout(one)]", "]"),
        tests=("tests/audit/test_coverage.py",),
    ),
    *_of(
        "audit/coverage.py",
        ("MayBeIn(held.unknown, held.share,", "MayBeIn(held.unknown, 0.5,"),
        ("held.share, plan.spec.rule.margin", "held.share, 1.0"),
        ("return fits_dense_solver(held.unknown)", "return False"),
        ("learnable(expected_shapes(plan), plan.design.runs)", "learnable(plan.announced, plan.design.runs)"),
        tests=("tests/audit/test_coverage.py", *COUNTS),
    ),
    *_of(
        "audit/statistics/linear/groups.py",
        ("adds += which @ written", "adds += written[:1]"),
        ("share * adds.sum(axis=0)", "0.0"),
        (
            "rows.matrix).along(numbers), documents.starts[:-1]",
            "rows.matrix).along(-numbers), documents.starts[:-1]",
        ),
        ("return groups <= MOST_GROUPS and", "return"),
        tests=("tests/audit/statistics/linear/test_of_groups.py",),
    ),
    *_of(
        "audit/plan.py",
        ('number[np.argsort(rows, kind="stable")]', "number"),
        tests=("tests/audit/statistics/linear/test_of_groups.py",),
    ),
    *_of(
        "audit/coverage.py",
        ('plan.units.word == "group"', "False"),
        ('if held.units.word == "document":', "if True:"),
        tests=("tests/audit/statistics/linear/test_of_groups.py",),
    ),
    *_of(
        "audit/coverage.py",
        ("untested(plan.default_columns, tested)", "()"),
        tests=("tests/audit/test_coverage.py",),
    ),
    *_of(
        "audit/coverage.py",
        ("in unweighed(plan.read, plan.seen, plan.statistics))", "in ())"),
        ("for statistic in statistics if weighs(statistic)", "for statistic in statistics"),
        ("a.name not in weighed and not a.derived_from)", "a.name not in weighed)"),
        tests=("tests/audit/test_plan.py",),
    ),
    *_of(
        "audit/plan.py",
        ("        others = ()", "        pass"),
        ("if s.name not in dear)", ")"),
        tests=("tests/audit/test_coverage.py",),
    ),
    *_of(
        "audit/plan.py",
        ("if is_own(mechanism) or asked:", "if asked:"),
        ("if is_own(mechanism) or asked:", "if is_own(mechanism):"),
        ("if rounds_solved(mechanism, shown.read, held.unknown):", "if False:"),
        (
            "held.unknown <= MOST_LEARNT_OF and shown.numbers <= MOST_LEARNT_FROM:",
            "held.unknown <= MOST_LEARNT_OF:",
        ),
        ("if little and held.unknown", "if held.unknown"),
        ("arrays = unweighed(shown.read, shown.seen, others)", "arrays = shown.read"),
        ("and held.unknown <= MOST_LEARNT_IN_PART:", ":"),
        tests=("tests/audit/test_plan.py",),
    ),
    *_of(
        "audit/coverage.py",
        ("if not who.told_by(sum(found.values())):", "if not found:"),
        ("told_by(sum(found.values()))", "told_by(max(found.values(), default=0))"),
        tests=("tests/audit/test_coverage.py",),
    ),
    *_of(
        "audit/plan.py",
        ("if not (len(held.honest) and len(held.coalition)):", "if True:"),
        ("honest=honest, coalition=coalition)", "honest=coalition, coalition=honest)"),
        tests=("tests/audit/test_plan.py",),
    ),
    *_of(
        "audit/statistics/contract.py",
        ("return self.honest if self.colluding else self.fixed", "return self.fixed"),
        ("(self.fixed if self.coalition is None else self.coalition)", "self.fixed"),
        ("(self.drawn, *self.others)", "(self.drawn,)"),
        tests=("tests/audit/test_plan.py",),
    ),
    *_of(
        "audit/statistics/linear/releases.py",
        ("(0 if pool.remaining is None else pool.remaining.shape[0])", "0"),
        tests=("tests/audit/test_plan.py",),
    ),
    *_of(
        "audit/statistics/linear/counts.py",
        ("counts - _beside(pool)", "counts"),
        tests=("tests/audit/statistics/linear/test_document_counts.py",),
    ),
    *_of(
        "audit/coverage.py",
        ("sums += followed(_final(plan), who)", "pass"),
        tests=("tests/audit/test_coverage.py",),
    ),
    *_of(
        "audit/statistics/linear/pilot.py",
        ("own_mechanism(one), prefix", "one, prefix"),
        ('prefix + "T", prefix + "V"', '"T", "V"'),
        ('prefix + "sums" not in shapes and', ""),
        ("size if exact else _above_noise(one, size, pool)", "size"),
        ("not any(prefix + name in shapes for name in _ROUNDS)", "True"),
        ("and exact and _stops_early(own, pool)", "and exact"),
        ("> _CONVERGED", "> 2.0"),
        ("noise < LITTLE * runs", "noise < runs"),
        ("/ 2.0", "/ 2e4"),
        ("numbers in found.items() if numbers}", "numbers in found.items()}"),
        ("(database, [place, repeat])", "(database, [place])"),
        tests=("tests/audit/statistics/linear/test_final_numbers.py",),
    ),
    *_of(
        "src/ksdp/api/call_spec.py",
        ('if made is not mechanism and "families"', 'if hasattr(made, "statistics") and "families"'),
        tests=("tests/api/test_calls.py",),
    ),
    *_of(
        "audit/mechanisms/contract.py",
        ("[(run_prefix(place), one)", '[("", one)'),
        ("in enumerate(runs, start=1)]", "in enumerate(runs[:1], start=1)]"),
        ("len(runs) < 2", "True"),
        tests=("tests/audit/test_coverage.py", *KEPT),
    ),
    *_of(
        "audit/statistics/linear/counts.py",
        ('getattr(of, "of_candidates", False)', "False"),
        ('if getattr(of, "of_expected", False):', "if False:"),
        (
            "return statistic.evaluate(observables, as_in_run(statistic, observables, documents))",
            "return statistic.evaluate(observables, documents)",
        ),
        ("emptied(some.matrix, kept)", "some.matrix"),
        ("drawn=emptied(pool.drawn, kept)", "drawn=pool.drawn"),
        ("_expected(whole).at(places)", "_expected(whole)"),
        ('getattr(statistic, "statistic", statistic)', "statistic"),
        tests=KEPT,
    ),
    *_of(
        "audit/mechanisms/joint.py",
        ("self.statistic, _of_run(observables, self.place),", "self.statistic, observables,"),
        ("observables, self.place), _documents_of(documents, self.place)", "observables, self.place), documents"),
        ("derive((self, documents), compute)", 'derive("value", compute)'),
        ("derive((self, documents), compute)", "derive(self, compute)"),
        ("derive((self, documents), compute)", "derive((self.place, documents), compute)"),
        ("_named(self.place, super().needs)", "_named(1, super().needs)"),
        ("_named(self.place, super().needs_any)", "super().needs_any[:0]"),
        ("_named(self.place, super().reads)", "super().reads[:0]"),
        ("for part in self.parts for name in part.needs)", "for part in self.parts[:1] for name in part.needs)"),
        ("return self.parts[0].needs_background", "return ()"),
        ("np.sum(values, axis=0)", "values[0]"),
        ("any(one.nonnegative", "all(one.nonnegative"),
        ("OPENS[1] if all(", "OPENS[1] if any("),
        ("for parts in by_name.values() if self._have_all(parts))", "for parts in by_name.values())"),
        (" and not part.needs_any for part", " for part"),
        ("part.needs and set(part.needs) <= shown", "part.needs"),
        ("return whole and len(parts) == len(self.inner)", "return whole"),
        ("derived_from=_named(place, array.derived_from)", "derived_from=()"),
        ('run.get("version", mechanism.version) != mechanism.version', "False"),
        ('"version": mechanism.version} | given', '"version": 1} | given'),
        ("pool.mechanism.inner[place - 1]", "pool.mechanism.inner[0]"),
        ('observables.derive(("together", place), cut)', 'observables.derive("together", cut)'),
        ("(_documents_of(taken[0], place), taken[1])", "taken"),
        tests=TOGETHER,
    ),
    *_of(
        "audit/statistics/linear/groups.py",
        ('tuple(getattr(self.statistic, "needs_background", ()))', "()"),
        tests=TOGETHER,
    ),
    *_of(
        "audit/mechanisms/sensitivity.py",
        ("self.distance > self.sensitivity + self.rounding", "self.distance > 2.5 * self.sensitivity"),
        ("self.distance > self.sensitivity + self.rounding", "self.distance > self.sensitivity"),
        ("not self.unknown and self.distance", "self.distance"),
        ("LONGER = 16", "LONGER = 1"),
        ("LONGER * part", "part"),
        ("[one for one in found if not one.unknown]", "list(found)"),
        ("unknown if known or unknown else", "unknown if known or True else"),
        ("(one.too_far, _share(one))", "(one.too_far, -_share(one))"),
        tests=SENSITIVITY,
    ),
    *_of(
        "audit/mechanisms/privacy/transcript.py",
        ("given if given is not None and fits else super()", "super()"),
        ("self.free.add(len(self.transcript))", "pass"),
        ("if counted != len(ledger):", "if False:"),
        ("elif a.deviation != b.deviation:", "elif False:"),
        ("np.linalg.norm(a.exact - b.exact)", "np.abs(a.exact - b.exact).max()"),
        ("if distance else []", "if False else []"),
        tests=SENSITIVITY,
    ),
    *_of(
        "audit/mechanisms/pem/mechanisms.py",
        ("float(part.sum()), float(block.sensitivity)", "float(part.max()), float(block.sensitivity)"),
        tests=SENSITIVITY,
    ),
    *_of(
        "audit/mechanisms/recorded.py",
        ("for run in range(self.learnt))", "for run in range(len(self._bits)))"),
        ("self._announced(self.learnt + run)", "self._announced(run)"),
        tests=("tests/api/test_recorded.py",),
    ),
    *_of(
        "audit/mechanisms/planted.py",
        ("if one.unit in inside:", "if True:"),
        ("differ & (coin < self.amounts[0])", "differ"),
        ("2 * self.centres[1] - numbers[..., 1], numbers", "-numbers[..., 1], numbers"),
        ("array.astype(seen[name].dtype)", "array"),
        ("max(one.places, default=0) >= sizes", "max(one.places, default=0) > sizes"),
        tests=PLANTED,
    ),
    *_of(
        "audit/screening/planting.py",
        ("held[number] = bit", "pass"),
        ("np.bincount(first)[first[clear]] == 1", "np.bincount(first)[first[clear]] >= 1"),
        ("np.where(whole, np.round(amounts), amounts)", "amounts"),
        ("low, high = (low, middle) if", "low, high = (middle, high) if"),
        ("(leak.kind, size) == (kind, above)", "leak.kind == kind"),
        tests=PLANTED,
    ),
    *_of(
        "audit/statistics/simulated.py",
        (
            "np.flatnonzero(largest > most[at : at + _AT_ONCE])",
            "np.flatnonzero(largest < most[at : at + _AT_ONCE])",
        ),
        ("np.concatenate([every, every[:numbers] ** 2])", "np.concatenate([every, every[:numbers]])"),
        ("values = rows[at:] * rows[at - 1]", "values = rows[at:].copy()"),
        ("2.0 * np.log(max(count, 2)) / runs", "2.0 * np.log(max(count, 2))"),
        ("every[self.first] * every[self.second]", "every[self.first]"),
        ("sums.of(gain <= best), some.of(gain > best)", "sums, some.of(gain > best)"),
        ("(whole - part) / np.sqrt(size)", "whole / np.sqrt(size)"),
        ("np.abs(found.data) > bound", "found.data > bound"),
        ("kept.data / entries.deviations[kept.row]", "np.ones_like(kept.data)"),
        ("np.concatenate([order_of(flat), *plain])", "order_of(flat)"),
        ("if each < _FEWEST_LEVELS:", "if each < 2 * _FEWEST_LEVELS:"),
        ("if pool.corpus_rows is None else np.flatnonzero(", "if True else np.flatnonzero("),
        ("if pool.group is None else np.unique(pool.group[places])", "if True else pool.group"),
        tests=LEARNT,
    ),
    *_of(
        "audit/mechanisms/claims.py",
        ("or self.replay.refuted", "or False"),
        ("any(point.refuted for point in self.curve)", "False"),
        ("(3 if normal else 2)", "2"),
        tests=("tests/audit/mechanisms/test_claims.py",),
    ),
    *_of(
        "flows/audits/claims.py",
        ('if stated == "add-remove"', 'if stated == "replace-one"'),
        ("self.found.epsilon_low > self.claimed_epsilon", "self.found.epsilon_low < self.claimed_epsilon"),
        tests=("tests/flows/audits/test_claims.py",),
    ),
]


def changed(mutant: Mutant) -> str:
    """The module's text with the fault in it.

    Raises
    ------
    ValueError
        If the text is not there exactly once, or the result is no Python or the same Python.
    """
    text = (ROOT / mutant.file).read_text(encoding="utf-8")
    if text.count(mutant.old) != 1:
        times = text.count(mutant.old)
        raise ValueError(f"{mutant.file} holds {mutant.old!r} {times} times, not once: choose its mutants anew.")
    new = text.replace(mutant.old, mutant.new)
    if ast.dump(ast.parse(new)) == ast.dump(ast.parse(text)):
        raise ValueError(f"{mutant.file} is not changed by {mutant.new!r}.")
    return new


def _planted(mutant: Mutant) -> None:
    """Put the code of the changed text into the functions that everybody has imported already."""
    module = importlib.import_module(mutant.module)
    fresh: dict[str, Any] = {"__name__": module.__name__, "__file__": module.__file__}
    exec(compile(changed(mutant), str(module.__file__), "exec", dont_inherit=True), fresh)
    for name, new in fresh.items():
        old = vars(module).get(name)
        if isinstance(new, type) and new.__module__ == module.__name__:
            for attribute, made in list(vars(new).items()):  # pydantic writes into it while it is read
                if not _replaced(vars(old).get(attribute), made, module.__name__) and isinstance(
                    made, (bool, tuple)
                ):
                    setattr(old, attribute, made)
        elif not _replaced(old, new, module.__name__) and isinstance(new, _CONSTANTS):
            setattr(module, name, new)


_CONSTANTS = (int, float, str, tuple)


def _function(found: Any) -> Any:
    """What is behind a method, a property or a decorator."""
    for name in ("__func__", "fget", "func"):  # of a class method, a property and a cached one
        found = getattr(found, name, None) or found
    return inspect.unwrap(found)


def _replaced(old: Any, new: Any, module: str) -> bool:
    old, new = _function(old), _function(new)
    if not isinstance(new, FunctionType) or new.__module__ != module:
        return False
    old.__code__, old.__defaults__, old.__kwdefaults__ = new.__code__, new.__defaults__, new.__kwdefaults__
    return True


class _Each:
    """Runs what was collected once, in a fork for the code as it is and in one for each mutant."""

    def __init__(self, mutants: list[Mutant]) -> None:
        self._mutants = mutants

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        assert session.items
        assert not session.testsfailed
        print(json.dumps({"file": None, "status": self._tested(session, None)}), flush=True)
        for mutant in self._mutants:
            status = self._tested(session, mutant)
            told = {"file": mutant.file, "old": mutant.old, "new": mutant.new, "status": status}
            print(json.dumps(told), flush=True)
        return True

    def _tested(self, session: pytest.Session, mutant: Mutant | None) -> int:
        """0: all pass; 1: one fails; 91: the mutant is no program."""
        child = os.fork()
        if child:
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        status = 91
        try:
            if mutant is not None:
                _planted(mutant)
            for item, following in zip(session.items, [*session.items[1:], None], strict=True):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if session.testsfailed:
                    break
            status = int(session.testsfailed > 0)
        finally:
            os._exit(status)


def run(mutants: list[Mutant]) -> None:
    """Print what becomes of each list of tests, first as the code is, then with each mutant."""
    os.chdir(ROOT)
    for mutant in mutants:
        changed(mutant)
    for tests in dict.fromkeys(mutant.tests for mutant in mutants):
        child = os.fork()  # before anything is imported
        if child == 0:
            if tests == VERDICTS:
                os.environ["NUMBA_DISABLE_JIT"] = "1"
            _run([mutant for mutant in mutants if mutant.tests == tests], tests)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _run(mutants: list[Mutant], tests: tuple[str, ...]) -> None:
    silent = ["-s", "-p", "no:terminal", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
    status = pytest.main([*silent, *tests], plugins=[_Each(mutants)])
    assert status == 0, status


if __name__ == "__main__":
    asked = sys.argv[1:]
    run([mutant for mutant in MUTANTS if not asked or mutant.file in asked])
