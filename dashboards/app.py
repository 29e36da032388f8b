"""The dashboard as an application: which address shows which page. `pages` makes them, `security` guards them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route

from ksdp.dashboards import forms
from ksdp.dashboards.audits.audit_page import read_audit_page, require_audit
from ksdp.dashboards.audits.compare_page import read_compare_page
from ksdp.dashboards.audits.document_page import read_document_page
from ksdp.dashboards.audits.list_page import read_audits_page
from ksdp.dashboards.audits.more_runs import read_more_runs, wanted
from ksdp.dashboards.audits.report import parts_of
from ksdp.dashboards.audits.views_page import read_views_list, read_views_page, require_views
from ksdp.dashboards.rendering import Desk, report_response, screen_response, static_files, views_response
from ksdp.dashboards.reviewers import ReviewerSource
from ksdp.dashboards.reviews.actions import Actions, Form, read_form
from ksdp.dashboards.reviews.log_page import read_log_page
from ksdp.dashboards.reviews.queue_page import read_queue_page
from ksdp.dashboards.runs.runs_page import read_runs_page
from ksdp.dashboards.schedules.schedules_page import read_schedule_page, read_schedules_page
from ksdp.dashboards.screening.screens_page import read_screen_page, read_screens_page
from ksdp.dashboards.security import BrokenBody, Gate
from ksdp.storage.errors import InputError, KsdpError
from ksdp.storage.store import Store

Page = Callable[[Desk, Request], Response]


def _audits(desk: Desk, request: Request) -> Response:
    return desk.page(request, "page_audits", page=read_audits_page(desk.store, request.query_params))


def _audit(desk: Desk, request: Request) -> Response:
    page = read_audit_page(desk.store, request.path_params["audit"], request.query_params)
    return desk.page(request, "page_audit", page=page, **parts_of(page.view))


def _document(desk: Desk, request: Request) -> Response:
    page = read_document_page(desk.store, request.path_params["audit"], request.query_params)
    return desk.page(request, "page_document", page=page)


def _report(desk: Desk, request: Request) -> Response:
    return report_response(desk.store, require_audit(desk.store, request.path_params["audit"]))


def _more_runs(desk: Desk, request: Request) -> Response:
    audit = require_audit(desk.store, request.path_params["audit"])
    more = read_more_runs(desk.store, audit)
    asks = (more is None or not more.under_way) and wanted(desk.store, audit)
    template = "_more_runs" if request.query_params.get("part") == "1" else "page_more_runs"
    return desk.page(request, template, audit=audit, more=more, wanted=asks)


def _views_list(desk: Desk, request: Request) -> Response:
    return desk.page(request, "page_views_list", page=read_views_list(desk.store, request.query_params))


def _views(desk: Desk, request: Request) -> Response:
    return desk.page(request, "page_views", **read_views_page(desk.store, request.path_params["views"]))


def _views_report(desk: Desk, request: Request) -> Response:
    return views_response(desk.store, require_views(desk.store, request.path_params["views"]))


def _screens(desk: Desk, request: Request) -> Response:
    return desk.page(request, "page_screens", page=read_screens_page(desk.store, request.query_params))


def _screen(desk: Desk, request: Request) -> Response:
    page = read_screen_page(desk.store, request.path_params["screen"], request.query_params)
    return desk.page(request, "page_screen", page=page)


def _screen_report(desk: Desk, request: Request) -> Response:
    return screen_response(desk.store, request.path_params["screen"])


def _compare(desk: Desk, request: Request) -> Response:
    return desk.page(request, "page_compare", page=read_compare_page(desk.store, request.query_params))


def _queue(desk: Desk, request: Request) -> Response:
    return desk.page(request, "page_queue", page=read_queue_page(desk.store, request.query_params))


def _log(desk: Desk, request: Request) -> Response:
    return desk.page(request, "page_log", page=read_log_page(desk.store, request.query_params))


def _schedules(desk: Desk, request: Request) -> Response:
    return desk.page(request, "page_schedules", schedules=read_schedules_page(desk.store, desk.actions.clock()))


def _schedule(desk: Desk, request: Request) -> Response:
    view = read_schedule_page(desk.store, request.path_params["name"], desk.actions.clock())
    return desk.page(request, "page_schedule", view=view)


def _runs(desk: Desk, request: Request) -> Response:
    return desk.page(request, "page_runs", page=read_runs_page(desk.store, request.query_params))


def _icon(desk: Desk, request: Request) -> Response:
    return Response(status_code=204)  # pages name none; browsers ask all the same where a page is plain text


_PAGES: dict[str, Page] = {
    "/favicon.ico": _icon,
    "/": _audits,
    "/audits": _audits,
    "/audits/{audit}": _audit,
    "/audits/{audit}/document": _document,
    "/audits/{audit}/report.html": _report,
    "/audits/{audit}/more-runs": _more_runs,
    "/views": _views_list,
    "/views/{views}": _views,
    "/views/{views}/report.html": _views_report,
    "/screens": _screens,
    "/screens/{screen}": _screen,
    "/screens/{screen}/report.html": _screen_report,
    "/compare": _compare,
    "/queue": _queue,
    "/log": _log,
    "/schedules": _schedules,
    "/schedules/{name}": _schedule,
    "/runs": _runs,
    "/sign-in": forms.sign_in_page,
}
_FORMS: dict[str, Callable[[Desk, Request, Form], Response]] = {
    "/audits/{audit}/decisions": forms.decide,
    "/audits/{audit}/more-runs": forms.start_runs,
    "/audits/{audit}/text": forms.text,
    "/schedules/{name}": forms.schedule,
    "/sign-in": forms.sign_in,
    "/sign-out": forms.sign_out,
}


def _trouble(desk: Desk, request: Request, error: Exception) -> Response:
    if isinstance(error, LookupError):
        return desk.trouble(request, 404, "Not found", str(error.args[0]) if error.args else "There is none.")
    if isinstance(error, InputError):
        return desk.trouble(request, 400, "Refused", str(error))
    return desk.trouble(request, 500, "The store cannot answer", str(error))


def _shows(desk: Desk, page: Page) -> Callable[[Request], Response]:
    def endpoint(request: Request) -> Response:
        try:
            return page(desk, request)
        except (LookupError, KsdpError) as error:
            return _trouble(desk, request, error)

    return endpoint


def _does(desk: Desk, act: Callable[[Desk, Request, Form], Response]) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            form = await read_form(request)
            return await run_in_threadpool(act, desk, request, form)
        except (LookupError, KsdpError) as error:
            return _trouble(desk, request, error)
        except (BrokenBody, ClientDisconnect) as error:
            return PlainTextResponse(f"Refused: {error or 'the body was cut off'}.", 400)

    return endpoint


def create_app(store: Store, *, actions: Actions, source: ReviewerSource, origins: frozenset[str]) -> Starlette:
    """Make the dashboard of a store.

    Parameters
    ----------
    actions : Actions
        What pages can have done: the clock, the resolver of texts, how more runs are begun.
    source : ReviewerSource
        Says who looks.
    origins : frozenset of str
        `scheme://host:port` under which it is reached; requests that name another host, and writes that come from
        another origin, are refused.
    """
    desk = Desk(store, actions, source)

    def missing(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 500
        messages = {404: "There is no such page.", 405: "This address does not take that."}
        return desk.trouble(request, status, "Not found" if status == 404 else "Refused", messages.get(status, ""))

    routes: list[Any] = [Route(path, _shows(desk, page), methods=["GET"]) for path, page in _PAGES.items()]
    routes += [Route(path, _does(desk, act), methods=["POST"]) for path, act in _FORMS.items()]
    routes.append(Mount("/static", static_files()))
    return Starlette(
        routes=routes,
        middleware=[Middleware(Gate, origins=origins, source=source)],
        exception_handlers={HTTPException: missing},
    )
