"""Who the reviewer is: the person at this machine, a name from a proxy's header, or the holder of a token."""

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
from typing import Protocol

from starlette.requests import Request

from ksdp.dashboards.local_peer import is_stranger
from ksdp.storage.errors import InputError

COOKIE = "ksdp-reviewer"
_SHORTEST = 20
_HOURS = 12
_MOST_GUESSES, _GUESS_SECONDS, _MOST_ADDRESSES = 10, 60.0, 10_000


class ReviewerSource(Protocol):
    """Says who sent a request."""

    @property
    def signs_in(self) -> bool:
        """Whether there is a page to sign in on."""
        ...

    def reviewer(self, request: Request) -> str | None:
        """The reviewer's name, or None if the request is not allowed."""
        ...


@dataclass(frozen=True)
class LocalReviewer:
    """Requests over this machine's loopback by the user who started the dashboard are that person's."""

    name: str
    signs_in = False

    def reviewer(self, request: Request) -> str | None:
        """The name given; None for another user of this machine."""
        server = request.scope.get("server")
        if (
            request.client is not None
            and server
            and is_stranger((request.client.host, request.client.port), (server[0], server[1]))
        ):
            return None
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
                for known in [known for known in self._wrong if not self._recent(known)]:
                    del self._wrong[known]
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
    clock: Callable[[], float] = time.time
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    _ended: dict[str, int] = field(default_factory=dict, repr=False)
    """Cookies that were signed out, and when they would have ended by themselves."""
    signs_in = True

    @cached_property
    def guesses(self) -> Guesses:
        """Wrong tokens, by the address that showed them."""
        return Guesses(self.clock)

    def shown(self, token: str, request: Request) -> str | None:
        """Whose token a request shows; None too for an address that has shown too many that are not known."""
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
            for known in [known for known, until in self._ended.items() if until <= now]:
                self._ended.pop(known, None)
            self._ended[cookie] = int(cookie.partition(".")[0])

    def _signed(self, payload: str) -> str:
        return hmac.new(self._key, payload.encode(), hashlib.sha256).hexdigest()

    def name_of(self, token: str) -> str | None:
        """Whose token this is; every known one is compared, so that time tells nothing."""
        shown = hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
        reviewer = None
        for known, name in self.names.items():
            if hmac.compare_digest(shown, known):
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
        known = hashlib.sha256(token.encode()).hexdigest()
        if known in names:
            raise InputError(f"{path}, line {number}: this token was given before.")
        names[known] = name.strip()
    if not names:
        raise InputError(f"{path} holds no token.")
    return names
