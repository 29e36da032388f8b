"""A Prefect server of a test's own."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from ksdp.flows.prefect_server import prefect_server


@contextlib.contextmanager
def own_server(home: Path) -> Iterator[dict[str, str]]:
    """The environment that names it. A server of other tests, which is named already, is not taken for it."""
    named = os.environ.pop("PREFECT_API_URL", None)
    try:
        with prefect_server(home, calendar=True) as started:  # it keeps events
            started.wait()
            yield {
                "PREFECT_API_URL": f"{started.url}/api",
                "PREFECT_API_AUTH_STRING": str(started.password),
                "PREFECT_HOME": os.environ["PREFECT_HOME"],
            }
    finally:
        if named:
            os.environ["PREFECT_API_URL"] = named
