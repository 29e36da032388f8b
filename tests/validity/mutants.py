"""Faults that are planted in the verdict path, one at a time, and a program that asks the tests about each.

A mutant is a module, a piece of its text and what stands there instead: a line of `mutants.txt`. The text must
occur exactly once: who rewrites a module chooses its mutants anew, and `run` says so loudly.

    python tests/validity/mutants.py [FILE ...]

prints one JSON line a mutant, of these files or of all. Everything is imported, and the tests are collected, once
for each list of tests; each mutant gets a fork, in which the functions of its module get the code of the changed
text. A constant of a module is changed for that module alone. Kernels of the verdicts run uncompiled.
"""

import ast
import importlib
import inspect
import json
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

__all__ = ["MUTANTS", "Mutant", "changed"]

ROOT = Path(__file__).resolve().parents[2]
VERDICTS = ("tests/audit/verdicts/test_verdict_path.py",)
"""What must kill the faults of a file that names no tests."""


@dataclass(frozen=True)
class Mutant:
    """One planted fault."""

    file: str
    """Under the root of the repository."""
    old: str
    new: str
    tests: tuple[str, ...]
    """Files of the tests that must kill it."""

    @property
    def module(self) -> str:
        """Its dotted name."""
        return "ksdp." + self.file.removeprefix("src/ksdp/").removesuffix(".py").replace("/", ".")


def listed(table: str) -> list[Mutant]:
    """The faults of a table: lines `[file] tests ...`, each with lines of what stands there and what shall.

    Raises
    ------
    ValueError
        If a line is neither.
    """
    found, file, tests = [], "", VERDICTS
    for line in table.splitlines():
        if head := re.fullmatch(r"\[(\S+)\]((?: \S+)*)", line):
            file, tests = head[1], tuple(f"tests/{name}" for name in head[2].split()) or VERDICTS
        elif fault := re.fullmatch(r"`([^`]+)` => `([^`]*)`", line):
            found.append(Mutant(file, *(part.replace(r"\n", "\n") for part in fault.groups()), tests))
        else:
            raise ValueError(f"mutants.txt has {line!r}: write `old` => `new`, with \\n between lines.")
    return found


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
# - arms exchanged in `epsilon_lower_bound`, which asks both;
# - `apart = turned` in `Expected.sums`: the part in the expected space is one vector each, and cancels;
# - `topics @ rows.T` turned round in `FirstOrderTopics`, which is a quadratic form.
MUTANTS = listed(Path(__file__).with_suffix(".txt").read_text(encoding="utf-8"))


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
