"""What every round of a run shows beside the last one, what stands for all of them, and what looking costs.

::

    python -m benchmarks every-round --spec SPEC --leak    # D of each column, and of other rounds
    python -m benchmarks every-round --spec SPEC --runs 30 # CPU time: every round, the final output
"""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.design import Block
from ksdp.audit.design_streams import mechanism_rng
from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.mechanisms.factorisation.nmf_announced import SUMS
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.factorisation.pd_svd import PDSVD
from ksdp.audit.mechanisms.factorisation.power_iteration import stack, start_block
from ksdp.audit.mechanisms.factorisation.span import announced_span
from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.sampling import measure, run_observables, sample
from ksdp.audit.spec import Spec
from ksdp.audit.statistics.round_sums import RowsEnergy
from ksdp.audit.statistics.rounds import SpanEnergy
from ksdp.audit.verdicts.ks import ks_table
from ksdp.audit.verdicts.raw_filter import gram_of_runs, raw_tests
from ksdp.flows.prepare import read_spec_file, spec_corpus

__all__ = ["run"]

ROUNDS = (1, 3, 5, 10, 20, 30)


def _others(
    plan: Plan, lane: int, number: int, whole: dict[str, list[NDArray[np.float32]]]
) -> dict[str, NDArray[np.float64]]:
    """Energy of every document in what other numbers of rounds show; `whole` gets all that PD-NMF opens."""
    database, documents, mechanism = plan.database(lane, number), plan.documents(lane), plan.mechanism
    found = {}
    if isinstance(mechanism, PDSVD):
        start = start_block(mechanism.start_seed, plan.corpus.features, mechanism.rank)
        for rounds in ROUNDS:
            seen = Observables({"span": announced_span(stack(database.parties), start, rounds).rows})
            found[f"span of {rounds} iterations"] = SpanEnergy().evaluate(seen, documents)
    if isinstance(mechanism, PDNMF):
        sweeps = tuple(range(1, mechanism.cap + 1))
        looked = dataclasses.replace(mechanism, announce=SUMS, at=("last", *sweeps))
        sums = looked.run(database, mechanism_rng(plan.design, lane, number))
        names = [f"numerators@{sweep}" for sweep in sweeps]
        for name in names:
            found[name] = RowsEnergy("x", (name,)).evaluate(sums, documents)
        found["all sweeps, one by one"] = np.sum([found[name] for name in names], axis=0)
        found["sums of all sweeps"] = RowsEnergy("x", tuple(names)).evaluate(sums, documents)
        every = np.concatenate([np.ravel(sums[name]) for name in sorted(sums)])
        whole["every sweep"].append(every.astype(np.float32))
    return found


def _leak(plan: Plan) -> None:
    values: dict[str, list[NDArray[np.float64]]] = {}
    whole: dict[str, list[NDArray[np.float32]]] = {"what is declared": [], "every sweep": []}
    for number in range(plan.design.runs):
        observables = Observables({k: v.astype(float) for k, v in run_observables(plan, 0, number).items()})
        whole["what is declared"].append(
            np.concatenate([np.ravel(observables[k]) for k in sorted(observables)]).astype(np.float32)
        )
        columns = {s.name: s.evaluate(observables, plan.documents(0)) for s in plan.tested}
        for name, column in (columns | _others(plan, 0, number, whole)).items():
            values.setdefault(name, []).append(column)
    bits = plan.design.inclusion(Block(0, 0, plan.design.runs))
    noise = np.random.default_rng(0).normal(size=bits.shape)
    said = {name: ks_table(np.ascontiguousarray(np.array(v).T), bits).distance for name, v in values.items()}
    for name, arrays in whole.items():
        if arrays:
            said[f"raw filter on {name}"] = raw_tests(gram_of_runs(np.stack(arrays)), bits).distance[:, 0]
    said["noise"] = ks_table(noise, bits).distance
    declared = np.max([said[s.name] for s in plan.tested], axis=0)
    print(f"  {len(said)} columns; the largest of those that an audit tests: median D {np.median(declared):.3f}")
    for name, distance in sorted(said.items(), key=lambda item: -float(np.median(item[1]))):
        print(f"  {name:40} median D {np.median(distance):.3f}  95 % {np.quantile(distance, 0.95):.3f}")


def _cost(spec: Spec, corpus_base: Path, runs: int) -> None:
    corpus = spec_corpus(spec, corpus_base)
    for opens in ("every round", "final"):
        mechanism = spec.mechanism.model_copy(update={"opens": opens})
        plan = make_plan(spec.model_copy(update={"mechanism": mechanism}), corpus)
        measure(plan, Block(0, 0, 1), sample(plan, Block(0, 0, 1)), plan.statistics)  # compiles
        begin = time.process_time()
        drawn = list(sample(plan, Block(0, 0, runs)))
        middle = time.process_time()
        measure(plan, Block(0, 0, runs), drawn, plan.statistics)
        end = time.process_time()
        print(
            f"  {opens:12} {len(plan.tested):3} columns: mechanism {1e3 * (middle - begin) / runs:.1f} ms a run, "
            f"statistics {1e3 * (end - middle) / runs:.1f} ms"
        )


def run(spec_path: Path, runs: int, leak: bool) -> None:
    """Print what was measured."""
    spec, base = read_spec_file(spec_path)
    plan = make_plan(spec, spec_corpus(spec, base))
    print(f"{spec_path.stem}: {plan.mechanism.name}, {len(plan.audited)} documents, party of {plan.party_rows}")
    if leak:
        _leak(plan)
    else:
        _cost(spec, base, runs)
