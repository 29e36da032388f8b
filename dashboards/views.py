"""The page of an audit of several views: one HTML file, like the report of an audit."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.compute as pc

from ksdp.dashboards.charts import shares_svg
from ksdp.dashboards.report import make_environment, stylesheet
from ksdp.storage.store import Store
from ksdp.storage.views import read_view_verdicts, read_views

__all__ = ["render_views"]

_VERDICTS = ("sensitive", "clear", "undecided")
LISTED = 200
"""Most sensitive documents named on the page."""


def render_views(store: Store, name: str) -> str:
    """Render the page from what the store holds of the views.

    Raises
    ------
    StoreError
        If they are not there, not finished, or cannot be read.
    """
    summary, rows = read_views(store, name), read_view_verdicts(store, name)
    sensitive = rows.filter(pc.equal(rows["verdict"], "sensitive"))
    order = np.argsort(sensitive["log10_adjusted_p"].to_numpy(), kind="stable")[:LISTED]
    css, css_hash = stylesheet()
    return (
        make_environment()
        .get_template("views.html.j2")
        .render(
            summary=summary,
            listed=sensitive.take(order).to_pylist(),
            css=css,
            css_hash=css_hash,
            shares=shares_svg([(verdict, summary["verdicts"][verdict]) for verdict in _VERDICTS]),
            spec_text=json.dumps(summary["spec"], indent=2, ensure_ascii=False),
        )
    )
