"""Serve Prometheus metrics of whatever is collected, as long as a context lasts; to this machine by default."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.registry import Collector

from ksdp.audit.errors import InputError


@contextlib.contextmanager
def serve_metrics(collector: Collector, where: str) -> Iterator[str]:
    """Serve metrics at `[HOST:]PORT` and yield their URL; port 0 takes any free port."""
    host, _, port = where.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise InputError(f"`--metrics` must be PORT or HOST:PORT; got {where!r}.")
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    try:
        server, thread = start_http_server(int(port), host, registry)
    except OSError as error:
        raise InputError(f"`--metrics` {where} cannot be used: {error.strerror}.") from error
    try:
        yield f"http://{f'[{host}]' if ':' in host else host}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
