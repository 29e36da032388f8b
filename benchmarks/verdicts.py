"""The verdicts on PD-NMF where everything that a run announces is looked at: four corpora, three party sizes.

::

    python -m benchmarks verdicts                      # twelve audits, two or three minutes each
    python -m benchmarks verdicts --corpora kos --sizes 0.33
    python -m benchmarks verdicts-final                # enron-mail6, PD-SVD, V alone, every document: half an hour

One line an audit. Databases are drawn from the whole corpus; verdicts are those of 200 documents drawn.
Each audit is kept in a store of its own under `--store`, so that a second call goes on where the first ended.
`D` is the largest over all tested columns, of each document; `noise` is the same number where the runs' bits are
dealt anew, so that nothing is there to be found.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import ROOT
from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.specs.models import Spec
from ksdp.audit.verdicts.laws import ks_table
from ksdp.flows.audits.place import HERE
from ksdp.flows.audits.run import run_audit
from ksdp.flows.prepare import open_spec
from ksdp.storage.blocks import read_values, stack_blocks
from ksdp.storage.findings import read_statistics
from ksdp.storage.readers.spec_files import read_spec_file
from ksdp.storage.store import Store

CORPORA = ("kos", "enron-mail6", "20newsgroups", "movielens-1m")
SIZES = (0.33, 0.10, 0.03)
DOCUMENTS, MARGIN = 200, 0.2

WITH_RUNS = {
    "kos": (500, 270, 150),
    "enron-mail6": (240, 130, 100),
    "20newsgroups": (130, 100, 50),
    "movielens-1m": (120, 100, 80),
}
"""By party size, as in `SIZES`: what two to three minutes of one core allow."""

HEAD = (
    f"{'corpus':13} {'party':>6} {'with':>5} {'others':>6}  sensitive / clear / undecided  "
    f"{'D':>5} {'95 %':>5}  {'noise':>5} {'95 %':>5}  {'CPU s':>6}  strongest column"
)


def run(corpora: Sequence[str], sizes: Sequence[float], folder: Path) -> None:
    """Print one line a corpus and party size, the largest parties first."""
    print(f"PD-NMF, k = 7, every round, {DOCUMENTS} documents drawn, margin {MARGIN}; D: median, 95 %")
    print(HEAD)
    for place, size in enumerate(SIZES):
        for name in corpora:
            if size in sizes:
                _line(*_spec(name, size, WITH_RUNS[name][place]), folder / f"{name}-{size:g}", name)


def final(folder: Path, with_runs: int = 1240) -> None:
    """Print the line of enron-mail6, PD-SVD with V alone, 500 terms, every document."""
    read, base = read_spec_file(ROOT / "examples" / "specs" / "enron-mail6-svd.toml")
    tables = read.model_dump(mode="json")
    tables["corpus"]["levers"] = {"most_frequent": 500}
    tables["mechanism"] |= {"opens": "final"}
    tables["design"] |= {"party_size": 0.33, "with_runs": with_runs, "fresh_runs": 0}
    print(f"PD-SVD, k = 7, V alone, 500 most frequent terms: every document, margin {MARGIN}, no fresh runs")
    print(HEAD)
    _line(_decided(tables), base, folder / f"final-{with_runs}", "enron-mail6")


def _spec(name: str, size: float, with_runs: int) -> tuple[Spec, Path]:
    read, base = read_spec_file(ROOT / "examples" / "specs" / f"{name}-nmf.toml")
    tables = read.model_dump(mode="json")
    tables["design"] |= {"party_size": size, "with_runs": with_runs, "documents": DOCUMENTS, "looks": "end"}
    return _decided(tables), base


def _decided(tables: dict[str, Any]) -> Spec:
    tables["decision"] |= {"margin": MARGIN}
    tables["store"] = {"observables": "none", "values": "all"}
    return Spec.model_validate(tables)


def _line(spec: Spec, base: Path, folder: Path, name: str) -> None:
    began = time.process_time()
    summary = run_audit(open_spec(spec, base), folder, HERE)
    seconds = time.process_time() - began
    if not summary.valid:
        raise SystemExit(f"{name}: the audit is void: {summary.controls.reason}.")
    table = read_statistics(Store(folder).audit(summary.audit)).to_pandas()
    largest = table.groupby("document")["distance"].max().to_numpy()
    medians = table.groupby("statistic")["distance"].median()
    noise, arms = _noise(make_plan(open_spec(spec, base)), folder, summary)
    counts = summary.verdicts
    verdicts = " / ".join(map(str, counts.as_dict().values()))
    print(
        f"{name:13} {spec.design.party_size:6.0%} {arms[0]:5} {arms[1]:6}  {verdicts:>29}  "
        f"{np.median(largest):5.3f} {np.quantile(largest, 0.95):5.3f}  "
        f"{np.median(noise):5.3f} {np.quantile(noise, 0.95):5.3f}  {seconds:6.0f}  "
        f"{medians.idxmax()} {medians.max():.3f}",
        flush=True,
    )


def _noise(plan: Plan, folder: Path, summary: Any) -> tuple[NDArray[np.float64], tuple[int, int]]:
    """The largest D of some documents where their bits are those of other runs, and the median sizes of the
    arms."""
    stage, names = summary.provenance.stages[0], [s.name for s in plan.statistics]
    values = folder / stage.values
    cells = [read_values(values, b, stage.key, 0, names, plan.spec.store.precision) for b in plan.blocks]
    bits, columns = stack_blocks(cells, slice(0, min(DOCUMENTS, len(plan.audited))), plan.read_runs)
    with_runs = int(np.median(bits.sum(axis=1)))
    dealt = np.ascontiguousarray(bits[:, np.random.default_rng(0).permutation(bits.shape[1])])
    distances = [ks_table(np.ascontiguousarray(column), dealt).distance for column in columns]
    return np.max(distances, axis=0), (with_runs, bits.shape[1] - with_runs)
