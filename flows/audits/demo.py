"""The demo: a real corpus that needs no download, audited under two settings; one leaks less."""

from __future__ import annotations

from pathlib import Path

from ksdp.audit.results.summary import Summary
from ksdp.audit.spec import parse_spec
from ksdp.flows.audits.run import run_prepared
from ksdp.flows.prepare import prepare
from ksdp.flows.progress import advance, current

__all__ = ["DEMO_RANKS", "demo_words", "run_demo"]

DEMO_RANKS = (7, 2)
"""A rank at which documents of every verdict are found, and one at which fewer give themselves away."""


def run_demo(store: Path, *, workers: int | None = None) -> list[Summary]:
    """Audit the docstrings of numpy, scipy and pandas: each package a party, each docstring a document."""
    current().stage("prepare", len(DEMO_RANKS))
    prepared = []
    for rank in DEMO_RANKS:
        spec = parse_spec(
            {
                "seed": 7,
                "corpus": {"path": "demo", "max_features": 300},
                "mechanism": {"name": "pd-svd", "rank": rank},
                "design": {"party_size": 0.4, "with_runs": 250, "documents": 150, "fresh_runs": 30},
                "decision": {"margin": 0.3},
                "store": {"observables": "none"},
            }
        )
        prepared.append(prepare(spec, Path.cwd(), store))
        advance(1)
    return run_prepared(prepared, workers=workers)


def demo_words(summaries: list[Summary]) -> str:
    """What the demo shows, in the order of `DEMO_RANKS`: the three verdicts, and what a safer setting changes."""
    lines = []
    for rank, summary in zip(DEMO_RANKS, summaries, strict=True):
        counts = summary.verdicts
        lines.append(
            f"rank {rank}: {counts.sensitive} of {summary.documents} documents are sensitive (proved to leak more "
            f"than the margin of {summary.spec.decision.margin:g}), {counts.clear} clear (proved to leak less), "
            f"{counts.undecided} undecided (neither is proved; more runs decide)."
        )
    first, second = (summary.verdicts for summary in summaries)
    if second.sensitive < first.sensitive or second.clear > first.clear:
        lines.append(
            "What makes the run safer: a lower rank announces less. "
            f"From rank {DEMO_RANKS[0]} to {DEMO_RANKS[1]}, sensitive go from {first.sensitive} to "
            f"{second.sensitive}, clear from {first.clear} to {second.clear}. "
            "A larger party, noise, or leaving the sensitive ones out (`ksdp screen`) are other ways."
        )
    return "\n".join(lines)
