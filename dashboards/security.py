"""What stands before every page: the right host, no writes from elsewhere, a known reviewer, strict headers."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

import anyio
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ksdp.dashboards.reviewers import ReviewerSource

LARGEST_BODY = 2 * 2**20
"""Bytes of a form at most: some thousands of ids with a reason."""

_BODY_SECONDS, _READ_SECONDS = 20.0, 30.0
"""How long the body of a request may take, and how long nobody may read an answer."""

_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
# `no-referrer` would make browsers send `Origin: null` with our own forms.
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cache-Control": "no-store",
}
_READS = ("GET", "HEAD")
_OPEN = ("/static/", "/sign-in")


def origins_of(host: str, port: int, *, tls: bool) -> frozenset[str]:
    """Origins under which a dashboard at this address is reached.

    >>> sorted(origins_of("127.0.0.1", 8700, tls=False))
    ['http://127.0.0.1:8700', 'http://[::1]:8700', 'http://localhost:8700']
    """
    scheme, usual = ("https", 443) if tls else ("http", 80)
    loopback = host in ("127.0.0.1", "::1", "localhost")
    names = ("127.0.0.1", "[::1]", "localhost") if loopback else (f"[{host}]" if ":" in host else host,)
    return frozenset(f"{scheme}://{name}" + ("" if port == usual else f":{port}") for name in names)


@dataclass(frozen=True)
class Gate:
    """The one middleware."""

    app: ASGIApp
    origins: frozenset[str]
    """`scheme://host:port` that are ours."""
    source: ReviewerSource

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or say why not."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                if any(origin.startswith("https:") for origin in self.origins):
                    headers.setdefault("Strict-Transport-Security", "max-age=31536000")
            await patient(message)

        patient = _patient(send)
        refusal = self._refusal(request)
        with contextlib.suppress(_SlowReader):  # the server closes what was not answered whole
            if refusal is None:
                await self.app(scope, _limited(receive), guarded)
            else:
                await refusal(scope, receive, guarded)

    def _refusal(self, request: Request) -> Response | None:
        hosts = {urlsplit(origin).netloc for origin in self.origins}
        if request.headers.get("host", "") not in hosts:
            return PlainTextResponse("This host name is not ours.", 421)
        if request.method not in (*_READS, "POST"):
            return PlainTextResponse("Only GET, HEAD and POST are known here.", 405, {"Allow": "GET, HEAD, POST"})
        if request.method == "POST":
            if not self._ours(request):
                return PlainTextResponse("Refused: this write comes from another site.", 403)
            if not request.headers.get("content-length", "").isdigit():
                return PlainTextResponse("The length must be given.", 411)
            if int(request.headers["content-length"]) > LARGEST_BODY:
                return PlainTextResponse("This is too large.", 413)
        name = self.source.reviewer(request)
        request.state.reviewer = name
        if name is None and not request.url.path.startswith(_OPEN):
            if not self.source.signs_in:
                return PlainTextResponse("Nobody is signed in.", 401)
            if request.method in _READS:
                back = request.url.path + (f"?{request.url.query}" if request.url.query else "")
                return RedirectResponse(f"/sign-in?next={quote(back)}", 303)
            return PlainTextResponse("Nobody is signed in.", 401)
        return None

    def _ours(self, request: Request) -> bool:
        """A browser names where a write comes from; one that says nothing is not taken for ours."""
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
        if origin is None and site is None:
            return False
        return (origin is None or origin in self.origins) and site in (None, "same-origin")


class BrokenBody(Exception):
    """The body of a request is longer than it said, or does not come."""


class _SlowReader(Exception):
    """Somebody asked for a page and does not read it."""


def _limited(receive: Receive) -> Receive:
    seen, more = 0, True
    end = anyio.current_time() + _BODY_SECONDS

    async def limited() -> Message:
        nonlocal seen, more
        if not more:
            return await receive()  # of a disconnection, which may take its time
        try:
            with anyio.fail_after(max(end - anyio.current_time(), 0.0)):
                message = await receive()
        except TimeoutError:
            raise BrokenBody("the body does not come") from None
        seen += len(message.get("body", b""))
        more = message.get("more_body", False)
        if seen > LARGEST_BODY:
            raise BrokenBody("the body is longer than it said")
        return message

    return limited


def _patient(send: Send) -> Send:
    async def patient(message: Message) -> None:
        try:
            with anyio.fail_after(_READ_SECONDS):
                await send(message)
        except TimeoutError:
            raise _SlowReader from None

    return patient
