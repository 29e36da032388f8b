"""The demo: a real corpus that needs no download, audited under PD-SVD and PD-NMF."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ksdp.audit.results.summary import Summary
from ksdp.audit.spec import parse_spec
from ksdp.flows.audits.run import run_prepared
from ksdp.flows.prepare import prepare
from ksdp.flows.progress import advance, current

__all__ = ["DEMO_MECHANISMS", "run_demo"]

DEMO_MECHANISMS: dict[str, dict[str, Any]] = {
    "pd-svd": {"name": "pd-svd", "rank": 7},
    "pd-nmf": {"name": "pd-nmf", "rank": 7},
}


def run_demo(store: Path, *, workers: int | None = None) -> list[Summary]:
    """Audit the docstrings of numpy, scipy and pandas: each package a party, each docstring a document."""
    current().stage("prepare", len(DEMO_MECHANISMS))
    prepared = []
    for mechanism in DEMO_MECHANISMS.values():
        spec = parse_spec(
            {
                "seed": 7,
                "corpus": {"path": "demo"},
                "mechanism": mechanism,
                "design": {"party_size": 0.1, "with_runs": 60},
                "store": {"observables": "none"},
            }
        )
        prepared.append(prepare(spec, Path.cwd(), store))
        advance(1)
    return run_prepared(prepared, workers=workers)
