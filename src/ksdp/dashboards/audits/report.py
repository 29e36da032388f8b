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
from ksdp.dashboards.audits.result import AuditResult
from ksdp.dashboards.charts import scale_svg, shares_svg
from ksdp.storage.audits.history import Verdict
from ksdp.storage.reviews.decisions import visible
from ksdp.storage.store import InputError

_HERE = Path(__file__).parents[1]


def _p_text(p: float) -> Markup:
    """A p-value that is stored as such: below 1e-300 it may have become 0."""
    return words.p_value(math.log10(p)) if p > 0 else Markup("below ") + words.power_of_ten(-300)


def _functions_of(module: ModuleType) -> dict[str, Any]:
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


def words_of(template: str, **values: Any) -> str:
    """Render what a command prints, or a notebook shows under a cell."""
    return _environment().get_template(template).render(**values)


def printer() -> Callable[[str], bytes]:
    """Return a function that prints a page that stands alone to PDF; it loads nothing."""
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
    css = page.partition("<style>")[2].partition("</style>")[0]
    colours = dict(re.findall(r"(--\w[\w-]*): ([^;]+);", css))  # those of print stand last
    plain = re.sub(r"var\((--[\w-]+)\)", lambda name: colours[name[1]], css)
    return re.sub(r"<svg[^>]*>", lambda chart: f"{chart[0]}<style>{plain}</style>", page)


def parts_of(view: AuditModel) -> dict[str, Any]:
    """Return the values that the report, an audit's page and a dossier have in common."""
    summary = view.result.summary
    return {
        "summary": summary,
        "shares": shares_svg(list(summary.verdicts.as_dict().items())),
        "spec_text": json.dumps(summary.spec.model_dump(mode="json"), indent=2, ensure_ascii=False),
        "view": view,
        "record": view.result.record,
        "scale": scale_svg(),
    }


def render_report(result: AuditResult) -> str:
    """The report of a finished audit, from what the store holds of it: a complete HTML page."""
    return standalone("report.html.j2", **parts_of(read_audit_model(result)))
