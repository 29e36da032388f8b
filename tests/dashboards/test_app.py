"""Every route by TestClient: status, headers, filters, forms, and what is refused."""

import hashlib
import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from ksdp.audit.errors import StoreError
from ksdp.audit.screening.clearance import attempt_of, list_attempt, question_of
from ksdp.dashboards.app import create_app
from ksdp.dashboards.reviews import Actions
from ksdp.dashboards.security import LocalReviewer, ReviewerSource, TokenReviewers
from ksdp.storage.audits.ledger import record_attempt
from ksdp.storage.findings import read_spec, read_verdicts
from ksdp.storage.reviews.decisions import Policy, document_state, read_log, write_policy
from ksdp.storage.reviews.document_text import read_accesses
from ksdp.storage.store import Store

from ..flips import flip

ORIGIN = "http://127.0.0.1:8700"
NOW = datetime(2026, 11, 12, 9, 0, tzinfo=UTC)
OURS = {"origin": ORIGIN, "sec-fetch-site": "same-origin"}
PAGES = (
    "/", "/audits", "/audits?page=1", "/audits/svd-09", "/audits/svd-03", "/audits/nmf-01",
    "/audits/svd-09?verdict=sensitive&sort=advantage&down=1&search=mail&page=1",
    "/audits/svd-09/document?id=mail-00007", "/audits/svd-01/document?id=mail-00007", "/audits/svd-09/report.html",
    "/queue", "/queue?show=decided", "/queue?audit=svd-08&show=waiting", "/log", "/log?kind=looks", "/log?check=1",
    "/screens", "/screens/screen01", "/compare", "/compare?a=svd-08&b=svd-09", "/compare?a=svd-01&b=nmf-01",
    "/schedules", "/runs",
)  # fmt: skip


def client(
    store: Store, source: ReviewerSource | None = None, *, redirects: bool = True, **actions: Any
) -> TestClient:
    app = create_app(
        store,
        actions=Actions(clock=lambda: NOW, **actions),
        source=source or LocalReviewer("Ada"),
        origins=frozenset({ORIGIN}),
    )
    return TestClient(app, base_url=ORIGIN, follow_redirects=redirects)


def decision(**changes: str) -> dict[str, str]:
    form = {"document": "mail-00007", "saw": "0", "decision": "exclude", "reason": "too much", "back": "/queue"}
    return form | changes


@pytest.mark.parametrize("address", PAGES)
def test_every_page_answers_is_small_and_is_guarded(history_store: Store, address: str) -> None:
    got = client(history_store).get(address)
    assert got.status_code == 200
    assert len(got.content) < 200_000
    policy = got.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert got.headers["cache-control"] == "no-store"
    assert got.headers["x-content-type-options"] == "nosniff"
    assert got.headers["referrer-policy"] == "same-origin"
    page = got.text
    assert not re.search(r"""(?:src|href|action)=["'](?:https?:)?//""", page)
    assert not re.search(r"\sstyle=|\son[a-z]+=", page)  # the policy would drop them silently
    assert page.count("<h1") == 1


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/nothing", 404),
        ("/audits/%2e%2e", 404),
        ("/audits/%2e%2e%2fkeys", 404),
        ("/audits/svd-09/document?id=nobody", 404),
        ("/audits/svd-09/document?id=mail-00007&statistic=none", 404),
        ("/screens/none", 404),
        ("/compare?a=svd-08&b=svd-09&from=good&to=bad", 400),
        ("/audits/svd-09?verdict=great", 400),
        ("/audits/svd-09?sort=colour", 400),
        ("/audits/svd-09?page=٣", 400),
        ("/audits/svd-09/document?id=mail-00007&at=-1", 400),
        ("/queue?show=all", 400),
    ],
)
def test_what_is_not_there_is_said_on_a_page(history_store: Store, address: str, status: int) -> None:
    got = client(history_store).get(address)
    assert got.status_code == status
    assert "<h1>" in got.text
    assert got.headers["content-security-policy"]


