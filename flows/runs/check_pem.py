"""What a host of a PEM run can check by itself: its protocol file, key, records, functions, budget and folder."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from ksdp.audit.errors import KsdpError
from ksdp.flows.runs.budget import Purse, open_purse, purse_files
from ksdp.flows.runs.check_files import NodeQuestion, OwnCheck, check_purse, one_line
from ksdp.flows.runs.check_words import Finding, mend
from ksdp.flows.runs.pem_functions import load_functions
from ksdp.flows.runs.pem_records import HeldRecords, hold_records
from ksdp.flows.runs.pem_terms import PemHosts, PemPrices, read_pem_hosts


@dataclass(frozen=True)
class PemQuestion(NodeQuestion):
    """What `ksdp pem` would be given."""

    data: Path | None = None
    live: str | None = None
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
        return question.unreadable(error)
    agreement = hosts.nodes.agreement.hex()[:16]
    findings.append(Finding(me, "protocol", f"{question.protocol.name}, hash {agreement}"))
    identity = question.check_key(hosts.who, findings)
    if me in hosts.keys:
        findings += _functions(question, hosts)
        findings += _records(question, hosts, now)
    findings += question.check_out()
    return OwnCheck(tuple(findings), hosts, identity, "not said")


def _functions(question: PemQuestion, hosts: PemHosts) -> list[Finding]:
    if hosts.spec.role(question.me) == "server":
        return []
    try:
        own = load_functions(question.functions, question.folder) if question.functions else None
        hosts.spec.functions(own.algorithm if own else None, own.code if own else "")
    except KsdpError as error:
        return [Finding(question.me, "protocol", one_line(str(error)), "functions", mend("functions"))]
    return []


def _records(question: PemQuestion, hosts: PemHosts, now: datetime) -> list[Finding]:
    me, role = question.me, hosts.spec.role(question.me)
    given = (question.data, question.live, question.client, question.clients) != (None, None, None, None)
    if role != "holder":
        if given:
            fault = f"{me} is {'the aggregator' if role == 'aggregator' else 'a server'}, and records are given"
            return [Finding(me, "documents", fault, "none-held", mend("none-held", me=me))]
        return []
    if question.data is None and question.live is None:
        return [Finding(me, "documents", "not looked at: no --data and no --live")]
    try:
        held = hold_records(hosts, question.data, question.live, question.client, question.clients)
    except KsdpError as error:
        what = mend("records", protocol=question.protocol)
        return [Finding(me, "documents", one_line(str(error)), "records", what)]
    entered = Finding(me, "documents", f"{held.count} records of {len(held.clients)} clients enter")
    return [_budget(question, hosts, held, now), entered]


def _budget(question: PemQuestion, hosts: PemHosts, held: HeldRecords, now: datetime) -> Finding:
    ledger, limits = purse_files(question.me, question.key)

    def opened() -> Purse:
        prices = PemPrices(hosts, hosts.spec.algorithm.name)
        return open_purse(prices, held.hash, held.count, ledger, limits, lambda: now)

    return check_purse(question.me, opened, ledger, limits)
