"""A party that is killed and started anew, at any place of its run: it says the very same, and goes on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.mechanisms.contract import Mechanism
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.factorisation.pd_svd import PDSVD, SigmaSVD
from ksdp.audit.mechanisms.privacy.dp_nmf import DPNMF
from ksdp.protocols.channel.rounds import Round
from ksdp.protocols.network.kept_run import Begun, DivergedError, KeptRun, begin_again, step_of
from ksdp.protocols.runs.party_rounds import party_rounds
from ksdp.protocols.runs.programs import Precision, party_program
from ksdp.protocols.runs.run_terms import RunTerms, Statement

from ..conftest import identity, participant

NAMES = ("ada", "bob", "cyd")
NMF = PDNMF(rank=2, sweeps=3, tolerance=0.0)
SVD = SigmaSVD(rank=2, solver="power", iterations=3, tolerance=0.0)
NOISY = DPNMF(rank=2, sweeps=2, epsilon=20.0, sampler="discrete")
HIDDEN = PDSVD(rank=1, solver="power", iterations=1, tolerance=0.0)
PHASES = ("made", "written", "sent", "came")


class Disk:
    """Entries; those that were not synced are lost with the power, if it goes."""

    def __init__(self) -> None:
        self.kept: list[tuple[int, bytes]] = []
        self.synced = 0
        self.gone = False

    def entries(self) -> Iterator[tuple[int, bytes]]:
        yield from list(self.kept)

    def add(self, kind: int, body: bytes) -> None:
        self.kept.append((kind, body))

    def sync(self) -> None:
        self.synced = len(self.kept)

    def remove(self) -> None:
        self.gone = True

    def lose_power(self) -> None:
        del self.kept[self.synced :]


def rows(name: str, seed: int = 0) -> sp.csr_array:
    rng = np.random.default_rng([NAMES.index(name), seed])
    return sp.csr_array(np.where(rng.random((6, 5)) < 0.7, rng.random((6, 5)), 0.0))


def noise(shape: tuple[int, ...], deviation: float) -> np.ndarray:
    return np.round(np.random.default_rng().normal(0.0, deviation, shape) * 2.0**31) * 2.0**-31


def side(mechanism: Mechanism, name: str, kept: KeptRun | None = None, seed: int = 0) -> Any:
    precision = Precision.widest(mechanism, 31, 3)
    terms = RunTerms(mechanism, 5, "sha256:0", precision, tuple(map(participant, NAMES)))
    program = party_program(mechanism, rows(name, seed), 3)
    sources: dict[str, Any] = {"noise": noise}
    if kept is not None:
        sources = {"noise": kept.noise(noise), "random_bytes": kept.random_bytes}
    return party_rounds(terms, name, identity(name), program, Statement(cleared=False), **sources)


def run(mechanism: Mechanism, kills: Collection[tuple[int, str]] = (), *, power: bool = False) -> Any:
    """Bob is killed at some (round, phase): the results, all that he said, how often he started, and his disk."""
    disk, wire = Disk(), defaultdict[tuple[str, int], set[bytes]](set)
    kept, rounds, begun = None, None, Begun()

    def start() -> None:
        nonlocal kept, rounds, begun
        if power:
            disk.lose_power()
        kept = KeptRun(disk)
        rounds = side(mechanism, "bob", kept)
        begun = begin_again(rounds, kept)
        for step in begun.sent:  # what peers may be sent again
            say(step)

    def say(step: Round) -> None:
        for peer, message in step.messages.items():
            wire[peer, step.number].add(message)

    start()
    others = {name: side(mechanism, name) for name in ("ada", "cyd")}
    steps = {name: step_of(each, None) for name, each in others.items()}
    left, told = set(kills), dict[int, dict[str, bytes]]()

    def killed(phase: str) -> bool:
        here = (begun.step.number, phase)
        if here in left:
            left.discard(here)
            start()
            return True
        return False

    while isinstance(begun.step, Round):
        number = begun.step.number
        if killed("made"):
            continue
        if not begun.pending:
            kept.sending(begun.step)
        if killed("written"):
            continue
        say(begun.step)
        if killed("sent"):
            continue
        told.setdefault(number, {name: steps[name].messages["bob"] for name in others})
        arrived = told[number]  # what is not on bob's disk is kept by the others
        kept.came(arrived)
        if (number, "came") in left:
            left.discard((number, "came"))
            start()
            if isinstance(begun.step, Round) and begun.step.number == number:  # not on the disk: it comes again
                continue
        else:
            begun = Begun(step_of(rounds, arrived), kept)
        if number == steps["ada"].number:
            heard = {
                name: {peer: steps[peer].messages[name] for peer in others if peer != name}
                | {"bob": next(iter(wire[name, number]))}
                for name in others
            }
            steps = {name: step_of(others[name], heard[name]) for name in others}
    assert not left, "every kill happened"
    return {"bob": begun.step} | steps, dict(wire), kept.attempt, disk


@pytest.mark.parametrize("mechanism", [NMF, SVD, NOISY], ids=lambda m: m.name)
@pytest.mark.parametrize("power", [False, True], ids=["killed", "power"])
def test_killed_everywhere_it_says_no_message_in_two_ways(mechanism: Mechanism, power: bool) -> None:
    """Secrets are the operating system's: what is equal is so because it was written down."""
    count = 1 + max(number for _, number in run(mechanism)[1])
    assert count > 6
    everywhere = [(number, phase) for number in range(count) for phase in PHASES]
    results, wire, attempts, _ = run(mechanism, everywhere, power=power)
    assert attempts == 1 + len(everywhere)
    assert set(wire) == {(peer, number) for peer in ("ada", "cyd") for number in range(count)}
    assert {len(said) for said in wire.values()} == {1}
    assert len({outcome.digest for outcome in results.values()}) == 1