def test_documents_are_filtered_sorted_searched_and_paged(history_store: Store) -> None:
    rows = read_verdicts(history_store.audit("svd-09")).to_pandas()
    visit = client(history_store)

    def shown(query: str) -> list[str]:
        page = visit.get(f"/audits/svd-09?{query}").text
        return re.findall(r"data-row href=\"[^\"]*\"><bdi>([^<]*)</bdi>", page)

    sensitive = rows[rows.verdict == "sensitive"]
    assert set(shown("verdict=sensitive")) == set(sensitive.document)
    by_d = rows.sort_values(["distance", "document"], ascending=[False, True]).document.tolist()
    assert shown("sort=advantage") == by_d[:25]
    assert shown("sort=advantage&page=3") == by_d[50:]
    assert shown("sort=id&down=1")[0] == rows.document.max()
    assert shown("search=0002&sort=id") == sorted(name for name in rows.document if "0002" in name)[:25]
    assert shown("search=%25") == []  # not a pattern


def test_a_document_page_draws_every_statistic_and_knows_its_neighbours_in_the_list(history_store: Store) -> None:
    rows = read_verdicts(history_store.audit("svd-09")).to_pandas()
    by_id = sorted(rows.document)
    page = client(history_store).get(f"/audits/svd-09/document?id={by_id[4]}&sort=id&at=4").text
    assert page.count('class="chart ecdf"') == 4
    assert "5 of 60" in page
    assert f'rel="prev" data-step href="/audits/svd-09/document?id={by_id[3]}&amp;at=3&amp;sort=id"' in page
    assert f'rel="next" data-step href="/audits/svd-09/document?id={by_id[5]}&amp;at=5&amp;sort=id"' in page
    assert "Documents like it" in page
    assert page.count('<li><a href="/audits/svd-09/document?id=mail-') == 10


def test_a_document_whose_values_are_gone_still_has_a_page(own_store: Store) -> None:
    visit = client(own_store)
    older = visit.get("/audits/svd-01/document?id=mail-00007").text
    assert "are not all in the store" in older
    assert "w-max" in older
    shutil.rmtree(own_store.root / "runs")
    assert "are not all in the store" in visit.get("/audits/svd-09/document?id=mail-00007").text


def test_ids_are_only_ever_data(make_audit: Callable[..., tuple[Store, str]]) -> None:
    nasty = ["<script>alert(1)</script>", "a/../../b", "x&id=y", 'q"uote', "ü ñ", "?#%2f", "-rf", "a" * 300]
    store, audit = make_audit(documents=8, ids=nasty, stored=True)
    visit = client(store)
    listed = visit.get(f"/audits/{audit}").text
    assert "<script>alert" not in listed
    for name in nasty:
        got = visit.get(f"/audits/{audit}/document?id={quote(name, safe='')}")
        assert got.status_code == 200
        assert "<script>alert" not in got.text
        sent = visit.post(f"/audits/{audit}/decisions", data=decision(document=name), headers=OURS)
        assert sent.status_code == 200
    assert {entry.document for entry in read_log(store)} == set(nasty)


def test_a_decision_is_recorded_by_name_and_shown(own_store: Store) -> None:
    visit = client(own_store, redirects=False)
    back = "/audits/svd-09/document?id=mail-00007&sort=id&at=7"
    got = visit.post("/audits/svd-09/decisions", data=decision(back=back), headers=OURS)
    assert got.status_code == 303
    assert got.headers["location"].startswith("/audits/svd-09/document?id=mail-00007&sort=id&at=7&recorded=1")
    (entry,) = read_log(own_store)
    assert (entry.document, entry.decision, entry.reviewer, entry.at) == ("mail-00007", "exclude", "Ada", NOW)
    page = visit.get(got.headers["location"]).text
    assert "Recorded as entry 1" in page
    assert "In force" in page
    assert "too much" in visit.get("/log").text
    assert "The chain holds: 1 entry" in visit.get("/log?check=1").text


