"""An S3 server of a test, with one bucket."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def bucket(address: str = "127.0.0.1") -> Iterator[tuple[Any, str]]:
    """The file system of a server whose bucket is `ksdp`, and the options of a URL there."""
    from moto.moto_server.threaded_moto_server import ThreadedMotoServer
    from pyarrow import fs

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address=address, port=0, verbose=False)
    server.start()
    options = f"endpoint_override={address}:{server.get_host_and_port()[1]}&scheme=http&region=us-east-1"
    try:
        made: Any = fs.FileSystem.from_uri(f"s3://ksdp?{options}&allow_bucket_creation=true")[0]
        made.create_dir("ksdp")
        yield made, options
    finally:
        server.stop()
