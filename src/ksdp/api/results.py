"""Results of Python calls: an audit's tables, its pictures, its page; a forecast."""

from __future__ import annotations

import io
import re
import shutil
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa

from ksdp.audit.errors import InputError
from ksdp.audit.results.summary import Summary
from ksdp.audit.verdicts.verdict import Proof
from ksdp.storage import findings
from ksdp.storage.audits.ledger import copy_attempts, read_ledger
from ksdp.storage.findings import Curve, DocumentFindings, read_document
from ksdp.storage.reviews.appetites import keep_appetite, kept_appetite, kept_record
from ksdp.storage.reviews.log import check_copy, copy_reviews
from ksdp.storage.store import Store

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ksdp.audit.results.appetite import AppetiteRecord
    from ksdp.audit.results.strength import AttackStrength


def blank() -> tuple[Figure, Axes]:
    """A figure and its axes; refuse where matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError("`plot` needs matplotlib: pip install 'ksdp[plot]'.") from None

    class NotebookFigure(Figure):
        """A notebook knows how to show figures only where pyplot was imported, which this does not need."""

        def _repr_png_(self) -> bytes:
            drawn = io.BytesIO()
            self.savefig(drawn, format="png")
            return drawn.getvalue()

    figure = NotebookFigure(figsize=(6.4, 3.6), layout="constrained")
    return figure, figure.subplots()


def _as_given(table: pa.Table, kind: type, *index: str) -> Any:
    """A table as such a frame; as one of pandas where it is none, or has no Arrow tables."""
    library = kind.__module__.partition(".")[0].removeprefix("_")
    if library in ("polars", "duckdb"):
        plain = [(column.name, getattr(column.type, "value_type", column.type)) for column in table.schema]
        return import_module(library).from_arrow(table.cast(pa.schema(plain)))  # polars joins no codes with names
    return table if library == "pyarrow" else table.to_pandas().set_index([*index])


@dataclass(frozen=True, eq=False)
class Audit:
    """A finished audit. It reads its store when asked, and computes again what that does not keep."""

    store: Path
    """Folder of its store."""
    summary: Summary
    """Everything but the tables: counts, controls, `chance`, `unread`, `spec`; as JSON by `to_json()`."""
    _kept: Any = field(default=None, repr=False)
    """A temporary store, which goes when this does."""
    _objects: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Mechanisms and statistics that only this process has."""
    _given: type = field(default=object, repr=False)
    """Type of the data."""

    @property
    def id(self) -> str:
        """Id of the audit in its store."""
        return self.summary.audit

    @property
    def verdicts(self) -> Any:
        """One row a document: verdict, D under its strongest statistic, exact p-values, arms.

        A frame of the kind that the data were: polars, DuckDB or Arrow; else pandas, by the document's id. Of a
        void audit it warns: no verdict may be used.
        """
        self._warn_if_void()
        return _as_given(findings.read_verdicts(self._folder), self._given, "document")

    @property
    def statistics(self) -> Any:
        """One row a document and statistic: D, its band, exact p-values; a frame of the same kind."""
        return _as_given(findings.read_statistics(self._folder), self._given, "document", "statistic")

    @property
    def effects(self) -> Any:
        """One row a detected leak, measured on fresh runs: unbiased advantage, its interval."""
        return _as_given(findings.read_effects(self._folder), self._given, "document")

    @property
    def appetite(self) -> AppetiteRecord | None:
        """Every criterion of the risk appetite that the audit must meet, with `met` and `missed`; decisions count.

        None where it is held to none.
        """
        return kept_record(Store(self.store), self.summary)

    def arrow(self, table: Literal["verdicts", "statistics", "effects"] = "verdicts") -> pa.Table:
        """A table of the audit as an Arrow table: `polars.DataFrame(found.arrow("statistics"))`."""
        if table not in ("verdicts", "statistics", "effects"):
            raise InputError(f"`table` must be verdicts, statistics or effects; got {table!r}.")
        self._warn_if_void()
        return getattr(findings, f"read_{table}")(self._folder)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The verdicts, where Arrow streams are taken: `polars.DataFrame(found)`, `duckdb.sql("from found")`."""
        return self.arrow().__arrow_c_stream__(requested_schema)

    def document(self, document: str) -> DocumentFindings:
        """Return the verdict on one document, its tests, and its effect on fresh runs (`.fresh`).

        Raises
        ------
        StoreError
            If it was not audited.
        """
        self._warn_if_void()
        return read_document(self._folder, str(document))

    def values(self, document: str, statistic: str | None = None) -> Curve:
        """Return the values behind a test: those of the runs with the document, and without it, ascending.

        Where the store keeps none (`store.values`) the document is measured again: seconds, or minutes.

        Parameters
        ----------
        statistic : str, optional
            The one that was strongest for the document by default.

        Raises
        ------
        StoreError
            If the document was not audited, or values that the store keeps are not there.
        """
        from ksdp.flows.audits.replay import curve_of
        from ksdp.storage.audits.documents import stored_statistics

        names, finding = stored_statistics(self.summary), self.document(document)
        tests = {test.statistic: test.log10_p for test in finding.tests if test.statistic in names}
        if not tests:
            raise InputError(f"document {document!r} has no values: no run measured it.")
        wanted = statistic or min(tests, key=tests.__getitem__)
        if wanted not in names:
            raise InputError(f"`statistic` must be among {', '.join(names)}; got {wanted!r}.")
        return curve_of(Store(self.store), self.summary, str(document), wanted)

    def power(self) -> AttackStrength:
        """Plant leaks of known size for documents that were called clear, audit again, and say what was missed.

        As the command `ksdp power`. The report shows it from then on.

        Raises
        ------
        InputError
            If nothing could be missed: no document is clear by the statistics tried, or no leak can be planted.
        """
        from ksdp.audit.registry import lent
        from ksdp.flows.audits.place import HERE
        from ksdp.flows.audits.strength import measure_strength
        from ksdp.flows.interruption import utc_now

        with lent(self._objects):
            return measure_strength(self.store, self.id, utc_now, HERE)

    def unbiased(self, document: str) -> float | None:
        """Return D without the bias of choosing: an attack is chosen on half of the runs, measured on the rest.

        On average it is not above the true advantage, unless D chose the document: then read `effects`. And
        `verdicts.distance` is the largest of many gaps. None where values that the store keeps are not there.

        Raises
        ------
        StoreError
            If the document was not audited.
        """
        from ksdp.flows.audits.replay import held_out_of

        self.document(document)
        return held_out_of(Store(self.store), self.summary, str(document))

    def plot(self, document: str | None = None, statistic: str | None = None) -> Figure:
        """Draw a document's two distributions: what an adversary sees with it and without it.

        Parameters
        ----------
        document : str, optional
            By default the one with the smallest p.
        statistic : str, optional
            By default the one that was strongest for it.

        Raises
        ------
        InputError
            If matplotlib is not installed.
        """
        figure, axes = blank()  # refused before anything is measured again
        table = self.arrow()
        before_any_run = np.array(table["proof"].to_pylist()) == Proof.ABSENCE
        evidence = np.where(before_any_run, np.inf, table["log10_adjusted_p"])
        name = str(document or table["document"][int(evidence.argmin())])
        curve, row = self.values(name, statistic), self.document(name).verdict
        for values, label in ((curve.with_values, "with"), (curve.without_values, "without")):
            axes.ecdf(values, label=f"{label} the document ({len(values)} runs)")
        if curve.gap is not None:
            axes.plot([curve.gap.place] * 2, [curve.gap.share_with, curve.gap.share_without], "k:", label="D")
        axes.set(
            xlabel=curve.statistic,
            ylabel="share of runs below",
            title=f"{name}: {row.verdict if self.summary.valid else 'void'}",
        )
        axes.legend(frameon=False)
        return figure

    def save(self, store: str | Path) -> Path:
        """Copy the audit into a store: a new one, or one that is there. `ksdp show --store` reads it then.

        What was proved of the same question before goes with it: the tables of its audits, and their lines of the
        ledger; and all decisions of the store, so that who is excluded stays so.

        Raises
        ------
        StoreError
            If the folder is something else, or has decisions that this audit's store does not know.
        """
        target, summary = Store.open(Path(store)), self.summary
        source = Store(self.store)
        if target.root == source.root:
            return target.root
        check_copy(source.root, target.root)
        ledger = read_ledger(source)
        started = ledger.attempt(summary.audit)
        alike = () if started is None else ledger.attempts_at(started.question)
        names = {Path("corpora") / source.corpus(summary.corpus).name, Path("audits") / summary.audit}
        names |= {Path(*Path(stage.values).parts[:2]) for stage in summary.provenance.stages}
        names |= {Path("audits") / attempt.audit for attempt in alike if source.audit(attempt.audit).is_dir()}
        for name in sorted(names):
            shutil.copytree(source.root / name, target.root / name, dirs_exist_ok=True)
        if started is not None:
            copy_attempts(source, target, started.question)
        if (appetite := kept_appetite(source, summary.audit)) is not None:
            keep_appetite(target, summary.audit, appetite)
        copy_reviews(source.root, target.root)
        return target.root

    def report(self, path: str | Path | None = None) -> Path:
        """Write the report, one HTML file that loads nothing, and say where.

        Parameters
        ----------
        path : path, optional
            Beside the findings by default.
        """
        from ksdp.dashboards.audits.report import render_report
        from ksdp.dashboards.audits.result import audit_result
        from ksdp.storage.store import write_text

        target = Path(path) if path is not None else self._folder / "report.html"
        write_text(target, render_report(audit_result(self.summary)))
        return target.resolve()

    def _warn_if_void(self) -> None:
        if not self.summary.valid:
            warnings.warn(f"VOID: {self.summary.controls.reason}. No verdict may be used.", stacklevel=3)

    @property
    def _folder(self) -> Path:
        return Store(self.store).audit(self.id)

    def __repr__(self) -> str:
        summary = self.summary
        void = "" if summary.valid else f"VOID ({summary.controls.reason}), "
        first = (
            f"<ksdp audit {self.id} of {summary.mechanism}: {void}{summary.documents} {summary.design.unit}s, "
            f"{summary.verdicts.words}; leaks detected in {summary.detected} ({summary.runs} runs)>"
        )
        return "\n".join([first, *(f"next    {re.sub('[“”]', '`', step)}" for step in self._next())])

    def _next(self) -> list[str]:
        """Next steps, as the command prints them."""
        from ksdp.dashboards.audits.result import audit_result
        from ksdp.dashboards.audits.sentences import steps_of

        return steps_of(audit_result(self.summary)) if self.summary.spec.decides else []

    def _repr_html_(self) -> str:
        from ksdp.dashboards.audits.report import words_of

        return words_of("notebook.html.j2", summary=self.summary, steps=self._next())


class Forecast(dict[str, Any]):
    """Forecast of an audit: its costs and its power, as `ksdp plan --json` prints them. It is shown in words."""

    def __repr__(self) -> str:
        from ksdp.flows.audits.forecast import forecast_words

        return forecast_words(self)
