"""Run an audit from a spec, on this machine: server, workers, flow, or this process alone."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

from ksdp.audit.contract import traits_of
from ksdp.audit.corpus.groups import unit_names
from ksdp.audit.errors import InputError, InvalidAudit, KsdpError, StoreError
from ksdp.audit.mechanisms.recorded import own_parts
from ksdp.audit.opened import Opened
from ksdp.audit.planning import make_plan
from ksdp.audit.registry import lent, mechanism_of
from ksdp.audit.results.appetite import Appetite
from ksdp.audit.results.summary import Summary
from ksdp.audit.reviewing import visible
from ksdp.audit.specs.models import Spec
from ksdp.audit.verdicts.looks import AGAIN, DRAWN
from ksdp.flows.audits.audit import run_stages
from ksdp.flows.audits.place import ANYWHERE, HERE, Place, check_memory, chosen_place
from ksdp.flows.audits.steps import Tally
from ksdp.flows.interruption import current, interrupts_wait, run_until_stopped
from ksdp.flows.prefect_server import prefect_server, reached
from ksdp.flows.prepare import Prepared, audit_id, prepare, prepare_stored
from ksdp.storage.audits.history import read_summary
from ksdp.storage.audits.stages import stage_names
from ksdp.storage.corpora import load_edited
from ksdp.storage.findings import findings_whole, read_verdicts, report_whole
from ksdp.storage.locks import lock
from ksdp.storage.mapped_corpus import open_corpus
from ksdp.storage.store import Store, sweep_parts
from ksdp.tasks.audit_ref import AuditRef, code_of
from ksdp.tasks.blocks import all_whole, drop_passing
from ksdp.tasks.cluster import open_workers, started_ahead
from ksdp.tasks.local_workers import LocalWorkers, local_workers
from ksdp.tasks.provenance import versions
from ksdp.tasks.repeats import repeat_runs

Result = TypeVar("Result")


@dataclass(frozen=True)
class _Calls:
    """The steps of an audit as plain calls, one after the other or spread over workers of this machine."""

    workers: LocalWorkers | None

    async def run_in_thread(self, function: Callable[..., Result], *arguments: Any) -> Result:
        return function(*arguments)

    async def each(
        self,
        step: str,
        function: Callable[..., Result],
        arguments: Sequence[tuple[Any, ...]],
        done: Callable[[Result], None],
        attempt: int = 0,
    ) -> list[Result]:
        if self.workers is not None and len(arguments) > 1:
            return self.workers.each(function, arguments, done)
        results = []
        for some in arguments:
            results.append(function(*some))
            done(results[-1])
        return results

    @asynccontextmanager
    async def shown(self, tally: Tally, total: int, key: str, what: str) -> AsyncIterator[None]:
        yield

    async def publish(self, store: Store, summary: Summary) -> None:
        pass


def audit_here(refs: Sequence[AuditRef], workers: int | None = None) -> list[Summary]:
    """Run prepared audits one after the other, without a server, also in a notebook's event loop."""
    started = local_workers(workers) if workers is not None and workers > 1 else contextlib.nullcontext()
    with started as several, threadpool_limits(1):
        return [_finished(run_stages(ref, _Calls(several))) for ref in refs]


def _finished(audit: Coroutine[Any, Any, Result]) -> Result:
    """The result of a coroutine none of whose steps waits: it runs through at once, and needs no event loop."""
    try:
        audit.send(None)
    except StopIteration as end:
        result: Result = end.value
        return result
    audit.close()
    raise KsdpError("a step of the audit waited; without a server nothing does.")


def one_at_a_time(
    store: Path, waiting: Callable[[], None] | None = None, *, busy: str | None = None
) -> AbstractContextManager[None]:
    """Hold the store; wait for another audit after `waiting` or a line that says so, or raise `busy` at once."""

    def say() -> None:
        current().say(f"another audit is running in {store}; this one begins when it is done.")

    return lock(store / "lock", busy=busy, waiting=None if busy else waiting or say)


