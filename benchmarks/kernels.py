"""What each kernel does that most of an audit's time goes to, and how near it is to this machine's limit.

::

    python -m benchmarks kernels                # enron-mail6 under PD-SVD and PD-NMF; seconds once compiled

Kernels are called as an audit has just called them, with the same arrays: of one run, and of the documents whose
block it is in. Every line has CPU milliseconds of a call (the median of many), and its share of a limit that is
measured in the same minute (`benchmarks.machine`); `benchmarks.kernel_costs` says what is counted. Values that D
and its law are worked out from are drawn: as many runs with and without a document as the plan has, and documents
whose arms are the same up to such whose arms lie two deviations apart.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np
from numba import njit
from numpy.typing import NDArray

from benchmarks import ROOT
from benchmarks.kernel_costs import (
    Cost,
    add_rows,
    arms_walked,
    fit_round,
    lanczos_step,
    limit,
    nmf_sweep,
    paths_inside,
    squared_times_panel,
    tails_summed,
    times_panel,
)
from benchmarks.machine import bandwidth, peak
from ksdp.audit.design import Block
from ksdp.audit.kernels import csr_times_panel, panel_of
from ksdp.audit.mechanisms.factorisation import lanczos, rri_nmf
from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.sampling import measure, run_observables
from ksdp.audit.statistics import products
from ksdp.audit.statistics.linear import coordinate_descent, expected
from ksdp.audit.verdicts import ks, law
from ksdp.flows.prepare import read_spec_file, spec_corpus

SPECS = ROOT / "examples/specs"
DOCUMENTS = 256
"""Whose tests stand for all, as in `benchmarks.loop_parts`."""
_SECONDS, _CALLS = 0.3, 9
_STEPS = 64
"""Of Lanczos in one call: a step alone takes hardly longer than being called."""


@dataclass(frozen=True)
class Line:
    """One kernel."""

    name: str
    cost: Cost
    seconds: float
    limit: float
    by: str
    """What sets the limit."""


HEAD = ("kernel", "of", "Mop", "MB", "CPU ms", "GFLOP/s", "GB/s", "limit, ms", "share", "by")


def table(lines: Sequence[Line]) -> list[str]:
    """Rows of a table, as documents hold them."""
    rows = ["| " + " | ".join(HEAD) + " |", "|---" * len(HEAD) + "|"]
    for line in lines:
        operations, size = line.cost.operations, line.cost.size
        numbers = (
            f"{operations / 1e6:.2f}",
            f"{size / 1e6:.2f}",
            f"{1e3 * line.seconds:.3f}",
            f"{operations / line.seconds / 1e9:.1f}",
            f"{size / line.seconds / 1e9:.1f}",
            f"{1e3 * line.limit:.3f}",
            f"{line.limit / line.seconds:.0%}",
        )
        rows.append("| " + " | ".join((line.name, line.cost.sizes, *numbers, line.by)) + " |")
    return rows


def _copied(given: Any) -> Any:
    """The same arguments, with arrays of their own."""
    if isinstance(given, np.ndarray):
        return given.copy()
    if isinstance(given, tuple):
        parts = map(_copied, given)
        return type(given)(*parts) if hasattr(given, "_fields") else tuple(parts)
    return given


def _arrays(given: Any) -> Iterator[NDArray[Any]]:
    if isinstance(given, np.ndarray):
        yield given
    elif isinstance(given, tuple):
        for part in given:
            yield from _arrays(part)


@dataclass(frozen=True, eq=False)
class Call:
    """A call of a kernel that an audit made."""

    kernel: Callable[..., Any]
    given: tuple[Any, ...]
    before: tuple[Any, ...]
    """Copies of what it was given, from before it changed anything."""

    def again(self) -> None:
        """Begin anew and call it once: what it was given is then as the audit found it afterwards."""
        for array, first in zip(_arrays(self.given), _arrays(self.before), strict=True):
            if not np.array_equal(array, first, equal_nan=True):
                np.copyto(array, first)
        self.kernel(*self.given)

    def seconds(self) -> float:
        """CPU seconds of a call: the median of many, each from the same state."""
        self.again()
        pairs = zip(_arrays(self.given), _arrays(self.before), strict=True)
        changed = [(array, first) for array, first in pairs if not np.array_equal(array, first, equal_nan=True)]
        spent: list[float] = []
        while len(spent) < _CALLS or sum(spent) < _SECONDS:
            for array, first in changed:
                np.copyto(array, first)
            began = time.process_time()
            self.kernel(*self.given)
            spent.append(time.process_time() - began)
        return median(spent)


@contextmanager
def _recorded(*places: tuple[ModuleType, str]) -> Iterator[dict[str, list[Call]]]:
    """Calls of kernels, by the names under which modules call them."""
    calls: dict[str, list[Call]] = {name: [] for _, name in places}

    def recorder(kernel: Callable[..., Any], name: str) -> Callable[..., Any]:
        def called(*given: Any) -> Any:
            calls[name].append(Call(kernel, given, _copied(given)))
            return kernel(*given)

        return called

    with ExitStack() as stack:
        for module, name in places:
            stack.enter_context(mock.patch.object(module, name, recorder(getattr(module, name), name)))
        yield calls
    if missing := [name for name, found in calls.items() if not found]:
        raise SystemExit(
            f"no audit calls {', '.join(missing)} there any more: benchmarks.kernels must look elsewhere."
        )


def _plan(path: Path, **mechanism: str) -> Plan:
    read, base = read_spec_file(path)
    spec = read.model_copy(update={"mechanism": read.mechanism.model_copy(update=mechanism)})
    return make_plan(spec, spec_corpus(spec, base))


def _one_run(plan: Plan, *places: tuple[ModuleType, str]) -> tuple[dict[str, list[Call]], dict[str, NDArray[Any]]]:
    """What a run calls, and what it announces; of the runs after an early look's, which are nearly all.

    The run before it is made first: what an audit works out once belongs to no run.
    """
    first = plan.reading.early
    for number in (first, first + 1):
        with ExitStack() as stack:
            calls = stack.enter_context(_recorded(*places)) if number > first else {}
            stored = run_observables(plan, 0, number)
            measure(plan, Block(0, number, number + 1), [stored], plan.statistics)
    return calls, stored


@njit
def _lanczos_steps(rows: Any, v: Any, middle: Any, out: Any, steps: int) -> None:
    """The products of some steps of Lanczos on the smaller side, which has fewer rows than columns."""
    for _ in range(steps):
        lanczos.transposed(rows, v, middle)
        lanczos.times(rows, middle, out)


def _line(name: str, call: Call, cost: Cost, calls: int = 1) -> Line:
    """Measured now, as the limits are: `cost` and the result are of one of the `calls` that are made at once."""
    seconds = call.seconds() / calls
    return Line(name, cost, seconds, *limit(cost, peak, bandwidth))


def _called(kernel: Callable[..., Any], *given: Any) -> Call:
    return Call(kernel, given, _copied(given))


def _of_svd(plan: Plan) -> Iterator[Line]:
    """Under PD-SVD whose final output is opened: V, and what is linear in entries or their squares."""
    places = (
        (products, "csr_times_panel"),
        (products, "squared_csr_times_panel"),
        (lanczos, "lanczos"),
    )
    calls, stored = _one_run(plan, *places)
    whole = max(calls["csr_times_panel"], key=lambda call: len(call.given[0]))
    csr, v = whole.given[:3], stored["V"].astype(np.float64)
    one, two = np.triu_indices(len(v))
    for words, rows in ((f"V, rank {len(v)}", v), (f"{len(one)} pairs of V", v[one] * v[two])):
        for precision in (np.float64, np.float32):
            given = (*csr, panel_of(rows, precision), np.empty((len(csr[0]) - 1, len(rows)), precision))
            name = f"`csr_times_panel`, {words}, {np.dtype(precision).name}"
            yield _line(name, _called(csr_times_panel, *given), times_panel(*given))
    squared = max(calls["squared_csr_times_panel"], key=lambda call: len(call.given[0]))
    name = f"`squared_csr_times_panel`, {squared.given[3].dtype.name}"
    yield _line(name, squared, squared_times_panel(*squared.given))
    rows, columns, start = calls["lanczos"][0].given[:3]
    given = (rows, start, np.empty(columns), np.empty(len(start)), _STEPS)
    name = "a step of Lanczos, there and back"
    yield _line(name, _called(_lanczos_steps, *given), lanczos_step(rows, columns), _STEPS)


def _of_nmf(plan: Plan) -> Iterator[Line]:
    """Under PD-NMF with every sweep opened: sums over documents, sweeps, and fits of documents to sums."""
    places = ((expected, "add_rows_to_panel"), (rri_nmf, "sweep"), (coordinate_descent, "go_round"))
    calls, _ = _one_run(plan, *places)
    added = calls["add_rows_to_panel"][0]
    name = f"`add_rows_to_panel`, {added.given[4].dtype.name}"
    yield _line(name, added, add_rows(*added.given))
    swept = calls["sweep"][len(calls["sweep"]) // 2]
    swept.again()
    rows, factors, _, sums, _, _, space = swept.given
    yield _line("`sweep` of PD-NMF", swept, nmf_sweep(rows, factors, sums.numerators, space.interleaved))
    # The first round through everybody, of those in which documents have the most numbers.
    fits = calls["go_round"]
    widest = max(call.given[1][0].shape[1] for call in fits)
    fit = next(call for call in fits if call.given[1][0].shape[1] == widest)
    fit.again()
    csr, about, pairs, (panel, _, _), parts, _, resting, _ = fit.given
    asked = (about[2] > 0.0) & ~(resting if len(resting) else np.zeros(len(parts), np.bool_))
    cost = fit_round(csr, about, pairs, panel, asked, parts != fit.before[4])
    yield _line(f"`go_round`, one by one, {panel.dtype.name}", fit, cost)


def _of_tests(plan: Plan) -> Iterator[Line]:
    """D and its law, at arms of the plan's size."""
    rng, (held, free) = np.random.default_rng(plan.spec.seed), plan.arms
    bits = rng.random((DOCUMENTS, held + free)) < held / (held + free)
    apart = np.linspace(0.0, 2.0, DOCUMENTS)[:, None] * bits
    columns = [(rng.normal(size=bits.shape) + apart).astype(plan.spec.store.precision) for _ in plan.tested]
    with _recorded((ks, "_distances"), (law, "_fill_tails"), (law, "_fill_body")) as calls:
        ks.ks_tables(columns, bits)
    walked, tails, body = (calls[name][0] for name in ("_distances", "_fill_tails", "_fill_body"))
    yield _line("walk of D", walked, arms_walked(*walked.given))
    tails.again()
    h, small, large, _, found = tails.given
    yield _line("law of D, tails", tails, tails_summed(h, small, large, found))
    rows, h, small, large, _ = body.given
    yield _line("law of D, body", body, paths_inside(rows, h, small, large, law._LANES))


def run() -> None:
    """Print what the machine can do, and the table."""
    began = time.monotonic()
    svd = _plan(SPECS / "enron-mail6-svd.toml", opens="final")
    nmf = _plan(SPECS / "enron-mail6-nmf.toml")
    lines = [line for lines in (_of_svd(svd), _of_nmf(nmf), _of_tests(svd)) for line in lines]
    print("\n".join(table(lines)))
    double, single = (peak(precision) / 1e9 for precision in (np.float64, np.float32))
    largest = max(part.held for line in lines for part in line.cost.moved)
    sizes = (4**power for power in range(6, 32) if 4 ** (power - 1) < largest)
    pairs = (f"{n >> 10:,} KiB {bandwidth(n) / 1e9:.0f} / {bandwidth(n, True) / 1e9:.0f}" for n in sizes)
    print(f"\nOne thread, at most: {double:.0f} GFLOP/s in double precision, {single:.0f} in single;")
    print(f"GB/s that are read / read and written, of arrays of {', '.join(pairs)}.")
    print(f"{time.monotonic() - began:.0f} s in all", flush=True)
