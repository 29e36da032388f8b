"""A dry run: as far as a run goes before data, with every peer that is there."""

from __future__ import annotations

import asyncio
from typing import Any

from ksdp.audit.randomness import os_random
from ksdp.flows.runs.party import AgreedRun, Node, peers_of
from ksdp.protocols.channel.rounds import RoundEngine
from ksdp.protocols.network.links import RUNS, LinkTimes
from ksdp.protocols.network.mesh import run_over_mesh
from ksdp.protocols.programs.rounds import compare


def _note(**event: Any) -> None:
    """Nothing is written down."""


def check_peers(node: Node[AgreedRun], wait: float) -> dict[str, str]:
    """Connect with all peers as a run does, compare greetings, and part."""
    peers = peers_of(node.run, node.name)
    patience = dict.fromkeys(peers, wait)
    mesh = node.mesh(limit=0, times=LinkTimes(), note=_note, patience=patience, checks=True)
    greeted = compare(RoundEngine(node.name, tuple(peers)), node.run.said, os_random)

    async def play() -> dict[str, str]:
        async with mesh:
            said = await run_over_mesh(greeted, mesh, present=wait, note=_note)
            for name in peers.keys() - said.keys():
                lost = mesh.links[name].failed.result()
                said[name] = "" if lost.word == RUNS else str(lost)
        return dict(sorted(said.items()))

    return asyncio.run(play())
