"""Checks before every page: the right host, no foreign writes, a known reviewer, strict headers."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import stat
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ksdp.storage.store import InputError

COOKIE = "ksdp-reviewer"
_SHORTEST = 20
_HOURS = 12
_MOST_GUESSES, _GUESS_SECONDS, _MOST_ADDRESSES = 10, 60.0, 10_000


class ReviewerSource(Protocol):
    """Says who sent a request."""

    @property
    def signs_in(self) -> bool:
        """Whether there is a page to sign in on."""

    def reviewer(self, request: Request) -> str | None:
        """The reviewer's name, or None if the request is not allowed."""


@dataclass(frozen=True)
class LocalReviewer:
    """Every request is of the user who started the dashboard: for a machine that nobody else is on."""

    name: str
    signs_in = False

    def reviewer(self, request: Request) -> str | None:
        """The name given."""
        return self.name


@dataclass(frozen=True)
class HeaderReviewer:
    """A proxy that has signed the person in (OIDC) names them in a header.

    The header of anybody but the proxy is worth nothing, so that it is read from the named addresses only.
    """

    header: str
    proxies: frozenset[str]
    """Addresses of the proxy."""
    signs_in = False

    def reviewer(self, request: Request) -> str | None:
        """The header's value, from the proxy."""
        if request.client is None or request.client.host not in self.proxies:
            return None
        values = request.headers.getlist(self.header)
        name = values[0].strip() if len(values) == 1 else ""
        return name if name and name.isprintable() and len(name) <= 200 else None


@dataclass(frozen=True)
class Guesses:
    """How often an address has shown a token that is not known: some times a minute, and then nothing is compared.

    A person who mistypes waits a minute; whoever guesses gets nowhere.
    """

    clock: Callable[[], float]
    _wrong: dict[str, list[float]] = field(default_factory=dict, repr=False)
    _held: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def too_many(self, address: str) -> bool:
        """Whether an address has to wait."""
        with self._held:
            return len(self._recent(address)) >= _MOST_GUESSES

    def wrong(self, address: str) -> None:
        """Count one."""
        with self._held:
            if len(self._wrong) >= _MOST_ADDRESSES:
                for guess in [guess for guess in self._wrong if not self._recent(guess)]:
                    del self._wrong[guess]
            self._wrong[address] = [*self._recent(address), self.clock()]

    def _recent(self, address: str) -> list[float]:
        return [at for at in self._wrong.get(address, ()) if self.clock() - at < _GUESS_SECONDS]


@dataclass(frozen=True)
class TokenReviewers:
    """A request with a token of the file is of the person it was given to.

    A token is shown once; a cookie that only this process can sign then names its holder for twelve hours, or
    until the process ends.
    """

    names: Mapping[str, str]
    """Name of each SHA-256 of a token, in hex."""
    clock: Callable[[], float] = time.monotonic
    """Seconds; one that nobody can set, or a wait and a cookie would last as long as the clock was set back."""
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    _ended: dict[str, int] = field(default_factory=dict, repr=False)
    """Cookies that were signed out, and when they would have ended by themselves."""
    signs_in = True

    @cached_property
    def guesses(self) -> Guesses:
        """Wrong tokens, by the address that showed them."""
        return Guesses(self.clock)

    def shown(self, token: str, request: Request) -> str | None:
        """Name whose token a request shows; None too for an address that has shown too many unknown ones."""
        address = request.client.host if request.client else ""
        if self.guesses.too_many(address):
            return None
        name = self.name_of(token)
        if name is None:
            self.guesses.wrong(address)
        return name

    def end(self, request: Request) -> None:
        """Sign out: the cookie and every copy of it are no longer valid."""
        cookie = request.cookies.get(COOKIE, "")
        if self._holder(cookie) is not None:
            now = int(self.clock())
            for session in [session for session, until in self._ended.items() if until <= now]:
                self._ended.pop(session, None)
            self._ended[cookie] = int(cookie.partition(".")[0])

    def _signed(self, payload: str) -> str:
        return hmac.new(self._key, payload.encode(), hashlib.sha256).hexdigest()

    def name_of(self, token: str) -> str | None:
        """Name whose token this is; every token is compared, so that the time tells nothing."""
        shown = hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
        reviewer = None
        for digest, name in self.names.items():
            if hmac.compare_digest(shown, digest):
                reviewer = name
        return reviewer

    def cookie(self, name: str) -> str:
        """The cookie that says so from now on."""
        payload = f"{int(self.clock()) + _HOURS * 3600}.{name.encode().hex()}.{secrets.token_hex(8)}"
        return f"{payload}.{self._signed(payload)}"

    def reviewer(self, request: Request) -> str | None:
        """From the cookie, or from an `Authorization: Bearer` header."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            return self.shown(token.strip(), request)
        return self._holder(request.cookies.get(COOKIE, ""))

    def _holder(self, cookie: str) -> str | None:
        if cookie in self._ended:
            return None
        payload, _, signature = cookie.rpartition(".")
        if not payload or not hmac.compare_digest(signature.encode(), self._signed(payload).encode()):
            return None
        until, name, _ = payload.split(".")
        return bytes.fromhex(name).decode() if int(until) > self.clock() else None


def read_tokens(path: Path) -> dict[str, str]:
    """Read a token file: one `token name` a line; empty lines and lines with `#` are passed over."""
    try:
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise InputError(f"{path} must be readable by its owner only (chmod 600).")
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the token file {path} cannot be read: {type(error).__name__}.") from error
    names: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        token, _, name = line.strip().partition(" ")
        if not token or token.startswith("#"):
            continue
        if len(token) < _SHORTEST or not name.strip() or not name.strip().isprintable():
            raise InputError(
                f"{path}, line {number}: needs a token of at least {_SHORTEST} characters and a name."
            )
        digest = hashlib.sha256(token.encode()).hexdigest()
        if digest in names:
            raise InputError(f"{path}, line {number}: this token was given before.")
        names[digest] = name.strip()
    if not names:
        raise InputError(f"{path} holds no token.")
    return names


LARGEST_BODY = 2 * 2**20
"""Bytes of a form at most: some thousands of ids with a reason."""

LIMITS: dict[str, Any] = {
    "http": "h11",
    "h11_max_incomplete_event_size": 2**14,
    "limit_concurrency": 256,
    "timeout_keep_alive": 5,
    "timeout_graceful_shutdown": 10,
}
"""Settings of Uvicorn; slow clients are a proxy's to end (`docs/scheduling.md`)."""

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
            await send(message)

        refusal = self._refusal(request)
        await (refusal or self.app)(scope, receive, guarded)

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
