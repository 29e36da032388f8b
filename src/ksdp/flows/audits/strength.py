"""Plant leaks for documents that an audit called clear, audit once more, and store what became of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ksdp.audit.errors import InputError
from ksdp.audit.numeric.array_types import Ints
from ksdp.audit.opened import Opened
from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.randomness import Purpose, generator
from ksdp.audit.results.strength import AttackStrength
from ksdp.audit.results.summary import Summary
from ksdp.audit.screening.planting import planted_leaks, strength_of
from ksdp.audit.verdicts.verdict import Proof, Verdict
from ksdp.dashboards.audits.report import render_report
from ksdp.dashboards.audits.result import audit_result
from ksdp.flows.audits.place import ANYWHERE, Place
from ksdp.flows.audits.run import run_prepared
from ksdp.flows.interruption import Clock, current
from ksdp.flows.prepare import prepare_stored
from ksdp.storage.audits.history import read_summary
from ksdp.storage.findings import VERDICTS, read_verdicts, write_report, write_strength
from ksdp.storage.mapped_corpus import open_corpus
from ksdp.storage.remote import remove_folder
from ksdp.storage.store import Store


def measure_strength(store: Path, audit: str, clock: Clock, place: Place = ANYWHERE) -> AttackStrength:
    """Audit the same runs again, with leaks of known size for some of the clear documents."""
    opened = Store.open(store, create=False)
    folder = opened.audit(audit)
    summary = read_summary(folder)
    spec = summary.spec
    plan = make_plan(Opened.of(spec, open_corpus(opened.corpus(summary.corpus))))
    clear = _clear(opened, plan, summary)
    current().stage("plant", 1)
    planted = planted_leaks(plan, clear, generator(spec.seed, Purpose.PLANTED))
    changed = spec.model_copy(update={"certificate": None, "planted": tuple(leak for leak, _ in planted)})
    aside = opened.root / "planted" / audit
    prepared = prepare_stored(make_plan(Opened.of(changed, plan.corpus)), aside, may_sample=True)
    audited = run_prepared([prepared], place)[0]
    if not audited.valid:
        raise InputError(f"the audit with planted leaks is void ({audited.controls.reason}); see {aside}.")
    called = VERDICTS.rows(read_verdicts(Store(aside).audit(audited.audit)))
    verdicts = {row.document: row.verdict for row in called}
    finished = clock().isoformat(timespec="seconds")
    strength = strength_of(plan, audit, planted, verdicts, finished)
    write_strength(folder, strength)
    write_report(folder, render_report(audit_result(summary)))
    remove_folder(aside)
    return strength


def _clear(store: Store, plan: Plan, summary: Summary) -> Ints:
    """Rows of documents that are clear by the statistics that were tried."""
    audit, spec = summary.audit, plan.spec
    if not summary.valid or not spec.decides:
        raise InputError(f"audit {audit} has no verdicts that could be looked into; name another (`ksdp list`).")
    rows = {str(name): row for row, name in enumerate(plan.units.ids)}
    called = VERDICTS.rows(read_verdicts(store.audit(audit)))
    tried = (Verdict.CLEAR, Proof.STATISTICS)
    clear = [rows[row.document] for row in called if (row.verdict, row.proof) == tried]
    if not clear:
        raise InputError(
            f"audit {audit} calls no document clear by the statistics tried: nothing could be missed."
        )
    return np.array(clear)