def test_record_and_next_goes_to_the_next_one(own_store: Store) -> None:
    onward = "/audits/svd-09/document?id=mail-00008"
    form = decision(then="next", next=onward)
    got = client(own_store, redirects=False).post("/audits/svd-09/decisions", data=form, headers=OURS)
    assert got.headers["location"].startswith(onward)
    form = decision(document="mail-00009", then="next", next="//evil.example/")
    got = client(own_store, redirects=False).post("/audits/svd-09/decisions", data=form, headers=OURS)
    assert got.headers["location"].startswith("/queue?")


def test_all_that_say_the_same_are_decided_at_once_as_they_were_seen(own_store: Store) -> None:
    visit, rows = client(own_store), read_verdicts(own_store.audit("svd-09")).to_pandas()
    sensitive = rows[rows.verdict == "sensitive"]
    group = sensitive[sensitive.statistic == sensitive.statistic.mode()[0]]
    back = f"/queue?audit=svd-09&verdict=sensitive&reason={group.statistic.iloc[0]}"
    page = visit.get(back).text
    assert f"{len(group)} <span" in page
    form = decision(boxes="1", every="1", seen="0", back=back)
    visit.post("/audits/svd-09/decisions", data=form, headers=OURS)
    assert {entry.document for entry in read_log(own_store)} == set(group.document)
    again = visit.post("/audits/svd-09/decisions", data=form | {"back": back + "&show=decided"}, headers=OURS)
    assert again.status_code == 409  # they changed since entry 0
    assert len(read_log(own_store)) == len(group)


def test_a_stale_decision_is_refused_with_the_newer_one_and_nothing_typed_is_lost(own_store: Store) -> None:
    client(own_store, LocalReviewer("Grace")).post(
        "/audits/svd-09/decisions", data=decision(decision="accept", reason="Grace was first"), headers=OURS
    )
    form = decision(back="/audits/svd-09/document?id=mail-00007", reason="my long reason")
    got = client(own_store).post("/audits/svd-09/decisions", data=form, headers=OURS)
    assert got.status_code == 409
    for said in ("Not recorded", "Grace was first", "my long reason</textarea>", 'name="saw" value="1"'):
        assert said in got.text
    assert len(read_log(own_store)) == 1


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"reason": "  "}, 422),
        ({"decision": "burn"}, 422),
        ({"decision": "confirm"}, 422),
        ({"document": "nobody"}, 404),
        ({"saw": "7"}, 422),
    ],
)
def test_wrong_forms_record_nothing(own_store: Store, change: dict[str, str], status: int) -> None:
    form = decision(back="/audits/svd-09/document?id=mail-00007") | change
    got = client(own_store).post("/audits/svd-09/decisions", data=form, headers=OURS)
    assert got.status_code == status
    assert read_log(own_store) == []


def test_the_queue_says_which_audit_is_signed_by_itself(own_store: Store) -> None:
    spec = read_spec(own_store.audit("svd-07"))
    asked = {"question": question_of(spec, "sha256:aa", 60), "given": spec, "name": list_attempt("svd-06")}
    record_attempt(own_store, attempt_of(spec, "svd-07", "2026-11-08T02:30:07+00:00", 400, 1, **asked))
    visit = client(own_store)
    assert "ksdp clear svd-09" in visit.get("/queue?audit=svd-09").text
    page = visit.get("/queue?audit=svd-07").text
    assert "This audit is an audit of the list that audit svd-06 proposed" in page
    assert "ksdp clear" not in page


