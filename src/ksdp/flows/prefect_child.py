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

from ksdp.storage.prefect_home import copy_template, keep_template, template_of

_GRACE_SECONDS = 1.0
_POLL_SECONDS = 0.25
_ELSEWHERE = {"PREFECT_API_DATABASE_CONNECTION_URL", "PREFECT_SERVER_DATABASE_CONNECTION_URL"}
"""Where one of these is set, the database is none of ours."""


def _leave_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL_SECONDS)
    time.sleep(_GRACE_SECONDS)  # the signal of its parent's death lets it end by itself
    os._exit(1)


def _make_database(home: Path) -> None:
    """Where there is none yet, from the template, or by all migrations: it is then the template of the next."""
    import prefect

    database, template = home / "prefect.db", template_of(prefect.__version__)
    if template is None or database.exists() or _ELSEWHERE & set(os.environ):
        return  # the server makes it
    if copy_template(database, template):
        return
    import asyncio

    from prefect.server.database import provide_database_interface

    async def migrate() -> None:
        interface = provide_database_interface()
        await interface.create_db()
        await (await interface.engine()).dispose()  # all is written when its template is taken

    asyncio.run(migrate())
    keep_template(database, template)


def serve_on(descriptor: int, parent: int) -> None:
    """Serve on a socket that listens already, as long as the parent lives."""
    threading.Thread(target=_leave_with, args=(parent,), daemon=True).start()
    _make_database(Path(os.environ["PREFECT_HOME"]))
    import uvicorn
    from prefect.server.api.server import create_app
    from prefect.settings import get_current_settings

    settings = get_current_settings().server
    config = uvicorn.Config(
        create_app(final=True),
        timeout_keep_alive=settings.api.keepalive_timeout,
        log_level=settings.logging_level.lower(),
    )
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=descriptor)])


if __name__ == "__main__":
    serve_on(int(sys.argv[1]), int(sys.argv[2]))
