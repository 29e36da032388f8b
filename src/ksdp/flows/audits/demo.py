"""The demo: a real corpus that needs no download, under what PD-SVD announces and under its final output alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ksdp.audit.planning import corpus_notes, make_plan
from ksdp.audit.results.summary import Summary
from ksdp.audit.specs.models import Spec, parse_spec
from ksdp.dashboards.audits.sentences import meaning
from ksdp.flows.audits.place import HERE, Place
from ksdp.flows.audits.run import run_prepared
from ksdp.flows.interruption import advance, current
from ksdp.flows.prepare import prepare_stored, spec_corpus

_OPENED = {"every round": "every round", "final": "final output alone"}
"""Every round opened: documents of every verdict are found. Of the final output alone fewer leak."""


def demo_specs() -> list[Spec]:
    """The two settings, as anybody can audit them again."""
    shared: dict[str, Any] = {
        "seed": 7,
        "corpus": {"path": "demo", "max_features": 36, "rows": "none"},
        "design": {"party_size": 0.4, "with_runs": 200, "documents": 150, "fresh_runs": 30},
        "decision": {"margin": 0.3},
    }
    asked = {"name": "pd-svd", "rank": 2}
    return [
        parse_spec(shared | {"title": title, "mechanism": asked | {"opens": what}})
        for what, title in _OPENED.items()
    ]


def run_demo(store: Path, *, workers: int | None = None) -> list[Summary]:
    """Audit the docstrings of numpy, scipy and pandas: each package a party, each docstring a document."""
    specs = demo_specs()
    current().stage("prepare", len(specs))
    corpus = spec_corpus(specs[0], Path.cwd())
    for line in corpus_notes(specs[0], corpus):
        current().say(line)
    prepared = []
    for spec in specs:
        prepared.append(prepare_stored(make_plan(spec, corpus), store, may_sample=True))
        advance(1)
    return run_prepared(prepared, HERE if workers is None else Place(workers))


def _counted(summary: Summary) -> str:
    lines = [f"  {n:4} {word:9}   {meaning(summary, word)}" for word, n in summary.verdicts.as_dict().items()]
    if summary.verdicts.every_attack:
        lines.append(f"  {summary.verdicts.every_attack:4} are clear whatever the attack: they have many copies")
    return "\n".join([*lines, f"       report {summary.report}"])


def demo_words(summaries: list[Summary]) -> str:
    """What the demo shows, in the order of `demo_specs`: the three verdicts, and what would make the run safe."""
    every, final = summaries
    before, after = every.verdicts, final.verdicts
    lines = [
        f"PD-SVD among parties of which one holds 40 % of the docstrings; {every.documents} of them are audited.",
        f"Every round opened, as the protocol does:\n{_counted(every)}",
        f"The final output alone, its rounds computed on secret shares:\n{_counted(final)}",
    ]
    if after.sensitive < before.sensitive:
        lines.append(
            f"What makes this run safer: announce less. Of {before.sensitive} sensitive documents "
            f"{after.sensitive or 'none'} {'are' if after.sensitive > 1 else 'is'} left, "
            f"and {after.clear} of {final.documents} are proved clear "
            '(`opens = "final"` in a protocol file: docs/protocol-run.md).'
        )
    lines.append(
        "What makes it safe: sign what holds without the others (`ksdp clear`), or add noise (`ksdp advise` looks "
        "for a setting that is safe and still gains something)."
    )
    return "\n".join(lines)