def test_many_are_decided_at_once_from_the_queue(own_store: Store) -> None:
    visit = client(own_store)
    page = visit.get("/queue?audit=svd-09").text
    names = re.findall(r'name="document" value="([^"]*)"', page)
    assert len(names) >= 2
    form = {"boxes": "1", "document": names, "saw": ["0"] * len(names), "chosen": names[:2],
            "decision": "exclude", "reason": "all of a kind", "back": "/queue?audit=svd-09"}  # fmt: skip
    got = visit.post("/audits/svd-09/decisions", data=form, headers=OURS)
    assert "2 decisions are recorded" in got.text
    assert [entry.document for entry in read_log(own_store)] == names[:2]
    left = re.findall(r'name="document" value="([^"]*)"', visit.get("/queue?audit=svd-09").text)
    assert not set(left) & set(names[:2])
    assert names[0] in visit.get("/queue?audit=svd-09&show=decided").text
    nothing = visit.post("/audits/svd-09/decisions", data=form | {"chosen": []}, headers=OURS)
    assert nothing.status_code == 422


def test_four_eyes_wait_for_another_person(own_store: Store) -> None:
    write_policy(own_store, Policy(four_eyes=True))
    ada, grace = client(own_store), client(own_store, LocalReviewer("Grace"))
    ada.post("/audits/svd-09/decisions", data=decision(), headers=OURS)
    address = "/audits/svd-09/document?id=mail-00007"
    assert 'value="confirm"' not in ada.get(address).text
    assert 'value="confirm"' in grace.get(address).text
    assert "mail-00007" in grace.get("/queue?audit=svd-09&show=waiting").text
    own = ada.post("/audits/svd-09/decisions", data=decision(decision="confirm", saw="1"), headers=OURS)
    assert own.status_code == 422
    grace.post(
        "/audits/svd-09/decisions", data=decision(decision="confirm", saw="1", reason="so it is"), headers=OURS
    )
    assert document_state(own_store, "svd-09", "mail-00007").confirmed is not None


def test_an_owner_a_day_and_a_comment_are_notes_that_the_queue_shows_first(own_store: Store) -> None:
    visit = client(own_store)

    def listed(query: str = "") -> list[str]:
        page = visit.get(f"/queue?audit=nmf-01{query}").text
        return re.findall(r'name="document" value="([^"]*)"', page)

    before = listed()
    late, later = before[7], before[3]
    for name, due in ((late, "2026-11-11"), (later, "2026-11-12")):
        form = decision(document=name, decision="accept", reason="", note="assign", owner="Grace", due=due)
        visit.post("/audits/nmf-01/decisions", data=form, headers=OURS)
    assert listed() == [late, *(name for name in before if name != late)], "only one day is over"
    assert listed("&sort=id&show=assigned") == [late, later]
    page = visit.get("/queue?audit=nmf-01").text
    assert '<span class="note late"><bdi>Grace</bdi>, due 11 Nov 2026 (overdue)</span>' in page
    assert '<span class="note"><bdi>Grace</bdi>, due 12 Nov 2026</span>' in page
    form = decision(document=late, decision="exclude", reason="consent is asked for", note="comment")
    visit.post("/audits/nmf-01/decisions", data=form, headers=OURS)
    page = visit.get(f"/audits/nmf-01/document?id={late}").text
    assert "consent is asked for" in page
    assert "Nothing is decided about this document" in page
    assert "assign to <bdi>Grace</bdi>, due 11 Nov 2026" in visit.get("/log").text
    refused = visit.post("/audits/nmf-01/decisions", data=form | {"reason": "", "owner": "kept"}, headers=OURS)
    assert refused.status_code == 422
    refused = visit.post("/audits/nmf-01/decisions", data=decision(document=late, due="2026-11-12"), headers=OURS)
    assert refused.status_code == 422
    assert "recorded by Assign" in refused.text


def test_who_is_not_listed_may_comment_alone(own_store: Store) -> None:
    write_policy(own_store, Policy(decide=("Grace",)))
    visit, address = client(own_store), "/audits/svd-09/document?id=mail-00007"
    for page in (visit.get(address).text, visit.get("/queue?audit=svd-09").text):
        assert 'name="decision"' not in page
        assert "made by <bdi>Grace</bdi>; you may comment" in page
    refused = visit.post("/audits/svd-09/decisions", data=decision(back=address), headers=OURS)
    assert (refused.status_code, "ask one of Grace" in refused.text) == (422, True)
    assert visit.post("/audits/svd-09/decisions", data=decision(note="comment"), headers=OURS).status_code == 200
    assert [entry.decision for entry in read_log(own_store)] == ["comment"]


