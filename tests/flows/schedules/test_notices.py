"""Notices to a real command, a real HTTP server and a real SMTP conversation; and what is never in them."""

from __future__ import annotations

import json
import os
import socketserver
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email import message_from_string
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ksdp.flows.schedules.notices import body, events_of, notify, send_waiting
from ksdp.storage.schedules.outbox import waiting_notices
from ksdp.storage.schedules.schedule_files import (
    Schedule,
    ScheduledRun,
    check_schedule,
    schedule_folder,
    write_schedule,
)
from ksdp.storage.store import Store

NOW = datetime(2026, 3, 5, 12, tzinfo=UTC)
RUN = ScheduledRun(
    planned=NOW,
    started=NOW,
    finished=NOW,
    outcome="audited",
    audit="0123456789ab",
    documents={"new": 3, "audited": 3},
    verdicts={"sensitive": 2, "clear": 5, "undecided": 1},
    became_sensitive=2,
)


@contextmanager
def webhook(status: int = 200) -> Iterator[tuple[str, list[dict[str, Any]], list[int]]]:
    """An HTTP server: (its address, what was posted, the statuses of the answers to come)."""
    got: list[dict[str, Any]] = []
    statuses = [status]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(statuses[-1])
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/hook", got, statuses
        server.shutdown()


@contextmanager
def mail_server(certificate: Path | None = None) -> Iterator[tuple[int, list[str]]]:
    """An SMTP server that takes everything, with a certificate over STARTTLS: (its port, what was said)."""
    said: list[str] = []
    offers = ["AUTH PLAIN"] if certificate is None else ["AUTH PLAIN", "STARTTLS"]

    class Handler(socketserver.StreamRequestHandler):
        def answer(self, line: str) -> None:
            self.wfile.write(line.encode() + b"\r\n")

        def handle(self) -> None:
            self.answer("220 sink")
            while line := self.rfile.readline().decode().strip():
                said.append(line)
                verb = line.split()[0].upper()
                if verb == "EHLO":
                    self.answer("\r\n".join(["250-sink", *(f"250-{offer}" for offer in offers), "250 8BITMIME"]))
                elif verb == "STARTTLS" and certificate is not None:
                    self.answer("220 go on")
                    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
                    context.load_cert_chain(certificate, certificate.with_name("key.pem"))
                    self.request = context.wrap_socket(self.request, server_side=True)
                    self.setup()
                elif verb == "DATA":
                    self.answer("354 go on")
                    lines = []
                    while (text := self.rfile.readline().decode().rstrip("\r\n")) != ".":
                        lines.append(text)
                    said.append("\n".join(lines))
                    self.answer("250 taken")
                else:
                    self.answer({"AUTH": "235 in", "QUIT": "221 bye"}.get(verb, "250 ok"))

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield int(server.server_address[1]), said
        server.shutdown()


@pytest.fixture
def schedule(tmp_path: Path) -> Callable[..., tuple[Store, Schedule]]:
    def make(*notices: dict[str, Any], **more: Any) -> tuple[Store, Schedule]:
        store = Store.open(tmp_path / "store")
        values = {"name": "nightly", "spec": "/s", "cron": "0 2 * * *", "created": NOW, "notices": notices}
        made = check_schedule(values | more)
        write_schedule(store, made)
        return store, made

    return make


Make = Callable[..., tuple[Store, Schedule]]


@pytest.mark.parametrize(
    ("changes", "events"),
    [
        ({}, ["sensitive"]),
        ({"became_sensitive": 0}, []),
        ({"appetite_missed": ("coverage",)}, ["sensitive", "appetite"]),
        ({"became_sensitive": 0, "outcome": "unchanged", "missed": 2}, ["unchanged"]),
        ({"missed": 1}, ["sensitive", "not-run"]),
        ({"outcome": "void", "became_sensitive": 0}, ["void"]),
        ({"outcome": "timed-out", "became_sensitive": 0}, ["not-run"]),
        ({"outcome": "crashed", "became_sensitive": 0}, ["not-run"]),
        ({"outcome": "cancelled", "became_sensitive": 0}, []),
    ],
)
def test_what_gives_cause_to_tell(changes: dict[str, Any], events: list[str]) -> None:
    assert events_of(RUN.model_copy(update=changes)) == events


def test_a_body_is_counts_and_links(schedule: Make) -> None:
    store, made = schedule(link="http://127.0.0.1:8000/")
    said = body(store, made, "sensitive", RUN.model_copy(update={"reason": "row 7 of mail.csv"}))
    assert said["links"] == {
        "report": f"{store.root.as_uri()}/audits/0123456789ab/report.html",
        "dashboard": "http://127.0.0.1:8000/audits/0123456789ab",
    }
    assert said["verdicts"] == {"sensitive": 2, "clear": 5, "undecided": 1}
    assert "row 7" not in json.dumps(said)
    failed = RUN.model_copy(update={"outcome": "failed", "audit": None})
    assert body(store, made, "not-run", failed)["links"] == {}


