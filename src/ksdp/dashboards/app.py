"""The dashboard as an application: which address shows which page or takes which form; `security` guards them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route

from ksdp.dashboards.addresses import link
from ksdp.dashboards.audits.pages import (
    read_audit_page,
    read_audits_page,
    read_compare_page,
    read_document_page,
    read_more_runs,
    require_audit,
    wanted,
)
from ksdp.dashboards.audits.report import parts_of, render_report
from ksdp.dashboards.audits.result import audit_result
from ksdp.dashboards.home import read_home_page
from ksdp.dashboards.rendering import PageContext, alone, static_files
from ksdp.dashboards.reviews import (
    Actions,
    Form,
    read_form,
    read_log_page,
    read_queue_page,
    record,
    resolve_text,
    safe_path,
)
from ksdp.dashboards.schedules import read_runs_page, read_schedules_page
from ksdp.dashboards.screening import read_screen_page, read_screens_page, render_screen, require_screen
from ksdp.dashboards.security import COOKIE, Gate, ReviewerSource, TokenReviewers
from ksdp.storage.audits.history import read_summary
from ksdp.storage.reviews.decisions import StaleDecision
from ksdp.storage.store import InputError, InvalidAudit, KsdpError, Store, StoreError


def _query(address: str) -> dict[str, str]:
    return {name: values[-1] for name, values in parse_qs(urlsplit(address).query).items()}


def _again(context: PageContext, request: Request, form: Form, status: int, **more: Any) -> Response:
    """The page that the form came from, with what was typed and why it was refused."""
    audit, back = request.path_params["audit"], safe_path(form.one("back"), "/queue")
    typed = {name: form.one(name) for name in ("reason", "decision", "owner", "due")}
    if form.one("boxes") == "1":
        page = read_queue_page(context.store, _query(back) | {"audit": audit}, context.actions.clock().date())
        more |= {"chosen": form.all("chosen")}
        return context.page(request, "page_queue", status, page=page, typed=typed, address=back, **more)
    shown = read_document_page(context.store, audit, _query(back) | {"id": form.one("document")})
    return context.page(request, "page_document", status, page=shown, typed=typed, address=back, **more)


def decide(context: PageContext, request: Request, form: Form) -> Response:
    """Record decisions; a stale one is refused with the newer one shown."""
    audit = require_audit(context.store, request.path_params["audit"])
    try:
        entries = record(context.store, audit, form, request.state.reviewer, context.actions)
    except StaleDecision as error:
        return _again(context, request, form, 409, refused=str(error), newer=error.newer)
    except InvalidAudit as error:
        return _again(context, request, form, 409, refused=str(error))
    except InputError as error:
        return _again(context, request, form, 422, refused=str(error))
    onward = form.one("next") if form.one("then") == "next" else ""
    back = safe_path(onward, "") or safe_path(form.one("back"), "/queue")
    address, _, _ = back.partition("#")
    parts = urlsplit(address)
    kept = {name: value for name, value in _query(address).items() if name not in ("recorded", "count")}
    done = {"recorded": entries[-1].number, "count": len(entries)}
    return RedirectResponse(link(parts.path, "review", **(kept | done)), 303)


def start_runs(context: PageContext, request: Request, form: Form) -> Response:
    """Start more runs that are decided and not under way."""
    audit = require_audit(context.store, request.path_params["audit"])
    if not wanted(context.store, audit):
        raise InputError("No decision asks for more runs of documents of this audit.")
    if context.actions.more_runs is None:
        raise InputError(f"This dashboard starts no runs; `ksdp more-runs {audit}` does.")
    context.actions.more_runs(audit)
    return RedirectResponse(f"/audits/{audit}/more-runs", 303)


def text(context: PageContext, request: Request, form: Form) -> Response:
    """Show the text of a document, once, to the person who asked; the access is logged first."""
    audit, document = require_audit(context.store, request.path_params["audit"]), form.one("document")
    page = read_document_page(context.store, audit, _query(safe_path(form.one("back"), "")) | {"id": document})
    shown: dict[str, Any] = {}
    try:
        shown["content"] = resolve_text(context.store, audit, document, request.state.reviewer, context.actions)
    except StoreError as error:
        shown["no_content"] = str(error)
    back = safe_path(form.one("back"), link(f"/audits/{audit}/document", id=document))
    return context.page(request, "page_document", page=page, address=back, **shown)


def sign_in_page(context: PageContext, request: Request) -> Response:
    """Where a token is shown."""
    onward = safe_path(request.query_params.get("next", "/"), "/")
    return context.page(request, "page_sign_in", onward=onward, refused=None)


def sign_in(context: PageContext, request: Request, form: Form) -> Response:
    """Take a token for a cookie."""
    onward = safe_path(form.one("next"), "/")
    if not isinstance(context.source, TokenReviewers):
        raise LookupError("This dashboard has no sign-in.")
    if context.source.guesses.too_many(request.client.host if request.client else ""):
        refused = "Too many tokens that are not known came from this address; wait a minute."
        return context.page(request, "page_sign_in", 429, onward=onward, refused=refused)
    name = context.source.shown(form.one("token").strip(), request)
    if name is None:
        return context.page(request, "page_sign_in", 403, onward=onward, refused="This token is not known.")
    response = RedirectResponse(onward, 303)
    secure = "https" in (request.url.scheme, urlsplit(request.headers.get("origin", "")).scheme)
    response.set_cookie(COOKIE, context.source.cookie(name), httponly=True, samesite="strict", secure=secure)
    return response


def sign_out(context: PageContext, request: Request, form: Form) -> Response:
    """Forget who is here, for every copy of the cookie."""
    if isinstance(context.source, TokenReviewers):
        context.source.end(request)
    response = RedirectResponse("/sign-in", 303)
    response.delete_cookie(COOKIE)
    return response


Page = Callable[[PageContext, Request], Response]


def _listing(template: str, read: Callable[[Store, Mapping[str, str]], Any]) -> Page:
    return lambda context, request: context.page(request, template, page=read(context.store, request.query_params))


def _of_one(template: str, name: str, read: Callable[[Store, str, Mapping[str, str]], Any]) -> Page:
    return lambda context, request: context.page(
        request, template, page=read(context.store, request.path_params[name], request.query_params)
    )


def _audit(context: PageContext, request: Request) -> Response:
    page = read_audit_page(context.store, request.path_params["audit"], request.query_params)
    return context.page(request, "page_audit", page=page, **parts_of(page.view))


def _more_runs(context: PageContext, request: Request) -> Response:
    audit = require_audit(context.store, request.path_params["audit"])
    more = read_more_runs(context.store, audit)
    asks = (more is None or not more.under_way) and wanted(context.store, audit)
    template = "_more_runs" if request.query_params.get("part") == "1" else "page_more_runs"
    return context.page(request, template, audit=audit, more=more, wanted=asks)


def _queue(context: PageContext, request: Request) -> Response:
    page = read_queue_page(context.store, request.query_params, context.actions.clock().date())
    return context.page(request, "page_queue", page=page)


def _report(context: PageContext, request: Request) -> Response:
    audit = require_audit(context.store, request.path_params["audit"])
    return alone(render_report(audit_result(read_summary(context.store.audit(audit)))))


_PAGES: dict[str, Page] = {
    # Pages name none; browsers ask all the same where a page is plain text.
    "/favicon.ico": lambda context, request: Response(status_code=204),
    "/": lambda context, request: context.page(
        request, "page_home", page=read_home_page(context.store, context.actions.clock())
    ),
    "/audits": _listing("page_audits", read_audits_page),
    "/audits/{audit}": _audit,
    "/audits/{audit}/document": _of_one("page_document", "audit", read_document_page),
    "/audits/{audit}/report.html": _report,
    "/audits/{audit}/more-runs": _more_runs,
    "/screens": _listing("page_screens", read_screens_page),
    "/screens/{screen}": _of_one("page_screen", "screen", read_screen_page),
    "/screens/{screen}/report.html": lambda context, request: alone(
        render_screen(context.store, require_screen(context.store, request.path_params["screen"]))
    ),
    "/compare": _listing("page_compare", read_compare_page),
    "/queue": _queue,
    "/log": _listing("page_log", read_log_page),
    "/schedules": _listing("page_schedules", read_schedules_page),
    "/runs": _listing("page_runs", read_runs_page),
    "/sign-in": sign_in_page,
}
_FORMS: dict[str, Callable[[PageContext, Request, Form], Response]] = {
    "/audits/{audit}/decisions": decide,
    "/audits/{audit}/more-runs": start_runs,
    "/audits/{audit}/text": text,
    "/sign-in": sign_in,
    "/sign-out": sign_out,
}


def _trouble(context: PageContext, request: Request, error: Exception) -> Response:
    if isinstance(error, LookupError):
        return context.trouble(request, 404, "Not found", str(error.args[0]) if error.args else "There is none.")
    if isinstance(error, InputError):
        return context.trouble(request, 400, "Refused", str(error))
    return context.trouble(request, 500, "The store cannot answer", str(error))


def _shows(context: PageContext, page: Page) -> Callable[[Request], Response]:
    def endpoint(request: Request) -> Response:
        try:
            return page(context, request)
        except (LookupError, KsdpError) as error:
            return _trouble(context, request, error)

    return endpoint


def _does(
    context: PageContext, act: Callable[[PageContext, Request, Form], Response]
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            form = await read_form(request)
            return await run_in_threadpool(act, context, request, form)
        except (LookupError, KsdpError) as error:
            return _trouble(context, request, error)
        except ClientDisconnect:
            return PlainTextResponse("Refused: the body was cut off.", 400)

    return endpoint


def create_app(store: Store, *, actions: Actions, source: ReviewerSource, origins: frozenset[str]) -> Starlette:
    """Make the dashboard of a store."""
    context = PageContext(store, actions, source)

    def missing(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        messages = {404: "There is no such page.", 405: "This address does not take that."}
        return context.trouble(
            request, status, "Not found" if status == 404 else "Refused", messages.get(status, "")
        )

    routes: list[Any] = [Route(path, _shows(context, page), methods=["GET"]) for path, page in _PAGES.items()]
    routes += [Route(path, _does(context, act), methods=["POST"]) for path, act in _FORMS.items()]
    routes.append(Mount("/static", static_files()))
    return Starlette(
        routes=routes,
        middleware=[Middleware(Gate, origins=origins, source=source)],
        exception_handlers={HTTPException: missing},
    )
