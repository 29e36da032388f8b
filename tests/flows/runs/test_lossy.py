"""A network with 50 ms each way and lost packets changes no result."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from ...lossy_wire import ADDRESSES, lossy_wire, why_no_wire
from .test_protocol import NMF, organisations, read_run


@pytest.mark.validity
def test_latency_and_loss_change_no_result(tmp_path: Path) -> None:
    if (why := why_no_wire()) is not None:
        pytest.skip(why)
    org = organisations(tmp_path, 2)
    protocol = org.protocol(NMF)
    text = protocol.read_text().replace("reconnect = 1", "reconnect = 60").replace("message = 60", "message = 200")
    for address in ADDRESSES:
        text = text.replace("127.0.0.1", address, 1)
    protocol.write_text(text)
    with lossy_wire(0.05, 0.05) as (spaces, counts):
        commands = [
            ["ip", "netns", "exec", space, *org.command(protocol, name)]
            for space, name in zip(spaces, org.names, strict=True)
        ]
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
        started = [
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for command in commands
        ]
        for process in started:
            _, error = process.communicate(timeout=500)
            assert process.returncode == 0, error
    assert counts.dropped > 0
    assert counts.carried > 20
    found = [dict(np.load(protocol.with_suffix("") / name / "result.npz")) for name in org.names]
    assert found[0]["T"].tobytes() == found[1]["T"].tobytes()
    ideal = read_run(protocol).terms.mechanism.run(org.database(protocol), np.random.default_rng(0))
    np.testing.assert_allclose(found[0]["T"], ideal["T"], rtol=0, atol=1e-6)