@pytest.mark.e2e
def test_hidden_lengths_are_taken_up_again_too() -> None:
    """Oblivious transfers and masks of normed sums: drawn once, heard once, and computed again."""
    results, wire, attempts, _ = run(HIDDEN, [(3, "sent"), (5, "written"), (7, "came"), (9, "sent")])
    assert attempts == 5
    assert {len(said) for said in wire.values()} == {1}
    assert len({outcome.digest for outcome in results.values()}) == 1


@pytest.mark.parametrize("phase", PHASES)
def test_killed_once_it_says_no_message_in_two_ways(phase: str) -> None:
    for number in range(0, 9, 2):
        results, wire, attempts, _ = run(NMF, [(number, phase)])
        assert attempts == 2
        assert {len(said) for said in wire.values()} == {1}, number
        assert len({outcome.digest for outcome in results.values()}) == 1


def test_the_result_is_the_one_without_a_restart() -> None:
    plain, killed = run(NMF)[0]["bob"], run(NMF, [(5, "sent"), (7, "came")])[0]["bob"]
    assert plain.session != killed.session, "nonces are new in every run"
    np.testing.assert_array_equal(plain.result.public["T"], killed.result.public["T"])


def test_without_what_was_drawn_another_message_would_be_said() -> None:
    """What the other tests look at can differ: the same run again, from nothing, masks otherwise."""
    _, first, _, _ = run(NMF)
    _, second, _, _ = run(NMF)
    assert all(first[place].isdisjoint(second[place]) for place in first if place[1] in (0, 2, 3, 4))


def test_changed_documents_send_nothing() -> None:
    disk = run(NMF, [(6, "sent")])[3]
    disk.kept = disk.kept[: 2 + next(at for at, (kind, _) in reversed(list(enumerate(disk.kept))) if kind == 3)]
    kept = KeptRun(disk)
    with pytest.raises(DivergedError, match="Nothing was sent"):
        begin_again(side(NMF, "bob", kept, seed=1), kept)
    again = KeptRun(disk)
    assert begin_again(side(NMF, "bob", again), again).number > 6, "with the right ones it goes on"


def test_a_place_keeps_its_ticket_and_counts_its_processes() -> None:
    disk = Disk()
    first = KeptRun(disk)
    first.met({"ada": b"a" * 16, "cyd": b"c" * 16})
    first.sync()
    second = KeptRun(disk)
    assert (first.place.own, first.name) == (second.place.own, second.name)
    assert (first.attempt, second.attempt) == (1, 2)
    assert second.place.peers == {"ada": b"a" * 16, "cyd": b"c" * 16}
    assert KeptRun(Disk()).ticket != first.ticket


def test_what_was_drawn_is_given_once_more_and_then_never() -> None:
    disk = Disk()
    first = KeptRun(disk)
    drawn = [first.random_bytes(16), first.random_bytes(8)]
    again = KeptRun(disk)
    assert [again.random_bytes(16), again.random_bytes(8)] == drawn
    assert again.random_bytes(16) not in drawn
    with pytest.raises(DivergedError):
        KeptRun(disk).random_bytes(5)
