"""Serve Prometheus metrics of whatever is collected, as long as a context lasts; to this machine by default."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.registry import Collector

from ksdp.audit.errors import InputError


@contextlib.contextmanager
def serve_metrics(collector: Collector, port: int, host: str = "127.0.0.1") -> Iterator[int]:
    """Serve metrics at `/metrics`; the port, which is chosen where it is 0."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise InputError(f"`metrics-port` {port} on {host} cannot be used: {error.strerror}.") from error
    try:
        yield int(server.server_port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
