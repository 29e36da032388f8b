"""Hosts of a PEM run on this machine, a thread each; plain functions, because tests make several."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ksdp.audit.errors import KsdpError
from ksdp.audit.mechanisms.pem.algorithm import PemAlgorithm
from ksdp.extras.pem.hosts import HeldRecords, PemHosts, PemPrices, hold_records, read_pem_hosts, run_pem_host
from ksdp.flows.interruption import utc_now
from ksdp.flows.runs.budget import open_guard
from ksdp.flows.runs.party import Node, RunLog
from ksdp.storage.keys import load_private, make_identity

from ...ports import free_ports

KMEANS = 'name = "k-means"\nclusters = 2\niterations = 3\nbound = 3.0\nfraction_bits = 0'
COLOURS = ("red", "green", "blue")


@dataclass
class Hosts:
    """Files of all hosts in one folder: NAME.key, NAME.pub, NAME.csv."""

    folder: Path
    holders: tuple[str, ...] = ("ada", "bob")
    servers: tuple[str, ...] = ("sue", "tom")
    algorithm: str = KMEANS
    budget: str = "epsilon = 50.0"
    run: str = "rows = 40\npatience = 20"
    timeouts: str = "present = 20\nmessage = 20\nreconnect = 1"
    changed: Mapping[str, str] = field(default_factory=dict)
    """By host: text of the protocol file, as it has it, that differs; old and new with a bar between them."""

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.holders, *self.servers, "hub")

    def write(self, rows: int = 30) -> Hosts:
        rng = np.random.default_rng(5)
        for name in self.names:
            make_identity(self.folder, name)
        for name in self.holders:
            lines = [
                f"{COLOURS[c]},{s},{w}"
                for c, s, w in zip(
                    rng.integers(0, 3, rows), rng.integers(0, 100, rows), rng.integers(0, 3, rows), strict=True
                )
            ]
            (self.folder / f"{name}.csv").write_text("colour,size,ward\n" + "\n".join(lines) + "\n")
        parties = "".join(
            f'[[parties]]\nname = "{name}"\naddress = "127.0.0.1:{port}"\nkey = "{name}.pub"\n'
            for name, port in zip(self.names, free_ports(len(self.names)), strict=True)
        )
        text = (
            f'pem = 1\nservers = {list(self.servers)}\naggregator = "hub"\n'
            '[records]\nedges = { size = [20, 60] }\ncategories = { colour = ["red", "green", "blue"] }\n'
            f"[algorithm]\n{self.algorithm}\n[budget]\n{self.budget}\n[run]\n{self.run}\n"
            f"[timeouts]\n{self.timeouts}\n{parties}"
        )
        for name in self.names:
            old, _, new = self.changed.get(name, "|").partition("|")
            (self.folder / f"{name}.toml").write_text(text.replace(old, new) if old else text)
        return self

    def read(self, name: str) -> PemHosts:
        return read_pem_hosts(self.folder / f"{name}.toml")

    def held(self, name: str, clients: int | None = None, client: str | None = "ward") -> HeldRecords:
        whose = None if clients else client
        return hold_records(self.read(name), self.folder / f"{name}.csv", whose, clients)

    def play(
        self,
        absent: tuple[str, ...] = (),
        own: PemAlgorithm | None = None,
        code: str = "",
        watches: Mapping[str, RunLog] | None = None,
        ledger: Path | None = None,
        out: str = "out",
        **held: HeldRecords,
    ) -> dict[str, Any]:
        """What each host's run came to: what `run.json` says, or the error. The ledger is that of ada."""
        ends: dict[str, Any] = {}

        def go(name: str) -> None:
            try:
                watch, kept = (watches or {}).get(name), ledger if name == "ada" else None
                ends[name] = self.take_part(name, held.get(name), own, code, watch, kept, out)
            except (KsdpError, RuntimeError) as error:
                ends[name] = error

        threads = [threading.Thread(target=go, args=(name,)) for name in self.names if name not in absent]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return ends

    def take_part(
        self,
        name: str,
        held: HeldRecords | None = None,
        own: PemAlgorithm | None = None,
        code: str = "",
        log: RunLog | None = None,
        ledger: Path | None = None,
        out: str = "out",
    ) -> dict[str, Any]:
        hosts = self.read(name)
        role = hosts.terms.role(name)
        algorithm = None if role == "server" else hosts.spec.functions(own, code)
        records = (held or self.held(name)) if role == "holder" else None
        key = load_private(self.folder / f"{name}.key")
        host, guard = Node(hosts, name, key, self.folder / out / name, log=log or RunLog()), None
        if ledger is not None and records is not None:
            guard = open_guard(PemPrices(hosts.spec), records.hash, records.count, ledger, None, utc_now)
        return run_pem_host(host, algorithm=algorithm, records=records, guard=guard)
