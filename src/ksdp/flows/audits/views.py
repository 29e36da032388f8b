"""Audit several views of the same runs: one audit a view at its part of the level, then the verdicts over all."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

from ksdp.audit.errors import KsdpError
from ksdp.audit.planning import make_plan
from ksdp.audit.results.appetite import Appetite, check_spec
from ksdp.audit.results.views_summary import ViewsProvenance, ViewsSummary, summarise_views
from ksdp.audit.screening.clearance import asked_of
from ksdp.audit.specs.content_keys import content_key
from ksdp.audit.specs.models import Spec
from ksdp.audit.views import combine, make_views
from ksdp.dashboards.audits.report import render_views
from ksdp.flows.audits.place import ANYWHERE, Place
from ksdp.flows.audits.run import run_prepared
from ksdp.flows.interruption import current
from ksdp.flows.prepare import GivenSpec, prepare_stored, spec_corpus
from ksdp.storage.audits.history import views_page, write_views
from ksdp.storage.audits.view_tables import view_verdicts, write_view_verdicts
from ksdp.storage.findings import read_verdicts
from ksdp.storage.reviews.appetites import keep_appetite
from ksdp.storage.store import Store, write_text
from ksdp.tasks.provenance import versions


def run_views(
    spec: Spec, base: Path, store: Path, place: Place = ANYWHERE, appetite: Appetite | None = None
) -> ViewsSummary:
    """Audit every view of a spec with `views` and combine what they say; interrupted, the same call resumes.

    The final output alone is measured on the observables that the view before it left in the store: where they are
    kept (`store.observables`), it takes no run of the mechanism.

    Parameters
    ----------
    spec, base, store, place, appetite : as for `run_audit`
    """
    started = time.monotonic()
    current().stage("prepare", 1)
    corpus = spec_corpus(spec, base)
    if appetite is not None:
        check_spec(appetite, spec)
    views = make_views(spec, corpus)
    plans = [make_plan(view.spec, corpus) for view in views]  # refused before the first is written
    asked = [GivenSpec(spec, asked_of(view.spec, corpus)) for view in views]
    prepared = [
        prepare_stored(plan, store, may_sample=True, asked=given) for plan, given in zip(plans, asked, strict=True)
    ]
    opened = Store.open(store)
    name = content_key({"views": spec.hash, "corpus": corpus.hash})[:12]
    if appetite is not None:
        keep_appetite(opened, name, appetite)
    summaries = run_prepared(prepared, place)
    tables = [read_verdicts(opened.audit(about.audit)) for about in summaries]
    if any(not table["document"].equals(tables[0]["document"]) for table in tables):
        raise KsdpError("the views audited other documents; they must be the same.")
    counted = max(one.plan.counted for one in prepared)
    combined = combine([view_verdicts(table) for table in tables], spec.rule, counted)
    write_view_verdicts(opened, name, [view.name for view in views], tables, combined)
    summary = summarise_views(
        spec,
        views,
        summaries,
        combined,
        ViewsProvenance(datetime.now(UTC).isoformat(timespec="seconds"), versions(), spec.hash, spec.seed),
        (name, str(opened.root), str(views_page(opened, name))),
        time.monotonic() - started,
    )
    write_views(opened, name, summary)
    write_text(views_page(opened, name), render_views(opened, name))
    return summary
