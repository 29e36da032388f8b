"""What one host of PEM finds by itself, before a run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ksdp.audit.errors import KsdpError
from ksdp.extras.pem.hosts import HeldRecords, PemHosts, PemPrices, hold_records, read_pem_hosts
from ksdp.extras.pem.records import load_functions
from ksdp.flows.runs.budget import BudgetGuard, budget_files, open_guard
from ksdp.flows.runs.check import Finding, NodeQuestion, OwnCheck, check_budget


@dataclass(frozen=True)
class PemQuestion(NodeQuestion):
    """What `ksdp pem` would be given."""

    data: Path | None = None
    client: str | None = None
    clients: int | None = None
    functions: str | None = None
    """MODULE:OBJECT of functions of one's own."""
    folder: Path = Path()
    """In which these are."""


def check_pem_here(question: PemQuestion, now: datetime) -> OwnCheck:
    """Look at everything that needs no network; a fault ends no more than it must."""
    me, findings = question.me, list[Finding]()
    try:
        hosts = read_pem_hosts(question.protocol)
    except KsdpError as error:
        return question.refused(str(error), "file")
    agreement = hosts.terms.digest.hex()[:16]
    findings.append(Finding(me, "protocol", f"{question.protocol.name}, hash {agreement}"))
    identity = question.check_key(hosts.who, findings)
    if me in hosts.terms.everybody:
        findings += _functions(question, hosts)
        findings += _records(question, hosts, now)
    findings += question.check_out()
    return OwnCheck(tuple(findings), hosts, identity, "not said")


def _functions(question: PemQuestion, hosts: PemHosts) -> list[Finding]:
    if hosts.terms.role(question.me) == "server":
        return []
    try:
        own = load_functions(question.functions, question.folder) if question.functions else None
        hosts.spec.functions(own.algorithm if own else None, own.code if own else "")
    except KsdpError as error:
        return [Finding.fault(question.me, "protocol", str(error), "functions")]
    return []


def _records(question: PemQuestion, hosts: PemHosts, now: datetime) -> list[Finding]:
    me, role = question.me, hosts.terms.role(question.me)
    given = (question.data, question.client, question.clients) != (None, None, None)
    if role != "holder":
        if given:
            fault = f"{me} is {'the aggregator' if role == 'aggregator' else 'a server'}, and records are given"
            return [Finding.fault(me, "documents", fault, "none-held", me=me)]
        return []
    if question.data is None:
        return [Finding(me, "documents", "not looked at: no --data")]
    try:
        held = hold_records(hosts, question.data, question.client, question.clients)
    except KsdpError as error:
        return [Finding.fault(me, "documents", str(error), "records", protocol=question.protocol)]
    entered = Finding(me, "documents", f"{held.count} records of {len(held.clients)} clients enter")
    return [_budget(question, hosts, held, now), entered]


def _budget(question: PemQuestion, hosts: PemHosts, held: HeldRecords, now: datetime) -> Finding:
    ledger, limits = budget_files(question.me, question.key)

    def opened() -> BudgetGuard:
        prices = PemPrices(hosts.spec)
        return open_guard(prices, held.hash, held.count, ledger, limits, lambda: now)

    return check_budget(question.me, opened, ledger, limits)