def run_audit(opened: Opened, store: Path, place: Place = ANYWHERE, appetite: Appetite | None = None) -> Summary:
    """Audit a corpus from start to report; interrupted, the same call resumes."""
    if opened.own and not place.here:
        place = HERE
    with lent(opened.own):
        return run_prepared([prepare(opened, store).held_to(appetite)], place)[0]


def run_prepared(audits: Sequence[Prepared], place: Place = ANYWHERE, *, locked: bool = False) -> list[Summary]:
    """Run audits of one store, whose corpora and specs it holds, one after the other."""
    done = {prepared.ref: summary for prepared in audits if (summary := _finished_before(prepared))}
    waiting = [prepared for prepared in audits if prepared.ref not in done]
    if waiting:
        chosen = chosen_place(place, Store(Path(waiting[0].ref.store)), [prepared.plan for prepared in waiting])
        done |= dict(zip((prepared.ref for prepared in waiting), _run_flows(waiting, chosen, locked), strict=True))
    return [done[prepared.ref] for prepared in audits]


def _finished_before(prepared: Prepared) -> Summary | None:
    """The summary of an audit that this version has finished, if all that it rests on is still there."""
    started = time.monotonic()
    store = Store(Path(prepared.ref.store))
    folder = store.audit(prepared.ref.audit)
    try:
        summary = read_summary(folder)
        same = summary.provenance.versions == versions() and summary.spec.declared == prepared.plan.spec.declared
        if not (same and findings_whole(folder) and report_whole(folder)):
            return None
        # What was measured again rests on the runs of the looks.
        looks = [name for name in stage_names(folder) if name != AGAIN and not name.startswith(DRAWN)]
        stages = [prepared.ref, *(prepared.ref.at(name) for name in looks)]
        complete = [all_whole(stage) for stage in stages]  # every stage: what is damaged is all made again at once
        if not all(complete):
            return None
        if own_parts(prepared.plan.mechanism):  # the key holds its folder, and what it imports may be elsewhere
            repeat_runs(prepared.ref)
    except InvalidAudit:
        return None
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


def _run_flows(audits: Sequence[Prepared], place: Place, locked: bool) -> list[Summary]:
    refs = [prepared.ref for prepared in audits]
    store, cluster_spec = Path(refs[0].store), audits[0].plan.spec.cluster
    elsewhere = not place.here and (place.dask is not None or cluster_spec is not None)
    workers = 1 if elsewhere else place.workers or (1 if place.here else os.cpu_count() or 1)
    check_memory([prepared.plan for prepared in audits], workers)
    if place.here:
        with contextlib.nullcontext() if locked else one_at_a_time(store):
            sweep_parts(store, time.time())
            return audit_here(refs, place.workers)
    current().stage("serve", 1)
    with (
        contextlib.nullcontext() if locked else one_at_a_time(store),
        prefect_server(Store(store).prefect) as server,
        open_workers(place.workers, place.dask, cluster_spec) as cluster,
        started_ahead(cluster.address, refs[0]),
    ):
        sweep_parts(store, time.time())
        current().say(f"{server.words(Store(store).prefect)}   Dask {cluster.dashboard or cluster.address}")
        with interrupts_wait():
            from ksdp.flows.audits.prefect_audit import audit

        server.wait()
        with reached(server):
            return [
                run_until_stopped(
                    audit(ref.store, ref.audit, ref.corpus, cluster.address, ref.may_sample, ref.blocks, ref.code),
                    server.lost,
                )
                for ref in refs
            ]


