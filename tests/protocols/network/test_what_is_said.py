"""What somebody sees who reads the wire between two parties: TLS records, their lengths and their times."""

import asyncio

import numpy as np
import pytest
from scipy.stats import chisquare

from ksdp.protocols.programs.rounds import RunOutcome

from .conftest import all_ends, free_ports, parties, proxy

HANDSHAKE, APPLICATION, ALERT, CHANGE = 22, 23, 21, 20


def wire(seed: int) -> bytes:
    """All bytes from bob to ada in a run on the data of a seed."""
    seen: list[bytes] = []

    async def listen(number: int, data: bytes) -> bytes:
        seen.append(data)
        return data

    async def play() -> None:
        all_of = parties()
        for party in all_of.values():
            party.seed = seed
        (port,) = free_ports(1)
        all_of["bob"].ports["ada"] = port
        async with proxy(port, all_of["ada"].port, listen):
            ends = await all_ends(*(party.run() for party in all_of.values()))
        assert all(isinstance(end, RunOutcome) for end in ends), ends

    asyncio.run(play())
    return b"".join(seen)


def records(stream: bytes) -> list[tuple[int, bytes]]:
    """(type, payload) of every TLS record."""
    found, at = [], 0
    while at < len(stream):
        assert stream[at + 1 : at + 3] in (b"\x03\x01", b"\x03\x03")
        size = int.from_bytes(stream[at + 3 : at + 5], "big")
        found.append((stream[at], stream[at + 5 : at + 5 + size]))
        at += 5 + size
    assert at == len(stream)
    return found


@pytest.fixture(scope="module")
def two_runs() -> tuple[bytes, bytes]:
    return wire(0), wire(1)


def test_nothing_but_tls_records(two_runs: tuple[bytes, bytes]) -> None:
    """No frame, kind or name in the clear; the name of neither party, as certificates are encrypted too."""
    for stream in two_runs:
        kinds = [kind for kind, _ in records(stream)]
        assert set(kinds) <= {HANDSHAKE, CHANGE, APPLICATION}
        assert kinds.count(HANDSHAKE) == 1, "the client's first words"
        for word in (b"KSF1", b"ksdp1", b"greeting", b"pd-nmf"):
            assert word not in stream
        # Three letters stand in random bytes by chance, if once in a thousand streams; not twice.
        assert stream.count(b"bob") + stream.count(b"ada") < 2


def test_what_is_sent_looks_random(two_runs: tuple[bytes, bytes]) -> None:
    payload = b"".join(data for kind, data in records(two_runs[0]) if kind == APPLICATION)
    assert len(payload) > 4000
    counts = np.bincount(np.frombuffer(payload, dtype=np.uint8), minlength=256)
    assert chisquare(counts).pvalue > 1e-4


def test_lengths_do_not_depend_on_the_data(two_runs: tuple[bytes, bytes]) -> None:
    """From the first message on (handshakes hold certificates, whose serial numbers differ in length)."""
    first, second = ([len(data) for kind, data in records(s) if kind == APPLICATION] for s in two_runs)
    size = max(set(first), key=first.count)
    assert first.count(size) == second.count(size) == 8, "two topics, four sweeps: sums are equally long"
    begin, other = first.index(size), second.index(size)
    assert first[begin - 3 : begin + 9] == second[other - 3 : other + 9], "from the greeting to the result"
