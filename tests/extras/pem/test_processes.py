"""PEM among real processes: clients, servers, an aggregator; failures; vetted noise."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.mechanisms.pem.algorithm import run_ideal
from ksdp.audit.mechanisms.pem.functions import PemKMeans
from ksdp.audit.mechanisms.pem.noise import Budget, Vetted
from ksdp.extras.pem import processes
from ksdp.extras.pem.processes import ClientJob, Fate, _connect, _Door, _pass, run_pem
from ksdp.extras.pem.spec import PemRunSpec
from ksdp.protocols.network.links import FrameStream

ALGORITHM = PemKMeans(2, 6, bound=6.0, fraction_bits=0)
RECORDS = sp.csr_array((np.random.default_rng(0).random((60, 6)) < 0.5).astype(float))


def jobs(*fates: Fate | None) -> list[ClientJob]:
    return [ClientJob(f"client {i}", RECORDS[10 * i : 10 * i + 10], fate) for i, fate in enumerate(fates)]


@pytest.mark.e2e
def test_processes_come_to_the_ideal_result_and_say_what_drew_the_noise() -> None:
    """Epsilon so large that noise is 0 but with probability 1e-20: the processes must find the exact centres."""
    budget = Budget(1e4, 4)
    result = run_pem(ALGORITHM, jobs(*[None] * 6), budget)
    ideal = run_ideal(ALGORITHM, [RECORDS], budget, Vetted(), noises=2)
    np.testing.assert_array_equal(result.state.arrays["centres"], ideal.final.arrays["centres"])
    assert result.rows == (60,) * 4
    assert result.epsilon == 1e4
    assert "OpenDP" in result.sampler
    assert result.refused == 0
    assert len(result.present) == 6
    # Six clients, two servers, four iterations, 14 entries of 8 bytes each; the rest is frames and seals.
    assert 6 * 2 * 4 * 14 * 8 < result.sent["clients"] < 6 * 2 * 4 * 14 * 8 * 5


@pytest.mark.e2e
def test_a_client_that_falls_silent_is_removed() -> None:
    fates = (None, Fate(1), None, Fate(2, halfway=True))
    run = PemRunSpec(servers=3, patience=1.5, sampler="fast", seed=1, field_bits=32)
    result = run_pem(ALGORITHM, jobs(*fates), Budget(5.0, 4), run)
    assert result.rows == (40, 30, 20, 20)
    assert result.present == ("client 0", "client 2")
    assert "simulation" in result.sampler


@pytest.mark.e2e
def test_a_stream_arrives_in_batches() -> None:
    first = [ClientJob(f"client {i}", RECORDS[:5], stream=(RECORDS[5:12], RECORDS[12:14])) for i in range(2)]
    result = run_pem(ALGORITHM, first, Budget(2.0, 3, stream=True), PemRunSpec(sampler="fast", seed=1), rows=6)
    assert result.rows == (10, 12, 6)
    assert result.epsilon == 2.0


@pytest.mark.e2e
def test_too_few_clients_end_every_process_with_the_reason() -> None:
    run = PemRunSpec(patience=0.5, sampler="fast", seed=1, least_clients=2)
    with pytest.raises(ProtocolError, match="1 clients are left; the terms ask for 2"):
        run_pem(ALGORITHM, jobs(None, Fate(0)), Budget(5.0, 2), run)


def test_refused_before_any_process_starts() -> None:
    with pytest.raises(InputError, match="at least one client"):
        run_pem(ALGORITHM, [], Budget(1.0, 1))


def test_strangers_are_shown_out_and_the_run_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_PASS_SECONDS", 0.3)

    async def run() -> None:
        door = _Door()
        port = await door.open()
        quiet = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
        for said in (b"clients", b"server", b"", b"x" * 60, _pass("servers")):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            await FrameStream(reader, writer, 1024).send(said)
            assert await asyncio.wait_for(reader.read(1), 5) == b""
            writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"\xff" * 5000)  # says that it is long
        with pytest.raises((ConnectionError, AssertionError)):
            assert await asyncio.wait_for(reader.read(1), 5) != b""
        mine = await _connect(port, "server")
        assert len(await asyncio.wait_for(door.wait_for("server", 1), 5)) == 1
        assert not door.links["clients"]
        for reader, writer in quiet:
            assert await asyncio.wait_for(reader.read(1), 5) == b""
            writer.close()
        await mine.close()
        await door.close()

    asyncio.run(run())
