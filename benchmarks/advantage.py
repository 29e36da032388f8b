"""What each family of statistics gains, on real corpora, at several party sizes.

::

    python -m benchmarks advantage                     # four corpora, two mechanisms, four party sizes: hours
    python -m benchmarks advantage --corpora kos --sizes 0.03

A family's figure is the median over the documents of D under the one column of the family whose median is
largest. One column for all documents, so that nothing is chosen for each; D of a document without a leak has the
median printed as `noise`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.runs import BlockValues, measure, sample
from ksdp.audit.specs.design import Block
from ksdp.audit.specs.models import Spec
from ksdp.audit.testing import compare_arms
from ksdp.audit.verdicts.laws import ArmTests
from ksdp.flows.prepare import open_spec
from ksdp.storage.readers.spec_files import read_spec_file

CORPORA = ("kos", "20newsgroups", "enron-mail6", "movielens-1m")
SIZES = (0.005, 0.03, 0.10, 0.33)
MECHANISMS = ("pd-svd", "pd-nmf")
FAMILIES = ("paper", "geometry", "rounds", "simulated")

_plan: Plan | None = None


def _start(spec: Spec, base: Path) -> None:
    global _plan
    _plan = make_plan(open_spec(spec, base))


def _block(block: Block) -> BlockValues:
    assert _plan is not None
    return measure(_plan, block, sample(_plan, block), _plan.statistics)


def _tests(plan: Plan, blocks: Sequence[BlockValues]) -> ArmTests:
    """All columns of all documents, without the controls."""
    rows = slice(0, len(plan.audited))
    inclusion = np.concatenate([b.inclusion[rows] for b in blocks], axis=1)
    values = {s.name: np.concatenate([b.values[s.name][rows] for b in blocks], axis=1) for s in plan.statistics}
    return compare_arms(values, inclusion)


def _best(plan: Plan, medians: np.ndarray[Any, Any], family: str) -> tuple[float, str]:
    columns = [n for n, column in enumerate(plan.columns) if column.family.startswith(family)]
    if not columns:
        return float("nan"), "-"
    best = max(columns, key=lambda n: medians[n])
    return float(medians[best]), plan.columns[best].name


def _spec(name: str, mechanism: str, size: float, documents: int, with_runs: int) -> tuple[Spec, Path]:
    root = Path(__file__).resolve().parents[1] / "examples" / "specs"
    read, base = read_spec_file(root / f"{name}-nmf.toml")
    tables = read.model_dump(mode="json")
    weighted = {"weighted": True} if name.startswith("movielens") and mechanism == "pd-nmf" else {}
    tables["mechanism"] = {"name": mechanism, "rank": 7} | weighted
    sizes = {"party_size": size, "with_runs": with_runs, "documents": documents}
    tables["design"] |= sizes | {"without_runs": "all"}
    tables["statistics"] = {"families": list(FAMILIES)}
    return Spec.model_validate(tables), base


def run(
    corpora: Sequence[str] = CORPORA,
    sizes: Sequence[float] = SIZES,
    mechanisms: Sequence[str] = MECHANISMS,
    documents: int = 200,
    with_runs: int = 100,
    workers: int = 2,
) -> None:
    """Print one line a corpus, mechanism and party size."""
    print(f"{documents} documents drawn, {with_runs} runs in the smaller arm, k = 7; median D of the best column")
    print("corpus        mechanism  party   runs     s  noise  " + "  ".join(f"{f:>28}" for f in FAMILIES))
    for name in corpora:
        for mechanism in mechanisms:
            for size in sizes:
                _line(name, mechanism, size, documents, with_runs, workers)


def _line(name: str, mechanism: str, size: float, documents: int, with_runs: int, workers: int) -> None:
    began = time.monotonic()
    spec, base = _spec(name, mechanism, size, documents, with_runs)
    plan = make_plan(open_spec(spec, base))
    begin = partial(_start, spec, base)
    with get_context("spawn").Pool(workers, begin) as pool:
        blocks = pool.map(_block, plan.blocks, chunksize=1)
    tests = _tests(plan, blocks)
    medians = np.nanmedian(tests.distance, axis=0)
    m, n = float(np.median(tests.n_with[:, 0])), float(np.median(tests.n_without[:, 0]))
    noise = 0.8276 * np.sqrt((m + n) / (m * n))
    cells = (_best(plan, medians, family) for family in FAMILIES)
    columns = "  ".join(f"{value:6.3f} {column[:21]:>21}" for value, column in cells)
    seconds = time.monotonic() - began
    print(f"{name:13} {mechanism:9} {size:6.1%} {plan.runs:6} {seconds:5.0f}  {noise:.3f}  {columns}", flush=True)
