"""Where an audit is run: a small one in this process, since server and workers take longer to start than it takes.

Results are the same bit for bit wherever they are made, so that a clock may decide.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from ksdp.audit.plan import Plan
from ksdp.flows.audits.calibration import calibrate
from ksdp.flows.prefect_server import within_a_run
from ksdp.storage.prefect_home import server_address
from ksdp.storage.store import Store

__all__ = ["fits_here", "nobody_watches"]

_SMALL_SECONDS = 20.0
"""Of work: about what starting a server and two workers costs them."""
_TRIED_SECONDS = 0.5
_MOST_LOOKS = 2e8
"""Documents times runs times statistics from which on nobody has to try."""


def nobody_watches(store: Store) -> bool:
    """Whether no Prefect server is there that would miss an audit: neither named, nor that of `ksdp serve`."""
    named = os.environ.get("PREFECT_API_URL")
    return not named and not within_a_run() and server_address(store.prefect) is None


def fits_here(plans: Sequence[Plan], most: float = _SMALL_SECONDS) -> bool:
    """Whether the forecast of some audits together is a few seconds of work.

    Tried are a few runs and tests, which compiles what both will need. Learned statistics and pairs of runs are
    never small.
    """
    seconds = 0.0
    for plan in plans:
        looks = float(plan.read_runs) * len(plan.audited) * len(plan.columns)
        if plan.learners or plan.spec.certificate is not None or looks > _MOST_LOOKS:
            return False
        stages = calibrate(plan, _TRIED_SECONDS).stages(plan, plan.runs)
        seconds += sum(stages.values()) - stages["start"]
        if seconds > most:
            return False
    return True
