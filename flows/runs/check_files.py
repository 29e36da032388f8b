"""What every node can check before a run, of whatever protocol: its file, its key, its budget, its folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ksdp.audit.errors import InputError, KsdpError, SpecError
from ksdp.flows.runs.budget import Purse, spent, spent_words
from ksdp.flows.runs.check_words import Finding, Meant, mend
from ksdp.protocols.channel.keys import Participant
from ksdp.storage.runs.results import require_no_result


@dataclass(frozen=True, eq=False)
class OwnCheck:
    """What a node found by itself, and what the check of its peers needs."""

    findings: tuple[Finding, ...]
    run: Meant | None
    identity: Ed25519PrivateKey | None
    """None where the key cannot be used for this run."""
    grounds: str


@dataclass(frozen=True)
class NodeQuestion:
    """What a command that takes part in a run would be given, whatever the run is."""

    protocol: Path
    me: str
    key: Path
    load: Callable[[Path], Ed25519PrivateKey]
    """Reads the key; a person may have to give its passphrase."""
    out: Path | None = None

    def refused(self, fault: str, code: str, what: str) -> OwnCheck:
        """All that can be said where the protocol file cannot be used."""
        return OwnCheck((Finding(self.me, "protocol", fault, code, what),), None, None, "not said")

    def unreadable(self, error: KsdpError) -> OwnCheck:
        """The same, of a file that cannot be read."""
        return self.refused(one_line(str(error)), "file", mend("file", protocol=self.protocol))

    def check_key(self, who: tuple[Participant, ...], findings: list[Finding]) -> Ed25519PrivateKey | None:
        """The key, if it is the one that the protocol file names; what is wrong is added to the findings."""
        me, path, names = self.me, self.key, [node.name for node in who]
        if me not in names:
            fault = f"{me!r} is not named in {self.protocol.name}"
            findings.append(Finding(me, "protocol", fault, "me", mend("me", names=", ".join(names))))
            return None
        try:
            identity = self.load(path)
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
            fault = f"{path.name} is not the key that {self.protocol.name} names for {me}"
            findings.append(Finding(me, "key", fault, "key-there", mend("key-there", peer="the organiser")))
        return None

    def check_out(self) -> list[Finding]:
        """Nothing, or that the folder of the result cannot be used."""
        if self.out is None:
            return []
        try:
            require_no_result(self.out)
        except InputError as error:
            return [Finding(self.me, "out", str(error), "out", mend("out"))]
        return []


def check_purse(me: str, opened: Callable[[], Purse], ledger: Path, limits: Path | None) -> Finding:
    """What was spent so far, or why this run is not within the budget.

    Parameters
    ----------
    opened : callable
        Opens the purse of the run.
    ledger, limits : Path
        The files that it is kept in and limited by.
    """
    try:
        purse = opened()
    except KsdpError as error:
        code = "budget-file" if isinstance(error, SpecError) else "budget"
        what = mend(code, ledger=ledger, budget=limits or "--budget")
        return Finding(me, "budget", one_line(str(error)), code, what)
    return Finding(me, "budget", spent_words(spent(purse.ledger), purse.budget.delta))


def one_line(text: str) -> str:
    """A refusal without its line feeds."""
    return " ".join(text.split())
