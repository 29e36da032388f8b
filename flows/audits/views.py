"""Audit several views of the same runs: one audit a view at its part of the level, then the verdicts over all."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ksdp.audit.corpus import Corpus
from ksdp.audit.errors import KsdpError
from ksdp.audit.plan import make_plan
from ksdp.audit.spec import Spec
from ksdp.audit.verdicts.decide import Verdict
from ksdp.audit.views import Combined, View, ViewVerdicts, combine, make_views
from ksdp.dashboards.audits.views_report import render_views
from ksdp.flows.audits.run import run_prepared
from ksdp.flows.prepare import prepare_stored, spec_corpus
from ksdp.flows.progress import current
from ksdp.flows.provenance import versions
from ksdp.storage.audits.views import views_page, write_view_verdicts, write_views
from ksdp.storage.findings import read_verdicts
from ksdp.storage.store import Store, content_key, write_whole

__all__ = ["run_views"]


def run_views(
    spec: Spec, base: Path, store: Path, *, workers: int | None = None, dask: str | None = None
) -> dict[str, Any]:
    """Audit every view of a spec with `views` and combine what they say; interrupted, the same call resumes.

    The final output alone is measured on the observables that the view before it left in the store: where they are
    kept (`store.observables`), it takes no run of the mechanism.

    Parameters
    ----------
    spec, base, store, workers, dask : as for `run_audit`

    Returns
    -------
    dict
        As `views/<id>.json` holds it: the keys of an audit's summary, and `views`, one entry a view. `runs` counts
        those that views share once. `statistics` has the largest over views. Void if any view is void.

    Raises
    ------
    InputError
        If anything is refused, before work starts.
    """
    started = time.monotonic()
    current().stage("prepare", 1)
    corpus = spec_corpus(spec, base)
    views = make_views(spec, corpus)
    for view in views[1:]:
        make_plan(view.spec, corpus)  # refused before the first is written
    prepared = [prepare_stored(view.spec, corpus, store, may_sample=True) for view in views]
    summaries = run_prepared(prepared, workers=workers, dask=dask)
    opened = Store.open(store)
    tables = [read_verdicts(opened.audit(about["audit"])) for about in summaries]
    if any(not table["document"].equals(tables[0]["document"]) for table in tables):
        raise KsdpError("the views audited other documents; they must be the same.")
    combined = combine([_verdicts(table) for table in tables], spec.decision)
    name = content_key({"views": spec.hash, "corpus": corpus.hash})[:12]
    write_view_verdicts(opened, name, [view.name for view in views], tables, combined)
    summary = _summary(name, spec, corpus, views, summaries, combined) | {
        "seconds": round(time.monotonic() - started, 3),
        "store": str(opened.root),
        "report": str(views_page(opened, name)),
    }
    write_views(opened, name, summary)
    page = render_views(opened, name)

    def write(part: Path) -> None:
        part.write_text(page, encoding="utf-8")

    write_whole(views_page(opened, name), write)
    return summary


def _verdicts(table: pa.Table) -> ViewVerdicts:
    verdict = np.array(table["verdict"].to_pylist(), dtype=np.str_)
    adjusted, below = (table[name].to_numpy() for name in ("log10_adjusted_p", "log10_p_below"))
    return ViewVerdicts(verdict, adjusted, below)


def _counts(verdict: np.ndarray) -> dict[str, int]:
    return {kind.value: int((verdict == kind).sum()) for kind in Verdict}


def _summary(
    name: str,
    spec: Spec,
    corpus: Corpus,
    views: Sequence[View],
    summaries: Sequence[dict[str, Any]],
    combined: Combined,
) -> dict[str, Any]:
    about = [
        _about(at, view, summary, combined)
        for at, (view, summary) in enumerate(zip(views, summaries, strict=True))
    ]
    void = [f"{view['name']}: {view['reason']}" for view in about if not view["valid"]]
    shared = {summary["provenance"]["runs_folder"]: summary["runs"] for summary in summaries}
    runs, sampled = sum(shared.values()), sum(view["sampled_runs"] for view in about)
    return {
        "audit": name,
        "corpus": corpus.hash,
        "mechanism": summaries[0]["mechanism"],
        "documents": len(combined.verdict),
        "runs": runs,
        "cached_runs": max(runs - sampled, 0),
        "valid": not void,
        "verdicts": _counts(combined.verdict),
        "detected": int((combined.log10_adjusted <= math.log10(spec.decision.level)).sum()),
        "statistics": _statistics(summaries),
        "controls": {"reason": "; ".join(void) or None},
        "views": about,
        "level": spec.decision.level,
        "margin": spec.decision.margin,
        "design": summaries[0]["design"],
        "provenance": {
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "versions": versions(),
            "spec": spec.hash,
            "seed": spec.seed,
        },
        "spec": spec.model_dump(mode="json"),
    }


def _about(at: int, view: View, summary: dict[str, Any], combined: Combined) -> dict[str, Any]:
    others = combined.sensitive_in.sum(axis=0) - combined.sensitive_in[at]
    return {
        "name": view.name,
        "audit": summary["audit"],
        "level": view.spec.decision.level,
        "sees": view.spec.statistics.sees,
        "observables": [announced["name"] for announced in summary["announced"]],
        "honest_rows": summary["design"]["honest_rows"],
        "coalition_rows": summary["design"]["coalition_rows"],
        "runs": summary["runs"],
        "sampled_runs": summary["sampled_runs"],
        "valid": summary["valid"],
        "reason": summary["controls"]["reason"],
        "verdicts": summary["verdicts"],
        "sensitive_here_alone": int((combined.sensitive_in[at] & (others == 0)).sum()),
        "report": summary["report"],
    }


def _statistics(summaries: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Of each statistic, the largest median and D of any view, and the most that it alone flags in one."""
    found: dict[str, dict[str, Any]] = {}
    for summary in summaries:
        for name, about in summary["statistics"].items():
            known = found.setdefault(name, {key: about[key] for key in ("version", "family")})
            for key in ("median_D", "max_D", "sensitive"):
                known[key] = max(known.get(key, 0), about[key])
    return dict(sorted(found.items()))
