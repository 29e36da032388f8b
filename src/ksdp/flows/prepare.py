"""Check everything an audit needs, before it starts and before anything but the corpus is written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from ksdp.audit.contract import traits_of
from ksdp.audit.errors import SpecError
from ksdp.audit.opened import Opened
from ksdp.audit.plan import Plan
from ksdp.audit.planning import corpus_notes, make_plan
from ksdp.audit.registry import mechanism_of
from ksdp.audit.results.appetite import Appetite, check_spec
from ksdp.audit.runs import try_own_code
from ksdp.audit.screening.clearance import AuditQuestion, attempt_of, question_of
from ksdp.audit.specs.content_keys import content_key
from ksdp.audit.specs.models import Spec, parse_spec
from ksdp.audit.statistic import own_statistics
from ksdp.audit.statistics.simulated import SIMULATED
from ksdp.flows.interruption import current
from ksdp.storage.audits.history import read_summary
from ksdp.storage.audits.ledger import read_ledger, record_attempt
from ksdp.storage.corpora import load_corpus
from ksdp.storage.files import read_stored
from ksdp.storage.findings import drop_report, write_spec
from ksdp.storage.in_memory import RECORDED, recorded_in_spec, recorded_runs, recorded_tables
from ksdp.storage.mapped_corpus import store_corpus
from ksdp.storage.remote_audits import keep_blocks_at
from ksdp.storage.reviews.appetites import keep_appetite
from ksdp.storage.store import Store, write_text
from ksdp.tasks.audit_ref import AuditRef, code_of


@dataclass(frozen=True, eq=False)
class Prepared:
    """An audit that is ready to run."""

    ref: AuditRef
    plan: Plan

    def held_to(self, appetite: Appetite | None) -> Prepared:
        """Itself, held to a risk appetite from now on; `SpecError` or `InputError` where it cannot be."""
        if appetite is not None:
            check_spec(appetite, self.plan.spec)
            store = Store(Path(self.ref.store))
            if keep_appetite(store, self.ref.audit, appetite):
                drop_report(store.audit(self.ref.audit))
        return self


@dataclass(frozen=True)
class GivenSpec:
    """The question behind several audits: a list's own audits."""

    spec: Spec
    question: AuditQuestion
    """Question of this audit (`question_of`), for the whole corpus."""
    attempt: str | None = None
    """As the ledger names it; by the hash of the spec where there is no other name."""


def audit_id(plan: Plan, code: str | None) -> str:
    """The same spec on the same corpus is the same audit: running it again resumes it. Edited code is not."""
    key = {"spec": plan.spec.hash, "corpus": plan.corpus.hash}
    return content_key(key if code is None else key | {"code": code})[:12]


def open_spec(spec: Spec, base: Path) -> Opened:
    """Read what a spec names: its corpus, and runs that were made elsewhere, which this process alone has."""
    current().stage("prepare", 1)
    if spec.mechanism.name != RECORDED:
        nonnegative = traits_of(mechanism_of(spec.mechanism)).nonnegative
        return Opened.of(spec, load_corpus(spec.corpus, base, nonnegative=nonnegative))
    tables = spec.model_dump(mode="json", exclude_unset=True)
    corpus = load_corpus(spec.corpus, base, nonnegative=False)
    runs = recorded_runs(recorded_in_spec(tables, base), corpus)
    spec = parse_spec(recorded_tables(runs, tables, tables.get("design", {})))
    return Opened.of(spec, corpus, {runs.name: runs})


def prepare(opened: Opened, store: Path) -> Prepared:
    """Make the plan of a spec that was opened, and store its corpus and its spec."""
    for line in corpus_notes(opened):
        current().say(line)
    if meant := _percent_meant(opened.spec, len(opened.corpus.ids)):
        current().say(meant)
    return prepare_stored(make_plan(opened), store, may_sample=True)


def _percent_meant(spec: Spec, documents: int) -> str:
    size = spec.design.party_size
    if isinstance(size, float) or size > 100 or size * 50 > documents:
        return ""
    return (
        f"`design.party_size = {size}` means {size} of {documents} documents ({100 * size / documents:.2g} %); "
        f"{size} per cent are {size / 100:g}."
    )


def _note_exploration(store: Store, plan: Plan, audit: str, after: str | None) -> None:
    """Remember which statistics were explored on which runs; refuse a verdict by them on the same runs."""
    runs = {"corpus": plan.spec.statistics.runs_of or plan.corpus.hash, "mechanism": plan.mechanism.name}
    place = store.root / "explored" / f"{content_key(runs | {'seed': plan.spec.seed})}.txt"
    before = set(read_stored(place).decode().splitlines()) if place.exists() else set()
    # What is measured whatever is named was not chosen by looking.
    always = {SIMULATED, *(statistic.name for statistic in own_statistics(plan.mechanism))}
    names = {statistic.name.partition("#")[0] for statistic in plan.statistics}
    names -= always - set(plan.spec.statistics.names)
    names -= set() if after is None else set(read_summary(store.audit(after)).statistics)
    if plan.spec.statistics.explored:
        place.parent.mkdir(exist_ok=True)
        write_text(place, "".join(f"{name}\n" for name in sorted(before | names)))
    elif (seen := sorted(before & names)) and read_ledger(store).attempt(audit) is None:
        raise SpecError(
            f"`seed = {plan.spec.seed}`: its runs were explored with {', '.join(seen)} (`ksdp test`), and what is "
            "chosen after looking gives no verdict. Set another `seed`, which gives fresh runs."
        )


def prepare_stored(
    plan: Plan,
    store: Path,
    *,
    may_sample: bool,
    given: GivenSpec | None = None,
    after: str | None = None,
    part: bool = False,
) -> Prepared:
    """Store the spec and the corpus of a plan."""
    try_own_code(plan)
    spec, corpus = plan.spec, plan.corpus
    opened = Store.open(store)
    code = code_of(plan)
    audit = audit_id(plan, code)
    _note_exploration(opened, plan, audit, after)
    given = given or GivenSpec(spec, question_of(spec, corpus.hash, len(plan.units)))
    now = datetime.now(UTC).isoformat(timespec="seconds")
    before = None if after is None else read_ledger(opened).attempt(after)
    question = given.question if before is None else AuditQuestion(before.question, before.file)
    size = {"runs": plan.runs, "looks": len(plan.looks)}
    attempt = attempt_of(spec, audit, now, **size, question=question, given=given.spec, name=given.attempt)
    record_attempt(opened, replace(attempt, part=attempt.part or part))
    store_corpus(corpus, opened.corpus(corpus.hash))
    write_spec(opened.audit(audit), spec)
    if spec.cluster is not None and spec.cluster.blocks is not None:
        keep_blocks_at(opened, spec.cluster.blocks)
    ref = AuditRef(str(opened.root), audit, corpus.hash, may_sample, blocks=opened.blocks_url, code=code)
    return Prepared(ref, plan)
