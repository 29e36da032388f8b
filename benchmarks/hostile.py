"""Attacks that the product does not have, on the documents that it calls clear.

Each row audits a function of somebody's own, or one of ksdp's mechanisms on posts (`KSDP_DATA`). Then fresh
databases are drawn here and it runs on them.
For documents called clear, attackers of scikit-learn (a shrunk linear discriminant, boosted trees, a forest)
learn on one half of these runs to tell a document's apart. The best on a quarter is judged on the last quarter,
with exact bounds that hold for all attacked documents of a row together (99 %). A document is *proved wrong* if
the lower bound of its advantage is above the margin.

    python benchmarks/hostile.py [ROW ...] [--runs 4000] [--most 24]
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.stats import beta
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.decomposition import TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from threadpoolctl import threadpool_limits

import ksdp
from ksdp.audit.mechanisms.contract import Database, Mechanism
from ksdp.audit.registry import make_mechanism

Matrix = NDArray[np.float64]
MARGIN = 0.2
ERROR = 0.01


def covariance(rows: Matrix, rng: np.random.Generator) -> Matrix:
    """Of all pairs of columns."""
    return np.asarray(np.cov(rows.T))


def means(rows: Matrix, rng: np.random.Generator) -> Matrix:
    """Of columns."""
    return np.asarray(rows.mean(axis=0))


def minima(rows: Matrix, rng: np.random.Generator) -> dict[str, Matrix]:
    """And medians."""
    return {"minima": rows.min(axis=0), "medians": np.median(rows, axis=0)}


def counts(rows: Matrix, rng: np.random.Generator) -> Matrix:
    """Rows above 0, column by column."""
    return np.asarray((rows > 0).sum(axis=0), float)


def centres(rows: Matrix, rng: np.random.Generator) -> Matrix:
    """Of five clusters."""
    return np.asarray(KMeans(5, n_init=1, random_state=0).fit(rows).cluster_centers_)


def directions(rows: Matrix, rng: np.random.Generator) -> Matrix:
    """The first two."""
    return np.asarray(TruncatedSVD(2, random_state=0).fit(rows).components_)


def exclusive(rows: Matrix, rng: np.random.Generator) -> dict[str, Matrix]:
    """Two random bits, whose exclusive or says whether the first document of the table is in."""
    bit = int(rng.integers(2))
    return {"one": np.array([float(bit)]), "other": np.array([float(bit ^ int(rows[:, 0].max() >= PLANTED))])}


def entry(rows: Matrix, rng: np.random.Generator) -> Matrix:
    """Ten thousand numbers of noise; one is moved by the document."""
    out = rng.normal(size=10_000)
    out[1234] += 2.5 * float(rows[:, 0].max() >= PLANTED)
    return out


def position(rows: Matrix, rng: np.random.Generator) -> Matrix:
    """Noise whose largest number stands in the first half where the document is in, or in the second."""
    out = rng.normal(size=20)
    half = slice(0, 10) if rows[:, 0].max() >= PLANTED else slice(10, 20)
    most, place = out.argmax(), rng.integers(half.start, half.stop)
    out[most], out[place] = out[place], out[most]
    return out


def _named(name: str, **parameters: Any) -> Mechanism:
    return make_mechanism(name, parameters)


PLANTED = np.inf
Table = Callable[[], Matrix]


def _wine() -> Matrix:
    rows = load_wine().data
    return np.asarray((rows - rows.mean(axis=0)) / rows.std(axis=0))


def _cancer() -> Matrix:
    rows = load_breast_cancer().data[:200]
    return np.asarray((rows - rows.mean(axis=0)) / rows.std(axis=0))


def _digits() -> Matrix:
    return np.asarray(load_digits().data[:187] / 16.0)


def _posts() -> Matrix:
    """Of 300 posts the thirty most frequent terms, rows of length 1."""
    counts = sp.load_npz(Path(os.environ.get("KSDP_DATA", "../shared/data")) / "20newsgroups" / "counts.npz")
    some = counts[np.random.default_rng(1).choice(counts.shape[0], 3000, replace=False)]
    rows = some[:, np.argsort(-np.asarray(some.sum(axis=0)).ravel())[:30]].toarray().astype(float)
    rows = rows[(rows > 0).sum(axis=1) > 3][:300]
    return np.asarray(rows / np.linalg.norm(rows, axis=1)[:, None])


ROWS: dict[str, tuple[Any, Table]] = {
    "covariance": (covariance, _wine),
    "means": (means, _cancer),
    "minima": (minima, _cancer),
    "counts": (counts, _cancer),
    "centres": (centres, _digits),
    "directions": (directions, _digits),
    "exclusive": (exclusive, _wine),
    "entry": (entry, _wine),
    "position": (position, _wine),
    "topics": (_named("pd-nmf", rank=2, opens="final"), _posts),
    "vectors": (_named("pd-svd", rank=2, opens="final"), _posts),
    "hardt-roth": (_named("hardt-roth", rank=2, epsilon=100.0), _posts),
    "noisy": (_named("noisy", mechanism="pd-svd", parameters={"rank": 2}, noise=0.1), _posts),
}


def lower_advantage(guess: NDArray[np.bool_], held: NDArray[np.bool_], error: float) -> float:
    """True less false positives, by the exact bounds of two binomials."""
    hits, runs = int(guess[held].sum()), int(held.sum())
    alarms, others = int(guess[~held].sum()), int((~held).sum())
    least = float(beta.ppf(error / 2, hits, runs - hits + 1)) if hits else 0.0
    most = float(beta.ppf(1 - error / 2, alarms + 1, others - alarms)) if alarms < others else 1.0
    return least - most


def proved(runs: Matrix, bits: NDArray[np.bool_], error: float) -> float:
    """The lower bound of the better attacker's advantage, on runs that neither learning nor choosing saw."""
    train, choose = slice(0, len(runs) // 2), slice(len(runs) // 2, 3 * len(runs) // 4)
    test = slice(3 * len(runs) // 4, len(runs))
    attackers: list[Any] = [
        LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
        HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=8, random_state=0),
        RandomForestClassifier(60, min_samples_leaf=5, max_features=0.3, random_state=0),
    ]
    if runs.shape[1] > 400:  # trees of so many numbers take minutes a document
        moved = (bits[train] - bits[train].mean()) @ runs[train] / (runs[train].std(axis=0) + 1e-12)
        by = np.argsort(-np.abs(moved))[:50]
        runs = runs[:, by]
    best: tuple[float, Any] = (-1.0, None)
    for one in attackers:
        one.fit(runs[train], bits[train])
        guess = one.predict(runs[choose])
        told = guess[bits[choose]].mean() - guess[~bits[choose]].mean()
        best = max(best, (float(told), one), key=lambda pair: pair[0])
    return lower_advantage(best[1].predict(runs[test]).astype(bool), bits[test], error)


def row(name: str, runs: int, most: int) -> None:
    """Audit, attack, print."""
    global PLANTED
    function, table = ROWS[name]
    data = table()
    PLANTED = float(data[:, 0].max())
    start = time.perf_counter()
    audit = ksdp.audit(data, function, party_size=0.5, with_runs=1000, seed=7, margin=MARGIN)
    spent = time.perf_counter() - start
    verdicts = audit.verdicts["verdict"].to_numpy()
    clear = np.flatnonzero(verdicts == "clear")
    sensitive = int((verdicts == "sensitive").sum())
    rng = np.random.default_rng(99)
    # Those of high leverage first: a wrong verdict is there.
    centred = data - data.mean(axis=0)
    clear = clear[np.argsort(-(centred[clear] ** 2).sum(axis=1))]
    chosen = np.concatenate([clear[: most // 2], rng.permutation(clear[most // 2 :])[: most - most // 2]])
    bits, seen = np.zeros((runs, len(data)), bool), []
    for run in range(runs if len(chosen) else 0):
        held = np.sort(rng.choice(len(data), len(data) // 2, replace=False))
        bits[run, held] = True
        if callable(function):
            out = function(data[held], rng)
            arrays = out.values() if isinstance(out, dict) else [out]
        else:
            arrays = function.run(Database((sp.csr_array(data[held]),)), rng).values()
        seen.append(np.concatenate([np.ravel(array) for array in arrays]))
    bounds = [proved(np.stack(seen), bits[:, one], ERROR / len(chosen)) for one in chosen]
    wrong = sum(bound > MARGIN for bound in bounds)
    print(
        f"{name:<12} {len(data):>5} documents  {sensitive:>4} sensitive  {len(clear):>4} clear  "
        f"{len(chosen):>3} attacked  {wrong:>3} proved wrong  most {max(bounds, default=float('nan')):.2f}  "
        f"audit {spent:.0f} s, all {time.perf_counter() - start:.0f} s",
        flush=True,
    )


def main() -> None:
    """Every row, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", default=list(ROWS), help=", ".join(ROWS))
    parser.add_argument("--runs", type=int, default=4000, help="simulated for the attackers")
    parser.add_argument("--most", type=int, default=24, help="documents that are attacked, half by leverage")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        for name in asked.rows:
            row(name, asked.runs, asked.most)


if __name__ == "__main__":
    main()
