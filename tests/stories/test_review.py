"""The dashboard as people use it: Debian's Chromium, a real server, a fresh profile a visit.

A console error or a request that leaves the host fails any test here. With KSDP_SCREENSHOTS=1 the pictures of the
documentation are written.
"""

import hashlib
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvicorn
from axe_playwright_python.sync_playwright import Axe
from PIL import Image
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect, sync_playwright

from ksdp.audit.screening.clearance import attempt_of, question_of
from ksdp.dashboards.app import create_app
from ksdp.dashboards.reviews import Actions
from ksdp.dashboards.security import LocalReviewer, ReviewerSource, TokenReviewers, origins_of
from ksdp.dashboards.words import plural
from ksdp.storage.audits.continuation import claimed, write_progress
from ksdp.storage.audits.history import read_summary
from ksdp.storage.audits.ledger import record_attempt
from ksdp.storage.findings import read_spec, read_verdicts
from ksdp.storage.reviews.decisions import read_log
from ksdp.storage.store import Store

ROOT = Path(__file__).resolve().parents[2]
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
TOKENS = {"Ada": "ada-has-this-long-token", "Grace": "grace-has-another-token"}
DOCUMENT = "/audits/svd-09/document?id=mail-00007&sort=id&at=7"
PAGES = {
    "home": "/",
    "audits": "/audits",
    "audit": "/audits/svd-09",
    "void": "/audits/svd-03",
    "document": DOCUMENT,
    "queue": "/queue?audit=svd-09",
    "log": "/log?check=1",
    "looks": "/log?kind=looks",
    "screens": "/screens",
    "screen": "/screens/screen01",
    "compare": "/compare?a=svd-08&b=svd-09",
    "schedules": "/schedules",
    "runs": "/runs",
    "report": "/audits/svd-09/report.html",
    "trouble": "/audits/none",
}