def test_a_text_is_logged_before_it_is_shown_and_never_by_reading(own_store: Store) -> None:
    seen: list[int] = []

    def resolve(audit: str, document: str) -> str:
        seen.append(len(read_accesses(own_store)[0]))
        return "<b>Dear Ada</b>"

    visit = client(own_store, resolve=resolve)
    address = "/audits/svd-09/document?id=mail-00007"
    assert "Dear Ada" not in visit.get(address).text
    assert seen == []
    got = visit.post("/audits/svd-09/text", data={"document": "mail-00007", "back": address}, headers=OURS)
    assert "&lt;b&gt;Dear Ada&lt;/b&gt;" in got.text
    assert seen == [1]
    (look,), broken = read_accesses(own_store)
    assert (look.reviewer, look.audit, look.document, look.at) == ("Ada", "svd-09", "mail-00007", NOW)
    assert broken is None
    assert "mail-00007" in visit.get("/log?kind=looks").text
    assert "Dear Ada" not in visit.get("/log?kind=looks").text


def test_without_a_resolver_there_is_no_text(own_store: Store) -> None:
    visit = client(own_store)
    assert "Fetch and show it" not in visit.get("/audits/svd-09/document?id=mail-00007").text
    form = {"document": "mail-00007", "back": "/"}
    assert visit.post("/audits/svd-09/text", data=form, headers=OURS).status_code == 404
    assert read_accesses(own_store) == ([], None)

    def none(audit: str, document: str) -> str:
        raise StoreError("the resolver has no text for this document (exit code 3).")

    got = client(own_store, resolve=none).post("/audits/svd-09/text", data=form, headers=OURS)
    assert "exit code 3" in got.text


def test_schedules_say_what_changed_and_lead_to_prefect(own_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    visit = client(own_store)
    page = visit.get("/schedules").text
    for said in ("nightly-mail", "9 runs", "/srv/mail.toml", 'href="/audits/svd-09"', "void"):
        assert said in page
    assert "<code>ksdp serve</code> shows the address" in page
    monkeypatch.setenv("PREFECT_API_URL", "https://prefect.example/api")
    assert 'href="https://prefect.example/deployments"' in visit.get("/schedules").text
    assert visit.post("/schedules", data={"action": "pause"}, headers=OURS).status_code == 405


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"origin": "https://evil.example"},
        {"sec-fetch-site": "same-site"},
        {"origin": ORIGIN, "sec-fetch-site": "cross-site"},
        {"origin": "https://127.0.0.1:8700"},
    ],
)
def test_writes_from_elsewhere_are_refused(own_store: Store, headers: dict[str, str]) -> None:
    for address in ("/audits/svd-09/decisions", "/audits/svd-09/text", "/sign-in"):
        assert client(own_store).post(address, data=decision(), headers=headers).status_code == 403
    assert read_log(own_store) == []


@pytest.mark.parametrize("headers", [{"origin": ORIGIN}, {"sec-fetch-site": "same-origin"}])
def test_our_own_writes_are_taken(own_store: Store, headers: dict[str, str]) -> None:
    assert client(own_store).post("/audits/svd-09/decisions", data=decision(), headers=headers).status_code == 200


def test_other_host_names_are_refused(history_store: Store) -> None:
    for host in ("evil.example", "evil.example:8700", "127.0.0.1:8701", "127.0.0.1"):
        got = client(history_store).get("/audits", headers={"host": host})
        assert got.status_code == 421
        assert "svd" not in got.text


