"""What a party can check by itself before a run: its protocol file, its key, its documents and their clearance."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ksdp.audit.errors import ClearanceError, KsdpError
from ksdp.flows.runs.budget import open_purse
from ksdp.flows.runs.check_files import NodeQuestion, OwnCheck, check_purse, one_line
from ksdp.flows.runs.check_words import CLEARANCE_MENDS, Finding, mend
from ksdp.flows.runs.countersigned import read_protocol_file
from ksdp.flows.runs.party_run import enter_documents
from ksdp.flows.runs.terms import Run, read_run
from ksdp.protocols.runs.trust import who_must_be_trusted
from ksdp.storage.keys import load_public

_COLUMNS = {"rows are not made": "rows", "features": "columns", "columns": "columns", "vocabulary": "columns"}
"""Words of refusals that are about columns, not about the file."""


@dataclass(frozen=True)
class Question(NodeQuestion):
    """What `ksdp party` would be given."""

    corpus: Path | None = None
    clearance: Path | None = None
    signer: Path | None = None
    uncleared: bool = False
    ledger: Path | None = None
    budget: Path | None = None


def check_here(question: Question, now: datetime) -> OwnCheck:
    """Look at everything that needs no network; a fault ends no more than it must."""
    me, findings = question.me, []
    try:
        if "pem" in read_protocol_file(question.protocol).tables:
            fault = f"{question.protocol.name} is of a run of PEM"
            what = mend("pem", protocol=question.protocol, me=me, key=question.key)
            return question.refused(fault, "pem", what)
        run = read_run(question.protocol)
    except KsdpError as error:
        return question.unreadable(error)
    findings.append(Finding(me, "protocol", f"{question.protocol.name}, hash {run.terms.digest.hex()[:16]}"))
    if faults := "; ".join(run.file.faults() if run.file.signatures else ()):
        what = mend("signatures", protocol=question.protocol)
        findings.append(Finding(me, "signatures", faults, "signatures", what))
    elif not run.file.signatures:
        findings.append(
            Finding(me, "signatures", f"nobody has signed {question.protocol.name} (--invite, --accept)")
        )
    findings.append(Finding(me, "trust", one_line(who_must_be_trusted(run.terms))))
    identity = question.check_key(run.who, findings)
    grounds = "collects" if question.me == run.server else "not said"
    if question.me != run.server and question.me in {node.name for node in run.who}:
        grounds = _documents(question, run, identity, now, findings)
    findings += question.check_out()
    return OwnCheck(tuple(findings), run, identity, grounds)


def _documents(
    question: Question, run: Run, identity: Ed25519PrivateKey | None, now: datetime, findings: list[Finding]
) -> str:
    me, protocol = question.me, question.protocol
    if question.corpus is None:
        findings.append(Finding(me, "documents", "not looked at: no --corpus"))
        return "not said"
    if question.clearance is None and not question.uncleared:
        findings.append(Finding(me, "clearance", "there is none", "clearance", mend("clearance")))
        return "not said"
    try:
        signer = _signer(question, identity)
        if question.clearance is not None and signer is None:
            findings.append(Finding(me, "clearance", "not looked at: the key comes first"))
            return "not said"
        entered = enter_documents(
            run,
            question.corpus,
            clearance=question.clearance,
            uncleared=question.uncleared,
            # Without a clearance nobody is asked who signed it.
            signer=signer or Ed25519PrivateKey.generate().public_key(),
            now=now,
            identity=identity,
        )
    except ClearanceError as error:
        what = CLEARANCE_MENDS[error.failed].format(key=question.key, protocol=protocol)
        findings.append(Finding(me, "clearance", one_line(str(error)), f"clearance-{error.failed}", what))
        return "not said"
    except KsdpError as error:
        code = next((code for word, code in _COLUMNS.items() if word in str(error)), "documents")
        findings.append(Finding(me, "documents", one_line(str(error)), code, mend(code, protocol=protocol)))
        return "not said"
    if (ledger := question.ledger) is not None:
        held, limits = entered.corpus, question.budget
        opened = partial(open_purse, run, held.hash, len(held), ledger, limits, lambda: now)
        findings.append(check_purse(me, opened, ledger, limits))
    on = "WITHOUT A CLEARANCE" if question.uncleared else "on their clearance"
    findings.append(Finding(me, "documents", f"{len(entered.corpus)} of {entered.of} enter {on}"))
    return "uncleared" if question.uncleared else "cleared"


def _signer(question: Question, identity: Ed25519PrivateKey | None) -> Ed25519PublicKey | None:
    if question.signer is not None:
        return load_public(question.signer)
    return identity.public_key() if identity is not None else None
