"""Who disappears in the middle ends every run that needs everybody, and all others say who it was."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ksdp.audit.contract import Mechanism
from ksdp.audit.errors import ProtocolError
from ksdp.audit.registry import make_mechanism
from ksdp.protocols.channel.keys import Participant
from ksdp.protocols.network.links import LinkTimes
from ksdp.protocols.network.mesh import run_over_mesh
from ksdp.protocols.programs.programs import Precision, party_program, program_of
from ksdp.protocols.programs.rounds import RunOutcome, party_rounds, server_rounds
from ksdp.protocols.programs.run_terms import RunTerms, Statement

from .conftest import FEATURES, NAMES, Party, all_ends, free_ports, party_matrix

NOISE = {"rank": 2, "sampler": "discrete"}
RUNS: list[tuple[str, dict[str, Any], str]] = [
    ("pd-nmf", {"rank": 2, "sweeps": 4, "tolerance": 0.0}, "bob"),
    ("pd-svd", {"rank": 2, "solver": "power", "iterations": 2, "tolerance": 0.0}, "cyd"),
    ("hardt-roth", {"iterations": 3, "epsilon": 2.0, **NOISE}, "bob"),
    ("fedpower", {"iterations": 4, "period": 2, "noise": 0.01, "central_noise": 0.02, **NOISE}, "bob"),
    ("fedpower", {"iterations": 4, "period": 2, "noise": 0.01, "central_noise": 0.02, **NOISE}, "hub"),
    ("dpdispca", {"intermediate": 4, "epsilon": 8.0, **NOISE}, "hub"),
    ("fedpower-utility", {"iterations": 2, "period": 1, "noise": 0.3, "row_bound": 2.0, **NOISE}, "bob"),
    ("fedpower-utility", {"iterations": 2, "period": 1, "noise": 0.3, "row_bound": 2.0, **NOISE}, "hub"),
]
"""Mechanism, parameters, who is lost."""
_LAST_SAID = 3
"""The round in which it says its last: keys are agreed on, the algorithm has begun."""


class Lost(BaseException):
    """The process is gone: it tells nobody."""


class LosableNode(Party):
    """A party or the server of a run."""

    lost = False

    def note(self, **event: Any) -> None:
        super().note(**event)
        if self.lost and (event["what"], event.get("round")) == ("received", _LAST_SAID):
            raise Lost

    @property
    def terms(self) -> RunTerms:
        who = {n: Participant(n, self.keys[n].public_key().public_bytes_raw()) for n in self.names}
        bound = 2.0**12
        parties = tuple(who[name] for name in NAMES)
        return RunTerms(self.mechanism, FEATURES, "sha256:0", Precision(31, bound), parties, who.get("hub"))

    async def run(self) -> RunOutcome:
        if self.name == "hub":
            rounds = server_rounds(self.terms)
        else:
            program = party_program(self.mechanism, party_matrix(self.name), len(NAMES))
            rounds = party_rounds(self.terms, self.name, self.identity, program, Statement(cleared=False))
        mesh = self.mesh()
        if self.lost:
            mesh.abort = _nobody_is_told  # type: ignore[method-assign]
        async with mesh:
            return await run_over_mesh(rounds, mesh, present=self.present, note=self.note)


async def _nobody_is_told(word: str, who: str = "") -> None:
    pass


def nodes(mechanism: Mechanism, lost: str) -> dict[str, LosableNode]:
    names = (*NAMES, "hub") if program_of(mechanism).server else NAMES
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    keys = {name: Ed25519PrivateKey.generate() for name in names}
    made = {name: LosableNode(name, names, ports, keys) for name in names}
    for name, node in made.items():
        node.mechanism, node.lost, node.present = mechanism, name == lost, 60.0
        node.times = replace(LinkTimes(message=120.0), reconnect=0.3)
    return made


@pytest.mark.parametrize(("name", "parameters", "lost"), RUNS, ids=[f"{n}-{lost}" for n, _, lost in RUNS])
def test_all_others_say_who_is_gone(name: str, parameters: dict[str, Any], lost: str) -> None:
    mechanism = make_mechanism(name, parameters, installed=True)

    async def play() -> dict[str, RunOutcome | BaseException]:
        made = nodes(mechanism, lost)
        return dict(zip(made, await all_ends(*(node.run() for node in made.values())), strict=True))

    ends = asyncio.run(play())
    assert isinstance(ends.pop(lost), Lost)
    for who, end in ends.items():
        assert isinstance(end, ProtocolError), (who, end)
        assert str(end).startswith(f"{lost} disappeared: "), (who, str(end))
