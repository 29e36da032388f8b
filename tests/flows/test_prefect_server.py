"""The message for a server that refuses."""

from pathlib import Path

import httpx
import pytest

from ksdp.audit.errors import KsdpError
from ksdp.flows.prefect_server import Server, reached


def test_a_server_that_refuses_is_one_line(tmp_path: Path) -> None:
    """As one whose disk is full does."""
    server = Server("http://127.0.0.1:9", None, tmp_path / "server.log", "x")
    said = r"the Prefect server failed \(500; see .*server.log\): the same command"
    with pytest.raises(KsdpError, match=said), reached(server):
        raise httpx.HTTPError("500 for url 'http://127.0.0.1:9/api'")
