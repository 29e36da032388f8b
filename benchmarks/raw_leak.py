"""Whether the columns that an audit tests by default see what a filter on the raw announcement sees.

::

    python -m benchmarks raw-leak

Documents of which an audit might say "clear" are looked for where parties are large beside what is announced of
them: few documents and features, where energies and spans hardly move. For each setting: D of each document under
the default columns, and the advantage of `learned-raw` on everything that is declared, on PD-NMF's sums of sweeps
1 to 3, and on those of one sweep. It learns from a part of the runs and is tested on later ones, as in an audit.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from benchmarks import ROOT, data_folder
from ksdp.audit.corpus.matrix import Corpus, canonical
from ksdp.audit.planning import make_plan
from ksdp.audit.sampling import Stored
from ksdp.audit.spec.models import Spec, parse_spec
from ksdp.audit.statistics.learned import gram_of_runs
from ksdp.audit.verdicts.laws import ks_table
from ksdp.audit.verdicts.learned import raw_tests
from ksdp.extras.reproduce.privacy import distances, largest
from ksdp.flows.prepare import spec_corpus
from ksdp.storage.readers.spec_files import read_spec_file


def topics() -> Corpus:
    """300 documents of 30 words over 40 terms, mixtures of three topics."""
    rng = np.random.default_rng(2)
    words = rng.dirichlet(np.full(40, 0.1), size=3)
    mixtures = rng.dirichlet(np.full(3, 0.4), size=300) @ words
    return of_rows(np.array([rng.multinomial(30, row / row.sum()) for row in mixtures], dtype=float))


def table() -> Corpus:
    """300 rows of 15 positive numbers."""
    return of_rows(np.random.default_rng(2).gamma(2.0, size=(300, 15)))


def mails() -> Corpus:
    """enron-mail6, its 500 most frequent terms."""
    read, base = read_spec_file(ROOT / "examples" / "specs" / "enron-mail6-nmf.toml")
    tables = read.model_dump(mode="json")
    tables["corpus"]["levers"] = {"most_frequent": 500}
    return spec_corpus(Spec.model_validate(tables), base)


def stars(items: int = 40) -> Corpus:
    """MovieLens-1M: 300 users drawn from those with five ratings or more of the most rated movies; these alone."""
    ratings = pd.read_parquet(data_folder() / "movielens-1m" / "ratings.parquet")
    ratings = ratings[ratings.item_id.isin(ratings.item_id.value_counts().index[:items])]
    table = ratings.pivot_table(index="user_id", columns="item_id", values="rating", fill_value=0).to_numpy(float)
    table = table[(table > 0).sum(axis=1) >= 5]
    return of_rows(table[np.random.default_rng(2).choice(len(table), 300, replace=False)])


def of_rows(rows: NDArray[np.float64]) -> Corpus:
    return Corpus(canonical(sp.csr_array(rows)), np.array([f"d{i}" for i in range(len(rows))]))


RATED = {"weighted": True, "beta": 1.0, "delta": 1.0}
SETTINGS: tuple[tuple[Callable[[], Corpus], str, int, float, int, int], ...] = (
    (topics, "pd-nmf", 2, 0.5, 3000, 60),
    (table, "pd-nmf", 2, 0.5, 3000, 60),
    (stars, "pd-nmf", 2, 0.5, 3000, 60),
    (mails, "pd-svd", 7, 0.33, 886, 100),
    (mails, "pd-nmf", 7, 0.1, 800, 100),
)
"""Corpus, mechanism, rank, party size, runs, documents looked at."""


def run() -> None:
    """Print one block a setting."""
    for corpus, mechanism, rank, size, runs, documents in SETTINGS:
        print(f"{corpus.__name__}, {mechanism}, rank {rank}, party {size:.0%}, {runs} runs, {documents} documents")
        more = RATED if corpus is stars else {}
        _setting(corpus(), {"name": mechanism, "rank": rank, **more}, size, runs, documents)


def _setting(corpus: Corpus, mechanism: dict[str, object], size: float, runs: int, documents: int) -> None:
    design = {"party_size": size, "with_runs": int(runs * size), "without_runs": "all", "documents": documents}
    plan = make_plan(
        parse_spec({"seed": 3, "corpus": {"path": "x"}, "mechanism": mechanism, "design": design}), corpus
    )
    arrays: dict[str, list[NDArray[np.float32]]] = {}

    def look(stored: Stored) -> None:
        arrays.setdefault("declared", []).append(np.concatenate([stored[name].ravel() for name in plan.seen]))
        if "sums" in stored:
            arrays.setdefault("sums of sweeps 1 to 3", []).append(stored["sums"].ravel())
            arrays.setdefault("sums of sweep 1", []).append(stored["sums"][0].ravel())
            arrays.setdefault("sums of sweep 3", []).append(stored["sums"][-1].ravel())
        if stored.get("weights", np.zeros(0)).ndim == 3:  # of ratings: one for each column
            arrays.setdefault("weights of sweeps 1 to 3", []).append(stored["weights"].ravel())
            both = np.concatenate([stored["sums"].ravel(), stored["weights"].ravel()])
            arrays.setdefault("sums and weights", []).append(both)

    bits, found = distances(plan, look)
    most = largest(found)
    noise = ks_table(np.random.default_rng(0).normal(size=bits.shape), bits).distance
    _say("noise, one column", noise, most)
    _say("largest of the default columns", most, most)
    for name in sorted(found, key=lambda name: -float(np.median(found[name])))[:3]:
        _say(name, found[name], most)
    for name, rows in arrays.items():
        _say(f"learned-raw on {name}", raw_tests(gram_of_runs(np.stack(rows)), bits).distance[:, 0], most)


def _say(name: str, distance: NDArray[np.float64], most: NDArray[np.float64]) -> None:
    above = float((distance > most + 0.05).mean())
    print(
        f"  {name:40} {np.median(distance):.3f}, 95 % {np.quantile(distance, 0.95):.3f}; "
        f"above all default columns by 0.05: {above:.0%}",
        flush=True,
    )