@contextmanager
def serving(store: Store, source: ReviewerSource) -> Iterator[str]:
    """A server on a free port of loopback; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    app = create_app(
        store,
        actions=Actions(resolve=lambda _, name: f"The text of {name}.", clock=lambda: datetime.now(UTC)),
        source=source,
        origins=origins_of("127.0.0.1", port, tls=False),
    )
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(10)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = shutil.which("chromium")
    if path is None:
        reason = "there is no `chromium` on the path (apt-get install chromium)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield started
        started.close()


Visit = Callable[..., Page]


@pytest.fixture
def visit(browser: Browser) -> Iterator[Visit]:
    """Open an address in a fresh profile; what goes wrong there fails the test at its end."""
    wrong: list[str] = []
    contexts: list[BrowserContext] = []

    def opened(base: str, address: str, *, expected: tuple[int, ...] = (), **options: Any) -> Page:
        context = browser.new_context(**({"viewport": {"width": 1200, "height": 860}} | options))
        context.set_default_timeout(8000)
        contexts.append(context)
        page = context.new_page()
        host = urlsplit(base).netloc

        def said(message: Any) -> None:
            allowed = any(f"status of {status} " in message.text for status in expected)
            if message.type in ("error", "warning") and not allowed:
                wrong.append(message.text)

        page.on("console", said)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        context.on(
            "request",
            lambda request: wrong.append(request.url) if urlsplit(request.url).netloc not in (host, "") else None,
        )
        page.goto(base + address)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []


@pytest.fixture(scope="module")
def looked_at(history_store: Store) -> Iterator[str]:
    """A server for tests that only look."""
    with serving(history_store, LocalReviewer("Ada")) as base:
        yield base


def of_tokens() -> TokenReviewers:
    return TokenReviewers({hashlib.sha256(token.encode()).hexdigest(): name for name, token in TOKENS.items()})


def sign_in(page: Page, name: str) -> None:
    page.get_by_label("Token").fill(TOKENS[name])
    page.get_by_role("button", name="Sign in").click()


def test_pages_are_quick_small_accessible_and_fit_a_phone(looked_at: str, visit: Visit) -> None:
    page = visit(looked_at, "/audits", expected=(404,))
    for name, address in PAGES.items():
        page.set_viewport_size({"width": 1200, "height": 860})
        page.goto(looked_at + address)
        size = page.evaluate("performance.getEntriesByType('navigation')[0].decodedBodySize")
        asked = page.evaluate("performance.getEntriesByType('resource').length")
        assert asked <= 5, f"quick: {name} takes few files besides; seconds are those of the machine"
        assert size < 200_000, name
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
            faults = [(rule["id"], [node["target"] for node in rule["nodes"]]) for rule in found]
            assert faults == [], (name, scheme)
        page.set_viewport_size({"width": 400, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == 400, name


def test_from_a_finished_audit_to_a_clearance(own_store: Store, visit: Visit, tmp_path: Path) -> None:
    verdicts = read_verdicts(own_store.audit("svd-09")).to_pandas().set_index("document").verdict
    with serving(own_store, of_tokens()) as base:
        page = visit(base, "/audits")
        sign_in(page, "Ada")
        page.get_by_role("link", name="12 Nov 2026, 02:31 UTC").click()
        expect(page.locator("#result .sensitive .number")).to_have_text(str((verdicts == "sensitive").sum()))
        page.get_by_label("Verdict").select_option("sensitive")
        page.get_by_role("button", name="Show").click()
        expect(page.locator("#documents caption")).to_contain_text("with the verdict sensitive")
        page.locator("[data-row]").first.click()
        first = page.locator("h1").inner_text()
        assert verdicts[first] == "sensitive"
        expect(page.locator(".gallery svg.ecdf")).to_have_count(4)
        page.get_by_label("Accept").check()
        page.get_by_label("Reason").fill("known to the public already")
        page.get_by_role("button", name="Record and go to the next").click()
        second = page.locator("h1").inner_text()
        assert second != first
        expect(page.get_by_role("status")).to_contain_text("Recorded as entry 1")
        page.get_by_role("link", name="Queue").click()
        page.get_by_role("link", name="PD-SVD").locator("xpath=ancestor::tr").get_by_role("link").nth(1).click()
        left = int((verdicts != "clear").sum()) - 1
        expect(page.locator("#documents ~ form caption, section caption").last).to_contain_text(
            plural(left, "document", "documents")
        )
        page.get_by_label("Choose all on this page").check()
        page.get_by_label("Exclude").check()
        page.get_by_label("Reason").fill("they give themselves away")
        page.get_by_role("button", name="Record").click()
        expect(page.get_by_role("status")).to_contain_text(
            plural(left, "decision is", "decisions are") + " recorded"
        )
        expect(page.locator(".headline")).to_contain_text("Nothing is left to decide")
        page.get_by_role("link", name="Log").click()
        page.get_by_role("link", name="Check the chain").click()
        expect(page.get_by_role("status")).to_contain_text(f"The chain holds: {left + 1} entries")
    spec, summary = read_spec(own_store.audit("svd-09")), read_summary(own_store.audit("svd-09"))
    question = question_of(spec, summary.corpus, summary.documents)
    at, runs = "2026-11-10T02:30:07+00:00", summary.runs
    record_attempt(own_store, attempt_of(spec, "svd-09", at, runs, 1, question=question, given=spec))
    said = cleared(own_store, tmp_path)
    assert "may be listed" in said
    assert "not signed: A list of" in said, "so few mails hide one another in no exact numbers"
    assert not (tmp_path / "mail.clearance").exists()


def cleared(store: Store, folder: Path) -> str:
    """Ask for a signature as the queue's last lines say; what the command says to people."""

    def ksdp(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "ksdp", *arguments]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=120)

    assert ksdp("keys", "ada").returncode == 0
    where = ("--store", str(store.root), "--who", "Ada")
    done = ksdp("clear", "svd-09", "--key", "ada.key", "--clearance", "mail.clearance", *where)
    assert done.returncode == 3, done.stderr
    return done.stderr


