"""Serve Prometheus metrics of whatever is collected, as long as a context lasts.

To this machine alone unless a person names another address, and then to nobody's browser: a request that names a
host by another name than ours (a page of somebody else's whose name was pointed here) is refused. Connections that
say nothing are closed, and there are only so many.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from socketserver import TCPServer, ThreadingMixIn
from typing import Any
from urllib.parse import urlsplit
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.registry import Collector

from ksdp.audit.errors import InputError

_SECONDS = 10.0
"""Within which a request must be there."""
_MOST = 16
"""Connections at once; more are closed."""
_App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class _Handler(WSGIRequestHandler):
    timeout = _SECONDS

    def log_message(self, *said: Any) -> None:
        """Say nothing."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._places = threading.BoundedSemaphore(_MOST)
        super().__init__(*arguments, **named)

    def server_bind(self) -> None:
        """Without asking the name server who we are."""
        TCPServer.server_bind(self)
        host, port = self.socket.getsockname()[:2]
        self.server_name, self.server_port = str(host), int(port)
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        """In a thread, if there is a place for it."""
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Give the place back."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that close the connection."""


class _Server6(_Server):
    address_family = socket.AF_INET6


def _guarded(app: _App) -> _App:
    """Refuse what names another host than this machine."""

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        ours = False
        with contextlib.suppress(ValueError):  # an address in half a pair of brackets
            ours = _is_loopback(urlsplit(f"//{environ.get('HTTP_HOST', '')}").hostname or "")
        if ours:
            return app(environ, start)
        start("421 Misdirected Request", [("Content-Type", "text/plain")])
        return [b"This host name is not ours."]

    return answer


def _is_loopback(host: str) -> bool:
    """Whether a name or an address is this machine's own."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@contextlib.contextmanager
def serve_metrics(collector: Collector, port: int, host: str = "127.0.0.1") -> Iterator[int]:
    """Serve metrics at `/metrics`; the port, which is chosen where it is 0."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    app = make_wsgi_app(registry)
    try:
        kind = _Server6 if ":" in host else _Server
        server = make_server(host, port, _guarded(app) if _is_loopback(host) else app, kind, _Handler)
    except OSError as error:
        raise InputError(f"`metrics-port` {port} on {host} cannot be used: {error.strerror}.") from error
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True)
    thread.start()
    try:
        yield int(server.server_port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
