"""What the filters of rounds tell from a single run of a large corpus, and what they cost.

::

    python -m benchmarks single-runs --runs 8       # KOS and enron-mail6; `--spec` for another

Every document of the corpus is looked at: D between those that a run held and all others, in the mean over runs,
and CPU milliseconds a run. Side by side: documents fitted one by one, as an audit does where sums are more numbers
than documents may be in, and filters approached by steps, as it does elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from benchmarks import ROOT
from ksdp.audit.canaries import handed_units
from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.sampling import run_observables
from ksdp.audit.statistics import equations
from ksdp.audit.verdicts.ks import ks_distances
from ksdp.flows.prepare import read_spec_file, spec_corpus

__all__ = ["SPECS", "run"]

SPECS = ("kos-nmf", "kos-svd", "enron-mail6-nmf", "enron-mail6-svd")
FILTERS = ("sums-match", "blocks-match")


def run(specs: Sequence[Path] = (), runs: int = 8) -> None:
    """Print a line a spec."""
    print(f"{'':18}{'may be in':>12}  one by one: D, ms a run   by steps: D, ms a run")
    for path in specs or [ROOT / "examples/specs" / f"{name}.toml" for name in SPECS]:
        spec, base = read_spec_file(path)
        spec = spec.model_copy(update={"mechanism": spec.mechanism.model_copy(update={"opens": "every round"})})
        plan = make_plan(spec, spec_corpus(spec, base))
        drawn = [run_observables(plan, 0, number) for number in range(runs)]
        cells = []
        for more in (equations.MORE, np.inf):
            with mock.patch.object(equations, "MORE", more):
                _looked(plan, drawn[:1])  # compiles
                distance, spent, possible = _looked(plan, drawn)
            cells.append(f"{distance:.3f} {1e3 * spent:.1f}")
        print(f"{path.stem:18}{possible:12.0f}{cells[0]:>26}{cells[1]:>24}", flush=True)


def _looked(plan: Plan, drawn: Sequence[dict[str, NDArray[np.generic]]]) -> tuple[float, float, float]:
    """D and CPU seconds a run, and documents that may have been in one."""
    statistic = next(s for s in plan.statistics if s.name in FILTERS)
    documents, found, spent, possible = plan.documents(0), [], 0.0, 0
    for stored in drawn:
        seen = Observables({name: stored[name].astype(np.float64) for name in plan.seen if name in stored})
        began = time.process_time()
        said = statistic.evaluate(seen, documents)
        spent += time.process_time() - began
        held = handed_units(stored, plan.corpus, plan.units)[plan.design.targets(0)]
        arms = held.sum() * (~held).sum()
        found.append(float(ks_distances(said[None], held[None])[0] / arms))
        possible += int((said != equations.RULED_OUT).sum())
    return float(np.mean(found)), spent / len(drawn), possible / len(drawn)
