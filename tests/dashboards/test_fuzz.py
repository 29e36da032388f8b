"""Whatever is asked of any address of the dashboard, it answers, and never with a traceback."""

from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from ksdp.dashboards import app as dashboard
from ksdp.dashboards.app import create_app
from ksdp.dashboards.reviews import Actions
from ksdp.dashboards.security import LocalReviewer
from ksdp.storage.store import Store

from .test_app import NOW, ORIGIN, decision

KNOWN = (
    "svd-09",
    "svd-01",
    "screen01",
    "nightly-mail",
    "mail-00007",
    "none",
    "..",
    "%2e%2e",
    "a\u202eb",
    "\U0001f600",
)
KEYS = ("id", "page", "sort", "verdict", "search", "down", "a", "b", "from", "to", "show", "kind", "check", "at",
        "statistic", "audit", "next", "part", "count", "recorded")  # fmt: skip
FIELDS = ("document", "saw", "decision", "reason", "back", "boxes", "chosen", "then", "next", "token", "action")
values = st.sampled_from(KNOWN) | st.text(max_size=30) | st.integers().map(str)
pairs = st.lists(values, min_size=2, max_size=2)
queries = st.lists(st.tuples(st.sampled_from(KEYS), values), max_size=4)
forms = st.lists(st.tuples(st.sampled_from(FIELDS), values), max_size=8)


def filled(route: str, names: list[str]) -> str:
    """A route's address with names in it."""
    parts = []
    for part in route.split("/"):
        parts.append(
            quote(names.pop().encode("utf-8", "replace"), safe="") if part.startswith("{") and names else part
        )
    return "/".join(parts)


def visit(store: Store) -> TestClient:
    app = create_app(
        store, actions=Actions(clock=lambda: NOW), source=LocalReviewer("Ada"), origins=frozenset({ORIGIN})
    )
    return TestClient(app, base_url=ORIGIN, follow_redirects=False)


COMMON: Any = {"deadline": None, "suppress_health_check": [HealthCheck.function_scoped_fixture]}


@settings(max_examples=50, **COMMON)
@given(
    route=st.sampled_from(sorted(dashboard._PAGES)), names=st.lists(values, min_size=2, max_size=2), query=queries
)
@example(route="/queue", names=["a", "b"], query=[("search", "a\u202eb")])
@example(route="/queue", names=["a", "b"], query=[("recorded", "a\u202eb")])
def test_every_page_answers_whatever_is_asked(
    history_store: Store, route: str, names: list[str], query: list[tuple[str, str]]
) -> None:
    asked = urlencode([(key, value.encode("utf-8", "replace")) for key, value in query])
    answer = visit(history_store).get(f"{filled(route, names)}?{asked}")
    assert answer.status_code in (200, 204, 303, 307, 400, 404, 405), (route, names, query)
    assert "Traceback" not in answer.text
    assert "\u202e" not in answer.text


@pytest.mark.parametrize("path", ["/queue", "/audits/svd-09/document?id=mail-00000", "/audits/svd-09/more-runs"])
def test_an_address_puts_no_words_on_a_page(history_store: Store, path: str) -> None:
    """A link that somebody sends must not make a page say that something was decided."""
    sentence = "All+documents+are+clear"
    more = "&".join(f"{key}={sentence}" for key in ("recorded", "count", "begun"))
    answer = visit(history_store).get(f"{path}{'&' if '?' in path else '?'}{more}")
    assert answer.status_code == 200
    assert "All documents are clear" not in answer.text
    assert 'class="done"' not in answer.text


@settings(max_examples=50, **COMMON)
@given(
    route=st.sampled_from(sorted(dashboard._FORMS)),
    names=pairs,
    form=forms,
    raw=st.none() | st.binary(max_size=60),
)
def test_every_form_answers_whatever_is_sent(
    own_store: Store, route: str, names: list[str], form: list[tuple[str, str]], raw: bytes | None
) -> None:
    body = (
        urlencode([(key, value.encode("utf-8", "replace")) for key, value in form]).encode()
        if raw is None
        else raw
    )
    headers = {"Origin": ORIGIN, "Content-Type": "application/x-www-form-urlencoded"}
    answer = visit(own_store).post(filled(route, names), content=body, headers=headers)
    assert answer.status_code in (303, 307, 400, 404, 405, 409, 422), (route, names, form, raw)
    assert "Traceback" not in answer.text


@pytest.mark.parametrize("letter", ["\u202e", "\x07"])
def test_letters_that_are_not_seen_are_refused_in_a_reason(own_store: Store, letter: str) -> None:
    form = decision(reason=f"keep{letter}it")
    answer = visit(own_store).post("/audits/svd-09/decisions", data=form, headers={"Origin": ORIGIN})
    assert answer.status_code == 422
    assert "not seen" in answer.text
