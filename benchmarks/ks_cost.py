"""All documents at once beside SciPy, vectorised and in a loop: speed, and how far the numbers differ."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.stats import ks_2samp

from ksdp.audit.verdicts.laws import ks_table


def run(documents: int = 2000, held: int = 200, others: int = 6500, looped: int = 200) -> None:
    """Print microseconds a document on documents whose leaks range from none to complete.

    Every document is in as many runs, since SciPy's vectorised form needs arms of equal size.
    """
    rng = np.random.default_rng(0)
    runs = held + others
    inclusion = np.zeros((documents, runs), dtype=bool)
    for row in inclusion:
        row[rng.choice(runs, held, replace=False)] = True
    shift = rng.uniform(0, 4, size=(documents, 1)) * (rng.random((documents, 1)) < 0.7)
    values = (rng.normal(size=(documents, runs)) + shift * inclusion).astype(np.float32)
    with_, without = values[inclusion].reshape(documents, held), values[~inclusion].reshape(documents, others)
    ks_table(values[:20], inclusion[:20])  # compiled kernels are read from their cache here

    ours, table = _timed(lambda: ks_table(values, inclusion), documents)
    exact, theirs = _timed(lambda: ks_2samp(with_, without, axis=1, method="exact"), documents)
    asymptotic, _ = _timed(lambda: ks_2samp(with_, without, axis=1, method="asymp"), documents)
    loop, _ = _timed(lambda: [ks_2samp(with_[i], without[i], method="exact") for i in range(looped)], looped)
    known = theirs.pvalue > 0
    d_error = float(np.abs(theirs.statistic - table.distance).max())
    p_error = float(np.abs(np.log10(theirs.pvalue[known]) - table.log10_p[known]).max())
    print(f"KS with exact p, {held} runs with and {others} without; microseconds a document:")
    print(f"  ours {ours:.0f}")
    for name, cost in (("vectorised, exact", exact), ("vectorised, asymptotic", asymptotic), ("a loop", loop)):
        print(f"  SciPy, {name}: {cost:.0f} ({cost / ours:.1f} times)")
    print(f"  largest difference of D {d_error:.1e}, of log10 p {p_error:.1e}")


def _timed(work: Callable[[], Any], documents: int) -> tuple[float, Any]:
    """Microseconds a document, and what came of it."""
    begin = time.perf_counter()
    done = work()
    return (time.perf_counter() - begin) / documents * 1e6, done
