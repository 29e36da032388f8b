"""Buckets of tests: an S3 server, or a folder that is reached as an object store is."""

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ksdp.storage.remote import RemotePlace, place_at


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


def folder_as_bucket(folder: Path, patched: pytest.MonkeyPatch) -> RemotePlace:
    """What `s3://bucket` is, in this process: the folder."""
    from fsspec.implementations.arrow import ArrowFSWrapper
    from pyarrow import fs

    files = ArrowFSWrapper(fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem()))
    patched.setattr(
        "ksdp.storage.remote._files", lambda url: (files, url.partition("?")[0].removeprefix("s3://").rstrip("/"))
    )
    place = place_at("s3://bucket")
    assert isinstance(place, RemotePlace)
    return place
