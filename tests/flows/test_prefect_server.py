"""What a home's server starts from, and what is said of one that refuses."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from ksdp.audit.errors import KsdpError
from ksdp.flows.prefect_server import Server, reached

ANSWERS = """
import sys, urllib.request
from pathlib import Path
from ksdp.flows.prefect_server import prefect_server, reached
with prefect_server(Path(sys.argv[1])) as server:
    server.wait()
    with reached(server):
        from prefect import flow
        print(flow(lambda: "ran", name="one")(), flush=True)
"""


@pytest.mark.validity
def test_a_second_home_starts_from_the_database_that_the_first_server_made(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")

    def start(home: str) -> tuple[list[str], list[str]]:
        command = [sys.executable, "-c", ANSWERS, str(tmp_path / home)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert done.stdout == "ran\n", done.stderr
        (template,) = (tmp_path / "cache" / "ksdp").iterdir()
        found = []
        for file in (template, tmp_path / home / "prefect.db"):
            with contextlib.closing(sqlite3.connect(file)) as database:
                made = "SELECT group_concat(sql) FROM (SELECT sql FROM sqlite_schema ORDER BY name)"
                runs = "SELECT count(*) FROM flow_run"
                found.append([str(database.execute(what).fetchone()) for what in (made, runs)])
        return found[0], found[1]

    template, first = start("first")
    template.pop()
    again, second = start("second")
    assert again.pop() == "(0,)"  # nothing of a home is in the template
    assert first == second == [*again, "(1,)"]
    assert template == again


def test_a_server_that_refuses_is_one_line(tmp_path: Path) -> None:
    """As one whose disk is full does."""
    server = Server("http://127.0.0.1:9", None, tmp_path / "server.log", "x")
    said = r"the Prefect server failed \(500; see .*server.log\): the same command"
    with pytest.raises(KsdpError, match=said), reached(server):
        raise httpx.HTTPError("500 for url 'http://127.0.0.1:9/api'")
