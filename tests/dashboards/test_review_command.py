"""`ksdp review` as a process that strangers can reach: TLS, tokens of a file, and names from a proxy."""

from __future__ import annotations

import contextlib
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from ksdp.storage.reviews.decisions import read_log
from ksdp.storage.store import Store

TOKENS = {"Ada Lovelace": "ada-has-this-long-token", "Grace": "grace-has-another-token"}

Start = Callable[..., "contextlib.AbstractContextManager[str]"]


@contextmanager
def review(store: Store, certificate: Path, *options: str | Path) -> Iterator[str]:
    """The command over TLS on a free port; its address once it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "ksdp", "review", "--store", store.root, "--port", str(port)]
    tls = ["--tls-cert", certificate, "--tls-key", certificate.with_name("key.pem")]
    process = subprocess.Popen([*map(str, [*command, *tls, *options])], stderr=subprocess.PIPE, text=True)
    try:
        end = time.monotonic() + 60
        while time.monotonic() < end and process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        yield f"https://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=20)
    assert f"https://127.0.0.1:{port}/" in said
    assert "Traceback" not in said


def browser(base: str, certificate: Path, local: str | None = None) -> httpx.Client:
    """A client that trusts this certificate alone, from an address of its own where one is named."""
    context = ssl.create_default_context(cafile=str(certificate))
    transport = httpx.HTTPTransport(verify=context, local_address=local, trust_env=False)
    return httpx.Client(base_url=base, transport=transport, timeout=20)


def decision(document: str, saw: int = 0) -> dict[str, str]:
    said = {"document": document, "saw": str(saw), "decision": "exclude", "reason": "too much", "back": "/queue"}
    return said | {"reviewer": "Mallory"}


@pytest.mark.e2e
def test_over_tls_with_tokens(own_store: Store, certificate: Path, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.touch(mode=0o600)
    file.write_text("".join(f"{token} {name}\n" for name, token in TOKENS.items()))
    with review(own_store, certificate, "--tokens", file) as base:
        visit, ours = browser(base, certificate), {"Origin": base}
        with pytest.raises(httpx.HTTPError):  # no plain text on this port
            httpx.get(base.replace("https:", "http:"), trust_env=False)
        # Nobody: nothing is shown, and nothing written.
        got = visit.get("/audits/svd-09")
        assert (got.status_code, got.headers["location"]) == (303, "/sign-in?next=/audits/svd-09")
        address = "/audits/svd-09/decisions"
        assert visit.post(address, data=decision("mail-00001"), headers=ours).status_code == 401
        wrong = {"Authorization": "Bearer ada-has-this-long-tokem"}
        assert visit.post(address, data=decision("mail-00001"), headers=ours | wrong).status_code == 401
        assert visit.post("/sign-in", data={"token": "guess", "next": "/"}, headers=ours).status_code == 403
        # Ada, by the cookie that her token was changed for; Grace by her token.
        got = visit.post(
            "/sign-in", data={"token": TOKENS["Ada Lovelace"], "next": "/audits/svd-09"}, headers=ours
        )
        assert (got.status_code, got.headers["location"]) == (303, "/audits/svd-09")
        cookie = got.headers["set-cookie"]
        assert all(word in cookie for word in ("Secure", "HttpOnly", "SameSite=strict"))
        got = visit.get("/audits/svd-09")
        assert "Ada Lovelace" in got.text
        assert got.headers["strict-transport-security"] == "max-age=31536000"
        # From elsewhere, even with the cookie.
        for headers, status in (
            ({"Origin": "https://evil.example"}, 403),
            ({"Origin": base.replace("https:", "http:")}, 403),
            ({"Origin": "null"}, 403),
            ({"Sec-Fetch-Site": "cross-site"}, 403),
            ({}, 403),
            (ours | {"Host": "evil.example"}, 421),
        ):
            got = visit.post(address, data=decision("mail-00001"), headers=headers)
            assert got.status_code == status, headers
        assert visit.get("/audits", headers={"Host": "evil.example"}).status_code == 421
        assert read_log(own_store) == []
        assert visit.post(address, data=decision("mail-00001"), headers=ours).status_code == 303
        bearer = {"Authorization": f"Bearer {TOKENS['Grace']}"}
        with browser(base, certificate) as other:
            got = other.post(address, data=decision("mail-00002"), headers=ours | bearer)
            assert got.status_code == 303
        visit.close()
    entries = [(entry.reviewer, entry.document) for entry in read_log(own_store)]
    assert entries == [("Ada Lovelace", "mail-00001"), ("Grace", "mail-00002")]


@pytest.mark.skipif(sys.platform != "linux", reason="127.0.0.2 is an address of this machine on Linux only")
@pytest.mark.e2e
def test_over_tls_behind_a_proxy(own_store: Store, certificate: Path) -> None:
    options = (
        "--reviewer-header",
        "X-Forwarded-User",
        "--proxy",
        "127.0.0.2",
        "--origin",
        "https://review.example",
    )
    with (
        review(own_store, certificate, *options) as base,
        browser(base, certificate, "127.0.0.2") as proxy,
        browser(base, certificate) as stranger,
    ):
        named = {"X-Forwarded-User": "Ada Lovelace"}
        address, form = "/audits/svd-09/decisions", decision("mail-00001")
        # Whoever is not the proxy may say what they like.
        assert stranger.get("/audits", headers=named).status_code == 401
        assert stranger.post(address, data=form, headers=named | {"Origin": base}).status_code == 401
        assert proxy.get("/audits").status_code == 401
        twice = [("X-Forwarded-User", "Ada Lovelace"), ("X-Forwarded-User", "Mallory")]
        assert proxy.get("/audits", headers=twice).status_code == 401
        assert "Ada Lovelace" in proxy.get("/audits", headers=named).text
        # The proxy passes on the host that browsers name.
        outside = {"Host": "review.example", "Origin": "https://review.example"}
        assert (
            proxy.post(address, data=form, headers=named | outside | {"Host": "other.example"}).status_code == 421
        )
        assert (
            proxy.post(address, data=form, headers=named | {"Origin": "https://other.example"}).status_code == 403
        )
        assert read_log(own_store) == []
        assert proxy.post(address, data=form, headers=named | outside).status_code == 303
    assert [(entry.reviewer, entry.document) for entry in read_log(own_store)] == [("Ada Lovelace", "mail-00001")]
