"""What `moments` keeps by how its noisy numbers are cleaned, and V alone by how much noise is added to it.

::

    python -m benchmarks.thresholds --corpora enron-mail6 20newsgroups --splits 10

Second moments of the most frequent terms, with joint noise at an advantage of 0.191 (0.2 with the counts of these
terms): as they are, moved towards 0 by so many deviations of their noise (`shrink`), or set to 0 below so many;
`positive` sets what is below 0 to 0, as no second moment of counts is. A line a setting: of the exact run's gain
over working alone what is kept, with its interval of 95 % over splits.

Then V alone with noise, in units of the root mean square entry of its rows: what is kept, and the advantage of the
best attack on pairs of runs that share all other documents, as a certificate has it: the mean over pairs.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import eigsh

from benchmarks.drawn import CORPORA, HELD_OUT, TABLES, exact_rows, learn_subspace, read, take
from benchmarks.frontier import RANK, SEED
from ksdp.audit.corpus.levers import Levers, finished, lift, most_frequent, narrowed
from ksdp.audit.corpus.matrix import Corpus, weighed
from ksdp.audit.learning.gain import interval
from ksdp.audit.learning.learners import Learnt
from ksdp.audit.learning.measures import energy
from ksdp.audit.mechanisms.privacy.moments import Moments
from ksdp.audit.opened import Opened
from ksdp.audit.planning import make_plan
from ksdp.audit.proofs import paired_advantages
from ksdp.audit.specs.models import parse_spec

Floats = NDArray[np.float64]
ADVANTAGE, TERMS, NOISE = 0.191, (1000, 3000), (0.05, 0.1, 0.2, 0.25, 0.3, 0.4)
CERTIFIED, DOCUMENTS, PAIRS = (0.1, 0.4), 40, 8


def run(name: str, splits: int) -> None:
    """Print what each setting keeps of one corpus, and what noise on V is worth."""
    raw, party = read(name)
    rows = exact_rows(name, raw, party)
    kept: dict[str, list[float]] = {}
    for split in range(splits):
        test = np.random.default_rng([SEED, split]).random(len(party)) < HELD_OUT
        names = [one for one in np.unique(party) if (~test & (party == one)).sum() > RANK]
        judged, exact = take(rows, test), learn_subspace([take(rows, ~test & (party == one)) for one in names])
        alone = [energy(learn_subspace([take(rows, ~test & (party == one))]), judged) for one in names]
        bottom = float(np.mean(alone))
        top = energy(exact, judged)
        learnt = {} if name in TABLES else _of_moments(raw, ~test, split)
        rng = np.random.default_rng([SEED, split, 1])
        for noise in NOISE:
            near = exact.rows + rng.standard_normal(exact.rows.shape) * noise / math.sqrt(rows.shape[1])
            learnt[f"V, noise {noise:g}"] = Learnt(near, None, False)
        for what, one in learnt.items():
            kept.setdefault(what, []).append((energy(one, judged) - bottom) / (top - bottom))
    for what, values in kept.items():
        found = interval(values, HELD_OUT / (1 - HELD_OUT))
        print(f"{name}, {what:32} kept {found.mean:.3f} ({found.low:.3f} to {found.high:.3f})", flush=True)
    held = np.flatnonzero(np.diff(rows.indptr))
    corpus = Corpus(take(rows, np.isin(np.arange(rows.shape[0]), held)), held.astype(np.str_))
    for noise in CERTIFIED:
        _certified(f"{name}, V, noise {noise:g}", corpus, noise / math.sqrt(rows.shape[1]))


def _of_moments(counts: sp.csr_array, train: NDArray[np.bool_], split: int) -> dict[str, Learnt]:
    """By how many terms and which cleaning."""
    learnt = {}
    for terms in TERMS:
        frequency = np.bincount(counts.indices, minlength=counts.shape[1])
        columns = most_frequent(frequency, terms)
        idf = np.log(len(train) / frequency[columns])
        levers = Levers(columns=columns, idf=idf)
        mine = narrowed(take(counts, train), levers)
        X = finished(weighed(mine, None, "tf-idf", "public", "l2", idf), levers)
        exact, back = (X.T @ X).toarray(), lift(levers, counts.shape[1])
        scale = Moments(rank=RANK, advantage=ADVANTAGE, colluders=1).scale(terms)
        rng, deviation = np.random.default_rng([SEED, split, terms]), np.full((terms, terms), scale / math.sqrt(2))
        np.fill_diagonal(deviation, scale)
        upper = np.triu(rng.standard_normal((terms, terms)) * deviation)
        noisy = exact + upper + np.triu(upper, 1).T
        for what, cleaned in _cleaned(exact, noisy, deviation).items():
            _, vectors = eigsh(cleaned, k=RANK, which="LA", tol=1e-6)
            learnt[f"{terms:,} terms, {what}"] = Learnt(np.asarray((back @ vectors).T), None, False)
    return learnt


def _cleaned(exact: Floats, noisy: Floats, deviation: Floats) -> dict[str, Floats]:
    found = {"no noise": exact, "as they are": noisy}
    for shrink in (1.0, 1.5, 2.0):
        less = np.maximum(np.abs(noisy) - shrink * deviation, 0)
        found[f"shrink {shrink:g}"] = np.sign(noisy) * less
        found[f"shrink {shrink:g}, positive"] = np.where(noisy > 0, less, 0)
    for least in (2.0, 3.0):
        large = np.where(np.abs(noisy) > least * deviation, noisy, 0)
        found[f"0 below {least:g}"] = large
        found[f"0 below {least:g}, positive"] = np.maximum(large, 0)
    return found


def _certified(title: str, corpus: Corpus, noise: float) -> None:
    spec = parse_spec(
        {
            "corpus": {"path": "none.npz"},
            "mechanism": {"name": "pd-svd", "rank": RANK, "opens": "final", "noise": noise},
            "design": {"party_size": 0.8, "documents": DOCUMENTS, "with_runs": 20},
            "statistics": {"families": ["geometry"]},
            "certificate": {"pairs": PAIRS},
            "seed": SEED,
        }
    )
    mean = paired_advantages(make_plan(Opened.of(spec, corpus)), 0, PAIRS).mean(axis=1)
    half, most = np.quantile(mean, [0.5, 0.9])
    told = f"told apart by {half:.3f} (median), 90 % {most:.3f}, largest {mean.max():.3f}"
    print(f"{title}: pairs {told}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Read what is asked, and run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=["enron-mail6"])
    parser.add_argument("--splits", type=int, default=10)
    asked = parser.parse_args(arguments)
    for name in asked.corpora:
        run(name, asked.splits)


if __name__ == "__main__":
    main()
