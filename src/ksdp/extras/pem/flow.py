"""PEM as a flow for one's own Prefect server."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prefect import flow

from ksdp.extras.pem.local import prepare_pem, read_pem_spec, run_prepared
from ksdp.flows.deployable import RESULTS, Logged, tagged
from ksdp.flows.interruption import listening


@flow(name="ksdp-pem", retries=0, **RESULTS)
def pem_flow(spec: str, out: str) -> dict[str, Any]:
    """Run PEM, every party in this process. Never tried again: each attempt spends privacy.

    Parameters
    ----------
    spec : str
        Path of the spec of the run.
    out : str
        Folder of the result, without an earlier one.

    Returns
    -------
    dict
        What `result.json` says: what was found, what it cost.
    """
    prepared = prepare_pem(*read_pem_spec(Path(spec)))
    tagged("pem", f"algorithm:{prepared.algorithm.name}")
    with listening(Logged()):
        return run_prepared(prepared, Path(out), lambda: datetime.now(UTC))