def test_two_reviewers_at_once(own_store: Store, visit: Visit) -> None:
    with serving(own_store, of_tokens()) as base:
        ada, grace = visit(base, DOCUMENT, expected=(409,)), visit(base, DOCUMENT)
        for page, name in ((ada, "Ada"), (grace, "Grace")):
            sign_in(page, name)
            expect(page.locator(".who")).to_contain_text(name)
        grace.get_by_label("Accept").check()
        grace.get_by_label("Reason").fill("Grace saw it first")
        grace.get_by_role("button", name="Record", exact=True).click()
        expect(grace.get_by_role("status")).to_contain_text("entry 1")
        ada.get_by_label("Exclude").check()
        ada.get_by_label("Reason").fill("Ada typed this for minutes")
        ada.get_by_role("button", name="Record", exact=True).click()
        expect(ada.get_by_role("alert")).to_contain_text("Grace saw it first")
        expect(ada.get_by_label("Reason")).to_have_value("Ada typed this for minutes")
        assert len(read_log(own_store)) == 1
        ada.get_by_role("button", name="Record", exact=True).click()
        expect(ada.get_by_role("status")).to_contain_text("entry 2")
    assert [(entry.reviewer, entry.decision) for entry in read_log(own_store)] == [
        ("Grace", "accept"),
        ("Ada", "exclude"),
    ]


def test_without_javascript(own_store: Store, visit: Visit) -> None:
    with serving(own_store, LocalReviewer("Ada")) as base:
        page = visit(base, "/audits", java_script_enabled=False)
        page.get_by_role("link", name="12 Nov 2026, 02:31 UTC").click()
        page.get_by_label("Part of an id").fill("00007")
        page.get_by_role("button", name="Show").click()
        page.get_by_role("link", name="mail-00007").click()
        expect(page.locator(".gallery svg.ecdf").first).to_be_visible()
        expect(page.locator(".keys")).to_be_hidden()
        page.get_by_label("Exclude").check()
        page.get_by_label("Reason").fill("no script, no trouble")
        page.get_by_role("button", name="Record").first.click()
        expect(page.get_by_role("status")).to_contain_text("entry 1")
        page.get_by_role("button", name="Fetch and show it").click()
        expect(page.locator("pre.text")).to_have_text("The text of mail-00007.")


def test_back_and_deep_links(looked_at: str, visit: Visit) -> None:
    page = visit(looked_at, "/audits/svd-09")
    page.get_by_label("Order", exact=True).select_option("id")
    page.get_by_role("button", name="Show").click()
    page.locator(".pager").get_by_role("link", name="Next").click()
    expect(page.locator("[data-row]").first).to_have_text("mail-00025")
    listed = page.url
    page.locator("[data-row]").nth(2).click()
    expect(page.locator("h1")).to_have_text("mail-00027")
    page.get_by_role("link", name="Next").click()
    expect(page.locator("h1")).to_have_text("mail-00028")
    deep = page.url
    page.go_back()
    page.go_back()
    assert page.url == listed
    expect(page.locator("[data-row]").first).to_have_text("mail-00025")
    expect(page.get_by_label("Order", exact=True)).to_have_value("id")
    again = visit(looked_at, deep.removeprefix(looked_at))
    expect(again.locator("h1")).to_have_text("mail-00028")
    expect(again.get_by_text("29 of 60")).to_be_visible()


def test_by_keyboard_alone(own_store: Store, visit: Visit) -> None:
    with serving(own_store, LocalReviewer("Ada")) as base:
        page = visit(base, "/audits/svd-09?sort=id")
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
        page.keyboard.press("/")
        expect(page.get_by_label("Part of an id")).to_be_focused()
        page.keyboard.type("j")  # a letter in a field is a letter
        expect(page.get_by_label("Part of an id")).to_have_value("j")
        page.keyboard.press("Backspace")
        page.get_by_label("Part of an id").blur()
        page.keyboard.press("n")
        expect(page).to_have_url(f"{base}/audits/svd-09?sort=id&page=2#documents")
        page.keyboard.press("j")
        page.keyboard.press("j")
        page.keyboard.press("k")
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_have_text("mail-00025")
        page.keyboard.press("j")
        expect(page.locator("h1")).to_have_text("mail-00026")
        page.keyboard.press("e")
        expect(page.get_by_label("Exclude")).to_be_focused()
        page.keyboard.press("Tab")
        page.keyboard.type("a reason, typed")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.get_by_role("status")).to_contain_text("entry 1")
        page.get_by_text("Keyboard", exact=True).click()
        page.get_by_label("Use these keys").uncheck()
        page.get_by_label("Use these keys").blur()
        page.keyboard.press("j")
        page.wait_for_timeout(200)
        expect(page.locator("h1")).to_have_text("mail-00026")


