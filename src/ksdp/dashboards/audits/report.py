"""Pages that stand alone: one HTML file that loads nothing, runs nothing, and can be kept or printed."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Callable
from functools import lru_cache
from inspect import getmembers, isfunction
from pathlib import Path
from types import ModuleType
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ksdp.dashboards import words
from ksdp.dashboards.audits import sentences
from ksdp.dashboards.audits.audit_model import AuditModel, read_audit_model
from ksdp.dashboards.charts import scale_svg, shares_svg
from ksdp.storage.audits.history import Verdict, ViewsSummary, read_parts, read_views
from ksdp.storage.audits.view_tables import read_strongest
from ksdp.storage.errors import InputError
from ksdp.storage.findings import Summary
from ksdp.storage.reviews.appetites import kept_record
from ksdp.storage.reviews.decisions import visible
from ksdp.storage.store import Store

_HERE = Path(__file__).parents[1]


def _p_text(p: float) -> Markup:
    """A p-value that is stored as such: below 1e-300 it may have become 0."""
    return words.p_value(math.log10(p)) if p > 0 else Markup("below ") + words.power_of_ten(-300)


def _functions_of(module: ModuleType) -> dict[str, Any]:
    """The public functions that a module defines."""
    return {n: f for n, f in getmembers(module, isfunction) if f.__module__ == module.__name__ and n[0] != "_"}


def make_environment() -> Environment:
    """Templates with autoescape, undefined names refused, the filters of `words`, the sentences of `sentences`."""
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= _functions_of(words) | {"p_text": _p_text, "visible": visible}
    environment.globals |= _functions_of(sentences) | {"verdict_words": tuple(Verdict)}
    return environment


@lru_cache(maxsize=1)
def _environment() -> Environment:
    return make_environment()


@lru_cache(maxsize=4)
def _stylesheet(sheets: tuple[str, ...]) -> tuple[Markup, str]:
    """Style sheets and their hash, which is all that the page's own policy allows."""
    css = "".join((_HERE / "static" / name).read_text(encoding="utf-8") for name in sheets)
    return Markup(css), "sha256-" + base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()


def standalone(template: str, *, sheets: tuple[str, ...] = ("app.css",), **values: Any) -> str:
    """Render a template to a complete page, with the style sheets inside."""
    css, css_hash = _stylesheet(sheets)
    return _environment().get_template(template).render(css=css, css_hash=css_hash, **values)


def printer() -> Callable[[str], bytes]:
    """What prints a page that stands alone to PDF; it loads nothing.

    Raises
    ------
    InputError
        If the system has no Pango.
    """
    try:
        from weasyprint import HTML
        from weasyprint.urls import URLFetcher
    except OSError as error:
        raise InputError(
            "`--pdf` needs Pango 1.44 or newer, a library of the system: `apt install libpango-1.0-0 "
            "libpangoft2-1.0-0 libharfbuzz-subset0`, `dnf install pango` or `brew install pango`."
        ) from error
    inside = URLFetcher(allowed_protocols={"data"})

    def printed(page: str) -> bytes:
        pdf: bytes = HTML(string=_styled_charts(page), url_fetcher=inside).write_pdf(pdf_variant="pdf/ua-1")
        return pdf

    return printed


def _styled_charts(page: str) -> str:
    """With the colours that paper has inside every chart: WeasyPrint styles a picture by its own rules alone."""
    css = page.partition("<style>")[2].partition("</style>")[0]
    colours = dict(re.findall(r"(--\w[\w-]*): ([^;]+);", css))  # those of print stand last
    plain = re.sub(r"var\((--[\w-]+)\)", lambda name: colours[name[1]], css)
    return re.sub(r"<svg[^>]*>", lambda chart: f"{chart[0]}<style>{plain}</style>", page)


def of_summary(summary: Summary | ViewsSummary) -> dict[str, Any]:
    """What every page of an audit, of one view or several, is rendered with."""
    return {
        "summary": summary,
        "shares": shares_svg(list(summary.verdicts.as_dict().items())),
        "spec_text": json.dumps(summary.spec.model_dump(mode="json"), indent=2, ensure_ascii=False),
    }


LISTED = 200
"""Most sensitive documents named on the page."""


def parts_of_views(store: Store, name: str) -> dict[str, Any]:
    """What `_views.html.j2` is filled with."""
    summary, record = read_views(store, name), kept_record(store, name)
    listed, unit = read_strongest(store, name, LISTED), summary.design.unit
    every = len(listed) == summary.verdicts.sensitive
    return of_summary(summary) | {
        "unit": unit,
        "units": f"{unit}s",
        "record": record,
        "risks": read_parts(store, summary),
        "sections": (
            ("result", "The result over all views"),
            *([("appetite", "What is accepted")] if record else ()),
            ("views", "View by view"),
            ("listing", f"Every sensitive {unit}" if every else f"The most sensitive {unit}s"),
            ("meaning", "What this says, and what not"),
            ("provenance", "Where the numbers come from"),
        ),
        "listed": listed,
        "audit_of": {view.name: view.audit for view in summary.views},
    }


def render_views(store: Store, name: str) -> str:
    """Render the page from what the store holds of the views."""
    return standalone("views.html.j2", **parts_of_views(store, name))


def parts_of(view: AuditModel) -> dict[str, Any]:
    """What the parts that the report shares with an audit's page are rendered with."""
    return of_summary(view.summary) | {"view": view, "record": view.record, "scale": scale_svg()}


def render_report(store: Store, audit: str) -> str:
    """The report of a finished audit, from what the store holds of it: a complete HTML page."""
    view = read_audit_model(store, audit)
    return standalone("report.html.j2", **parts_of(view))
