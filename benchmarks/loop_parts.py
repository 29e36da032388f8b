"""The plain loop of one version of the code, in its own process; `benchmarks.speed` starts it and names each part.

Run by path, with the `src` of the code to measure first on the path: it must do with the modules of today and with
those of the reference. Each line of input names a part; the answer is its CPU seconds in this process.
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


def _plan(spec_path: Path) -> Any:
    """The plan; a PD-SVD opens its final output alone, which is all that the reference looks at."""
    from ksdp.flows.prepare import read_spec_file, spec_corpus

    spec, base = read_spec_file(spec_path)
    try:
        from ksdp.audit.planning import make_plan
    except ImportError:  # the reference
        from ksdp.audit.plan import make_plan  # type: ignore[no-redef, attr-defined, unused-ignore]
    else:
        if spec.mechanism.name == "pd-svd":
            spec = spec.model_copy(update={"mechanism": spec.mechanism.model_copy(update={"opens": "final"})})
    return make_plan(spec, spec_corpus(spec, base))


def _parts(plan: Any, runs: int) -> dict[str, Callable[[], object]]:
    """What an audit does with some runs, and with the tests of some documents."""
    from ksdp.audit.design import Block
    from ksdp.audit.sampling import measure, run_observables
    from ksdp.audit.testing import compare_arms

    block, rng = Block(0, 0, runs), np.random.default_rng(0)
    drawn = [run_observables(plan, 0, number) for number in range(runs)]
    read = getattr(plan, "read_runs", plan.runs)
    bits = rng.random((TESTED, read)) < plan.design.share * plan.runs / read
    names = [statistic.name for statistic in getattr(plan, "tested", plan.statistics)]
    values = {name: rng.normal(size=bits.shape).astype(np.float32) for name in names}
    return {
        "mechanism": lambda: [run_observables(plan, 0, number) for number in range(runs)],
        "statistics": lambda: measure(plan, block, drawn, plan.statistics),
        "tests": lambda: compare_arms(values, bits),
    }


def main() -> None:
    """Answer until there is no more input."""
    plan, runs = _plan(Path(sys.argv[1])), int(sys.argv[2])
    documents, statistics = len(plan.documents(0)), len(plan.statistics)
    every = getattr(plan, "every", 1)
    kept = plan.design.share + (1 - plan.design.share) / every
    parts = _parts(plan, min(runs, plan.block_runs))
    for part in parts.values():
        part()  # compiles
    about = {
        "runs": plan.runs,
        "arms": [int(n) for n in getattr(plan, "arms", (plan.runs * plan.design.share, 0))],
        "every": every,
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
        parts[line.strip()]()
        print(time.process_time() - began, flush=True)


if __name__ == "__main__":
    main()
