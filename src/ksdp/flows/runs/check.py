"""A dry run, to the point where data would leave: what this party can look at itself, and every peer, hop by hop.

Each fault is one line: at whom it is, and what mends it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ksdp.audit.errors import ClearanceError, InputError, KsdpError, ProtocolError, SpecError
from ksdp.flows.interruption import Clock
from ksdp.flows.runs.budget import BudgetGuard, open_guard, spent, spent_words
from ksdp.flows.runs.party import AgreedRun, about_of, enter_documents, peers_of
from ksdp.flows.runs.protocol_files import Run, read_protocol_file, read_run
from ksdp.protocols.channel.keys import Participant
from ksdp.protocols.network.links import LinkTimes
from ksdp.protocols.network.mesh import Address, ListenError, Mesh, Peer
from ksdp.protocols.network.probes import ProbeError, probe
from ksdp.protocols.network.tls import Credentials, make_credentials
from ksdp.protocols.programs.run_terms import LARGEST_ABOUT, About, different_terms, who_must_be_trusted
from ksdp.storage.keys import load_public
from ksdp.storage.runs.results import require_no_result
from ksdp.tasks.provenance import code_hash


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    party: str
    """At which party."""
    hop: str
    """What was looked at: `protocol`, `key`, `documents`, `budget`, `clearance`, `listen`, `name`, `connect`,
    `tls`, `certificate`, `clock`, `version`, `terms`, `signatures`, `trust`, `answer`."""
    said: str
    """In one line."""
    code: str = ""
    """Which fault it is; empty where there is none."""
    mend: str = ""
    """What to do."""

    @classmethod
    def fault(cls, party: str, hop: str, said: str, code: str, **words: object) -> Finding:
        """Something wrong, with what mends it: `MENDS` of its code, filled in with these words.

        Examples
        --------
        >>> Finding.fault("ada", "key", "is read by others", "mode", key="ada.key").mend
        'chmod 600 ada.key'
        """
        return cls(party, hop, one_line(said), code, MENDS[code].format(**words))

    @property
    def fine(self) -> bool:
        """Whether nothing is wrong."""
        return not self.code

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        names = ("party", "hop", "said", "code", "mend")
        return {name: getattr(self, name) for name in names} | {"fine": self.fine}


MENDS: Mapping[str, str] = {
    "file": "correct that line in {protocol}, at all parties",
    "me": "--me must be one of {names}",
    "whose": "--me {other}, or --key with the key of {me}",
    "key": "ksdp keys {me}, or --key where it is",
    "mode": "chmod 600 {key}",
    "documents": "--corpus with the spec or count matrix of this party's documents",
    "pem": "ksdp pem {protocol} --me {me} --key {key} --check",
    "records": "--data with a file whose records are as [records] of {protocol} says",
    "functions": "--functions MODULE:OBJECT of the file that all agreed on, in this folder",
    "none-held": "leave --data out: {me} holds no clients",
    "columns": "[corpus] vocabulary (tables: columns) as {protocol} means; `ksdp columns SPEC` shows what it has",
    "rows": "[corpus] weighting, idf, rows, levers as all agreed; `ksdp columns SPEC` prints its `features.rows`",
    "clearance": "--clearance FILE (`ksdp clear` makes it), or --uncleared",
    "budget-file": "correct {budget}",
    "budget": "ksdp budget {ledger}; more noise in the protocol, or another limit in {budget}",
    "out": "--out with another folder",
    "taken": "ss -ltnp 'sport = :{port}' names it; stop it, or --listen with another port that is forwarded here",
    "not-here": "--listen 0.0.0.0:{port} (or [::]:{port}), and a firewall that forwards {address} to it",
    "not-allowed": "--listen 0.0.0.0:PORT with a port above 1023 that is forwarded here",
    "listen": "--listen HOST:{port}",
    "name": "getent hosts {host}; correct `address` of {peer}; all sign the protocol file again",
    "refused": "at {peer}: ksdp party --check ..., and {address} must lead to where it listens (--listen)",
    "silent": "nc -vz {host} {port}; let TCP to {address} through the firewalls of {peer} and of this network",
    "route": "ip route get {host}; correct `address` of {peer}, or the route",
    "mute": "at {peer}: ss -ltnp 'sport = :{port}'; lead the port to ksdp itself, not to a balancer that waits",
    "tls": "correct `address` of {peer}: something else listens there",
    "not-tls": "correct `address` of {peer}: something else listens there",
    "hung-up": "at {peer}: ksdp party --check ... says why; a proxy on the way must pass TCP through",
    "proxy": "let the proxy pass TCP through to {peer} (no TLS termination, no inspection), or use another port",
    "key-there": "compare the protocol file's key of {peer} with its .pub file, by telephone",
    "swapped": "correct the addresses of {peer} and of who answers there; all sign the protocol file again",
    "date": "at {peer}: timedatectl set-ntp true",
    "clock": "timedatectl set-ntp true, at whoever is wrong",
    "refuses-us": "compare the key of {me} in the protocol files of {peer} and here",
    "old": "at {peer}: install ksdp {ksdp}",
    "version": "install the same ksdp at both: {ksdp} here",
    "terms": "agree on one protocol file, the same at both",
    "signatures": "each of them: ksdp party {protocol} --me NAME --key NAME.key --accept",
    "nobody": "at {peer}: ksdp party --check ...; it must reach {own}",
    "uncleared": "at {peer}: ksdp clear, and --clearance",
    "clearance-file": "--clearance with a file of `ksdp clear`",
    "clearance-content": "copy the clearance again from where it was made: this one was changed",
    "clearance-signature": "copy the clearance again from where it was made: this one was changed",
    "clearance-signer": "--signer FILE.pub of who signed it, or sign with this key: ksdp clear ... --key {key}",
    "clearance-early": "timedatectl set-ntp true, or wait",
    "clearance-expired": "ksdp clear again",
    "clearance-corpus": "--corpus with the corpus that was audited, or audit this one: ksdp clear SPEC",
    "clearance-mechanism": "audit the mechanism of {protocol}: its [mechanism] in the spec, then ksdp clear SPEC",
    "clearance-spec": "--corpus with the spec that the clearance was made from",
    "clearance-drawn": "`ksdp clear` with the spec that is run: its `corpus.levers.drawn` is what is cleared",
    "clearance-sizes": "audit the size that enters: it as `design.party_size` in the spec, then ksdp clear SPEC",
    "clearance-coverage": "audit what the run opens: the same `opens` in the spec, then ksdp clear SPEC",
}
"""By fault; words in braces are filled in."""


@dataclass(frozen=True, eq=False)
class OwnCheck:
    """What a node found by itself, and what the check of its peers needs."""

    findings: tuple[Finding, ...]
    run: AgreedRun | None
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

    def refused(self, fault: str, code: str, **words: object) -> OwnCheck:
        """All that can be said where the protocol file cannot be used."""
        found = Finding.fault(self.me, "protocol", fault, code, protocol=self.protocol, **words)
        return OwnCheck((found,), None, None, "not said")

    def check_key(self, who: tuple[Participant, ...], findings: list[Finding]) -> Ed25519PrivateKey | None:
        """The key, if it is the one that the protocol file names; what is wrong is added to the findings."""
        me, path, names = self.me, self.key, [node.name for node in who]
        if me not in names:
            fault = f"{me!r} is not named in {self.protocol.name}"
            findings.append(Finding.fault(me, "protocol", fault, "me", names=", ".join(names)))
            return None
        try:
            identity = self.load(path)
        except InputError as error:
            code = "mode" if "chmod" in str(error) else "key"
            findings.append(Finding.fault(me, "key", str(error), code, key=path, me=me))
            return None
        whose = {node.identity: node.name for node in who}
        mine = identity.public_key().public_bytes_raw()
        if whose.get(mine) == me:
            findings.append(Finding(me, "key", f"{path.name} is the key that is named for {me}"))
            return identity
        if mine in whose:
            other = whose[mine]
            fault = f"{path.name} is the key of {other}, not of {me}: the names are swapped"
            findings.append(Finding.fault(me, "key", fault, "whose", other=other, me=me))
        else:
            fault = f"{path.name} is not the key that {self.protocol.name} names for {me}"
            findings.append(Finding.fault(me, "key", fault, "key-there", peer="the organiser"))
        return None

    def check_out(self) -> list[Finding]:
        """Nothing, or that the folder of the result cannot be used."""
        if self.out is None:
            return []
        try:
            require_no_result(self.out)
        except InputError as error:
            return [Finding.fault(self.me, "out", str(error), "out")]
        return []


def check_budget(me: str, opened: Callable[[], BudgetGuard], ledger: Path, limits: Path | None) -> Finding:
    """What was spent so far, or why this run is not within the budget.

    Parameters
    ----------
    opened : callable
        Opens the guard of the run.
    ledger, limits : Path
        The files that it is kept in and limited by.
    """
    try:
        guard = opened()
    except KsdpError as error:
        code = "budget-file" if isinstance(error, SpecError) else "budget"
        return Finding.fault(me, "budget", str(error), code, ledger=ledger, budget=limits or "--budget")
    return Finding(me, "budget", spent_words(spent(guard.ledger), guard.budget.delta))


def one_line(text: str) -> str:
    """A refusal without its line feeds."""
    return " ".join(text.split())


_COLUMNS = {"rows are not made": "rows", "features": "columns", "columns": "columns", "vocabulary": "columns"}
"""Words of refusals that are about columns, not about the file."""


@dataclass(frozen=True)
class Question(NodeQuestion):
    """What `ksdp party` would be given."""

    corpus: Path | None = None
    clearance: Path | None = None
    signer: Path | None = None
    uncleared: bool = False
    reviews: Path | None = None
    ledger: Path | None = None
    budget: Path | None = None


def check_here(question: Question, now: datetime) -> OwnCheck:
    """Look at everything that needs no network; a fault ends no more than it must."""
    me, findings = question.me, []
    try:
        if "pem" in read_protocol_file(question.protocol).tables:
            fault = f"{question.protocol.name} is of a run of PEM"
            return question.refused(fault, "pem", me=me, key=question.key)
        run = read_run(question.protocol)
    except KsdpError as error:
        return question.refused(str(error), "file")
    findings.append(Finding(me, "protocol", f"{question.protocol.name}, hash {run.terms.digest.hex()[:16]}"))
    if faults := "; ".join(run.file.faults() if run.file.signatures else ()):
        findings.append(Finding.fault(me, "signatures", faults, "signatures", protocol=question.protocol))
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
        findings.append(Finding.fault(me, "clearance", "there is none", "clearance"))
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
            reviews=question.reviews,
        )
    except ClearanceError as error:
        words = {"key": question.key, "protocol": protocol}
        findings.append(Finding.fault(me, "clearance", str(error), f"clearance-{error.failed}", **words))
        return "not said"
    except KsdpError as error:
        code = next((code for word, code in _COLUMNS.items() if word in str(error)), "documents")
        findings.append(Finding.fault(me, "documents", str(error), code, protocol=protocol))
        return "not said"
    if (ledger := question.ledger) is not None:
        held, limits = entered.corpus, question.budget
        opened = partial(open_guard, run, held.hash, len(held), ledger, limits, lambda: now)
        findings.append(check_budget(me, opened, ledger, limits))
    on = "WITHOUT A CLEARANCE" if question.uncleared else "on their clearance"
    findings.append(Finding(me, "documents", f"{len(entered.corpus)} of {entered.of} enter {on}"))
    findings += [Finding(me, "excluded", one_line(line)) for line in (entered.exclusions, *entered.excluded)]
    return "uncleared" if question.uncleared else "cleared"


def _signer(question: Question, identity: Ed25519PrivateKey | None) -> Ed25519PublicKey | None:
    if question.signer is not None:
        return load_public(question.signer)
    return identity.public_key() if identity is not None else None


_CLOCKS = 300.0
"""Seconds that two clocks may differ: dates of clearances and of certificates are days."""
_PAUSE = 0.3
_AGAIN = frozenset({"refused", "mute", "silent", "hung-up", "name"})
"""What may pass: the other end is started, or mended, while this one waits."""


@dataclass(frozen=True, eq=False)
class PeerCheck:
    """Who looks, how long, and by which clock."""

    run: AgreedRun
    me: str
    identity: Ed25519PrivateKey
    grounds: str
    listen: Address | None
    wait: float
    """Seconds for peers to come."""
    hop: float
    """Seconds for each hop."""
    clock: Clock


def check_peers(asked: PeerCheck, tell: Callable[[Finding], None]) -> tuple[Finding, ...]:
    """Listen, probe those whose names come earlier, wait for those whose names come later; compare.

    Parameters
    ----------
    tell : callable
        Told of each finding as it is made.
    """
    findings: list[Finding] = []

    def note(finding: Finding) -> None:
        findings.append(finding)
        tell(finding)

    asyncio.run(look(asked, note))
    return tuple(findings)


async def look(asked: PeerCheck, note: Callable[[Finding], None]) -> None:
    """The same within an event loop."""
    run, me = asked.run, asked.me
    peers = peers_of(run, me)
    keys = {name: peer.key for name, peer in peers.items()}
    credentials = make_credentials(asked.identity, keys, now=asked.clock())
    listen = asked.listen or run.address(me)

    def say() -> bytes:
        return about_of(run, asked.grounds, asked.clock()).to_bytes()

    mesh = dry_mesh(me, listen, peers, credentials, say)
    async with contextlib.AsyncExitStack() as stack:
        listens = True
        try:
            await stack.enter_async_context(mesh)
            note(Finding(me, "listen", f"{listen} is free"))
        except ListenError as error:
            listens = False
            words = {"port": listen.port, "address": run.address(me), "host": listen.host, "peer": me}
            note(Finding.fault(me, "listen", str(error), error.code, **words))
        looks = [_dial(asked, peer, credentials, keys, say, note) for name, peer in peers.items() if name < me]
        looks += [_await(asked, mesh, name, note) for name in keys if name > me and listens]
        await asyncio.gather(*looks)


def dry_mesh(
    me: str, listen: Address, peers: Mapping[str, Peer], credentials: Credentials, say: Callable[[], bytes]
) -> Mesh:
    """The mesh of a run, before it joins: it answers those who check and those who run, and takes no part."""
    return Mesh(
        me, listen, peers, credentials, limit=0, times=LinkTimes(), observe=lambda what, peer: None, about=say
    )


async def _dial(
    asked: PeerCheck,
    peer: Peer,
    credentials: Credentials,
    keys: dict[str, Ed25519PublicKey],
    say: Callable[[], bytes],
    note: Callable[[Finding], None],
) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + asked.wait
    while True:
        try:
            heard = await probe(peer, credentials, keys, say(), seconds=asked.hop, limit=LARGEST_ABOUT)
        except ProbeError as error:
            if error.code in _AGAIN and loop.time() < end:
                await asyncio.sleep(_PAUSE)
                continue
            at, code = peer.address, "key-there" if error.code == "key" else error.code
            words = {"peer": peer.name, "address": at, "host": at.host, "port": at.port, "me": asked.me}
            note(Finding.fault(peer.name, error.hop, str(error), code, **words, ksdp=version("ksdp")))
            return
        except ProtocolError as error:
            note(_too_old(peer.name, error))
            return
        for finding in compare(asked.run, peer.name, heard, asked.clock()):
            note(finding)
        return


async def _await(asked: PeerCheck, mesh: Mesh, name: str, note: Callable[[Finding], None]) -> None:
    async def here() -> None:
        async with mesh.came:
            await mesh.came.wait_for(lambda: name in mesh.heard)

    try:
        await asyncio.wait_for(here(), asked.wait)
    except TimeoutError:
        own = asked.run.address(asked.me)
        why = mesh.noticed or "its own check says why"
        fault = f"{name} has not knocked at {own} within {asked.wait:g} s: {why}"
        note(Finding.fault(name, "connect", fault, "nobody", peer=name, own=own))
        return
    heard = mesh.heard[name]
    if heard is None:
        note(Finding(name, "answer", f"{name} reaches this party, and waits in a run already"))
        return
    for finding in compare(asked.run, name, heard, asked.clock()):
        note(finding)


def _too_old(peer: str, error: ProtocolError) -> Finding:
    return Finding.fault(peer, "answer", f"{peer} {error}", "old", peer=peer, ksdp=version("ksdp"))


def compare(run: AgreedRun, peer: str, heard: bytes, now: datetime) -> list[Finding]:
    """What a peer says of itself beside what is so here."""
    try:
        there = About.from_bytes(heard)
    except ProtocolError as error:
        return [_too_old(peer, error)]
    findings: list[Finding] = []
    ours = version("ksdp")
    if there.ksdp != ours:
        fault = f"{peer} has ksdp {there.ksdp}, this is {ours}"
        findings.append(Finding.fault(peer, "version", fault, "version", ksdp=ours))
    elif there.code != code_hash():
        fault = f"{peer} has ksdp {ours} too, and other code ({there.code[:8]}; {code_hash()[:8]} here)"
        findings.append(Finding.fault(peer, "version", fault, "version", ksdp=ours))
    off = there.clock - now.timestamp()
    if abs(off) > _CLOCKS:
        how = f"{abs(off) / 60:.0f} minutes {'ahead of' if off > 0 else 'behind'} the clock here"
        findings.append(Finding.fault(peer, "clock", f"the clock of {peer} is {how}", "clock"))
    findings += [Finding.fault(peer, "terms", line, "terms") for line in different_terms(run.said, there.terms)]
    if there.grounds == "uncleared":
        findings.append(Finding(peer, "clearance", f"{peer} enters its documents WITHOUT A CLEARANCE"))
    if all(finding.fine for finding in findings):
        findings.insert(0, Finding(peer, "terms", f"{peer} is there, with its key, and means the same run"))
    return findings
