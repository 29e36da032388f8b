"""Runs are told of as they are made, and nothing of that stays."""

from pathlib import Path

import pytest

from ksdp.flows.audits.steps import Tally
from ksdp.flows.interruption import listening
from ksdp.flows.prepare import prepare_stored
from ksdp.tasks import blocks

from ..plans import planned
from ..topics import corpus_of_topics


class Heard(list[int]):
    """What a listener is told."""

    advance = list.append

    def stage(self, name: str, total: int) -> None:
        """Pass over."""

    def say(self, text: str) -> None:
        """Pass over."""


def test_runs_of_a_block_under_way_are_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_LOOK_SECONDS", 0.002)
    plan = planned(corpus_of_topics(), seed=0, design={"party_size": 30, "with_runs": 30})
    ready = prepare_stored(plan, tmp_path, may_sample=True)
    with listening(Heard()) as heard:
        tally = Tally()
        with blocks.followed(ready.ref, tally.tell):
            for block in ready.plan.blocks:
                tally(blocks.compute_block(ready.ref, block))
    assert sum(heard) == tally.runs == ready.plan.runs
    assert len(heard) > len(ready.plan.blocks)
    assert not list((tmp_path / "under-way").iterdir())


def test_runs_that_are_made_again_are_told_once() -> None:
    with listening(Heard()) as heard:
        tally = Tally()
        tally.tell(200)
        tally.tell(30)  # its worker died, another makes them again
        tally(blocks.BlockDone(256, "sampled"))
    assert heard == [200, 56]
