"""What a party can check by itself before a run: its protocol file, its key, its documents and their clearance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ksdp.audit.errors import ClearanceError, InputError, KsdpError, SpecError
from ksdp.flows.runs.budget import open_purse, spent, spent_words
from ksdp.flows.runs.check_words import CLEARANCE_MENDS, Finding, Meant, mend
from ksdp.flows.runs.party_run import Entered, enter_documents
from ksdp.flows.runs.terms import Run, read_run
from ksdp.protocols.channel.keys import Participant
from ksdp.protocols.pem.pem_file import is_pem
from ksdp.storage.keys import load_public
from ksdp.storage.readers.toml import read_toml
from ksdp.storage.runs.results import require_no_result

__all__ = ["Here", "Question", "check_here", "check_key", "one_line"]

_COLUMNS = {"rows are not made": "rows", "features": "columns", "columns": "columns", "vocabulary": "columns"}
"""Words of refusals that are about columns, not about the file."""


@dataclass(frozen=True)
class Question:
    """What `ksdp party` would be given."""

    protocol: Path
    me: str
    key: Path
    load: Callable[[Path], Ed25519PrivateKey]
    """Reads the key; a person may have to give its passphrase."""
    corpus: Path | None = None
    clearance: Path | None = None
    signer: Path | None = None
    uncleared: bool = False
    out: Path | None = None
    ledger: Path | None = None
    budget: Path | None = None


@dataclass(frozen=True, eq=False)
class Here:
    """What was found, and what the rest of the check needs."""

    findings: tuple[Finding, ...]
    run: Meant | None
    identity: Ed25519PrivateKey | None
    """None where the key cannot be used for this run."""
    grounds: str


def check_here(question: Question, now: datetime) -> Here:
    """Look at everything that needs no network; a fault ends no more than it must."""
    me, findings = question.me, []
    try:
        if is_pem(read_toml(question.protocol, "the protocol file")):
            fault = f"{question.protocol.name} is of a run of PEM"
            what = mend("pem", protocol=question.protocol, me=me, key=question.key)
            return Here((Finding(me, "protocol", fault, "pem", what),), None, None, "not said")
        run = read_run(question.protocol)
    except KsdpError as error:
        what = mend("file", protocol=question.protocol)
        return Here((Finding(me, "protocol", one_line(str(error)), "file", what),), None, None, "not said")
    findings.append(Finding(me, "protocol", f"{question.protocol.name}, hash {run.terms.digest.hex()[:16]}"))
    identity = check_key(question.me, question.key, question.load, question.protocol, run.who, findings)
    grounds = "collects" if question.me == run.server else "not said"
    if question.me != run.server and question.me in {node.name for node in run.who}:
        grounds = _documents(question, run, identity, now, findings)
    if question.out is not None:
        try:
            require_no_result(question.out)
        except InputError as error:
            findings.append(Finding(me, "out", str(error), "out", mend("out")))
    return Here(tuple(findings), run, identity, grounds)


def check_key(
    me: str,
    path: Path,
    load: Callable[[Path], Ed25519PrivateKey],
    protocol: Path,
    who: tuple[Participant, ...],
    findings: list[Finding],
) -> Ed25519PrivateKey | None:
    """The key, if it is the one that the protocol file names; what is wrong is added to the findings."""
    names = [node.name for node in who]
    if me not in names:
        fault = f"{me!r} is not named in {protocol.name}"
        findings.append(Finding(me, "protocol", fault, "me", mend("me", names=", ".join(names))))
        return None
    try:
        identity = load(path)
    except InputError as error:
        code = "mode" if "chmod" in str(error) else "key"
        findings.append(Finding(me, "key", one_line(str(error)), code, mend(code, key=path, me=me)))
        return None
    whose = {node.identity: node.name for node in who}
    mine = identity.public_key().public_bytes_raw()
    if whose.get(mine) == me:
        findings.append(Finding(me, "key", f"{path.name} is the key that is named for {me}"))
        return identity
    if mine in whose:
        other = whose[mine]
        fault = f"{path.name} is the key of {other}, not of {me}: the names are swapped"
        findings.append(Finding(me, "key", fault, "whose", mend("whose", other=other, me=me)))
    else:
        fault = f"{path.name} is not the key that {protocol.name} names for {me}"
        findings.append(Finding(me, "key", fault, "key-there", mend("key-there", peer="the organiser")))
    return None


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
    _budget(question, run, entered, now, findings)
    on = "WITHOUT A CLEARANCE" if question.uncleared else "on their clearance"
    findings.append(Finding(me, "documents", f"{len(entered.corpus)} of {entered.of} enter {on}"))
    return "uncleared" if question.uncleared else "cleared"


def _signer(question: Question, identity: Ed25519PrivateKey | None) -> Ed25519PublicKey | None:
    if question.signer is not None:
        return load_public(question.signer)
    return identity.public_key() if identity is not None else None


def _budget(question: Question, run: Run, entered: Entered, now: datetime, findings: list[Finding]) -> None:
    if question.ledger is None:
        return
    me, ledger = question.me, question.ledger
    try:
        purse = open_purse(run, entered.corpus.hash, len(entered.corpus), ledger, question.budget, lambda: now)
        findings.append(Finding(me, "budget", spent_words(spent(purse.ledger), purse.budget.delta)))
    except KsdpError as error:
        code, limits = "budget-file" if isinstance(error, SpecError) else "budget", question.budget or "--budget"
        findings.append(
            Finding(me, "budget", one_line(str(error)), code, mend(code, ledger=ledger, budget=limits))
        )


def one_line(text: str) -> str:
    """A refusal without its line feeds."""
    return " ".join(text.split())
