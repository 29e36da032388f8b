"""The plain loop of one version of the code, in its own process; `benchmarks.speed` starts it and names each part.

Run by path, with the `src` of the code to measure first on the path: it must do with the modules of today and with
those of the reference. Each line of input names a part; the answer is its CPU seconds in this process. The part
`columns` is answered by the CPU seconds of each statistic.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

TESTED = 256
"""Documents whose tests stand for all: values without ties, arms of the plan's size."""


def _plan(spec_path: Path, opens: str) -> Any:
    """The plan; the reference knows of no other choice than to look at the final output of a PD-SVD."""
    from ksdp.flows.prepare import spec_corpus
    from ksdp.storage.readers.spec_files import read_spec_file

    spec, base = read_spec_file(spec_path)
    try:
        from ksdp.audit.planning import make_plan
    except ImportError:  # the reference
        from ksdp.audit.plan import make_plan  # type: ignore[no-redef, attr-defined, unused-ignore]
    else:
        if opens:
            spec = spec.model_copy(update={"mechanism": spec.mechanism.model_copy(update={"opens": opens})})
    return make_plan(spec, spec_corpus(spec, base))


def _parts(plan: Any, runs: int) -> dict[str, Callable[[], object]]:
    """What an audit does with some runs, and with the tests of some documents."""
    from ksdp.audit.sampling import measure, run_observables
    from ksdp.audit.spec.design import Block
    from ksdp.audit.testing import compare_arms

    # The runs of an early look are few and read by every document; nearly all of an audit's come after them.
    first = plan.reading.early if hasattr(plan, "reading") else 0
    block, rng = Block(0, first, first + runs), np.random.default_rng(0)
    numbers = range(first, first + runs)
    drawn = [run_observables(plan, 0, number) for number in numbers]
    read = getattr(plan, "read_runs", plan.runs)
    bits = rng.random((TESTED, read)) < plan.design.share * plan.runs / read
    names = [statistic.name for statistic in getattr(plan, "tested", plan.statistics)]
    values = {name: rng.normal(size=bits.shape).astype(np.float32) for name in names}
    return {
        "mechanism": lambda: [run_observables(plan, 0, number) for number in numbers],
        "statistics": lambda: measure(plan, block, drawn, plan.statistics),
        "tests": lambda: compare_arms(values, bits),
        "columns": lambda: _columns(plan, block, drawn),
    }


def _columns(plan: Any, block: Any, drawn: list[Any]) -> dict[str, float]:
    """CPU seconds of each statistic; what several share counts for the first that asks."""
    from ksdp.audit.sampling import measure

    timed: list[Any] = [_Timed(statistic) for statistic in plan.statistics]
    measure(plan, block, drawn, timed)
    return {statistic.name: statistic.spent for statistic in timed}


class _Timed:
    """A statistic that counts its CPU seconds."""

    def __init__(self, statistic: Any) -> None:
        self.name, self.spent, self._statistic = statistic.name, 0.0, statistic

    def ask(self, *of: Any) -> None:
        """Hand on."""
        if (ask := getattr(self._statistic, "ask", None)) is not None:
            self._count(ask, of)

    def evaluate(self, *of: Any) -> Any:
        """Hand on."""
        return self._count(self._statistic.evaluate, of)

    def _count(self, what: Callable[..., Any], of: Any) -> Any:
        began = time.process_time()
        found = what(*of)
        self.spent += time.process_time() - began
        return found


def main() -> None:
    """Answer until there is no more input."""
    plan, runs = _plan(Path(sys.argv[1]), sys.argv[3]), int(sys.argv[2])
    documents, statistics = len(plan.documents(0)), len(plan.statistics)
    kept = getattr(plan, "measured", 1.0)
    parts = _parts(plan, min(runs, plan.block_runs))
    for name, part in parts.items():
        if name != "columns":
            part()  # compiles
    about = {
        "runs": plan.runs,
        "arms": [int(n) for n in getattr(plan, "arms", (plan.runs * plan.design.share, 0))],
        "documents": documents,
        "statistics": statistics,
        "values": plan.runs * kept * documents * statistics * 4,
        "scale": {
            "mechanism": plan.runs / min(runs, plan.block_runs),
            "statistics": plan.runs / min(runs, plan.block_runs),
            "tests": documents / TESTED,
        },
    }
    print(json.dumps(about), flush=True)
    for line in sys.stdin:
        began = time.process_time()
        found, spent = parts[line.strip()](), time.process_time() - began
        print(json.dumps(found) if line.strip() == "columns" else spent, flush=True)


if __name__ == "__main__":
    main()
