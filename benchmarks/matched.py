"""What matched filters see that the other default columns do not: of the final output alone, and of every round.

::

    python -m benchmarks matched

The adversary knows what databases are drawn from. For each setting: D of each document under chance, under the
largest of the other default columns, and under the filter.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.raw_leak import RATED, mails, stars, table, topics
from ksdp.audit.corpus import Corpus
from ksdp.audit.planning import make_plan
from ksdp.audit.reproducing.arm_tables import distances, largest
from ksdp.audit.spec import parse_spec
from ksdp.audit.verdicts.ks import ks_table

__all__ = ["run"]

FILTERS = {"final": ("basis-match", "topics-match"), "every round": ("blocks-match", "sums-match")}
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


def run() -> None:
    """Print one line a setting."""
    print("D: median, 95 %, over documents: 300 texts, rows or users' ratings, or 200 mails of enron-mail6")
    print(
        f"{'opens':12} {'corpus':8} {'run':8} {'party':>6} {'runs':>5}  {'chance':>12}  {'other columns':>14}  "
        f"{'filter':>12}"
    )
    for opens, (corpus, mechanism, rank, size, with_runs, documents) in OPENED:
        design = {"party_size": size, "with_runs": with_runs, "without_runs": "all", "documents": documents}
        wanted = {"name": mechanism, "rank": rank, "opens": opens} | (RATED if corpus is stars else {})
        tables = {"seed": 3, "corpus": {"path": "x"}, "mechanism": wanted, "design": design}
        plan = make_plan(parse_spec(tables), corpus())
        bits, found = distances(plan)
        matched = np.max([found.pop(name) for name in FILTERS[opens] if name in found], axis=0)
        drawn = np.random.default_rng(0).normal(size=bits.T.shape)
        noise = ks_table(np.ascontiguousarray(drawn.astype(np.float32).T), bits).distance
        plain = largest(found)
        cells = "  ".join(f"{np.median(d):6.3f} {np.quantile(d, 0.95):5.3f}" for d in (noise, plain, matched))
        said = f"{opens:12} {corpus.__name__:8} {mechanism:8} {size:6.0%} {plan.design.runs:5}"
        print(f"{said}  {cells}", flush=True)