def test_a_command_reads_json_and_is_not_a_shell(schedule: Make, tmp_path: Path) -> None:
    program = "import sys, pathlib; pathlib.Path(sys.argv[1]).write_text(sys.stdin.read() + sys.argv[2])"
    target = tmp_path / "said"
    store, made = schedule(
        {"kind": "command", "command": [sys.executable, "-c", program, str(target), "$(id)"]},
        {"kind": "command", "command": ["true"], "on": ["void"]},
    )
    (told,) = notify(store, made, RUN, lambda: NOW)
    assert told.delivered
    text = target.read_text()
    assert text.endswith("$(id)")
    said = json.loads(text.removesuffix("$(id)"))
    assert (said["event"], said["became_sensitive"], said["notice"]) == ("sensitive", 2, told.id)


def test_a_webhook_that_fails_is_tried_again_and_told_once(schedule: Make) -> None:
    with webhook(500) as (url, got, statuses):
        store, made = schedule({"kind": "webhook", "url": url})
        (told,) = notify(store, made, RUN, lambda: NOW)
        assert (told.delivered, told.error) == (False, "the webhook answered 500.")
        assert send_waiting(store, "nightly", lambda: NOW) == []  # not yet
        statuses.append(204)
        (again,) = send_waiting(store, "nightly", lambda: NOW + timedelta(minutes=2))
        assert again.delivered
        assert [post["notice"] for post in got] == [told.id, told.id]
        assert waiting_notices(store, "nightly") == []
        (sent,) = (schedule_folder(store, "nightly") / "notices.jsonl").read_bytes().splitlines()
        assert json.loads(sent)["attempts"] == 2


def test_mail_with_a_password_from_the_environment(schedule: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    with mail_server() as (port, said):
        mail = {"kind": "email", "to": ["ada@example.org", "bo@example.org"], "sender": "ksdp@example.org"}
        mail |= {"host": "127.0.0.1", "port": port, "starttls": False, "user": "u", "password_env": "KSDP_TEST_PW"}
        store, made = schedule(mail)
        (told,) = notify(store, made, RUN, lambda: NOW)
        assert told.error == "the environment variable KSDP_TEST_PW is not set."
        monkeypatch.setenv("KSDP_TEST_PW", "secret-word")
        (again,) = send_waiting(store, "nightly", lambda: NOW + timedelta(minutes=2))
        assert again.delivered, again.error
    assert any(line.startswith("AUTH PLAIN") for line in said)
    assert {line for line in said if line.upper().startswith("RCPT")} == {
        "rcpt TO:<ada@example.org>",
        "rcpt TO:<bo@example.org>",
    }
    message = message_from_string(max(said, key=len))
    assert message["Subject"] == "ksdp: 2 documents became sensitive (schedule nightly)"
    text = message.get_payload()
    assert isinstance(text, str)
    assert "verdicts sensitive: 2" in text
    for file in (store.root / "schedules").rglob("*"):
        assert not file.is_file() or b"secret-word" not in file.read_bytes()


@pytest.mark.parametrize(
    ("notice", "error"),
    [
        ({"kind": "command", "command": ["/no/such/program"]}, "the command cannot be started"),
        ({"kind": "command", "command": ["false"]}, "ended with exit code 1."),
        ({"kind": "webhook", "url": "http://127.0.0.1:1/token"}, "the webhook did not answer (ConnectError)."),
        (
            {"kind": "email", "to": ["a@b"], "sender": "c@d", "host": "127.0.0.1", "port": 1},
            "did not take it (ConnectionRefusedError).",
        ),
    ],
)
def test_no_failure_of_a_notice_raises_or_names_an_address(
    schedule: Make, notice: dict[str, Any], error: str
) -> None:
    store, made = schedule(notice)
    (told,) = notify(store, made, RUN, lambda: NOW)
    assert error in str(told.error)
    assert "token" not in str(told.error)
    assert len(waiting_notices(store, "nightly")) == 1


def test_a_mail_server_without_the_demanded_encryption_gets_nothing(schedule: Make) -> None:
    with mail_server() as (port, said):
        mail = {"kind": "email", "to": ["a@b.org"], "sender": "c@d.org", "host": "127.0.0.1", "port": port}
        store, made = schedule(mail)
        (told,) = notify(store, made, RUN, lambda: NOW)
    assert told.error == "the mail server did not take it (SMTPNotSupportedError)."
    assert not any(line.upper().startswith(("MAIL", "DATA")) for line in said)
    assert os.linesep.join(said).count("c@d.org") == 0


def test_mail_over_starttls_to_a_server_that_can_prove_its_name(
    schedule: Make, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mail = {
        "kind": "email",
        "to": ["ada@example.org"],
        "sender": "c@d.org",
        "user": "u",
        "password_env": "KSDP_PW",
    }
    monkeypatch.setenv("KSDP_PW", "secret-word")
    with mail_server(certificate) as (port, said):
        store, made = schedule(mail | {"host": "127.0.0.1", "port": port})
        (told,) = notify(store, made, RUN, lambda: NOW)
        assert told.error == "the mail server did not take it (SSLCertVerificationError)."
        assert not any(line.upper().startswith(("AUTH", "MAIL")) for line in said)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))  # now it is known
        said.clear()
        (again,) = send_waiting(store, "nightly", lambda: NOW + timedelta(minutes=2))
        assert again.delivered, again.error
    verbs = [line.split()[0].upper() for line in said]
    assert verbs.index("STARTTLS") < verbs.index("AUTH") < verbs.index("MAIL")
    assert "2 documents became sensitive" in max(said, key=len)
