"""Attacks that the product does not have, on the documents that it calls clear.

Each row audits a function of somebody's own, or one of ksdp's mechanisms on posts (`KSDP_DATA`). Then fresh
databases are drawn here and it runs on them.
For documents called clear, attackers of scikit-learn (ridge regression of the numbers, and of products of two of
their leading components; boosted trees) learn on one half of these runs to tell a document's apart. The
best on an eighth is judged on the rest, with exact bounds that hold for all attacked documents of a row together
(99 %). A document is *proved wrong* if
the lower bound of its advantage is above the margin.

    python benchmarks/hostile.py [ROW ...] [--runs 4000] [--most 24]
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.stats import beta
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from threadpoolctl import threadpool_limits

import ksdp
from ksdp.audit.contract import Database, Mechanism, Observables, Release
from ksdp.audit.errors import InputError, InvalidAudit
from ksdp.audit.mechanisms.schema import opened
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


def coefficients(rows: Matrix, rng: np.random.Generator) -> Matrix:
    """Of a logistic regression of the last column."""
    return np.asarray(LogisticRegression(max_iter=200).fit(rows[:, :-1], rows[:, -1] > 0).coef_)


def histogram(rows: Matrix, rng: np.random.Generator) -> Matrix:
    """Of every column, in eight bins."""
    return np.stack([np.histogram(column, 8, (-3.0, 3.0))[0] for column in rows.T])


def deciles(rows: Matrix, rng: np.random.Generator) -> Matrix:
    """Of every column."""
    return np.quantile(rows, np.linspace(0.1, 0.9, 9), axis=0)


def gradient(rows: Matrix, rng: np.random.Generator) -> Matrix:
    """Gradient of a logistic loss at 0, clipped to length 1 row by row, summed, with declared noise."""
    each = rows[:, :-1] * (0.5 - (rows[:, -1:] > 0))
    each /= np.maximum(1.0, np.linalg.norm(each, axis=1))[:, None]
    return np.asarray(ksdp.noise(each.sum(axis=0), rng, scale=1.0))


def regression(rows: Matrix, rng: np.random.Generator) -> Matrix:
    """Least squares of the last column by three others."""
    return np.asarray(np.linalg.lstsq(rows[:, :3], rows[:, -1], rcond=None)[0])


def rounded(rows: Matrix, rng: np.random.Generator) -> Matrix:
    """Means to three decimals, some of them -0.0."""
    return np.asarray(np.round(rows.mean(axis=0), 3))


def _sums(rows: Matrix) -> NDArray[np.int64]:
    return np.asarray(np.rint(1000.0 * rows.sum(axis=0)), np.int64)


def masked(rows: Matrix, rng: np.random.Generator) -> dict[str, NDArray[np.int64]]:
    """What the server of a secure aggregation sees: three uploads whose masks cancel modulo 2^32."""
    masks = rng.integers(0, 2**32, (3, rows.shape[1]))
    uploads = [_sums(rows[at::3]) + masks[at] - masks[at - 1] for at in range(3)]
    return {f"upload_{at}": one % 2**32 for at, one in enumerate(uploads)}


def shares(rows: Matrix, rng: np.random.Generator) -> NDArray[np.int64]:
    """The same in one array."""
    return np.concatenate(list(masked(rows, rng).values()))


def exclusive(rows: Matrix, rng: np.random.Generator) -> dict[str, NDArray[np.int64]]:
    """Sums in two shares, whose exclusive or they are."""
    key = rng.integers(0, 2**32, rows.shape[1])
    return {"key": np.asarray(key), "share": np.asarray(_sums(rows) ^ key)}


def seeded(rows: Matrix, rng: np.random.Generator) -> dict[str, Any]:
    """Sums under declared noise, and its seed."""
    seed = int(rng.integers(2**31))
    noised = ksdp.noise(rows.sum(axis=0), np.random.default_rng(seed), scale=100.0)
    return {"seed": float(seed), "noised": noised}


def hidden_noise(rows: Matrix, rng: np.random.Generator) -> dict[str, Any]:
    """Sums under noise that stands beside them, declared, as noise on nothing."""
    noised = ksdp.noise(np.zeros(rows.shape[1]), rng, scale=100.0)
    return {"noised": noised, "sums": ksdp.noise(rows.sum(axis=0) + noised, rng, scale=0.01)}


@dataclass(frozen=True)
class Own:
    """A function as an object that follows the contract."""

    function: Any
    shapes: tuple[tuple[str, int, str], ...]
    """Names, numbers a column, and types."""
    name: str = "own"
    version: int = 1

    def releases(self, features: int) -> tuple[Release, ...]:
        """Arrays of whole numbers."""
        return tuple(Release(name, (times * features,), dtype=kind) for name, times, kind in self.shapes)

    def run(self, database: Database, rng: np.random.Generator) -> Observables:
        """Call the function."""
        found = self.function(database.parties[0].toarray(), rng)
        return Observables(found if isinstance(found, dict) else {"output": found})


def _named(name: str, **parameters: Any) -> Mechanism:
    return make_mechanism(name, parameters)


Table = Callable[[], Matrix]


def _wine() -> Matrix:
    rows = load_wine().data
    return np.asarray((rows - rows.mean(axis=0)) / rows.std(axis=0))


def _cancer() -> Matrix:
    rows = load_breast_cancer().data[:200]
    return np.asarray((rows - rows.mean(axis=0)) / rows.std(axis=0))


def _patients(columns: int) -> Matrix:
    rows = load_breast_cancer().data[:, :columns]
    return np.asarray((rows - rows.mean(axis=0)) / rows.std(axis=0))


def _digits() -> Matrix:
    return np.asarray(load_digits().data[:187] / 16.0)


def _labelled() -> Matrix:
    found = load_breast_cancer()
    return np.column_stack([(found.data - found.data.mean(axis=0)) / found.data.std(axis=0), found.target])[:300]


def _posts(most: int = 300, terms: int = 30) -> Matrix:
    """Of some posts the most frequent terms, rows of length 1."""
    counts = sp.load_npz(Path(os.environ.get("KSDP_DATA", "../shared/data")) / "20newsgroups" / "counts.npz")
    some = counts[np.random.default_rng(1).choice(counts.shape[0], min(10 * most, counts.shape[0]), replace=False)]
    rows = some[:, np.argsort(-np.asarray(some.sum(axis=0)).ravel())[:terms]].toarray().astype(float)
    rows = rows[(rows > 0).sum(axis=1) > 3][:most]
    return np.asarray(rows / np.linalg.norm(rows, axis=1)[:, None])


def _noisy(name: str, noise: float, **parameters: Any) -> Mechanism:
    return _named("noisy", mechanism=name, parameters={"rank": 2} | parameters, noise=noise)


@dataclass(frozen=True)
class Row:
    """What is audited."""

    mechanism: Any
    table: Table
    margin: float = 0.2
    with_runs: int = 1000


ROWS = {
    "covariance": Row(covariance, _wine),
    "means": Row(means, _cancer),
    "minima": Row(minima, _cancer),
    "counts": Row(counts, _cancer),
    "centres": Row(centres, _digits),
    "directions": Row(directions, _digits),
    "coefficients": Row(coefficients, _labelled),
    "covariance-few": Row(covariance, _wine, 0.4, 200),
    "directions-few": Row(directions, _digits, 0.4, 200),
    "vectors-few": Row(_named("pd-svd", rank=2, opens="final"), _posts, 0.5, 150),
    "histogram": Row(histogram, partial(_patients, 6)),
    "deciles": Row(deciles, partial(_patients, 2)),
    "gradient": Row(gradient, _labelled),
    "regression": Row(regression, _labelled),
    "rounded": Row(rounded, partial(_patients, 6), 0.4),
    "word-counts": Row(counts, partial(_posts, 1500)),
    # Chance that nobody declared: nobody is clear.
    "masked": Row(masked, _wine),
    "shares": Row(shares, _wine),
    "exclusive": Row(exclusive, _wine),
    "seeded": Row(seeded, _wine),
    "hidden-noise": Row(hidden_noise, _wine),
    "masked-object": Row(Own(masked, tuple((f"upload_{at}", 1, "int64") for at in range(3))), _wine),
    "shares-object": Row(Own(shares, (("output", 3, "int64"),)), _wine),
    "exclusive-object": Row(Own(exclusive, (("key", 1, "int64"), ("share", 1, "int64"))), _wine),
    "topics": Row(_named("pd-nmf", rank=2, opens="final"), partial(_posts, 1500)),
    "topics-3": Row(_named("pd-nmf", rank=3, opens="final"), partial(_posts, 2000)),
    "vectors": Row(_named("pd-svd", rank=2, opens="final"), partial(_posts, 1500)),
    "hardt-roth": Row(_named("hardt-roth", rank=2, epsilon=100.0), partial(_posts, 1500)),
    "hardt-roth-30": Row(_named("hardt-roth", rank=2, epsilon=30.0), _posts),
    **{f"noisy-{noise}": Row(_noisy("pd-svd", noise), _posts) for noise in (0.03, 0.1, 0.3, 1.0)},
    **{
        f"small-{name}-{documents}": Row(_noisy(mechanism, noise, opens="final"), partial(_posts, documents), 0.4)
        for documents, noise in ((40, 0.5), (80, 0.2), (120, 0.1))
        for name, mechanism in (("V", "pd-svd"), ("T", "pd-nmf"))
    },
    # More documents than are solved for, and than `simulated` learns of.
    "large-V": Row(_named("pd-svd", rank=2, opens="final"), partial(_posts, 2100, 60)),
    "large-pca": Row(_named("pd-pca", rank=2, opens="final"), partial(_posts, 2100, 60)),
    "large-sigma": Row(_named("sigma-svd", rank=2, opens="final"), partial(_posts, 2100, 60)),
    "large-topics": Row(_named("pd-nmf", rank=3, opens="final"), partial(_posts, 3000)),
    "large-hardt-roth": Row(_named("hardt-roth", rank=2, epsilon=100.0), partial(_posts, 2100)),
    "large-noisy": Row(_noisy("pd-svd", 0.03), partial(_posts, 2100)),
    "small-V-few": Row(_noisy("pd-svd", 0.1, opens="final"), partial(_posts, 120), 0.4, 200),
    "noisy-few": Row(_noisy("pd-svd", 0.3), _posts, 0.4, 200),
}


def lower_advantage(guess: NDArray[np.bool_], held: NDArray[np.bool_], error: float) -> float:
    """True less false positives, by the exact bounds of two binomials."""
    hits, runs = int(guess[held].sum()), int(held.sum())
    alarms, others = int(guess[~held].sum()), int((~held).sum())
    least = float(beta.ppf(error / 2, hits, runs - hits + 1)) if hits else 0.0
    most = float(beta.ppf(1 - error / 2, alarms + 1, others - alarms)) if alarms < others else 1.0
    return least - most


def attacks(seen: Matrix, bits: NDArray[np.bool_], learn: int) -> list[Matrix]:
    """Scores of all runs, (n_runs, n_documents), of every attack, which has learnt from the first runs alone."""
    scale = seen[:learn].std(axis=0)
    varies = scale > 1e-12 * np.abs(seen[:learn].mean(axis=0))
    z = np.clip((seen[:, varies] - seen[:learn, varies].mean(axis=0)) / scale[varies], -8, 8)
    main = PCA(min(40, z.shape[1]), random_state=0).fit(z[:learn]).transform(z)
    main /= main[:learn].std(axis=0)
    one, other = np.triu_indices(main.shape[1])
    both = np.concatenate([z, main[:, one] * main[:, other]], axis=1)
    signs = np.where(bits[:learn], 1.0, -1.0)
    found = [
        Ridge(alpha * learn).fit(some[:learn], signs).predict(some).reshape(len(seen), -1)
        for some in (z, both)
        for alpha in (0.01, 0.1, 1.0)
    ]
    moved = np.abs((signs - signs.mean(axis=0)).T @ z[:learn])
    boosted = HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=8, random_state=0)
    scores = np.empty((len(seen), bits.shape[1]))
    for i in range(bits.shape[1]):
        best = z[:, np.argsort(-moved[i])[:50]]  # trees of all numbers take minutes a document
        scores[:, i] = boosted.fit(best[:learn], bits[:learn, i]).predict_proba(best)[:, 1]
    return [*found, scores]


def proved(scores: list[Matrix], held: NDArray[np.bool_], error: float, half: int) -> tuple[float, float]:
    """The best attack's advantage on the last runs and its lower bound; attack and threshold by the others."""
    best: tuple[float, float, Matrix] = (-1.0, 0.0, scores[0])
    for score in scores:
        for sign in (1.0, -1.0):
            signed = sign * score
            cuts = np.quantile(signed[:half], np.linspace(0.02, 0.98, 49))
            guess = signed[:half, None] > cuts
            told = guess[held[:half]].mean(axis=0) - guess[~held[:half]].mean(axis=0)
            most = int(told.argmax())
            best = max(best, (float(told[most]), float(cuts[most]), signed), key=lambda one: one[0])
    guess, held = best[2][half:] > best[1], held[half:]
    return float(guess[held].mean() - guess[~held].mean()), lower_advantage(guess, held, error)


