"""What matched filters see and other default columns do not: of the final output, of all rounds, of noisy sums.

::

    python -m benchmarks matched
    python -m benchmarks matched-sizes       # rows of different sizes: by steps, and solved
    python -m benchmarks matched-final       # V alone: the equations that it solves

The adversary knows what databases are drawn from. For each setting: D of each document under chance, under the
largest of the other default columns, and under the filter. Of noisy sums, where most is hidden, under the one
other column that is strongest in the median: the largest of fourteen is far above chance by chance alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer

from benchmarks.raw_leak import RATED, mails, of_rows, stars, table, topics
from benchmarks.single_runs import matrix_of
from ksdp.audit.corpus.matrix import Corpus, canonical
from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.spec.models import parse_spec
from ksdp.audit.statistics.linear import solve, tilting
from ksdp.audit.verdicts.laws import ks_table
from ksdp.extras.reproduce.privacy import distances, largest, strongest

FILTERS = {
    "final": ("linear-basis", "first-order-basis", "first-order-topics"),
    "every round": ("linear-blocks", "linear-sums"),
}
Setting = tuple[Callable[[], Corpus], str, int, float, int, int]
SETTINGS: tuple[Setting, ...] = (
    (topics, "pd-svd", 2, 0.5, 500, 60),
    (topics, "pd-nmf", 2, 0.5, 400, 60),
    (table, "pd-pca", 2, 0.5, 500, 60),
    (table, "pd-nmf", 2, 0.5, 400, 60),
    (stars, "pd-nmf", 2, 0.5, 400, 60),
    (mails, "pd-svd", 7, 0.33, 200, 200),
    (mails, "pd-nmf", 7, 0.33, 130, 200),
)
"""Corpus, mechanism, rank, party size, runs with, documents looked at."""
OPENED = tuple((opens, setting) for opens in FILTERS for setting in SETTINGS)


EPSILONS = (1.0, 3.0, 20.0, 100.0, 1000.0)


def scaled(order: int) -> Corpus:
    """The texts of `topics`, each over its norm of an order."""
    read = topics()
    rows = read.matrix.toarray()
    rows /= np.linalg.norm(rows, order, axis=1, keepdims=True)
    return Corpus(canonical(sp.csr_array(rows)), read.ids)


def held() -> Corpus:
    """The words that the texts of `topics` hold; the last column, a label: two of the first five are held."""
    read = topics()
    rows = (read.matrix.toarray() > 0).astype(float)
    rows[:, -1] = rows[:, :5].sum(axis=1) > 1
    return Corpus(canonical(sp.csr_array(rows)), read.ids)


NOISY: tuple[tuple[Callable[[], Corpus], str, Mapping[str, Any]], ...] = (
    (partial(scaled, 2), "dp-nmf", {"rank": 2, "sweeps": 5}),
    (partial(scaled, 2), "hardt-roth", {"rank": 2}),
    (partial(scaled, 1), "pem-kmeans", {"clusters": 3, "iterations": 5}),
    (held, "pem-logistic", {"iterations": 10, "bound": 20.0}),
    (held, "pem-apriori", {"longest": 20, "support": 0.1}),
)


def run() -> None:
    """Print one line a setting."""
    print("D: median, 95 %, over documents: 300 texts, rows or users' ratings, or 200 mails of enron-mail6")
    print(
        f"{'opens':12} {'corpus':8} {'run':8} {'party':>6} {'runs':>5}  {'chance':>12}  {'other columns':>14}  "
        f"{'filter':>12}"
    )
    for opens, (corpus, mechanism, rank, size, with_runs, documents) in OPENED:
        wanted = {"name": mechanism, "rank": rank, "opens": opens} | (RATED if corpus is stars else {})
        plan = _plan(corpus(), wanted, size, with_runs, documents)
        bits, found = distances(plan)
        matched = np.max([found.pop(name) for name in FILTERS[opens] if name in found], axis=0)
        cells = "  ".join(_said(d) for d in (_chance(bits), largest(found), matched))
        said = f"{opens:12} {corpus.__name__:8} {mechanism:8} {size:6.0%} {plan.design.runs:5}"
        print(f"{said}  {cells}", flush=True)
    print(f"{'noisy sums':12} {'epsilon':>8}  {'chance':>12}  {'strongest':>12}  {'filter':>12}")
    for corpus, name, parameters in NOISY:
        for epsilon in EPSILONS:
            plan = _plan(corpus(), {"name": name, "epsilon": epsilon} | dict(parameters), 0.5, 120, 60)
            bits, found = distances(plan)
            matched = found.pop("linear-releases")
            most = strongest(found)
            cells = "  ".join(_said(d) for d in (_chance(bits), found[most], matched))
            print(f"{name:12} {epsilon:8g}  {cells}  {most}", flush=True)


def cells() -> Corpus:
    """scikit-learn's breast cancer table in its own units: 569 rows of 30 numbers from 0.001 to 4,254."""
    return of_rows(load_breast_cancer().data)


def of_sizes(read: Corpus, spread: float) -> Corpus:
    """Each row times e to a normal number of this deviation."""
    sizes = np.exp(spread * np.random.default_rng(5).normal(size=read.matrix.shape[0]))
    return Corpus(canonical(sp.csr_array(sp.diags_array(sizes) @ read.matrix)), read.ids)


