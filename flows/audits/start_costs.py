"""CPU seconds of an audit beside its runs and tests: processes that start, the corpus, and the report.

What a process imports is timed in one that does nothing else; server, scheduler and workers take so many times as
long.
"""

from __future__ import annotations

import os
import sys

from ksdp.audit.plan import Plan
from ksdp.flows.audits.calibration import Calibration
from ksdp.flows.audits.place import never_small, takes_seconds

_IMPORTS = "import ksdp.flows.audits.run, ksdp.flows.audits.audit_here"
_REPORT = 1.0
"""Times the imports: kernels and modules that are loaded on the way, findings, curves, the page."""
_SERVER, _WORKER = 3.5, 2.3
"""Times the imports: the server and the flow that reports to it; a worker with what watches it."""


def import_seconds() -> float:
    """CPU seconds until a process of this machine could audit."""
    process = os.posix_spawn(sys.executable, [sys.executable, "-c", _IMPORTS], os.environ)
    used = os.wait4(process, 0)[2]
    return used.ru_utime + used.ru_stime


def is_small(plan: Plan, costs: Calibration) -> bool:
    """Whether the audit is done in the command's own process unless somebody asks otherwise."""
    return plan.spec.cluster is None and takes_seconds(plan, costs)


def start_seconds(plan: Plan, costs: Calibration, imports: float, prepared: float) -> float:
    """What starting and ending take, all processes together; where nobody asks for workers.

    Parameters
    ----------
    imports : float
        As `import_seconds` says.
    prepared : float
        The corpus was read and the plan made in so many.
    """
    alone = imports * (1.0 + _REPORT) + prepared
    if plan.spec.cluster is None and not never_small(plan):
        alone += costs.trial
    if is_small(plan, costs):
        return alone
    count = os.cpu_count() or 1
    return alone + imports * (_SERVER + _WORKER * count) + costs.once * (count - 1)
