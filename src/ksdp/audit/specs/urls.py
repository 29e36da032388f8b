"""URLs in a spec: what they may name, and that they hold no secret and send nothing in the clear."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

CORPUS_SCHEMES = ("s3", "gs", "file")
"""Where the files of a corpus may be, besides a path."""
MEMORY = "memory"
"""In place of a path: what a Python program handed over."""

_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<host>[^/?#]*)(?P<path>[^?#]*)(\?(?P<query>[^#]*))?\Z")
_BARE = ("http", "ftp", "webhdfs")
_BUCKETS = ("s3", "gs", "gcs")
"""Schemes whose host is a bucket, and says nothing of the server."""
_WAS_URL = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)
_LOOPBACK = re.compile(r"(localhost|127(\.\d+){3}|\[::1\])(:|%3A|\Z)", re.IGNORECASE)


def is_url(name: str) -> bool:
    """Whether what stands for a file is a URL, and no path."""
    return "://" in name


def was_url(path: object) -> bool:
    """Whether what is a path by now was typed as a URL: `Path` has made one slash of its two."""
    return _WAS_URL.match(str(path)) is not None


def check_url(url: str, what: str, *, insecure: bool = False, remedy: str = "") -> str:
    """The scheme of a URL that holds no key, and whose server is spoken to under encryption."""
    parts = _URL.match(url)
    if parts is None:
        raise ValueError(f"{what} must be a URL, such as `s3://bucket/folder`.")
    host, query = parts["host"], parts["query"] or ""
    settings = dict(pair.partition("=")[::2] for pair in query.split("&") if pair)
    secret = ":" in host.rpartition("@")[0] or ("@" in host and parts["scheme"] == "s3")
    if secret or any(word in key.lower() for key in settings for word in ("key", "secret", "token", "password")):
        raise ValueError(f"{what} must hold no key or password: they belong in the environment (`AWS_*` for S3).")
    bare = parts["scheme"] in _BARE or settings.get("scheme") == "http"
    server = settings.get("endpoint_override") or ("" if parts["scheme"] in _BUCKETS else host or "")
    if bare and not insecure and not _LOOPBACK.match(server):
        raise ValueError(f"{what} has no encryption, and all that it holds would travel in the clear{remedy}.")
    return parts["scheme"]


def _file_name(name: str) -> str:
    if is_url(name):
        if name.partition("://")[0] not in CORPUS_SCHEMES:
            schemes = ", ".join(f"`{scheme}://`" for scheme in CORPUS_SCHEMES)
            raise ValueError(f"must be a path, or a URL that begins with {schemes}.")
        check_url(name, "the URL")
    return name


FileName = Annotated[str, AfterValidator(_file_name)]
"""The file of a corpus: a path, or a URL (`check_url`)."""