def test_other_methods_large_bodies_and_other_kinds_of_bodies_are_refused(own_store: Store) -> None:
    visit = client(own_store)
    assert visit.put("/audits", headers=OURS).status_code == 405
    assert visit.delete("/audits/svd-09", headers=OURS).status_code == 405
    address = "/audits/svd-09/decisions"
    assert visit.post(address, content=b"x" * 3_000_000, headers=OURS).status_code == 413
    assert (
        visit.post(address, content=b"{}", headers=OURS | {"content-type": "application/json"}).status_code == 400
    )
    assert visit.get(address).status_code in (404, 405)
    assert read_log(own_store) == []


def test_static_files_are_kept_and_nothing_else_is_served(history_store: Store) -> None:
    visit = client(history_store)
    address = re.search(r'href="(/static/app\.css\?[0-9a-f]+)"', visit.get("/").text)
    got = visit.get(address[1])
    assert "immutable" in got.headers["cache-control"]
    assert visit.get("/static/../app.py").status_code == 404
    assert visit.get("/static/%2e%2e/app.py").status_code == 404


def test_tokens_sign_in_and_out(own_store: Store) -> None:
    token = "correct-horse-battery-staple"
    source = TokenReviewers({hashlib.sha256(token.encode()).hexdigest(): "Grace"})
    visit = client(own_store, source, redirects=False)
    asked_for = visit.get("/audits/svd-09?sort=id")
    assert asked_for.status_code == 303
    assert asked_for.headers["location"] == "/sign-in?next=/audits/svd-09%3Fsort%3Did"
    assert visit.post("/audits/svd-09/decisions", data=decision(), headers=OURS).status_code == 401
    assert "svd-09" not in visit.get("/sign-in").text
    wrong = visit.post("/sign-in", data={"token": "wrong", "next": "/"}, headers=OURS)
    assert wrong.status_code == 403
    right = visit.post("/sign-in", data={"token": token, "next": "//evil.example"}, headers=OURS)
    assert right.headers["location"] == "/"
    cookie = right.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert token not in cookie
    assert "secure" not in cookie
    assert "Grace" in visit.get("/audits").text
    visit.post("/audits/svd-09/decisions", data=decision(), headers=OURS)
    assert read_log(own_store)[0].reviewer == "Grace"
    visit.post("/sign-out", headers=OURS | {"content-type": "application/x-www-form-urlencoded"})
    assert visit.get("/audits").status_code == 303
    bearer = {"authorization": f"Bearer {token}"}
    assert visit.get("/audits", headers=bearer).status_code == 200


def test_a_cookie_is_secure_where_a_proxy_speaks_tls(own_store: Store) -> None:
    origin = "https://review.example"
    source = TokenReviewers({hashlib.sha256(b"token").hexdigest(): "Grace"})
    app = create_app(own_store, actions=Actions(), source=source, origins=frozenset({origin}))
    visit = TestClient(app, base_url="http://review.example", follow_redirects=False)
    answer = visit.post("/sign-in", data={"token": "token", "next": "/"}, headers={"Origin": origin})
    assert "; Secure" in answer.headers["set-cookie"]


def test_a_reviewer_named_in_the_form_is_not_believed(own_store: Store) -> None:
    client(own_store).post("/audits/svd-09/decisions", data=decision(reviewer="Mallory"), headers=OURS)
    assert read_log(own_store)[0].reviewer == "Ada"


def test_a_damaged_audit_is_named_and_never_taken_for_absent(own_store: Store) -> None:
    pages = ("/audits", "/queue")
    files = sorted(own_store.root.glob("audits/*/audit.json"))
    for page in pages:
        assert "is damaged" not in client(own_store).get(page).text
    for number, file in enumerate(files, start=1):
        flip(file, 800)
        if number in (1, len(files)):
            for page in pages:
                text = client(own_store).get(page).text
                assert f"audit.json of audit &#39;{file.parent.name}&#39; is damaged" in text
                assert text.count("is damaged") == number
    for page in pages:
        text = client(own_store).get(page).text
        assert "in this store yet" not in text
