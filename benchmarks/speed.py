"""What an audit's runs and tests cost, beside the loop of commit 9962f76, in CPU seconds of one process.

::

    python -m benchmarks speed --spec examples/specs/enron-mail6-svd.toml --runs 64

Both work in turns, so that what else the machine does falls on both alike. A PD-SVD that opens its final output
and a PD-NMF that opens every sweep are what the bounds are for.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.old_loop import old_documents, old_statistics
from ksdp.audit.design import Block
from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.sampling import Stored, measure, sample
from ksdp.audit.testing import compare_arms
from ksdp.audit.verdicts.bands import band_width
from ksdp.flows.prepare import read_spec_file, spec_corpus

__all__ = ["run"]

_TESTED = 128


def _seconds(call: Callable[[], object]) -> float:
    begin = time.process_time()
    call()
    return time.process_time() - begin


def _old(plan: Plan, runs: list[Stored]) -> None:
    """Every document in every run."""
    documents, chosen = old_documents(plan.documents(0)), old_statistics(plan.statistics)
    values = {s.name: np.empty((len(runs), len(documents)), np.float32) for s in chosen}
    for at, stored in enumerate(runs):
        seen = Observables({name: stored[name].astype(np.float64) for name in plan.seen})
        for statistic in chosen:
            values[statistic.name][at] = statistic.evaluate(seen, documents)


def _tests(plan: Plan) -> Callable[[], object]:
    """Tests of some documents with arms of the plan's size, of values without ties."""
    rng = np.random.default_rng(0)
    bits = rng.random((_TESTED, plan.read_runs)) < plan.arms[0] / plan.read_runs
    values = {s.name: rng.normal(size=bits.shape).astype(np.float32) for s in plan.tested}
    return lambda: compare_arms(values, bits)


def run(spec_path: Path, runs: int, repeats: int = 2) -> None:
    """Print the CPU seconds of the parts of both, for the whole audit without its fresh runs, and their ratio."""
    spec, base = read_spec_file(spec_path)
    if spec.mechanism.name == "pd-svd":
        spec = spec.model_copy(update={"mechanism": spec.mechanism.model_copy(update={"opens": "final"})})
    corpus = spec_corpus(spec, base)
    new = make_plan(spec, corpus)
    every_run = spec.design.model_copy(update={"without_runs": "all"})
    old = make_plan(spec.model_copy(update={"design": every_run}), corpus)
    runs = min(runs, new.block_runs)
    block, drawn = Block(0, 0, runs), list(sample(old, Block(0, 0, runs)))
    parts: dict[str, Callable[[], object]] = {
        "mechanism": lambda: list(sample(old, block)),
        "old statistics": lambda: _old(old, drawn),
        "new statistics": lambda: measure(new, block, drawn, new.statistics),
        "old tests": _tests(old),
        "new tests": _tests(new),
    }
    _old(old, drawn[:1])  # compiles
    measure(new, Block(0, 0, 1), drawn[:1], new.statistics)
    parts["new tests"]()
    spent = dict.fromkeys(parts, 0.0)
    for _ in range(repeats):
        for name, call in parts.items():
            spent[name] += _seconds(call) / repeats
    documents = len(new.audited)
    total = {}
    for name, plan in (("old", old), ("new", new)):
        mechanism = spent["mechanism"] / runs * plan.runs
        statistics = spent[f"{name} statistics"] / runs * plan.runs
        tests = spent[f"{name} tests"] / _TESTED * documents
        total[name] = mechanism + statistics + tests
        arms = (np.array([arm]) for arm in plan.arms)
        width = band_width(*arms, spec.decision.level)[0]
        kept = plan.design.share + (1 - plan.design.share) / plan.every
        print(
            f"  {name}: {plan.runs} runs, arms {plan.arms}, band {width:.4f}: mechanism {mechanism:.0f}, "
            f"statistics {statistics:.0f}, tests {tests:.0f}, together {total[name]:.0f} CPU s; "
            f"values {plan.runs * kept * documents * 4 * len(plan.statistics) / 1e9:.2f} GB"
        )
    print(f"  {spec_path.stem}: {total['old'] / total['new']:.2f} times fewer CPU seconds than 9962f76's loop")