def shown(mechanism: Any, rows: Matrix, rng: np.random.Generator) -> Matrix:
    """All numbers of a run, sorted, their logs and fractions, and what single precision loses."""
    if callable(mechanism):
        out = mechanism(rows, rng)
        arrays = list(out.values()) if isinstance(out, dict) else [out]
    else:
        found = mechanism.run(Database((sp.csr_array(rows),)), rng)
        arrays = [found[name] for name in opened(mechanism, rows.shape[1])]
    flat = [np.ravel(array).astype(float) for array in arrays]
    more = [change for one in flat for change in (np.sort(one), np.log(np.abs(one) + 1e-300), one % 1.0)]
    return np.concatenate([*flat, *more, [np.abs(one - one.astype(np.float32)).sum() for one in flat]])


def attacked(clear: NDArray[np.int64], data: Matrix, most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Those of high leverage first: a wrong verdict is there."""
    centred = data - data.mean(axis=0)
    sizes = np.linalg.norm(np.linalg.svd(centred, full_matrices=False)[0], axis=1)
    clear = clear[np.argsort(-sizes[clear])]
    return np.concatenate([clear[: most // 2], rng.permutation(clear[most // 2 :])[: most - most // 2]])


def row(name: str, runs: int, most: int) -> tuple[int, int, int, float]:
    """Audit, attack, print. How many are clear, attacked, proved wrong, and the most by point, of the margin."""
    one = ROWS[name]
    data = one.table()
    start = time.perf_counter()
    try:
        audit = ksdp.audit(data, one.mechanism, party_size=0.5, with_runs=one.with_runs, seed=7, margin=one.margin)
    except (InputError, InvalidAudit) as error:
        print(f"{name:<16} no audit: {str(error)[:90]}", flush=True)
        return 0, 0, 0, 0.0
    spent = time.perf_counter() - start
    verdicts = audit.verdicts["verdict"].to_numpy()
    clear = np.flatnonzero(verdicts == "clear")
    rng = np.random.default_rng(99)
    chosen = attacked(clear, data, most, rng)
    bits, seen = np.zeros((runs, len(data)), bool), []
    for run in range(runs if len(chosen) else 0):
        held = np.sort(rng.choice(len(data), len(data) // 2, replace=False))
        bits[run, held] = True
        seen.append(shown(one.mechanism, data[held], rng))
    learn, half = runs // 2, runs // 8  # the best attack is chosen on an eighth and judged on the rest
    scores = attacks(np.stack(seen), bits[:, chosen], learn) if seen else []
    bounds = [
        proved([some[learn:, i] for some in scores], bits[learn:, document], ERROR / len(chosen), half)
        for i, document in enumerate(chosen)
    ]
    wrong = sum(bound > one.margin for _, bound in bounds)
    above = sum(point > one.margin for point, _ in bounds)
    most_found = max((point for point, _ in bounds), default=float("nan"))
    print(
        f"{name:<16} margin {one.margin:.1f}  {len(data):>5} documents  "
        f"{(verdicts == 'sensitive').sum():>4} sensitive  {len(clear):>4} clear  "
        f"{len(chosen):>3} attacked  {wrong:>3} proved wrong  {above:>3} by point  "
        f"most {most_found:.2f}  audit {spent:.0f} s, all {time.perf_counter() - start:.0f} s",
        flush=True,
    )
    for said in audit.summary.unread:
        print("   ", said[:150], flush=True)
    return len(clear), len(chosen), wrong, most_found / one.margin if len(chosen) else 0.0


def main() -> None:
    """Every row, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", default=list(ROWS), help=", ".join(ROWS))
    parser.add_argument("--runs", type=int, default=6000, help="simulated for the attackers")
    parser.add_argument("--most", type=int, default=24, help="documents that are attacked, half by leverage")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        found = [row(name, asked.runs, asked.most) for name in asked.rows]
    clear, tried, wrong, most = zip(*found, strict=True)
    print(
        f"{len(found)} audits, {sum(clear)} clear, {sum(tried)} attacked, {sum(wrong)} proved wrong; "
        f"the largest advantage is {max(most):.2f} of its margin"
    )


if __name__ == "__main__":
    main()
