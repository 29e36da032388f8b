"""The leak of runs that open every round, beside runs that open the final output only: PD-SVD, PD-NMF, rank 7.

::

    python -m benchmarks hidden-leak --corpora 20newsgroups --features 500 1000 3000 --runs 400
    python -m benchmarks hidden-leak --topics --corpora enron-mail6 --features 1000 --runs 200

A party of a third; 150 documents drawn, `--runs` runs with each: D of a document, the largest over all columns
that an audit tests by default, and of noise.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from benchmarks import ROOT
from ksdp.audit.contract import Observables
from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.runs import lane_documents, run_observables
from ksdp.audit.specs.design import Block
from ksdp.audit.specs.models import Spec
from ksdp.audit.verdicts.laws import ks_table
from ksdp.flows.prepare import open_spec
from ksdp.storage.readers.spec_files import read_spec_file

DESIGN = {"party_size": 1 / 3, "documents": 150, "without_runs": "all", "fresh_runs": 0}
TOPICS = {"sweeps": 20, "tolerance": 0.0, "beta": 0.1, "delta": 0.1}
"""With regularisers, as a run on shares needs them: both kinds of run end with the same T."""


def run(corpora: list[str], features: list[int], runs: int, topics: bool) -> None:
    """Print some lines a corpus and vocabulary."""
    for corpus in corpora:
        for most in features:
            for opens in ("every round", "final"):
                plan = _plan(corpus, most, runs, topics, opens)
                bits, found = distances(plan)
                leaking = max(found, key=lambda name: float(np.median(found[name])))
                drawn = np.random.default_rng(0).normal(size=bits.shape)
                print(
                    f"{corpus}, {most} terms, {plan.mechanism.name} opens {opens}, {plan.design.runs} runs: D "
                    f"{_said(np.max(list(found.values()), axis=0))}; strongest {leaking} {_said(found[leaking])}; "
                    f"one column of noise {_said(ks_table(drawn, bits).distance)}",
                    flush=True,
                )


def distances(plan: Plan) -> tuple[NDArray[np.bool_], dict[str, NDArray[np.float64]]]:
    """Inclusion of the runs of a plan's first lane, and every document's D by column."""
    documents = lane_documents(plan, 0)
    values: dict[str, list[NDArray[np.float64]]] = {s.name: [] for s in plan.statistics}
    for number in range(plan.design.runs):
        stored = run_observables(plan, 0, number)
        seen = Observables({name: stored[name].astype(float) for name in plan.releases.seen})
        for statistic in plan.statistics:
            values[statistic.name].append(statistic.evaluate(seen, documents))
    bits = plan.design.inclusion(Block(0, 0, plan.design.runs))
    columns = {name: np.ascontiguousarray(np.array(rows, dtype=np.float32).T) for name, rows in values.items()}
    return bits, {name: ks_table(column, bits).distance for name, column in columns.items()}


def _plan(corpus: str, most: int, runs: int, topics: bool, opens: str) -> Plan:
    read, base = read_spec_file(ROOT / "examples" / "specs" / f"{corpus}-{'nmf' if topics else 'svd'}.toml")
    tables = read.model_dump(mode="json")
    tables["corpus"]["levers"] = {"most_frequent": most}
    tables["mechanism"] |= {"rank": 7, "opens": opens} | (TOPICS if topics else {})
    tables["design"] |= DESIGN | {"with_runs": runs}
    spec = Spec.model_validate(tables)
    return make_plan(open_spec(spec, base))


def _said(distance: NDArray[np.float64]) -> str:
    return f"{np.median(distance):.3f} ({np.quantile(distance, 0.95):.3f})"