@dataclass(frozen=True, eq=False)
class EditedVersions:
    """What runs tell of documents, and of edited versions to whoever knows these alone."""

    themselves: Summary
    versions: Summary
    rows: list[dict[str, Any]]
    """One a document: D and p-values of both, under the strongest statistic of each."""

    def lines(self) -> list[str]:
        """For people."""
        every, level, both = len(self.rows), self.versions.spec.decision.level, ("itself", "version")
        lines = [f"{'document':24} {'D, itself':>10} {'p':>9}  {'D, version':>10} {'p':>9}"]
        for row in self.rows:
            cells = "".join(f" {row[f'D_{of}']:>10.3f} {row[f'p_{of}']:>9.2g} " for of in both)
            lines.append(f"{visible(row['document']):24}{cells}")
        first, second = (sum(row[f"adjusted_p_{of}"] <= level for row in self.rows) for of in both)
        return [
            *lines,
            f"of {every} documents {first} leak to somebody who knows the document, {second} to somebody who "
            f"knows the version alone (p, adjusted for all documents, at most {level:g}). No verdict. All {every} "
            "versions are known in place of their documents, and every other document. By chance, half of all D "
            f"under one statistic stay below {self.versions.chance.median_D:.3f}.",
        ]


def run_versions(
    spec: Spec, base: Path, edited: Path, store: Path, statistics: tuple[str, ...] = (), place: Place = ANYWHERE
) -> EditedVersions:
    """Measure edited versions of documents on the stored runs of a finished audit, beside the documents."""
    nonnegative = traits_of(mechanism_of(spec.mechanism)).nonnegative
    corpus, changed, ids = load_edited(spec.corpus, base, edited, nonnegative=nonnegative)
    plan = make_plan(Opened.of(spec, corpus))
    opened, audit = Store.open(store, create=False), audit_id(plan, code_of(plan))
    if not (folder := opened.audit(audit)).joinpath("audit.json").is_file():
        raise InputError(f"{store} holds no finished audit of this spec and corpus: `ksdp audit` makes it.")
    design, tables = plan.spec.design, plan.spec.tables() | {"certificate": None}
    tables["statistics"] |= {"families": [], "names": list(statistics)} if statistics else {}
    if read_summary(folder).looks[-1].tested:  # all runs are there: both are measured in all of them
        tables["design"]["looks"] = "end"
    unit_of = dict(zip(corpus.ids.tolist(), unit_names(corpus, design.unit).tolist(), strict=True))
    units = list(dict.fromkeys(unit_of[name] for name in ids))
    if design.kind == "shared" and design.pool is None and not isinstance(design.documents, int):
        tables["design"]["documents"] = units
    measured: list[Summary] = []
    rows: dict[str, dict[str, Any]] = {name: {"document": name} for name in units}
    for of, variant, runs_of in (("itself", corpus, None), ("version", changed, corpus.hash)):
        tables["statistics"]["explored"], tables["statistics"]["runs_of"] = True, runs_of
        made = make_plan(Opened.of(Spec.model_validate(tables), variant))
        measured.append(run_prepared([prepare_stored(made, opened.root, may_sample=False, after=audit)], place)[0])
        for row in read_verdicts(opened.audit(measured[-1].audit)).to_pylist():
            figures = {"D": row["distance"], "statistic": row["statistic"], "p": 10 ** row["log10_p"]}
            figures["adjusted_p"] = 10 ** row["log10_adjusted_p"]
            rows.get(row["document"], {}).update({f"{key}_{of}": value for key, value in figures.items()})
    return EditedVersions(measured[0], measured[1], list(rows.values()))


def run_test(store: Path, audit: str, statistics: tuple[str, ...], place: Place = ANYWHERE) -> Summary:
    """Measure other statistics on the cached observables of an audit; the mechanism is not run."""
    opened = Store.open(store, create=False)
    folder = opened.audit(audit)
    summary = read_summary(folder)
    sees = summary.spec.statistics.sees
    explored = {"families": [], "names": list(statistics), "sees": sees, "explored": True}
    changed = Spec.model_validate({**summary.spec.tables(), "statistics": explored, "certificate": None})
    plan = make_plan(Opened.of(changed, open_corpus(opened.corpus(summary.corpus))))
    prepared = prepare_stored(plan, opened.root, may_sample=False, after=audit)
    return run_prepared([prepared], place)[0]
