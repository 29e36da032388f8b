"""Faults that are planted in the verdict path, one at a time, and a program that asks the tests about each.

A mutant is a module, a piece of its text and what stands there instead. The text must occur exactly once: who
rewrites a module chooses its mutants anew, and `run` says so loudly.

    python tests/validity/mutants.py [FILE ...]

prints one JSON line a mutant, of these files or of all. Everything heavy is imported once; each mutant gets a
fork, in which the module is compiled from the changed text and never from a file. Kernels run uncompiled, as a
compiled one is cached by file.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

__all__ = ["MUTANTS", "Mutant", "changed"]

ROOT = Path(__file__).resolve().parents[2]
TESTS = "tests/audit/test_verdict_path.py"


@dataclass(frozen=True)
class Mutant:
    """One planted fault."""

    file: str
    """Under the root of the repository."""
    old: str
    new: str

    @property
    def module(self) -> str:
        """Its dotted name."""
        return "ksdp." + self.file.removesuffix(".py").replace("/", ".")


def _of(file: str, *changes: tuple[str, str]) -> list[Mutant]:
    return [Mutant(file, old, new) for old, new in changes]


MUTANTS: list[Mutant] = [
    *_of(
        "audit/verdicts/ks.py",
        ("best = max(best, end * n - upto * m, under * m - start * n)", "best = max(best, end * n - upto * m)"),
        ("best = max(best, end * n - upto * m, under * m - start * n)", "best = max(best, under * m - start * n)"),
        ("if inclusion[row, run] == pick:", "if inclusion[row, run]:"),
        ("return KSTable(n_with, n_without, distance,", "return KSTable(n_without, n_with, distance,"),
        ("upto = _below(ordered[row], arm[start], True) - end", "upto = _below(ordered[row], arm[start], True)"),
    ),
    *_of(
        "audit/verdicts/tied.py",
        (
            "while high >= low and (high - 1) * total - mean >= h:",
            "while high >= low and (high - 1) * total - mean > h:",
        ),
        ("while low <= high and mean - (low - 1) * total >= h:", "while False:"),
        ("if step + 1 == ends[at]:", "if step == ends[at]:"),
        ("mean = (step + 1) * m", "mean = step * m"),
        ("out[rows] = np.minimum(log_p / _LN10, out[rows])", "out[rows] = log_p"),
    ),
    *_of(
        "audit/verdicts/tails.py",
        ("up = held * runs >= size * held_of_all", "up = True"),
        ("found += math.log(2.0) + math.log(looked_at)", "found += math.log(looked_at)"),
        ("found += math.log(2.0) + math.log(looked_at)", "found += math.log(2.0)"),
        ("if found < log_p[row]:", "if found > log_p[row]:"),
        ("if (values[row, run] >= edge) if side else (values[row, run] <= edge):", "if values[row, run] >= edge:"),
        ("counts[side, k - 1] = 0", "pass"),
        ("_FEWEST = 3", "_FEWEST = 4"),
    ),
    *_of(
        "audit/verdicts/bands.py",
        ("first = np.sqrt(np.log(2 / (level * _SPLITS))", "first = np.sqrt(np.log(1 / (level * _SPLITS))"),
        ("np.log(2 / (level * (1 - _SPLITS)))", "np.log(2 / level * (1 - _SPLITS))"),
        ("(first + second).min(axis=0)", "np.maximum(first, second).min(axis=0)"),
        ("np.where(known, np.clip(distance + width, 0, 1), 1.0)", "np.clip(np.nan_to_num(distance), 0, 1)"),
    ),
    *_of(
        "audit/verdicts/multiplicity.py",
        ("log10_p.min(axis=1) + np.log10(log10_p.shape[1])", "log10_p.min(axis=1)"),
        ("np.log10(count + 1 - rank)", "np.log10(count - rank + 1e-9)"),
        (
            "np.maximum.accumulate(log10_p[order] + np.log10(count + 1 - rank))",
            "log10_p[order] + np.log10(count + 1 - rank)",
        ),
        ('penalty = np.log10((1 / rank).sum()) if procedure == "by" else 0.0', "penalty = 0.0"),
        ("stepped = np.minimum.accumulate(stepped[::-1])[::-1]", "pass"),
        (
            "out[order] = np.minimum(stepped, 0.0)\n    return out\n\n\ndef strictest_log10_p",
            "out[:] = np.minimum(stepped, 0.0)\n    return out\n\n\ndef strictest_log10_p",
        ),
        ("main - np.log10(1 - share), other - np.log10(share)", "main, other"),
        (
            "main - np.log10(1 - share), other - np.log10(share)",
            "main - np.log10(share), other - np.log10(1 - share)",
        ),
    ),
    *_of(
        "audit/testing.py",
        ("weighted_minimum(distances, tails),", "distances,"),
        ("weighted_minimum(distances, tails),", "weighted_minimum(tails, distances),"),
        (
            "exact.append(tied_table(array, inclusion, tables[-1], ordered))",
            "exact.append(tied_table(array, inclusion, tables[0], ordered))",
        ),
        ("dealt = np.ascontiguousarray(inclusion[:, order])", "dealt = np.ascontiguousarray(inclusion)"),
        ("part.log10_p[:NULL_CONTROLS].min(axis=1)", "part.log10_p[:NULL_CONTROLS].max(axis=1)"),
        ("if smallest < _CONTROL_LEVEL / trials:", "if smallest < _CONTROL_LEVEL / trials / trials:"),
        ("elif lowest < _CONTROL_LEVEL / len(dealt):", "elif False:"),
        ("float(planted.max()) > bar:", "float(planted.min()) > bar:"),
        ("valid=reason is None,", "valid=True,"),
        ("if canaries is not None and canaries.reason is not None:", "if False:"),
    ),
    *_of(
        "audit/canaries.py",
        ("if distance:", "if distance == count:"),
        ("elif missed:", "elif False:"),
        ("(found.distance[:, 0] < _WHOLE)", "(found.distance[:, 0] < 0.5)"),
        ("smallest = min(smallest,", "smallest = max(smallest,"),
        ("known = ~np.isnan(tests.distance[:, 0])", "known = tests.distance[:, 0] > 2"),
    ),
    *_of(
        "audit/verdicts/decide.py",
        ("clear = (high < rule.margin).all(axis=1)", "clear = (high < rule.margin).any(axis=1)"),
        ("clear = (high < rule.margin)", "clear = (measured < rule.margin)"),
        ("sensitive = adjusted <= math.log10(level)", "sensitive = adjusted <= math.log10(rule.level)"),
        ("sensitive = adjusted <= math.log10(level)", "sensitive = over_statistics <= math.log10(level)"),
        ("high = np.where(known, np.clip(measured + width, 0, 1), 1.0)", "high = np.clip(measured, 0, 1)"),
        (
            "width = _width(tested.n_with, tested.n_without, level / (among * statistics), rule)\n    measured",
            "width = _width(tested.n_with, tested.n_without, level / among, rule)\n    measured",
        ),
        ("np.concatenate([log10_p, np.zeros(among - len(log10_p))])", "log10_p"),
    ),
    *_of(
        "audit/interim_verdicts.py",
        ("among = len(tests) if before is None else len(before.look)", "among = len(tests)"),
        ("decide(tests, rule, level=look.level, among=among)", "decide(tests, rule, among=among)"),
        ("math.log10(rule.level / look.level)", "0.0"),
        ("standing.decisions.verdict == Verdict.UNDECIDED", "standing.decisions.verdict != Verdict.SENSITIVE"),
        ("    out[at] = part\n", "    out[: len(at)] = part\n"),
        (
            "flagged_by(tests.columns([c]), rule, look.level, among)",
            "flagged_by(tests.columns([0]), rule, look.level, among)",
        ),
        (
            "flagged_by(tests.columns(paper), rule, look.level, among)",
            "flagged_by(tests, rule, look.level, len(tests))",
        ),
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


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles the changed text, whatever is cached."""

    def __init__(self, name: str, path: str, text: str) -> None:
        super().__init__(name, path)
        self._text = text

    def get_code(self, fullname: str) -> CodeType:
        return compile(self._text, self.path, "exec", dont_inherit=True)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, mutant: Mutant) -> None:
        self._module, self._file, self._text = mutant.module, str(ROOT / mutant.file), changed(mutant)
        self.loaded = False

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        if name != self._module:
            return None
        self.loaded = True
        return importlib.util.spec_from_file_location(
            name, self._file, loader=_Loader(name, self._file, self._text)
        )


def _tested(mutant: Mutant | None) -> int:
    """Exit status of the tests in a fork: 0 all pass, 1 some fail; 90 where the module was never loaded."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = 91
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        import pytest

        finder = None if mutant is None else _Finder(mutant)
        if finder is not None:
            sys.meta_path.insert(0, finder)
        status = int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", TESTS]))
        if finder is not None and not finder.loaded:
            status = 90
    finally:
        os._exit(status)


def run(mutants: list[Mutant]) -> None:
    """Print what becomes of the tests, first as the code is, then with each mutant."""
    os.chdir(ROOT)
    for name in ("numpy", "scipy.stats", "scipy.optimize", "scipy.sparse.linalg", "numba", "pydantic", "pytest"):
        importlib.import_module(name)
    loaded = [name for name in sys.modules if name.startswith("ksdp")]
    assert not loaded, loaded
    print(json.dumps({"file": None, "status": _tested(None)}), flush=True)
    for mutant in mutants:
        told = {"file": mutant.file, "old": mutant.old, "new": mutant.new, "status": _tested(mutant)}
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    os.environ["NUMBA_DISABLE_JIT"] = "1"
    asked = sys.argv[1:]
    run([mutant for mutant in MUTANTS if not asked or mutant.file in asked])
