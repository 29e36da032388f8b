"""Misconfigurations of a PEM host, each planted, each named in one line with what mends it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from ksdp.extras.pem.check import PemQuestion, check_pem_here
from ksdp.flows.runs.check import Finding, PeerCheck, Question, check_here, dry_mesh, look
from ksdp.flows.runs.party import about_of
from ksdp.protocols.network.mesh import Peer
from ksdp.protocols.network.tls import make_credentials
from ksdp.storage.keys import load_private

from ...flows.runs.findings_said import of_cases, one_line, only_one
from ...flows.runs.test_check import used
from .hosts_here import Hosts

NOW = datetime.now(UTC)
LONG = 20.0


@pytest.fixture
def hosts(tmp_path: Path) -> Hosts:
    return Hosts(tmp_path).write()


def question(hosts: Hosts, me: str = "ada", **changes: Any) -> PemQuestion:
    asked = PemQuestion(hosts.folder / f"{me}.toml", me, hosts.folder / f"{me}.key", load_private)
    if me in hosts.holders:
        asked = replace(asked, data=hosts.folder / f"{me}.csv", client="ward")
    return replace(asked, **changes)


def written(hosts: Hosts, old: str, new: str) -> Path:
    path = hosts.folder / "ada.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    return path


def poor(hosts: Hosts) -> PemQuestion:
    (hosts.folder / "ada.budget.toml").write_text("[budget]\nepsilon = 1.0\n")
    return question(hosts)


def own(hosts: Hosts) -> Path:
    said = f'name = "own"\niterations = 1\nsays = "Mine()"\ncode = "sha256:{64 * "0"}"'
    return written(hosts, hosts.algorithm, said)


def no_colour(hosts: Hosts) -> Path:
    (hosts.folder / "other.csv").write_text("size,ward\n3,1\n")
    return hosts.folder / "other.csv"


HERE: list[tuple[str, Callable[[Hosts], PemQuestion], str, str]] = [
    ("unknown key", lambda h: question(h, protocol=written(h, "patience", "patients")), "file", "patients"),
    ("no aggregator", lambda h: question(h, protocol=written(h, '"hub"', '"ann"')), "file", "must list ann"),
    ("no public key", lambda h: question(h, protocol=written(h, "bob.pub", "none.pub")), "file", "none.pub"),
    ("a key twice", lambda h: question(h, protocol=written(h, "bob.pub", "ada.pub")), "file", "parties.key"),
    ("swapped names", lambda h: question(h, key=h.folder / "bob.key"), "whose", "key of bob, not of ada"),
    ("no data file", lambda h: question(h, data=h.folder / "none.csv"), "records", "none.csv"),
    ("a column is missing", lambda h: question(h, data=no_colour(h)), "records", "colour"),
    ("no such client column", lambda h: question(h, client="house"), "records", "house"),
    ("too many records of a client", lambda h: question(h, protocol=written(h, "rows = 40", "rows = 2")),
     "records", "allows 2"),
    ("both ways to say whose a record is", lambda h: question(h, clients=3), "records", "exclude each other"),
    ("records at a server", lambda h: question(h, "sue", data=h.folder / "ada.csv"), "none-held", "a server"),
    ("records at the aggregator", lambda h: question(h, "hub", clients=2), "none-held", "the aggregator"),
    ("functions that are not given", lambda h: question(h, protocol=own(h)), "functions", "go together"),
    ("functions of no file", lambda h: question(h, protocol=own(h), functions="none:Mine"), "functions", "none"),
    ("beyond the budget", poor, "budget", "beyond the budget"),
    ("result folder in use", lambda h: question(h, out=used(h)), "out", "result of a run already"),
]  # fmt: skip


@of_cases(HERE)
def test_what_is_wrong_here_is_named(
    hosts: Hosts, plant: Callable[[Hosts], PemQuestion], code: str, said: str
) -> None:
    only_one(check_pem_here(plant(hosts), NOW).findings, code, said)


@pytest.mark.parametrize("me", ["ada", "sue", "hub"])
def test_nothing_is_wrong_where_nothing_is(hosts: Hosts, me: str) -> None:
    here = check_pem_here(question(hosts, me), NOW)
    assert [finding.said for finding in here.findings if not finding.fine] == []
    assert here.identity is not None


def test_the_check_of_other_runs_says_where_to_go(hosts: Hosts) -> None:
    asked = Question(hosts.folder / "ada.toml", "ada", hosts.folder / "ada.key", load_private)
    (found,) = check_here(asked, NOW).findings
    assert found.code == "pem"
    one_line(found, "is of a run of PEM")
    assert "--check" in found.mend


# --- with others


def looked(hosts: Hosts, me: str, present: tuple[str, ...]) -> list[Finding]:
    """What `me` finds while others listen, each with its own protocol file."""
    found: list[Finding] = []

    async def play() -> None:
        doors = []
        for name in present:
            read = hosts.read(name)
            keys = {
                n.name: Ed25519PublicKey.from_public_bytes(n.identity)
                for n in read.who
                if n.name in read.speaks_with(name)
            }
            credentials = make_credentials(load_private(hosts.folder / f"{name}.key"), keys, now=NOW)
            about = about_of(read, "not said", NOW).to_bytes
            peers = {peer: Peer(peer, read.address(peer), key) for peer, key in keys.items()}
            door = dry_mesh(name, read.address(name), peers, credentials, about)
            doors.append(await door.__aenter__())
        read = hosts.read(me)
        key = load_private(hosts.folder / f"{me}.key")
        asked = PeerCheck(read, me, key, "not said", None, 0.0, LONG, lambda: NOW)
        try:
            await look(asked, found.append)
        finally:
            for door in doors:
                await door.__aexit__(None, None, None)

    asyncio.run(play())
    return found


def test_a_host_knocks_at_all_others(hosts: Hosts) -> None:
    """Sue dials those whose names come earlier."""
    found = [one for one in looked(hosts, "sue", present=("ada", "bob", "hub")) if one.party != "tom"]
    assert {finding.party: finding.fine for finding in found} == {
        "sue": True,
        "ada": True,
        "bob": True,
        "hub": True,
    }
