"""The result of an audit of several views as one value: what `views/<id>.json` holds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pydantic.dataclasses import dataclass

from ksdp.audit.results.parts import FORMAT, DesignSummary, VerdictCounts, count_verdicts
from ksdp.audit.results.summary import VERSION, StoredSummary, Summary
from ksdp.audit.specs.models import Spec

if TYPE_CHECKING:
    from ksdp.audit.views import Combined, View


@dataclass(frozen=True, config=FORMAT)
class ViewsStatistic:
    """One statistic over all documents: the largest of any view."""

    version: int
    family: str
    median_D: float
    max_D: float
    sensitive: int
    """The most that it alone flags in one view."""


@dataclass(frozen=True, config=FORMAT)
class ViewsControls:
    """What became of the views' controls."""

    reason: str | None
    """Why they are void."""


@dataclass(frozen=True, config=FORMAT)
class ViewSummary:
    """One view, which is an audit of its own."""

    name: str
    audit: str
    level: float
    """Its part of the level."""
    sees: str
    observables: tuple[str, ...]
    honest_rows: int
    coalition_rows: int
    runs: int
    sampled_runs: int
    valid: bool
    reason: str | None
    verdicts: VerdictCounts
    sensitive_here_alone: int
    """Documents that are sensitive in no other view."""
    report: str


@dataclass(frozen=True, config=FORMAT)
class ViewsProvenance:
    """Where the numbers come from; the audits of the views say the rest."""

    finished: str
    """ISO 8601, UTC."""
    versions: Mapping[str, str]
    spec: str
    """Hash of the spec."""
    seed: int


@dataclass(frozen=True, config=FORMAT)
class ViewsSummary(StoredSummary):
    """What the views found together."""

    version: int
    """Of the format: that of `Summary`."""
    audit: str
    """Id of the views."""
    corpus: str
    mechanism: str
    documents: int
    runs: int
    """Those that views share are counted once."""
    cached_runs: int
    valid: bool
    """False if any view is void."""
    verdicts: VerdictCounts
    detected: int
    """Documents of which a leak is proved in some view, however small."""
    unread: tuple[str, ...]
    """Announced arrays that no tested statistic reads, of any view: where there is one, nothing can be clear."""
    statistics: Mapping[str, ViewsStatistic]
    controls: ViewsControls
    views: tuple[ViewSummary, ...]
    level: float
    margin: float
    design: DesignSummary
    """Of the first view."""
    provenance: ViewsProvenance
    spec: Spec
    seconds: float
    store: str
    report: str


def summarise_views(
    spec: Spec,
    views: Sequence[View],
    summaries: Sequence[Summary],
    combined: Combined,
    finished: ViewsProvenance,
    place: tuple[str, str, str],
    seconds: float,
) -> ViewsSummary:
    """The views' summary from those of their audits.

    Parameters
    ----------
    views, summaries : one a view, in the same order
    place : id of the views, folder of the store, path of the report
    """
    about = tuple(
        _view(at, view, summary, combined) for at, (view, summary) in enumerate(zip(views, summaries, strict=True))
    )
    void = [f"{view.name}: {view.reason}" for view in about if not view.valid]
    shared = {summary.provenance.runs_folder: summary.runs for summary in summaries}
    runs, sampled = sum(shared.values()), sum(view.sampled_runs for view in about)
    name, store, report = place
    return ViewsSummary(
        version=VERSION,
        audit=name,
        corpus=summaries[0].corpus,
        mechanism=summaries[0].mechanism,
        documents=len(combined.verdict),
        runs=runs,
        cached_runs=max(runs - sampled, 0),
        valid=not void,
        verdicts=count_verdicts(combined.verdict, combined.every_attack),
        detected=int((combined.log10_adjusted <= math.log10(spec.decision.level)).sum()),
        unread=tuple(dict.fromkeys(name for summary in summaries for name in summary.unread)),
        statistics=_statistics(summaries),
        controls=ViewsControls("; ".join(void) or None),
        views=about,
        level=spec.decision.level,
        margin=spec.rule.margin,
        design=summaries[0].design,
        provenance=finished,
        spec=spec,
        seconds=round(seconds, 3),
        store=store,
        report=report,
    )


def _view(at: int, view: View, summary: Summary, combined: Combined) -> ViewSummary:
    others = combined.sensitive_in.sum(axis=0) - combined.sensitive_in[at]
    return ViewSummary(
        name=view.name,
        audit=summary.audit,
        level=view.spec.decision.level,
        sees=view.spec.statistics.sees,
        observables=tuple(announced.name for announced in summary.announced),
        honest_rows=summary.design.honest_rows,
        coalition_rows=summary.design.coalition_rows,
        runs=summary.runs,
        sampled_runs=summary.sampled_runs,
        valid=summary.valid,
        reason=summary.controls.reason,
        verdicts=summary.verdicts,
        sensitive_here_alone=int((combined.sensitive_in[at] & (others == 0)).sum()),
        report=summary.report,
    )


def _statistics(summaries: Sequence[Summary]) -> dict[str, ViewsStatistic]:
    by_name: dict[str, ViewsStatistic] = {}
    for summary in summaries:
        for name, statistic in summary.statistics.items():
            known = by_name.get(name)
            by_name[name] = ViewsStatistic(
                version=statistic.version if known is None else known.version,
                family=statistic.family if known is None else known.family,
                median_D=max(statistic.median_D, 0.0 if known is None else known.median_D),
                max_D=max(statistic.max_D, 0.0 if known is None else known.max_D),
                sensitive=max(statistic.sensitive, 0 if known is None else known.sensitive),
            )
    return dict(sorted(by_name.items()))
