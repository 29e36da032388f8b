"""The process of a Prefect server: `python -m ksdp.flows.prefect_child DESCRIPTOR PARENT`.

Its socket is opened by the parent, before anybody hears of its port, so that nobody else can answer there and be
told the password. Two seconds after its parent it is gone, whatever it is busy with.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from pathlib import Path

from ksdp.storage.prefect_home import keep_template, start_from_template, template_of

__all__ = ["serve_on"]

_GRACE_SECONDS = 1.0
_POLL_SECONDS = 0.25
_ELSEWHERE = {"PREFECT_API_DATABASE_CONNECTION_URL", "PREFECT_SERVER_DATABASE_CONNECTION_URL"}
"""Where one of these is set, the database is none of ours."""


def _leave_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL_SECONDS)
    time.sleep(_GRACE_SECONDS)  # the signal of its parent's death lets it end by itself
    os._exit(1)


def serve_on(descriptor: int, parent: int) -> None:
    """Serve on a socket that listens already, as long as the parent lives."""
    threading.Thread(target=_leave_with, args=(parent,), daemon=True).start()
    import prefect
    import uvicorn
    from prefect.server.api.server import create_app
    from prefect.settings import get_current_settings

    settings = get_current_settings().server
    template, database = template_of(prefect.__version__), Path(os.environ["PREFECT_HOME"]) / "prefect.db"
    known = bool(_ELSEWHERE & set(os.environ)) or start_from_template(database, template)

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if not known:  # before anybody has been answered
                keep_template(database, template)

    config = uvicorn.Config(
        create_app(final=True),
        timeout_keep_alive=settings.api.keepalive_timeout,
        log_level=settings.logging_level.lower(),
    )
    Server(config).run(sockets=[socket.socket(fileno=descriptor)])


if __name__ == "__main__":
    serve_on(int(sys.argv[1]), int(sys.argv[2]))
