"""Print a finished audit: one object for machines, a few lines for people, and the exit code."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import typer

from ksdp.audit.verdicts.verdict import FAILING, verdicts_code

if TYPE_CHECKING:
    from ksdp.audit.results.summary import Summary
    from ksdp.dashboards.audits.result import AuditResult

_BEGAN = time.monotonic()
"""When the command did: what a person waited for is more than the last stage."""

KEYS = (
    "version",
    "audit",
    "corpus",
    "mechanism",
    "documents",
    "runs",
    "cached_runs",
    "seconds",
    "valid",
    "verdicts",
    "detected",
    "unread",
)
"""Keys of a summary that `--json` prints and that keep their meaning; `version` is that of the format."""


def exit_code(summary: Summary, fail_on: Sequence[str] | None = None) -> int:
    """Return the exit code of an audit; by default all verdicts that a pipeline may fail by count."""
    judged = FAILING if fail_on is None else fail_on
    if not summary.valid:
        return 5
    code = verdicts_code(summary.verdicts.as_dict(), judged)
    if code or "uncovered" not in judged:
        return code
    from ksdp.dashboards.audits.pipelines import uncovered

    return 4 if uncovered(summary) else 0


def appetite_code(missed: Collection[str]) -> int:
    """Return the exit code for the names of missed criteria, in the words of `exit_code`."""
    return 5 if "controls" in missed else verdicts_code(dict.fromkeys(missed, 1)) or (4 if missed else 0)


def present(result: AuditResult, as_json: bool, *, made: bool = True, spec: str = "SPEC.toml") -> None:
    """Print a result: as one object, or as lines for people, with what to type next if it was `made` just now."""
    if as_json:
        typer.echo(json.dumps(_json_object(result)))
        return
    nothing_gained = result.learning.nothing_gained
    if nothing_gained:
        typer.echo(nothing_gained, err=True)
    tell_void(result.summary)
    waited = f", {time.monotonic() - _BEGAN:.1f} s" if made else ""
    for line in (*_found(result, waited), *_proofs(result), *_places(result)):
        red = line.strip().startswith("REFUTED")
        typer.secho(line, err=True, fg="red" if red else None, bold=red)
    if made and result.summary.spec.decides:
        from ksdp.dashboards.audits.sentences import steps_of

        for step in steps_of(result, spec):
            typer.echo(f"next    {re.sub('[“”]', '`', step)}", err=True)


def _json_object(result: AuditResult) -> dict[str, Any]:
    summary = result.summary
    statistics = {
        name: {key: getattr(statistic, key) for key in ("version", "median_D", "max_D", "sensitive")}
        for name, statistic in summary.statistics.items()
    }
    out = summary.to_json()
    shown = {key: out[key] for key in KEYS}
    shown |= {"statistics": statistics, "store": summary.store, "report": summary.report}
    shown |= {"share": out["share"], "risk": summary.risk.to_json()}
    return shown if result.record is None else shown | {"appetite": result.record.to_json()}


def _found(result: AuditResult, waited: str) -> Iterator[str]:
    """Lines of what was asked and found."""
    from ksdp.dashboards.audits.sentences import explored

    summary, learning = result.summary, result.learning
    if not summary.spec.decides:
        yield explored(summary)
    yield (
        f"{summary.documents} {summary.design.unit}s: {summary.verdicts.words}; leaks detected in "
        f"{summary.detected} ({summary.runs} runs{waited})"
    )
    if summary.spec.decision_in_run.margin_at_low_fpr is not None:
        yield f"margin  {summary.spec.decision_in_run.limits}"
    if learning.gain and not learning.nothing_gained:
        yield f"gain    {learning.gain['sentences'][0]}"


def _proofs(result: AuditResult) -> Iterator[str]:
    """Lines of what is claimed and proved of every attack."""
    from ksdp.dashboards.audits import sentences

    summary = result.summary
    yield from _claim(result)
    for label, sentence in (
        ("absence", sentences.absent(summary)),
        ("proof", sentences.kept_promise(summary)),
        ("trust", sentences.trusted(summary)),
        ("bound", sentences.certified(summary)),
        ("copies", sentences.copied(summary)),
        ("limit", sentences.stronger(summary)),
        ("of all", sentences.drawn_share(summary)),
    ):
        if sentence is not None:
            yield f"{label:9} {sentence}"


def _claim(result: AuditResult) -> Iterator[str]:
    from ksdp.dashboards.audits.sentences import proved

    promise, fresh, claim = result.summary.guarantee, result.summary.fresh, result.claim
    if promise.kind != "(epsilon, delta)":
        return
    epsilon = "by the sizes" if promise.epsilon is None else f"{promise.epsilon:g}"
    low = f"{fresh.epsilon_low:.2f}" if fresh else "none: no fresh runs"
    yield (
        f"claims  epsilon {epsilon}, delta {promise.delta:g}{'' if promise.sound else ' (UNSOUND)'}; noise "
        f"{promise.sampler.name if promise.sampler else 'none'}; proved on fresh runs, at delta 0: {low}"
    )
    if claim is None:
        yield "        its worst case was not tried in this store (ksdp claim)"
    else:
        yield f"        {'REFUTED' if claim.finding.refuted else 'not refuted'}: {proved(claim)}"


def _places(result: AuditResult) -> Iterator[str]:
    """Lines of an appetite, every missed criterion with what to do, and of where all is."""
    if (record := result.record) is not None:
        yield f"appetite  {'met' if record.met else 'NOT met'}"
        for criterion in record.criteria:
            yield f"  {'ok  ' if criterion.met else 'FAIL'} {criterion.sentence()}"
    yield f"audit   {result.summary.audit}\nreport  {result.summary.report}"


def tell_void(summary: Summary) -> None:
    """Say of a void audit that it is: whatever is shown of it comes after."""
    if not summary.valid:
        typer.secho(f"VOID: {summary.controls.reason}. No verdict may be used.", err=True, fg="red", bold=True)
