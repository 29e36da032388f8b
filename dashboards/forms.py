"""Addresses that take a form: each does one thing and sends the browser on, or says why not."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ksdp.dashboards.addresses import link
from ksdp.dashboards.audits.audit_page import require_audit
from ksdp.dashboards.audits.document_page import read_document_page
from ksdp.dashboards.audits.more_runs import wanted
from ksdp.dashboards.rendering import Desk
from ksdp.dashboards.reviewers import COOKIE, TokenReviewers
from ksdp.dashboards.reviews.actions import Form, begin_runs, record, resolve_text, safe_path
from ksdp.dashboards.reviews.queue_page import read_queue_page
from ksdp.dashboards.schedules.schedules_page import SETTINGS, change_schedule, read_schedule_page
from ksdp.storage.errors import InputError, InvalidAudit, StaleDecision, StoreError


def _query(address: str) -> dict[str, str]:
    return {name: values[-1] for name, values in parse_qs(urlsplit(address).query).items()}


def _again(desk: Desk, request: Request, form: Form, status: int, **more: Any) -> Response:
    """The page that the form came from, with what was typed and why it was refused."""
    audit, back = request.path_params["audit"], safe_path(form.one("back"), "/queue")
    typed = {"reason": form.one("reason"), "decision": form.one("decision")}
    if form.one("boxes") == "1":
        page = read_queue_page(desk.store, _query(back) | {"audit": audit})
        more |= {"chosen": form.all("chosen")}
        return desk.page(request, "page_queue", status, page=page, typed=typed, address=back, **more)
    shown = read_document_page(desk.store, audit, _query(back) | {"id": form.one("document")})
    return desk.page(request, "page_document", status, page=shown, typed=typed, address=back, **more)


def decide(desk: Desk, request: Request, form: Form) -> Response:
    """Record decisions; a stale one is refused with the newer one shown."""
    audit = require_audit(desk.store, request.path_params["audit"])
    try:
        entries, begun = record(desk.store, audit, form, request.state.reviewer, desk.actions)
    except StaleDecision as error:
        return _again(desk, request, form, 409, refused=str(error), newer=error.newer)
    except InvalidAudit as error:
        return _again(desk, request, form, 409, refused=str(error))
    except InputError as error:
        return _again(desk, request, form, 422, refused=str(error))
    onward = form.one("next") if form.one("then") == "next" else ""
    back = safe_path(onward, "") or safe_path(form.one("back"), "/queue")
    address, _, _ = back.partition("#")
    parts = urlsplit(address)
    kept = {name: value for name, value in _query(address).items() if name not in ("recorded", "count", "begun")}
    done = {"recorded": entries[-1].number, "count": len(entries), "begun": begun[:300]}
    return RedirectResponse(link(parts.path, "review", **(kept | done)), 303)


def start_runs(desk: Desk, request: Request, form: Form) -> Response:
    """Start more runs that are decided and not under way."""
    audit = require_audit(desk.store, request.path_params["audit"])
    if not wanted(desk.store, audit):
        raise InputError("No decision asks for more runs of documents of this audit.")
    begun = begin_runs(audit, desk.actions)
    return RedirectResponse(link(f"/audits/{audit}/more-runs", begun=begun[:300]), 303)


def text(desk: Desk, request: Request, form: Form) -> Response:
    """Show the text of a document, once, to the person who asked; the access is logged first."""
    audit, document = require_audit(desk.store, request.path_params["audit"]), form.one("document")
    page = read_document_page(desk.store, audit, _query(safe_path(form.one("back"), "")) | {"id": document})
    shown: dict[str, Any] = {}
    try:
        shown["content"] = resolve_text(desk.store, audit, document, request.state.reviewer, desk.actions)
    except StoreError as error:
        shown["no_content"] = str(error)
    back = safe_path(form.one("back"), link(f"/audits/{audit}/document", id=document))
    return desk.page(request, "page_document", page=page, address=back, **shown)


def schedule(desk: Desk, request: Request, form: Form) -> Response:
    """Pause, resume, ask for a run, or change settings."""
    name = request.path_params["name"]
    values = {key: form.one(key) for key in SETTINGS}
    now = desk.actions.clock()
    try:
        change_schedule(desk.store, name, form.one("action"), values, now)
    except InputError as error:
        view = read_schedule_page(desk.store, name, now)
        return desk.page(request, "page_schedule", 422, view=view, typed=values, refused=str(error))
    return RedirectResponse(link(f"/schedules/{name}", done=form.one("action")), 303)


def sign_in_page(desk: Desk, request: Request) -> Response:
    """Where a token is shown."""
    onward = safe_path(request.query_params.get("next", "/"), "/")
    return desk.page(request, "page_sign_in", onward=onward, refused=None)


def sign_in(desk: Desk, request: Request, form: Form) -> Response:
    """Take a token for a cookie."""
    onward = safe_path(form.one("next"), "/")
    if not isinstance(desk.source, TokenReviewers):
        raise LookupError("This dashboard has no sign-in.")
    if desk.source.guesses.too_many(request.client.host if request.client else ""):
        refused = "Too many tokens that are not known came from this address; wait a minute."
        return desk.page(request, "page_sign_in", 429, onward=onward, refused=refused)
    name = desk.source.shown(form.one("token").strip(), request)
    if name is None:
        return desk.page(request, "page_sign_in", 403, onward=onward, refused="This token is not known.")
    response = RedirectResponse(onward, 303)
    secure = request.url.scheme == "https"
    response.set_cookie(COOKIE, desk.source.cookie(name), httponly=True, samesite="strict", secure=secure)
    return response


def sign_out(desk: Desk, request: Request, form: Form) -> Response:
    """Forget who is here, for every copy of the cookie."""
    if isinstance(desk.source, TokenReviewers):
        desk.source.end(request)
    response = RedirectResponse("/sign-in", 303)
    response.delete_cookie(COOKIE)
    return response
