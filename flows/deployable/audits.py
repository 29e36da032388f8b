"""Flows for one's own Prefect server: `audit_flow.serve(...)`, `.deploy(...)` to a work pool, or a plain call.

Parameters and results are JSON, so that runs can be started from pages, by schedules and by other flows. Paths are
those of the machine that runs the flow. The work is one task, tried again where something breaks; what is refused
is refused once. An audit resumes from its store, so that a second attempt makes nothing twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

from prefect import flow

from ksdp.audit.errors import InvalidAudit, SpecError
from ksdp.audit.spec import Spec, parse_spec
from ksdp.flows.audits.place import Place
from ksdp.flows.audits.run import run_audit
from ksdp.flows.audits.views import run_views
from ksdp.flows.deployable.attempts import RESULTS, Logged, tagged, tried_again
from ksdp.flows.prepare import read_spec_file
from ksdp.flows.progress import listening
from ksdp.flows.reviews.approval import Patience, run_approval
from ksdp.flows.screening.rounds import Rules
from ksdp.flows.screening.screen import screen
from ksdp.flows.screening.signing import Signing
from ksdp.storage.keys import load_private
from ksdp.tasks.cluster import dask_address


def _spec(given: str | dict[str, Any], kind: str) -> tuple[Spec, Path]:
    """A spec from its file, or from its tables, whose paths are absolute or relative to here; tags the run."""
    read, base = (_tables(given), Path.cwd()) if isinstance(given, dict) else read_spec_file(Path(given))
    tagged(kind, f"mechanism:{read.mechanism.name}")
    return read, base


def _tables(given: dict[str, Any]) -> Spec:
    """A spec that whoever starts a run sent: its cluster may start nothing here, and send nothing in the clear."""
    read = parse_spec(given)
    if read.cluster is not None and (read.cluster.cluster_class is not None or read.cluster.insecure):
        raise SpecError("`cluster.class` and `cluster.insecure` are taken from a spec's file, not from tables.")
    return read


def _place(workers: int | None, dask: str | None) -> Place:
    return Place(workers, dask_address(dask, False))


@dataclass(frozen=True)
class _Signs:
    """Who signs, and where to; the key itself is read where it is used."""

    clearance: str
    key: str
    who: str
    days: int

    def signing(self) -> Signing:
        now = datetime.now(UTC)
        return Signing(
            Path(self.clearance), load_private(Path(self.key)), self.who, now, now + timedelta(days=self.days)
        )


@tried_again("audit everything")
def _audit(spec: str | dict[str, Any], store: str, dask: str | None, workers: int | None) -> dict[str, Any]:
    read, base = _spec(spec, "audit")
    run = run_audit if read.views is None else run_views
    with listening(Logged()):
        summary = run(read, base, Path(store), _place(workers, dask))
    if not summary.valid:
        raise InvalidAudit(f"{summary.controls.reason}. No verdict of audit {summary.audit} may be used.")
    return dict(summary.to_json())


@flow(name="ksdp-audit", **RESULTS)
def audit_flow(
    spec: str | dict[str, Any], store: str, dask: str | None = None, workers: int | None = None
) -> dict[str, Any]:
    """Audit every document of a corpus, in every view of the spec.

    Parameters
    ----------
    spec : str or dict
        Path of the spec, or its tables.
    store : str
        Folder of the store; made where there is none.
    dask : str, optional
        Address of a Dask scheduler with TLS whose workers see the store under the same path, or find its blocks at
        the URL that the spec's `[cluster]` names; by default what `[cluster]` says, or workers
        are started for the run.
    workers : int, optional
        How many; one a core by default.

    Returns
    -------
    dict
        As `ksdp audit --json` prints it, and more: `verdicts`, `statistics`, `report`.

    Raises
    ------
    InputError
        If anything is refused, before work starts.
    InvalidAudit
        If the controls failed.
    """
    return cast(dict[str, Any], _audit(spec, store, dask, workers))


@tried_again("screen")
def _screen(
    spec: str | dict[str, Any], store: str, signs: _Signs, rounds: int, dask: str | None
) -> dict[str, Any]:
    read, base = _spec(spec, "screen")
    with listening(Logged()):
        done = screen(read, base, Path(store), signs.signing(), Rules(rounds), _place(None, dask))
    return dict(done.to_json())


@flow(name="ksdp-screen", **RESULTS)
def screen_flow(
    spec: str | dict[str, Any],
    store: str,
    clearance: str,
    key: str,
    who: str,
    days: int = 90,
    rounds: int = 5,
    dask: str | None = None,
) -> dict[str, Any]:
    """Audit, leave out what is sensitive, audit the rest on fresh runs until nothing new is found; sign the rest.

    Parameters
    ----------
    spec, store, dask
        As for `audit_flow`.
    clearance : str
        Where the signed list goes.
    key : str
        Private key of the person who decides, on the machine that runs this, without a passphrase.
    who : str
        That person; stands in the clearance.
    days, rounds : int
        Days until the clearance expires; most rounds.

    Returns
    -------
    dict
        As `ksdp screen --json` prints it: `outcome` is `cleared`, or says why nothing was signed.
    """
    return cast(dict[str, Any], _screen(spec, store, _Signs(clearance, key, who, days), rounds, dask))


@tried_again("approve")
def _approve(
    spec: str | dict[str, Any], store: str, signs: _Signs, hours: float, dask: str | None
) -> dict[str, Any]:
    read, base = _spec(spec, "approval")
    patience = Patience(timedelta(hours=hours))
    with listening(Logged()):
        return run_approval(read, base, Path(store), signs.signing(), patience, _place(None, dask))


@flow(name="ksdp-approval", **RESULTS)
def approval_flow(
    spec: str | dict[str, Any],
    store: str,
    clearance: str,
    key: str,
    who: str,
    days: int = 90,
    hours: float = 72.0,
    dask: str | None = None,
) -> dict[str, Any]:
    """Audit, wait until people have decided about every sensitive document, then sign what may be used.

    Parameters
    ----------
    spec, store, clearance, key, who, days, dask
        As for `screen_flow`.
    hours : float
        How long decisions are waited for; the time begins anew with every attempt.

    Returns
    -------
    dict
        As `ksdp approve --json` prints it: how many were listed, proved clear, accepted, left out.
    """
    return cast(dict[str, Any], _approve(spec, store, _Signs(clearance, key, who, days), hours, dask))
