"""From a page's view to a response: the templates of the report and of the dashboard are the same ones."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Environment
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from ksdp.dashboards.addresses import link
from ksdp.dashboards.audits.report import make_environment
from ksdp.dashboards.reviews import Actions
from ksdp.dashboards.security import ReviewerSource
from ksdp.storage.reviews.decisions import visible
from ksdp.storage.store import Store

_STATIC = Path(__file__).parent / "static"


def _runs_needed(runs: float) -> str:
    if math.isnan(runs):
        return "nothing was tested"
    return "no number of runs would decide" if math.isinf(runs) else f"{runs:,.0f} runs would decide"


def _share(value: float | None) -> str:
    return "–" if value is None or math.isnan(value) else f"{100 * value:.1f} %"


def _number(text: str) -> int:
    """A number of the address that a page repeats; 0 for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


@lru_cache(maxsize=8)
def _static_link(name: str) -> str:
    """The address of a file of ours, which changes with its content."""
    return f"/static/{name}?{hashlib.sha256((_STATIC / name).read_bytes()).hexdigest()[:12]}"


class _Static(StaticFiles):
    """Files whose address names their content, so that browsers may keep them."""

    def file_response(self, full_path: Any, stat_result: Any, scope: Scope, status_code: int = 200) -> Response:
        """The file, kept for a year."""
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return response


def static_files() -> StaticFiles:
    """Style sheet and script."""
    return _Static(directory=_STATIC)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = make_environment()
    environment.filters |= {"runs_needed": _runs_needed, "share": _share, "visible": partial(visible, lines=True)}
    environment.globals |= {"link": link, "static": _static_link}
    return environment


@dataclass(frozen=True, eq=False)
class PageContext:
    """Values that every page is made with."""

    store: Store
    actions: Actions
    source: ReviewerSource

    def page(self, request: Request, template: str, status: int = 200, **values: Any) -> Response:
        """Render a page for the person who asked for it."""
        path, query = request.url.path, request.url.query
        frame: dict[str, Any] = {
            "reviewer": getattr(request.state, "reviewer", None),
            "signs_in": self.source.signs_in,
            "texts": self.actions.resolve is not None,
            "starts": self.actions.more_runs is not None,
            "path": path,
            "store_name": "/".join(self.store.root.parts[-2:]),
            "address": path + (f"?{query}" if query else ""),
            "alike": "alike" in request.query_params,
            "recorded": _number(request.query_params.get("recorded", "")),
            "count": _number(request.query_params.get("count", "")),
            "typed": dict.fromkeys(("reason", "decision", "owner", "due"), ""),
            "refused": None,
            "newer": None,
            "chosen": [],
        }
        page = _environment().get_template(f"{template}.html.j2").render(**(frame | values))
        return HTMLResponse(page, status)

    def trouble(self, request: Request, status: int, heading: str, message: str) -> Response:
        """A page that says what is wrong."""
        return self.page(request, "page_trouble", status, heading=heading, message=message)


def alone(page: str) -> Response:
    """A page complete in itself; its one style sheet is allowed by its hash, as the page itself says."""
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256((style[1] if style else "").encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; frame-ancestors 'none'"
    )
    return HTMLResponse(page, headers={"Content-Security-Policy": policy})
