"""What a party can check by itself before a run: its protocol file, its key, its documents and their clearance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ksdp.audit.errors import ClearanceError, InputError, KsdpError
from ksdp.flows.runs.budget import open_purse, spent, spent_words
from ksdp.flows.runs.check_words import CLEARANCE_MENDS, Finding, mend
from ksdp.flows.runs.party_run import Entered, enter_documents
from ksdp.flows.runs.terms import Run, read_run
from ksdp.storage.keys import load_public
from ksdp.storage.runs.results import require_no_result

__all__ = ["Here", "Question", "check_here"]

_COLUMNS = ("features", "columns", "vocabulary", "rows are not made")
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
    run: Run | None
    identity: Ed25519PrivateKey | None
    """None where the key cannot be used for this run."""
    grounds: str


def check_here(question: Question, now: datetime) -> Here:
    """Look at everything that needs no network; a fault ends no more than it must."""
    me, found = question.me, []
    try:
        run = read_run(question.protocol)
    except KsdpError as error:
        said = _one_line(str(error))
        return Here(
            (Finding(me, "protocol", said, "file", mend("file", protocol=question.protocol)),),
            None,
            None,
            "not said",
        )
    found.append(Finding(me, "protocol", f"{question.protocol.name}, hash {run.terms.digest.hex()[:16]}"))
    identity = _key(question, run, found)
    grounds = "collects" if question.me == run.server else "not said"
    if question.me != run.server and question.me in _names(run):
        grounds = _documents(question, run, identity, now, found)
    if question.out is not None:
        try:
            require_no_result(question.out)
        except InputError as error:
            found.append(Finding(me, "out", str(error), "out", mend("out")))
    return Here(tuple(found), run, identity, grounds)


def _names(run: Run) -> tuple[str, ...]:
    return tuple(node.name for node in run.terms.nodes)


def _key(question: Question, run: Run, found: list[Finding]) -> Ed25519PrivateKey | None:
    me, path = question.me, question.key
    if me not in _names(run):
        said = f"{me!r} is not named in {question.protocol.name}"
        found.append(Finding(me, "protocol", said, "me", mend("me", names=", ".join(_names(run)))))
        return None
    try:
        identity = question.load(path)
    except InputError as error:
        code = "mode" if "chmod" in str(error) else "key"
        found.append(Finding(me, "key", _one_line(str(error)), code, mend(code, key=path, me=me)))
        return None
    whose = {node.identity: node.name for node in run.terms.nodes}
    mine = identity.public_key().public_bytes_raw()
    if whose.get(mine) == me:
        found.append(Finding(me, "key", f"{path.name} is the key that is named for {me}"))
        return identity
    if mine in whose:
        other = whose[mine]
        said = f"{path.name} is the key of {other}, not of {me}: the names are swapped"
        found.append(Finding(me, "key", said, "whose", mend("whose", other=other, me=me)))
    else:
        said = f"{path.name} is not the key that {question.protocol.name} names for {me}"
        found.append(Finding(me, "key", said, "key-there", mend("key-there", peer="the organiser")))
    return None


def _documents(
    question: Question, run: Run, identity: Ed25519PrivateKey | None, now: datetime, found: list[Finding]
) -> str:
    me, protocol = question.me, question.protocol
    if question.corpus is None:
        found.append(Finding(me, "documents", "not looked at: no --corpus"))
        return "not said"
    if question.clearance is None and not question.uncleared:
        found.append(Finding(me, "clearance", "there is none", "clearance", mend("clearance")))
        return "not said"
    try:
        signer = _signer(question, identity)
        if question.clearance is not None and signer is None:
            found.append(Finding(me, "clearance", "not looked at: the key comes first"))
            return "not said"
        entered = enter_documents(
            run,
            question.corpus,
            clearance=question.clearance,
            uncleared=question.uncleared,
            # Without a clearance nobody is asked who signed it.
            signer=signer or Ed25519PrivateKey.generate().public_key(),
            now=now,
        )
    except ClearanceError as error:
        what = CLEARANCE_MENDS[error.failed].format(key=question.key, protocol=protocol)
        found.append(Finding(me, "clearance", _one_line(str(error)), f"clearance-{error.failed}", what))
        return "not said"
    except KsdpError as error:
        code = "columns" if any(word in str(error) for word in _COLUMNS) else "documents"
        found.append(Finding(me, "documents", _one_line(str(error)), code, mend(code, protocol=protocol)))
        return "not said"
    _budget(question, run, entered, now, found)
    on = "WITHOUT A CLEARANCE" if question.uncleared else "on their clearance"
    found.append(Finding(me, "documents", f"{len(entered.corpus)} of {entered.of} enter {on}"))
    return "uncleared" if question.uncleared else "cleared"


def _signer(question: Question, identity: Ed25519PrivateKey | None) -> Ed25519PublicKey | None:
    if question.signer is not None:
        return load_public(question.signer)
    return identity.public_key() if identity is not None else None


def _budget(question: Question, run: Run, entered: Entered, now: datetime, found: list[Finding]) -> None:
    if question.ledger is None:
        return
    me, ledger = question.me, question.ledger
    try:
        purse = open_purse(run, entered.corpus.hash, len(entered.corpus), ledger, question.budget, lambda: now)
        found.append(Finding(me, "budget", spent_words(spent(purse.ledger), purse.budget.delta)))
    except KsdpError as error:
        limits = question.budget or "--budget"
        found.append(
            Finding(me, "budget", _one_line(str(error)), "budget", mend("budget", ledger=ledger, budget=limits))
        )


def _one_line(text: str) -> str:
    return " ".join(text.split())
