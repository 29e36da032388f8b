"""What counts of documents give away, beside what is learnt on the columns that they leave.

::

    python -m benchmarks counts-leak --corpora texts enron-mail6 --documents 150 --with-runs 30

Runs of `counted` around PD-SVD (a party of a third, all columns of the file, rank 7, every round opened),
for a vocabulary of columns in at least 10 or 100 documents of the run. D of the columns that read the counts alone
(``document_counts``); of those that read the final output alone (which columns stayed, and V); of all that is read
of the run. D is the largest of a document's columns, so that more columns are larger by noise alone: beside each
stands as many columns of noise.

``texts`` are 300 small ones, 60 looked at, half of them in each of 240 runs: what columns see after counts, beside
a run of the other mechanism alone on those columns that are expected to stay. Where less is seen, something is
overlooked.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from benchmarks import data_folder
from ksdp.audit.contract import Observables
from ksdp.audit.corpus.matrix import Corpus, canonical, tf_idf, unit_rows
from ksdp.audit.coverage import reads
from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.sampling import run_observables
from ksdp.audit.specs.design import Block
from ksdp.audit.specs.models import parse_spec
from ksdp.audit.statistics.linear.counts import DOCUMENT_COUNTS, KEPT_COLUMNS, evaluated
from ksdp.audit.verdicts.laws import ks_table

Floats = NDArray[np.float64]
Bits = NDArray[np.bool_]

AT_LEAST = (10, 100)
PARTY, RANK = 1 / 3, 7


def run(corpora: list[str], documents: int, with_runs: int) -> None:
    """Print some lines a corpus."""
    for name in corpora:
        if name == "texts":
            _beside_a_run_on_these_columns()
            continue
        corpus = _rows(name)
        for least in AT_LEAST:
            plan = _plan(corpus, least, documents, with_runs)
            values, kept = _values(plan)
            bits = plan.design.inclusion(Block(0, 0, plan.design.runs))
            print(
                f"{name}: {len(corpus)} rows, {corpus.features} candidates, at least {least}: "
                f"{np.median(kept):.0f} stay ({kept.min()} to {kept.max()}); {plan.design.runs} runs",
                flush=True,
            )
            final = {KEPT_COLUMNS, "V"}
            of = {s.name: reads(s, plan.seen) for s in plan.statistics}
            for words, columns in (
                ("the counts alone", [n for n, names in of.items() if names == {DOCUMENT_COUNTS}]),
                ("the vocabulary and V alone", [n for n, names in of.items() if names and names <= final]),
                ("all but the counts", [n for n, names in of.items() if DOCUMENT_COUNTS not in names]),
                ("all", list(of)),
            ):
                found = _largest([values[n] for n in columns], bits)
                noise = np.random.default_rng(0).normal(size=(len(columns), *bits.T.shape))
                chance = _largest(list(noise), bits)
                print(f"  {words}: D {_said(found)} by {len(columns)} columns; noise {_said(chance)}", flush=True)
            for column in ("linear-counts", "kept-columns", "first-order-basis"):
                print(f"    {column}: {_said(_largest([values[column]], bits))}", flush=True)


def _topics() -> Corpus:
    """300 documents of 30 words over 40 terms, mixtures of three topics."""
    rng = np.random.default_rng(2)
    words = rng.dirichlet(np.full(40, 0.1), size=3)
    mixtures = rng.dirichlet(np.full(3, 0.4), size=300) @ words
    counts = np.array([rng.multinomial(30, row / row.sum()) for row in mixtures], dtype=float)
    return Corpus(canonical(sp.csr_array(counts)), np.array([f"d{i}" for i in range(len(counts))]))


def _beside_a_run_on_these_columns() -> None:
    corpus = _topics()
    size = 0.5 * np.asarray((corpus.matrix != 0).sum(axis=0)).ravel()
    least = int(np.median(size))
    stay = Corpus(canonical(sp.csr_array(corpus.matrix[:, np.flatnonzero(size >= least)])), corpus.ids)
    print(f"texts: {corpus.features} candidates, at least {least}: {stay.features} expected to stay", flush=True)
    for name in ("pd-svd", "pd-nmf"):
        counted = {"name": "counted", "mechanism": name, "at_least": least, "parameters": {"rank": 2}}
        for words, mechanism, rows in (("alone", {"name": name, "rank": 2}, stay), ("counted", counted, corpus)):
            design = {"party_size": 0.5, "with_runs": 120, "without_runs": "all", "documents": 60}
            tables = {"seed": 3, "corpus": {"path": "x"}, "mechanism": mechanism, "design": design}
            plan = make_plan(parse_spec(tables), rows)
            values, _ = _values(plan)
            bits = plan.design.inclusion(Block(0, 0, plan.design.runs))
            found = {n: _largest([v], bits) for n, v in values.items() if n.endswith("-match")}
            cells = ", ".join(f"{n} {_said(d)}" for n, d in found.items())
            print(f"  {name} {words}: {cells}", flush=True)


def _rows(name: str) -> Corpus:
    counts = canonical(sp.csr_array(sp.load_npz(data_folder() / name / "counts.npz")))
    part = unit_rows(tf_idf(sp.csr_array(counts[np.diff(counts.indptr) > 0])))
    return Corpus(part, np.array([f"d{i}" for i in range(part.shape[0])]))


def _plan(corpus: Corpus, least: int, documents: int, with_runs: int) -> Plan:
    design = {"party_size": PARTY, "with_runs": with_runs, "without_runs": "all", "documents": documents}
    wanted = {"name": "counted", "mechanism": "pd-svd", "at_least": least, "parameters": {"rank": RANK}}
    tables = {"seed": 7, "corpus": {"path": "x"}, "mechanism": wanted, "design": design | {"fresh_runs": 0}}
    return make_plan(parse_spec(tables), corpus)


def _values(plan: Plan) -> tuple[dict[str, Floats], NDArray[np.int64]]:
    """Values by column, shape (runs, documents); and how many columns stayed in each run."""
    looked = plan.documents(0)
    found: dict[str, list[Floats]] = {}
    kept = []
    for number in range(plan.design.runs):
        stored = run_observables(plan, 0, number)
        seen = Observables({name: stored[name].astype(np.float64) for name in plan.seen})
        kept.append(int(seen[KEPT_COLUMNS].sum()) if KEPT_COLUMNS in seen else plan.corpus.features)
        for statistic in plan.statistics:
            found.setdefault(statistic.name, []).append(evaluated(statistic, seen, looked))
    return {name: np.array(rows) for name, rows in found.items()}, np.array(kept)


def _largest(columns: list[Floats], bits: Bits) -> Floats:
    held = np.ascontiguousarray(bits)
    distances = [ks_table(np.ascontiguousarray(c.astype(np.float32).T), held).distance for c in columns]
    return np.asarray(np.max(distances, axis=0))


def _said(distance: Floats) -> str:
    return f"{np.median(distance):.2f} ({np.quantile(distance, 0.95):.2f})"