def test_more_runs_are_followed_while_a_reason_is_typed(own_store: Store, visit: Visit) -> None:
    def say(state: str, **more: Any) -> None:
        times = {"started": "2026-11-12T05:00:00+00:00", "changed": "2026-11-12T05:01:05+00:00"}
        write_progress(own_store, "svd-09", {"state": state, "documents": 2, "runs": 640} | times | more)

    def violations(page: Page) -> list[str]:
        found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
        return [rule["id"] for rule in found]

    with serving(own_store, LocalReviewer("Ada")) as base, claimed(own_store, "svd-09"):
        say("waiting")
        page, alone = visit(base, DOCUMENT), visit(base, "/audits/svd-09/more-runs", java_script_enabled=False)
        shown = page.locator(".more-runs")
        expect(shown).to_contain_text("queued. Another audit is running in this store")
        page.get_by_label("Reason").fill("typed for minutes")
        say("running", stage="sample look-2", units=640, total=1280)
        expect(shown).to_contain_text("running the mechanism, look 2, 640 of 1,280 runs")
        expect(shown).to_contain_text("For 2 documents; 640 runs so far")
        expect(shown).to_contain_text("1 min 5 s")
        expect(page.get_by_role("status")).to_contain_text("running the mechanism")
        assert shown.locator("progress").get_attribute("value") == "640"
        assert violations(page) == []
        expect(alone.locator(".more-runs")).to_contain_text("640 of 1,280 runs")  # it loads itself again
        queue = visit(base, "/queue?audit=svd-09")
        expect(queue.locator(".more-runs")).to_contain_text("640 of 1,280 runs")
        say("done", audit="svd-08")
        expect(shown.get_by_role("link", name="Audit svd-08")).to_be_visible()
        expect(queue.locator(".more-runs")).to_contain_text("More runs are done")
        expect(page.get_by_label("Reason")).to_have_value("typed for minutes")
        say("failed", reason="the disk is full.")
        page.goto(f"{base}/audits/svd-09/more-runs")
        expect(shown).to_contain_text("More runs failed: the disk is full.")
        assert violations(page) == []


def photograph(shown: Page | Locator, file: Path) -> None:
    shown.screenshot(path=file)
    Image.open(file).quantize(64).save(file, optimize=True)
    assert file.stat().st_size < 60_000


@pytest.mark.skipif(not os.environ.get("KSDP_SCREENSHOTS"), reason="KSDP_SCREENSHOTS is not set")
def test_screenshots_of_the_documentation(looked_at: str, visit: Visit, own_store: Store) -> None:
    folder = ROOT / "docs" / "screenshots"
    folder.mkdir(exist_ok=True)
    tall = {"viewport": {"width": 1200, "height": 1640}}
    plain = ("audits", "audit", "queue", "compare", "schedules")
    shots: dict[str, Page | Locator] = {name: visit(looked_at, PAGES[name]) for name in plain}
    document = visit(looked_at, "/audits/svd-09/document?id=mail-00019&at=3", **tall)
    shots["document"] = document.locator("section:has(.gallery)")
    small = {"width": 400, "height": 860}
    shots["document-phone-dark"] = visit(looked_at, DOCUMENT, color_scheme="dark", viewport=small)
    with serving(own_store, LocalReviewer("Ada")) as base, claimed(own_store, "svd-09"):
        times = {"started": "2026-11-12T05:00:00+00:00", "changed": "2026-11-12T05:01:05+00:00"}
        said = {"state": "running", "documents": 2, "stage": "sample", "units": 2176, "total": 3700, "runs": 2176}
        write_progress(own_store, "svd-09", said | times)
        page = visit(base, f"{DOCUMENT}#review", viewport={"width": 1200, "height": 640})
        page.locator("#review").scroll_into_view_if_needed()
        photograph(page, folder / "more-runs.png")
        page.close()  # it asks how far they are, as long as it is open
    for name, page in shots.items():
        photograph(page, folder / f"{name}.png")