def _power(noise: float) -> dict[str, Any]:
    return {**_POWER, "noise": noise, "central_noise": noise}


_POWER = {"name": "fedpower", "rank": 2, "iterations": 5, "period": 1}
_STARS = {"name": "pd-nmf", "rank": 2, **RATED}
_NOISY = {"name": "noisy", "noise": 0.01, "scale": 1.0, "parameters": {"rank": 2}}
SIZES: tuple[tuple[str, Callable[[], Corpus], Mapping[str, Any], float, int], ...] = (
    ("cells, FedPower as printed, epsilon 1", cells, {**_POWER, "epsilon": 1.0}, 0.3, 60),
    ("texts, FedPower, noise 0.01", lambda: of_sizes(scaled(2), 2.0), _power(0.01), 0.5, 60),
    ("texts, FedPower, noise 0.0001", lambda: of_sizes(scaled(2), 2.0), _power(0.0001), 0.5, 60),
    ("stars, PD-NMF", lambda: of_sizes(stars(), 2.0), _STARS, 0.5, 60),
    ("stars, PD-NMF, spread 1", lambda: of_sizes(stars(), 1.0), _STARS, 0.5, 60),
    ("stars, PD-NMF", lambda: of_sizes(stars(), 2.0), _STARS, 0.1, 60),
    ("texts, PD-NMF, noise 0.01, one size", topics, {**_NOISY, "mechanism": "pd-nmf"}, 0.5, 60),
    ("texts, PD-NMF, noise 0.01", lambda: of_sizes(topics(), 2.0), {**_NOISY, "mechanism": "pd-nmf"}, 0.5, 60),
)
"""What is run, corpus, mechanism, party size, runs with; sizes are e to 2 times a normal number but where said."""


def sizes() -> None:
    """Print one line a setting: chance, and the largest default column by steps, solved, and as audits have it."""
    heads = "".join(f"  {head:>12}" for head in ("chance", "by steps", "solved", "most even"))
    print(f"{'rows of different sizes':40} {'party':>5}{heads}")
    for said, corpus, mechanism, size, with_runs in SIZES:
        plan, found = _plan(corpus(), mechanism, size, with_runs, 60), []
        for most, even in ((0, 0), (solve.MOST_SOLVED, 0), (solve.MOST_SOLVED, tilting.MOST_NOISY)):
            with (
                mock.patch.object(solve, "fits_dense_solver", most.__ge__),
                mock.patch.object(tilting, "MOST_NOISY", even),
            ):
                bits, distance = distances(plan)
                found.append(largest(distance))
        print(f"{said:40} {size:5.0%}  {'  '.join(_said(d) for d in (_chance(bits), *found))}", flush=True)


FINAL: tuple[tuple[str, str, int, float, int], ...] = (
    ("patients", "pd-svd", 5, 0.5, 120),
    ("patients", "pd-pca", 5, 0.5, 120),
    ("texts-500", "pd-svd", 2, 0.5, 120),
    ("texts-500", "pd-svd", 7, 0.5, 120),
    ("texts-500", "pd-svd", 7, 0.1, 60),
    ("normal-300", "pd-pca", 3, 0.5, 120),
    ("mnist", "pd-svd", 7, 0.2, 60),
    ("kos", "pd-svd", 7, 0.5, 60),
)
"""Corpus of `single_runs`, mechanism, rank, party size, runs with."""


def final() -> None:
    """Print one line a setting: V alone, D by the equations that it solves beside what other columns have."""
    heads = "".join(f"  {head:>12}" for head in ("chance", "others", "equations"))
    print(f"{'V alone':30} {'party':>5}{heads}  below 0.3 by others, above by equations")
    for name, mechanism, rank, size, with_runs in FINAL:
        rows = matrix_of(name)
        corpus = Corpus(rows, np.array([f"d{i}" for i in range(rows.shape[0])]))
        plan = _plan(corpus, {"name": mechanism, "rank": rank, "opens": "final"}, size, with_runs, 60)
        bits, found = distances(plan)
        solved = found.pop("linear-basis")
        cells = "  ".join(_said(d) for d in (_chance(bits), largest(found), solved))
        missed = float(((largest(found) < 0.3) & (solved > 0.3)).mean())
        print(f"{f'{name}, {mechanism}, rank {rank}':30} {size:5.0%}  {cells}  {missed:.0%}", flush=True)


def _plan(corpus: Corpus, mechanism: Mapping[str, Any], size: float, with_runs: int, documents: int) -> Plan:
    design = {"party_size": size, "with_runs": with_runs, "without_runs": "all", "documents": documents}
    tables = {"seed": 3, "corpus": {"path": "x"}, "mechanism": mechanism, "design": design}
    return make_plan(parse_spec(tables), corpus)


def _chance(bits: NDArray[np.bool_]) -> NDArray[np.float64]:
    drawn = np.random.default_rng(0).normal(size=bits.T.shape)
    return ks_table(np.ascontiguousarray(drawn.astype(np.float32).T), bits).distance


def _said(distance: NDArray[np.float64]) -> str:
    return f"{np.median(distance):6.3f} {np.quantile(distance, 0.95):5.3f}"
