"""Run one benchmark by name, or all.

::

    python -m benchmarks                     # all: the last, an audit of all of enron-mail6 under PD-SVD, is long
    python -m benchmarks normed-sum          # NormedSecSum beside the paper's Table 3
    python -m benchmarks audit --spec examples/specs/enron-mail6-nmf.toml
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from benchmarks import advantage, audit_cost, ks_cost, normed_sum, peers, secure_aggregation, secure_sum

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    os.environ.setdefault("KSDP_DATA", str(ROOT.parent / "shared" / "data"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "name",
        nargs="?",
        choices=["ks", "secure-sum", "secure-aggregation", "normed-sum", "peers", "audit", "advantage", "all"],
        default="all",
    )
    parser.add_argument("--spec", type=Path, default=ROOT / "examples/specs/enron-mail6-svd.toml")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--corpora", nargs="+", default=list(advantage.CORPORA))
    parser.add_argument("--sizes", nargs="+", type=float, default=list(advantage.SIZES))
    chosen = parser.parse_args()
    if chosen.name in ("ks", "all"):
        ks_cost.run()
    if chosen.name in ("secure-sum", "all"):
        secure_sum.run()
    if chosen.name in ("secure-aggregation", "all"):
        secure_aggregation.run()
    if chosen.name in ("normed-sum", "all"):
        normed_sum.run()
    if chosen.name in ("peers", "all"):
        peers.run()
    if chosen.name in ("audit", "all"):
        audit_cost.run(chosen.spec, chosen.workers)
    if chosen.name == "advantage":
        advantage.run(chosen.corpora, chosen.sizes, workers=chosen.workers)


if __name__ == "__main__":
    main()
