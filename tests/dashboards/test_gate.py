"""Who may look, from where; and the command's refusals before anything listens."""

import hashlib
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request

from ksdp.audit.errors import InputError
from ksdp.commands.reviews import ListeningOptions, SignInOptions, _origins, _source
from ksdp.dashboards.reviews import safe_path
from ksdp.dashboards.security import COOKIE, HeaderReviewer, LocalReviewer, TokenReviewers, read_tokens

TOKEN = "a-token-that-is-long-enough"


def request(peer: str = "127.0.0.1", **headers: str) -> Request:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "headers": raw, "client": (peer, 5), "method": "GET", "path": "/"})


def tokens(folder: Path, content: str, mode: int = 0o600) -> Path:
    path = folder / "tokens"
    path.write_text(content)
    path.chmod(mode)
    return path


def test_a_header_is_believed_from_the_proxy_only() -> None:
    source = HeaderReviewer("X-Forwarded-User", frozenset({"10.0.0.1"}))
    assert source.reviewer(request("10.0.0.1", x_forwarded_user=" Ada ")) == "Ada"
    assert source.reviewer(request("10.0.0.2", x_forwarded_user="Ada")) is None
    assert source.reviewer(request("10.0.0.1")) is None
    assert source.reviewer(request("10.0.0.1", x_forwarded_user="  ")) is None
    twice = request("10.0.0.1")
    twice.scope["headers"] = [(b"x-forwarded-user", b"Ada"), (b"x-forwarded-user", b"Eve")]
    assert source.reviewer(twice) is None


def test_cookies_expire_and_cannot_be_made_up() -> None:
    now = [1000.0]
    source = TokenReviewers({hashlib.sha256(TOKEN.encode()).hexdigest(): "Grace"}, lambda: now[0])
    cookie = source.cookie("Grace")
    assert source.reviewer(request(cookie=f"{COOKIE}={cookie}")) == "Grace"
    until, name, nonce, signature = cookie.split(".")
    for forged in (
        f"{int(until) + 1}.{name}.{nonce}.{signature}",
        f"{until}.{b'Eve'.hex()}.{nonce}.{signature}",
        f"{until}.{name}.{nonce[::-1]}.{signature}",
        f"{until}.{name}.{nonce}.{'0' * 64}",
        f"{until}.{name}.{nonce}",
        "",
        "..",
    ):
        assert source.reviewer(request(cookie=f"{COOKIE}={forged}")) is None
    assert TokenReviewers(source.names, lambda: now[0]).reviewer(request(cookie=f"{COOKIE}={cookie}")) is None
    now[0] += 12 * 3600 + 1
    assert source.reviewer(request(cookie=f"{COOKIE}={cookie}")) is None
    assert source.name_of(TOKEN) == "Grace"
    assert source.name_of("") is None
    assert source.reviewer(request(authorization=f"Bearer {TOKEN}")) == "Grace"
    assert source.reviewer(request(authorization=f"Basic {TOKEN}")) is None


def test_token_files_are_read_or_refused(tmp_path: Path) -> None:
    good = tokens(tmp_path, f"# who may look\n\n{TOKEN} Ada Lovelace\n{TOKEN}2 Grace\n")
    assert sorted(read_tokens(good).values()) == ["Ada Lovelace", "Grace"]
    for content, wanted in (
        ("short Ada\n", "line 1: needs a token of at least 20"),
        (f"{TOKEN}\n", "and a name"),
        (f"{TOKEN} Ada\n{TOKEN} Eve\n", "line 2: this token was given before"),
        ("# nothing\n", "holds no token"),
    ):
        with pytest.raises(InputError, match=wanted):
            read_tokens(tokens(tmp_path, content))
    with pytest.raises(InputError, match="readable by its owner only"):
        read_tokens(tokens(tmp_path, f"{TOKEN} Ada\n", 0o640))
    with pytest.raises(InputError, match="cannot be read"):
        read_tokens(tmp_path / "none")


CERT = {"tls_cert": Path("c"), "tls_key": Path("k")}


