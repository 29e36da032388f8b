"""Run an audit from a spec, on this machine: server, workers, flow. What the command line and Python call."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from ksdp.audit.errors import StoreError
from ksdp.audit.interim_looks import AGAIN, DRAWN
from ksdp.audit.level_part import tables_at_part
from ksdp.audit.planning import make_plan
from ksdp.audit.results.summary import Summary
from ksdp.audit.spec import Spec
from ksdp.dashboards.audits.report import render_report
from ksdp.flows.audits.audit_here import audit_here
from ksdp.flows.audits.place import ANYWHERE, Place, chosen_place
from ksdp.flows.interruption import interrupts_wait, run_until_stopped
from ksdp.flows.prefect_server import prefect_server, reached
from ksdp.flows.prepare import Prepared, prepare, prepare_stored
from ksdp.flows.progress import current
from ksdp.storage.audits.stage_tables import stage_names
from ksdp.storage.findings import findings_whole, read_spec, report_whole, write_report
from ksdp.storage.locks import lock
from ksdp.storage.mapped_corpus import open_corpus
from ksdp.storage.store import Store, sweep_parts
from ksdp.storage.summaries import read_summary
from ksdp.tasks.blocks import all_whole, drop_passing
from ksdp.tasks.cluster import open_workers
from ksdp.tasks.provenance import versions
from ksdp.tasks.spread import started_ahead


def one_at_a_time(store: Path, waiting: Callable[[], None] | None = None) -> AbstractContextManager[None]:
    """Hold the store: two audits of one store would do the same work twice.

    With `waiting`, another audit that holds it is waited for, and `waiting` called once before.

    Raises
    ------
    StoreError
        If another audit holds it and nobody wants to wait.
    """
    busy = f"another audit is running in {store}; wait for it or name another store."
    return lock(store / "lock", busy=busy, waiting=waiting)


def run_audit(spec: Spec, base: Path, store: Path, place: Place = ANYWHERE) -> Summary:
    """Audit a corpus from start to report; interrupted, the same call resumes.

    Parameters
    ----------
    base : Path
        Folder that the spec's paths are relative to.

    Raises
    ------
    InputError
        If anything is refused, before work starts.
    """
    current().stage("prepare", 1)
    return run_prepared([prepare(spec, base, store)], place)[0]


def run_prepared(audits: Sequence[Prepared], place: Place = ANYWHERE, *, held: bool = False) -> list[Summary]:
    """Run audits of one store, whose corpora and specs it holds, one after the other.

    With `held` the caller holds the store (`one_at_a_time`).
    """
    done = {prepared.ref: summary for prepared in audits if (summary := _finished(prepared))}
    left = [prepared for prepared in audits if prepared.ref not in done]
    if left:
        chosen = chosen_place(place, Store(Path(left[0].ref.store)), [prepared.plan for prepared in left])
        if chosen.here and len(left) == 1:
            tried = left[0]  # to see where it is run; what that worked out goes along
            left = [replace(tried, ref=replace(tried.ref, pool=tried.plan.pool))]
        done |= dict(zip((prepared.ref for prepared in left), _run_flows(left, chosen, held), strict=True))
    return [done[prepared.ref] for prepared in audits]


def _finished(prepared: Prepared) -> Summary | None:
    """The summary of an audit that this version has finished, if all that it rests on is still there."""
    started = time.monotonic()
    store = Store(Path(prepared.ref.store))
    folder = store.audit(prepared.ref.audit)
    try:
        summary = read_summary(folder)
        if summary.provenance.versions != versions() or not findings_whole(folder):
            return None
        # What was measured again rests on the runs of the looks.
        looks = [name for name in stage_names(folder) if name != AGAIN and not name.startswith(DRAWN)]
        stages = [prepared.ref, *(prepared.ref.at(name) for name in looks)]
        whole = [all_whole(stage) for stage in stages]  # every stage: what is damaged is all made again at once
        if not all(whole):
            return None
        if not report_whole(folder):  # killed after its findings, before their page
            write_report(folder, render_report(store, prepared.ref.audit))
    except StoreError as error:
        if (folder / "audit.json").is_file():
            current().say(f"{error} It is made again.")
        return None
    drop_passing(prepared.ref)  # killed before it came to that
    return replace(
        summary,
        cached_runs=summary.runs,
        sampled_runs=0,
        seconds=round(time.monotonic() - started, 3),
        seconds_by_stage={},
    )


def _run_flows(audits: Sequence[Prepared], place: Place, held: bool) -> list[Summary]:
    refs = [prepared.ref for prepared in audits]
    store, cluster_spec = Path(refs[0].store), audits[0].plan.spec.cluster
    if place.here:
        with contextlib.nullcontext() if held else one_at_a_time(store):
            sweep_parts(store, time.time())
            return audit_here(refs, place.workers)
    with (
        contextlib.nullcontext() if held else one_at_a_time(store),
        prefect_server(Store(store).prefect) as server,
        open_workers(place.workers, place.dask, cluster_spec) as cluster,
        started_ahead(cluster.address, refs[0]),
    ):
        sweep_parts(store, time.time())
        current().say(f"Prefect UI {server.url}   Dask {cluster.dashboard or cluster.address}")
        with interrupts_wait():
            from ksdp.flows.audits.prefect_audit import audit

        server.wait()
        with reached(server):
            return [
                run_until_stopped(
                    audit(ref.store, ref.audit, ref.corpus, cluster.address, ref.may_sample, ref.blocks, ref.code)
                )
                for ref in refs
            ]


def run_test(store: Path, audit: str, statistics: tuple[str, ...], place: Place = ANYWHERE) -> Summary:
    """Evaluate other statistics on the cached observables of an audit; no mechanism is run.

    The result is an audit of its own, with the same runs and these statistics. They may be named because of what
    was seen in these runs, so that they are corrected for together with the audit's own: they have their part of
    its level.

    Raises
    ------
    StoreError
        If there is no such audit or its observables were not kept.
    """
    opened = Store.open(store, create=False)
    folder = opened.audit(audit)
    spec, summary = read_spec(folder), read_summary(folder)
    part = len(set(statistics)) / len({*statistics, *summary.statistics})
    changed = tables_at_part(spec, lambda level: level * part) | {
        "statistics": {"families": [], "names": list(statistics), "sees": spec.statistics.sees}
    }
    corpus = open_corpus(opened.corpus(summary.corpus))
    plan = make_plan(Spec.model_validate(changed), corpus)
    prepared = prepare_stored(plan, opened.root, may_sample=False, after=audit)
    return run_prepared([prepared], place)[0]
