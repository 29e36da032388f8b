"""What the linear attack tells: D between the documents in and out of single runs, on pinned cases.

::

    python -m benchmarks power                 # all cases; about a minute of one core
    python -m benchmarks power --cases ratings # those whose name has the word

One line a case and column: D today, D expected, CPU milliseconds a run. Cases are pinned by their seeds: a way to
solve linear systems stays where dropping it costs more than 2 % of D on one of them. D is the mean over runs; an
audit asks of one document over many runs, this asks of all documents in each run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer

from benchmarks import data_folder
from benchmarks.single_runs import matrix_of as of_spec
from ksdp.audit.contract import Database, Mechanism, Observables
from ksdp.audit.corpus.matrix import canonical
from ksdp.audit.numeric.sparse_rows import take_rows
from ksdp.audit.registry import make_mechanism, statistics
from ksdp.audit.statistic import Documents, Pool, Statistic
from ksdp.audit.statistics.linear.groups import GroupMean, OfGroups
from ksdp.audit.verdicts.laws import ks_table

RUNS = 3
TOLERANCE = 0.02
"""Part of D that a regime may cost where it is dropped."""
EACH = 8
"""Documents of a group."""


@dataclass(frozen=True)
class Case:
    """Runs of a mechanism on a share of a corpus, and the columns that look at them."""

    name: str
    corpus: str
    """Name, rows and columns, as `matrix_of` takes them."""
    mechanism: Mapping[str, Any]
    columns: tuple[str, ...]
    share: float = 0.2
    seen: tuple[str, ...] = ()
    """What is shown of a run; all where empty."""
    double: bool = False
    """Whether double precision is kept, as audits do where exact sums of rounds are solved for."""


def _svd(**more: Any) -> dict[str, Any]:
    return {"name": "pd-svd", "rank": 3, **more}


def _nmf(**more: Any) -> dict[str, Any]:
    return {"name": "pd-nmf", "rank": 3, **more}


def _power(rank: int, rounds: int, name: str = "pd-svd") -> dict[str, Any]:
    return {"name": name, "rank": rank, "solver": "power", "iterations": rounds}


def _inside(name: str, parameters: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"name": "noisy", "mechanism": name, "parameters": parameters or {"rank": 3}, **more}


def _fedpower(noise: float) -> dict[str, Any]:
    return {"name": "fedpower", "rank": 3, "iterations": 4, "period": 1, "noise": noise, "central_noise": noise}


def _private(noise: float) -> dict[str, Any]:
    return {"name": "fedpower-private", "rank": 3, "iterations": 5, "noise": noise}


_WEIGHTED = {"rank": 3, "weighted": True, "beta": 1.0, "delta": 1.0}
_FEW_RATED = {**_WEIGHTED, "rank": 1, "sweeps": 2}
_FINAL = ("T", "V", "mean")
_SUMS, _BLOCKS = (("linear-" + of, f"linear-{of}-first-round") for of in ("sums", "blocks"))
_RELEASES, _MOMENTS = ("linear-releases",), ("linear-moments",)
_BASIS = ("linear-basis", "first-order-basis")
CASES = (
    Case("pd-nmf, texts", "kos 800 300", _nmf(), ("linear-sums",), 0.1, double=True),
    Case("pd-nmf, two rounds", "texts 500 40", _nmf(rank=2, sweeps=3), ("linear-sums",), 0.5, double=True),
    Case("pd-nmf, five rounds", "texts 500 40", _nmf(rank=2, sweeps=5), ("linear-sums",), 0.5, double=True),
    Case("pd-nmf, half", "kos 1500 200", _nmf(rank=2, sweeps=3), ("linear-sums",), 0.5, double=True),
    Case("pd-nmf, unequal rows", "unequal 1200 100", _nmf(sweeps=3), ("linear-sums",), double=True),
    Case("pd-nmf, many texts", "kos 3430 1000", _nmf(), ("linear-sums",), 0.5),
    Case("pd-nmf, many, few columns", "kos 3430 300", _nmf(), ("linear-sums",), 0.5),
    Case("pd-nmf, many, few numbers", "texts 3000 40", _nmf(rank=2), ("linear-sums",)),
    Case("pd-nmf, many unequal rows", "unequal 3000 784", _nmf(), ("linear-sums",)),
    Case("pd-nmf, mails", "mails 17706 12164", _nmf(rank=7), ("linear-sums",), 0.1),
    Case("pd-nmf, ratings", "ratings 800 200", {"name": "pd-nmf", **_WEIGHTED}, ("linear-sums",), double=True),
    Case("pd-nmf, few ratings", "ratings 800 60", {"name": "pd-nmf", **_FEW_RATED}, ("linear-sums",), double=True),
    Case("pd-nmf, many ratings", "ratings 3000 100", {"name": "pd-nmf", **_WEIGHTED}, ("linear-sums",)),
    Case("pd-nmf, final", "kos 800 300", _nmf(), ("first-order-topics",), seen=_FINAL),
    Case("pd-nmf, many, final", "kos 3430 300", _nmf(), ("first-order-topics",), seen=_FINAL),
    Case(
        "pd-nmf, ratings, final",
        "ratings 800 200",
        {"name": "pd-nmf", **_WEIGHTED},
        ("first-order-topics",),
        seen=_FINAL,
    ),
    Case("pd-svd, patients", "patients 569 30", _svd(rank=2), ("linear-blocks",), 0.1, double=True),
    Case("pd-svd, few rounds", "patients 569 30", _power(2, 5), ("linear-blocks",), 0.5, double=True),
    Case("pd-svd, normal", "normal 300 40", _power(2, 3), ("linear-blocks",), 0.5, double=True),
    Case("pd-svd, unequal rows", "unequal 1200 100", _power(2, 4), ("linear-blocks",), double=True),
    Case("pd-svd, many texts", "kos 3430 1000", _svd(), ("linear-blocks",), 0.5),
    Case("pd-svd, many, few columns", "kos 3430 300", _svd(), ("linear-blocks",), 0.1),
    Case("pd-svd, many, few numbers", "texts 3000 60", _svd(rank=2), ("linear-blocks",)),
    Case("pd-svd, many unequal rows", "unequal 3000 784", _svd(), ("linear-blocks",)),
    Case("pd-svd, mails", "mails 17706 12164", _svd(rank=7), ("linear-blocks",), 0.1),
    Case("pd-svd, final", "patients 569 30", _svd(), _BASIS, 0.1, _FINAL),
    Case("pd-svd, final, few numbers", "texts 500 40", _svd(rank=2), _BASIS, seen=_FINAL),
    Case("pd-svd, final, texts", "kos 1500 200", _svd(), _BASIS, 0.3, _FINAL),
    Case("pd-svd, final, power", "kos 800 300", _power(3, 100), _BASIS, 0.3, _FINAL),
    Case("pd-svd, many, final", "kos 3430 300", _svd(), _BASIS, 0.1, _FINAL),
    Case("pd-svd, many, final, texts", "texts 3000 300", _svd(), _BASIS, 0.1, _FINAL),
    Case("pd-pca", "patients 569 30", _power(2, 3, "pd-pca"), ("linear-blocks",), 0.3, double=True),
    Case("pd-pca, final", "patients 569 30", {"name": "pd-pca", "rank": 2}, _BASIS, seen=_FINAL),
    Case("sigma-svd", "texts 800 40", _power(3, 4, "sigma-svd"), ("linear-blocks",), 0.3, double=True),
    Case(
        "sigma-svd, few rounds", "patients 569 30", _power(3, 3, "sigma-svd"), ("linear-blocks",), 0.3, double=True
    ),
    Case("sigma-svd, many texts", "kos 3430 300", _power(3, 4, "sigma-svd"), ("linear-blocks",), 0.3),
    Case("groups, final", "patients 569 30", _svd(rank=1), ("linear-basis of groups",), 0.5, _FINAL),
    Case(
        "groups, rounds",
        "texts 800 20",
        _nmf(rank=1, sweeps=2),
        ("linear-sums of groups", "linear-sums of rows"),
        0.5,
    ),
    Case(
        "groups, noise",
        "texts 800 20",
        _fedpower(1e-3),
        ("linear-releases of groups", "linear-releases of rows"),
        0.5,
    ),
    Case("noisy, pd-nmf", "kos 800 300", _inside("pd-nmf", noise=0.01), _SUMS),
    Case("noisy, pd-nmf, little", "texts 500 40", _inside("pd-nmf", noise=1e-5), _SUMS),
    Case("noisy, pd-nmf, many", "texts 3000 60", _inside("pd-nmf", noise=1e-3), _SUMS),
    Case("noisy, pd-svd", "patients 569 30", _inside("pd-svd", noise=1e-3), _BLOCKS),
    Case("noisy, pd-svd, little", "patients 569 30", _inside("pd-svd", noise=1e-5), _BLOCKS),
    Case("noisy, pd-svd, final", "patients 569 30", _inside("pd-svd", noise=1e-4), _BASIS, seen=_FINAL),
    Case("noisy, sigma-svd", "patients 569 30", _inside("sigma-svd", noise=1e-4), _BLOCKS),
    Case("noisy, sigma-svd, many", "unequal 3000 100", _inside("sigma-svd", noise=1e-3), _BLOCKS),
    Case("noisy, ratings", "ratings 800 200", _inside("pd-nmf", parameters=_WEIGHTED, noise=0.03), _SUMS),
    Case("fedpower", "unequal 800 100", _fedpower(1e-3), _RELEASES),
    Case("fedpower, many", "unequal 3000 100", _fedpower(1e-4), _RELEASES),
    Case("fedpower, much noise", "texts 500 40", _fedpower(0.1), _RELEASES),
    Case("fedpower-private", "patients 569 30", _private(0.01), _RELEASES),
    Case("fedpower-private, little", "patients 569 30", _private(1e-4), _RELEASES),
    Case("fedpower-private, many", "texts 3000 40", _private(1e-3), _RELEASES),
    Case("hardt-roth", "texts 500 40", {"name": "hardt-roth", "rank": 3, "epsilon": 50.0}, _RELEASES),
    Case("hardt-roth, little", "texts 500 40", {"name": "hardt-roth", "rank": 3, "epsilon": 1e3}, _RELEASES),
    Case("dpdispca", "patients 569 30", {"name": "dpdispca", "rank": 3, "epsilon": 100.0}, ("linear-site",)),
    Case("moments", "patients 569 30", {"name": "moments", "rank": 3, "noise": 0.03}, _MOMENTS),
    Case("moments, columns", "kos 600 120", {"name": "moments", "rank": 3, "noise": 0.1}, _MOMENTS),
    Case("moments, many", "texts 3000 40", {"name": "moments", "rank": 3, "noise": 0.03}, _MOMENTS, 0.1),
    Case("moments, many, columns", "kos 3430 120", {"name": "moments", "rank": 3, "noise": 0.03}, _MOMENTS),
    Case("dp-nmf", "texts 500 40", {"name": "dp-nmf", "rank": 3, "epsilon": 50.0}, _RELEASES),
    Case("dp-nmf, little", "texts 500 40", {"name": "dp-nmf", "rank": 3, "epsilon": 1e4}, _RELEASES),
    Case(
        "pem-kmeans",
        "texts 500 40",
        {"name": "pem-kmeans", "clusters": 3, "iterations": 5, "epsilon": 300.0},
        _RELEASES,
    ),
    Case(
        "pem-kmeans, many",
        "texts 3000 40",
        {"name": "pem-kmeans", "clusters": 3, "iterations": 3, "epsilon": 1e4},
        _RELEASES,
    ),
    Case("pem-logistic", "patients 569 30", {"name": "pem-logistic", "iterations": 5, "epsilon": 1e5}, _RELEASES),
    Case("pem-apriori", "baskets 800 30", {"name": "pem-apriori", "longest": 4, "epsilon": 1e3}, _RELEASES),
)

EXPECTED: Mapping[str, Mapping[str, float]] = {
    "pd-nmf, texts": {"linear-sums": 1.0000},
    "pd-nmf, two rounds": {"linear-sums": 0.8067},
    "pd-nmf, five rounds": {"linear-sums": 1.0000},
    "pd-nmf, half": {"linear-sums": 0.8209},
    "pd-nmf, unequal rows": {"linear-sums": 1.0000},
    "pd-nmf, many texts": {"linear-sums": 0.9981},
    "pd-nmf, many, few columns": {"linear-sums": 0.8062},
    "pd-nmf, many, few numbers": {"linear-sums": 0.2864},
    "pd-nmf, many unequal rows": {"linear-sums": 0.3147},
    "pd-nmf, mails": {"linear-sums": 0.9017},
    "pd-nmf, ratings": {"linear-sums": 1.0000},
    "pd-nmf, few ratings": {"linear-sums": 0.6969},
    "pd-nmf, many ratings": {"linear-sums": 0.4872},
    "pd-nmf, final": {"first-order-topics": 0.6125},
    "pd-nmf, many, final": {"first-order-topics": 0.3518},
    "pd-nmf, ratings, final": {"first-order-topics": 0.4990},
    "pd-svd, patients": {"linear-blocks": 1.0000},
    "pd-svd, few rounds": {"linear-blocks": 0.7879},
    "pd-svd, normal": {"linear-blocks": 1.0000},
    "pd-svd, unequal rows": {"linear-blocks": 0.9993},
    "pd-svd, many texts": {"linear-blocks": 0.9988},
    "pd-svd, many, few columns": {"linear-blocks": 0.9190},
    "pd-svd, many, few numbers": {"linear-blocks": 0.3550},
    "pd-svd, many unequal rows": {"linear-blocks": 0.3299},
    "pd-svd, mails": {"linear-blocks": 0.8992},
    "pd-svd, final": {"linear-basis": 0.5363, "first-order-basis": 0.3255},
    "pd-svd, final, few numbers": {"linear-basis": 0.4008, "first-order-basis": 0.1808},
    "pd-svd, final, texts": {"linear-basis": 0.5970, "first-order-basis": 0.5367},
    "pd-svd, final, power": {"linear-basis": 0.9994, "first-order-basis": 0.9284},
    "pd-svd, many, final": {"linear-basis": 0.5546, "first-order-basis": 0.5606},
    "pd-svd, many, final, texts": {"linear-basis": 0.5420, "first-order-basis": 0.2186},
    "pd-pca": {"linear-blocks": 0.6390},
    "pd-pca, final": {"linear-basis": 0.4101, "first-order-basis": 0.2820},
    "sigma-svd": {"linear-blocks": 1.0000},
    "sigma-svd, few rounds": {"linear-blocks": 0.7683},
    "sigma-svd, many texts": {"linear-blocks": 0.8025},
    "groups, final": {"linear-basis of groups": 0.7778},
    "groups, rounds": {"linear-sums of groups": 0.6333, "linear-sums of rows": 0.5200},
    "groups, noise": {"linear-releases of groups": 1.0000, "linear-releases of rows": 0.8067},
    "noisy, pd-nmf": {"linear-sums": 0.9932, "linear-sums-first-round": 0.9172},
    "noisy, pd-nmf, little": {"linear-sums": 1.0000, "linear-sums-first-round": 0.6208},
    "noisy, pd-nmf, many": {"linear-sums": 0.3740, "linear-sums-first-round": 0.2432},
    "noisy, pd-svd": {"linear-blocks": 0.6787, "linear-blocks-first-round": 0.3977},
    "noisy, pd-svd, little": {"linear-blocks": 0.9546, "linear-blocks-first-round": 0.4080},
    "noisy, pd-svd, final": {"linear-basis": 0.3640, "first-order-basis": 0.2992},
    "noisy, sigma-svd": {"linear-blocks": 0.8207, "linear-blocks-first-round": 0.4591},
    "noisy, sigma-svd, many": {"linear-blocks": 0.3092, "linear-blocks-first-round": 0.2085},
    "noisy, ratings": {"linear-sums": 0.5380, "linear-sums-first-round": 0.6005},
    "fedpower": {"linear-releases": 0.8880},
    "fedpower, many": {"linear-releases": 0.6142},
    "fedpower, much noise": {"linear-releases": 0.6758},
    "fedpower-private": {"linear-releases": 0.2710},
    "fedpower-private, little": {"linear-releases": 0.6824},
    "fedpower-private, many": {"linear-releases": 0.1851},
    "hardt-roth": {"linear-releases": 0.4150},
    "hardt-roth, little": {"linear-releases": 0.7267},
    "dpdispca": {"linear-site": 0.4812},
    "moments": {"linear-moments": 0.7937},
    "moments, columns": {"linear-moments": 0.9729},
    "moments, many": {"linear-moments": 0.8930},
    "moments, many, columns": {"linear-moments": 0.4983},
    "dp-nmf": {"linear-releases": 0.5433},
    "dp-nmf, little": {"linear-releases": 0.9992},
    "pem-kmeans": {"linear-releases": 0.7292},
    "pem-kmeans, many": {"linear-releases": 0.3014},
    "pem-logistic": {"linear-releases": 0.2717},
    "pem-apriori": {"linear-releases": 0.6766},
}
"""D of each case and column."""


@cache
def matrix_of(corpus: str) -> sp.csr_array:
    """The documents of a corpus, from its name, rows and columns."""
    name, rows, columns = corpus.split()
    return canonical(sp.csr_array(_MAKE[name](int(rows), int(columns))))


def _kos(rows: int, columns: int) -> sp.csr_array:
    counts = sp.csr_array(sp.load_npz(data_folder() / "kos" / "counts.npz"), dtype=np.float64)
    having = np.bincount(counts.indices, minlength=counts.shape[1])
    kept = np.sort(np.argsort(-having, kind="stable")[:columns])
    found = sp.csr_array(counts[:rows][:, kept])
    lengths = np.sqrt(np.asarray(found.multiply(found).sum(axis=1)).ravel())
    return sp.csr_array(sp.diags_array(1.0 / np.where(lengths > 0.0, lengths, 1.0)) @ found)


def _mails(rows: int, columns: int) -> sp.csr_array:
    return of_spec("enron-mail6")[:rows, :columns]


def _texts(rows: int, columns: int) -> NDArray[np.float64]:
    return np.random.default_rng(0).poisson(0.6, (rows, columns)).astype(np.float64)


def _normal(rows: int, columns: int) -> NDArray[np.float64]:
    return np.random.default_rng(0).normal(size=(rows, columns))


def _patients(rows: int, columns: int) -> NDArray[np.float64]:
    table = np.asarray(load_breast_cancer().data)[:rows, :columns]
    return np.asarray((table - table.mean(axis=0)) / table.std(axis=0))


def _unequal(rows: int, columns: int) -> NDArray[np.float64]:
    """Pictures, each times e to a normal number, in the pixels that vary most."""
    pictures = np.load(data_folder() / "mnist" / "mnist.npz")["train_images"][:rows].reshape(rows, -1) / 255.0
    kept = np.sort(np.argsort(-pictures.var(axis=0), kind="stable")[:columns])
    return np.asarray(pictures[:, kept] * np.exp(np.random.default_rng(0).normal(size=(rows, 1))))


def _ratings(rows: int, columns: int) -> sp.csr_array:
    table = pd.read_parquet(
        data_folder() / "movielens-1m" / "ratings.parquet", columns=["user_id", "item_id", "rating"]
    )
    items = np.sort(table["item_id"].value_counts(sort=True).index[:columns])
    table = table[table["item_id"].isin(items) & (table["user_id"] <= rows)]
    places = np.searchsorted(items, table["item_id"])
    return sp.csr_array((table["rating"].astype(float), (table["user_id"] - 1, places)), shape=(rows, columns))


def _baskets(rows: int, columns: int) -> NDArray[np.float64]:
    rng = np.random.default_rng(0)
    return (rng.random((rows, columns)) < rng.beta(1.0, 3.0, columns)).astype(np.float64)


def _words(rows: int, columns: int) -> NDArray[np.float64]:
    """Few words a text, some far more frequent than others."""
    rng = np.random.default_rng(0)
    return rng.poisson(2.0 / (1.0 + np.arange(columns)) ** 0.7, (rows, columns)).astype(np.float64)


def _rated(rows: int, columns: int) -> NDArray[np.float64]:
    """A third of all ratings, from 1 to 5, by two tastes."""
    rng = np.random.default_rng(0)
    liked = rng.normal(size=(rows, 2)) @ rng.normal(size=(2, columns)) + rng.normal(size=(rows, columns))
    return np.clip(np.rint(3.0 + liked), 1.0, 5.0) * (rng.random((rows, columns)) < 1 / 3)


_MAKE: Mapping[str, Callable[[int, int], Any]] = {
    "kos": _kos,
    "mails": _mails,
    "texts": _texts,
    "normal": _normal,
    "patients": _patients,
    "unequal": _unequal,
    "ratings": _ratings,
    "baskets": _baskets,
    "words": _words,
    "rated": _rated,
}


def run(words: Iterable[str] = ()) -> None:
    """Print one line a case and column."""
    print(f"{'':28}{'':30}{'D today':>9}{'expected':>10}{'ms a run':>10}")
    worst = 0.0
    for case in CASES:
        if words and not any(word in case.name for word in words):
            continue
        for column, (distance, seconds) in measured(case).items():
            expected = EXPECTED.get(case.name, {}).get(column, np.nan)
            less = (expected - distance) / expected
            worst = np.fmax(worst, less)
            mark = " <" if less > TOLERANCE else ""
            print(
                f"{case.name:28}{column:30}{distance:9.4f}{expected:10.4f}{1e3 * seconds:10.0f}{mark}", flush=True
            )
    print(f"largest part of D that is lost: {worst:.1%}")


def measured(case: Case) -> dict[str, tuple[float, float]]:
    """D and CPU seconds a run of each column."""
    held, columns = scores(case, RUNS)
    return {
        name: (float(ks_table(np.asarray(of, np.float32), held).distance.mean()), min(seconds))
        for name, (of, seconds) in columns.items()
    }


def scores(case: Case, runs: int) -> tuple[NDArray[np.bool_], dict[str, tuple[NDArray[np.float64], list[float]]]]:
    """Inclusion, shape (runs, documents), and for each column its scores, alike, and CPU seconds a run."""
    parameters = dict(case.mechanism)
    mechanism = make_mechanism(parameters.pop("name"), parameters)
    columns = {name: _column(name, mechanism) for name in case.columns}
    documents, units = _documents(case, mechanism)
    of: dict[str, tuple[list[NDArray[np.float64]], list[float]]] = {name: ([], []) for name in columns}
    inside: list[NDArray[np.bool_]] = []
    for number in range(runs):
        held, seen = _draw(case, mechanism, units, documents, number)
        inside.append(held)
        observables = Observables(seen)
        for name, statistic in columns.items():
            start = time.process_time()
            of[name][0].append(statistic.evaluate(observables, documents))
            of[name][1].append(time.process_time() - start)
    return np.array(inside), {name: (np.array(values), seconds) for name, (values, seconds) in of.items()}


def _column(name: str, mechanism: Mechanism) -> Statistic:
    plain, _, of = name.partition(" of ")
    known: dict[str, Statistic] = statistics() | {one.name: one for one in getattr(mechanism, "statistics", ())}
    statistic: Statistic = known[plain]
    if of:
        return OfGroups(statistic) if of == "groups" else GroupMean(statistic)
    return statistic


def _documents(case: Case, mechanism: Mechanism) -> tuple[Documents, NDArray[np.int64]]:
    """The documents, or groups of them, and the unit of each row."""
    matrix = matrix_of(case.corpus)
    rows = matrix.shape[0]
    if not case.name.startswith("groups"):
        return Documents(matrix, pool=Pool(matrix, case.share, mechanism=mechanism)), np.arange(rows)
    groups = np.arange(rows) // EACH
    pool = Pool(matrix, case.share, mechanism=mechanism, group=groups)
    starts = np.append(np.arange(0, rows, EACH), rows)
    together = sp.csr_array((np.ones(rows), (groups, np.arange(rows))))
    members = Documents(matrix, pool=pool)
    return Documents(canonical(sp.csr_array(together @ matrix)), rows=members, starts=starts, pool=pool), groups


def _draw(
    case: Case, mechanism: Mechanism, units: NDArray[np.int64], documents: Documents, number: int
) -> tuple[NDArray[np.bool_], dict[str, NDArray[np.float64]]]:
    """Who is in a run, and what it shows, as the store keeps it."""
    rng, count = np.random.default_rng([7, number]), len(documents)
    held = np.isin(np.arange(count), rng.choice(count, round(case.share * count), replace=False))
    rows = take_rows(matrix_of(case.corpus), np.flatnonzero(held[units]))
    ran = mechanism.run(Database((rows,)), rng)
    names = [name for name in case.seen if name in ran] or list(ran)
    kept = np.float64 if case.double else np.float32
    return held, {name: np.asarray(ran[name], kept).astype(np.float64) for name in names}