def asked(**given: Any) -> Any:
    """Who says who looks, where these options are given."""
    listening = {"host", "tls_cert", "tls_key"} & given.keys()
    return _source(
        ListeningOptions(**{name: given[name] for name in listening}),
        SignInOptions(**{name: given[name] for name in given.keys() - listening}),
    )


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"host": "0.0.0.0"}, "not this machine alone"),
        ({"host": "192.168.1.5", **CERT}, "not this machine alone"),
        ({"host": "192.168.1.5", "reviewer_header": "X-User"}, "not this machine alone"),
        ({"tls_cert": Path("c")}, "go together"),
        ({"reviewer_header": "X-User", "tokens": Path("t")}, "exclude each other"),
    ],
)
def test_the_command_refuses_to_listen_to_strangers(changes: dict[str, Any], wanted: str) -> None:
    with pytest.raises(InputError, match=wanted):
        asked(**changes)


def test_the_command_knows_who_looks(tmp_path: Path) -> None:
    assert isinstance(asked(), LocalReviewer)
    behind = asked(host="192.168.1.5", **CERT, reviewer_header="X-User", proxy=["10.0.0.1"])
    assert behind == HeaderReviewer("X-User", frozenset({"10.0.0.1"}))
    path = tokens(tmp_path, f"{TOKEN} Ada\n")
    assert asked(host="192.168.1.5", **CERT, tokens=path).name_of(TOKEN) == "Ada"


def test_origins_are_those_of_the_address_and_those_named() -> None:
    assert _origins("127.0.0.1", 80, False, []) == {"http://127.0.0.1", "http://[::1]", "http://localhost"}
    named = _origins("0.0.0.0", 8700, True, ["https://review.example"])
    assert "https://review.example" in named
    with pytest.raises(InputError, match="every address"):
        _origins("0.0.0.0", 8700, True, [])
    for wrong in ("review.example", "https://review.example/", "ftp://review.example", "https://"):
        with pytest.raises(InputError, match="`--origin` must be"):
            _origins("127.0.0.1", 8700, False, [wrong])


@pytest.mark.parametrize("text", ["", "x", "//evil", "/\\evil", "https://evil/", "javascript:1", "/a\nb", " /a"])
def test_only_our_own_addresses_are_gone_on_to(text: str) -> None:
    assert safe_path(text, "/default") == "/default"


def test_a_cookie_ends_at_sign_out_wherever_a_copy_is() -> None:
    now = [1000.0]
    source = TokenReviewers({hashlib.sha256(TOKEN.encode()).hexdigest(): "Grace"}, lambda: now[0])
    one, other = source.cookie("Grace"), source.cookie("Grace")
    assert one != other
    source.end(request(cookie=f"{COOKIE}={one}"))
    source.end(request(cookie=f"{COOKIE}=1.2.3"))
    assert source.reviewer(request(cookie=f"{COOKIE}={one}")) is None
    assert source.reviewer(request(cookie=f"{COOKIE}={other}")) == "Grace"


def test_guesses_of_tokens_are_limited_by_address() -> None:
    now = [1000.0]
    source = TokenReviewers({hashlib.sha256(TOKEN.encode()).hexdigest(): "Grace"}, lambda: now[0])
    for _ in range(9):
        assert source.reviewer(request(authorization="Bearer nonsense")) is None
    assert source.reviewer(request(authorization=f"Bearer {TOKEN}")) == "Grace"
    assert source.reviewer(request(authorization="Bearer nonsense")) is None
    assert source.guesses.too_many("127.0.0.1")
    assert source.reviewer(request(authorization=f"Bearer {TOKEN}")) is None  # even if it is guessed right now
    assert source.reviewer(request("10.0.0.9", authorization=f"Bearer {TOKEN}")) == "Grace"
    now[0] += 61
    assert source.reviewer(request(authorization=f"Bearer {TOKEN}")) == "Grace"


def test_a_header_without_a_proxy_is_refused() -> None:
    with pytest.raises(InputError, match="`--reviewer-header` needs `--proxy`"):
        asked(reviewer_header="X-User")
