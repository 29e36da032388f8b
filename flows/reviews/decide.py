"""Decide about documents, and run what more runs were asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ksdp.audit.errors import InputError, KsdpError, StoreError
from ksdp.audit.more_runs import topped_up, wanted_factor
from ksdp.audit.planning import make_plan
from ksdp.audit.results.summary import Summary
from ksdp.audit.reviewing import Decision, Entry, Proposal
from ksdp.audit.spec import Spec
from ksdp.flows.audits.place import ANYWHERE, Place
from ksdp.flows.audits.run import one_at_a_time, run_prepared
from ksdp.flows.clock import Clock, utc_now
from ksdp.flows.prepare import prepare_stored
from ksdp.flows.progress import Listener, current, listening
from ksdp.storage.audits.continuation import Origin, claimed, read_origin, write_origin, write_progress
from ksdp.storage.audits.history import read_summary
from ksdp.storage.findings import read_spec, read_verdicts
from ksdp.storage.mapped_corpus import open_corpus
from ksdp.storage.reviews.decisions import append, states
from ksdp.storage.store import Store


@dataclass(frozen=True)
class Signer:
    """Who decides."""

    name: str
    key: Ed25519PrivateKey | None = None
    """Signs what is decided; None: nothing does."""


def decide(
    store: Path,
    audit: str,
    documents: Sequence[str],
    decision: str,
    reason: str,
    reviewer: str | Signer,
    now: datetime,
    *,
    saw: int | None = None,
) -> list[Entry]:
    """Record one decision about documents of an audit, all or none; the entries of the log.

    A `Signer` signs the entries.

    Whether a second person must confirm is the policy of the store. `more-runs` is recorded only; `more_runs`
    runs them.
    """
    if decision not in set(Decision):
        raise InputError(f"`decision` must be one of {', '.join(Decision)}; got {decision!r}.")
    if not documents:
        raise InputError("`documents` must name at least one.")
    kind = Decision(decision)
    signer = reviewer if isinstance(reviewer, Signer) else Signer(reviewer)
    proposals = [Proposal(audit, document, kind, reason, signer.name, saw) for document in documents]
    return append(Store.open(store, create=False), proposals, now, key=signer.key)


@dataclass(frozen=True)
class WantedRuns:
    """What more runs are wanted for."""

    documents: tuple[str, ...] | None = None
    """None: those whose decision in force is `more-runs` when it begins."""
    with_runs: int | None = None
    """Runs in the smaller arm; None: what the audit forecast for these documents."""


class _Written:
    """Passes progress on, and writes it into the store, once a second at most."""

    def __init__(self, store: Store, audit: str, clock: Clock) -> None:
        self._store, self._audit, self._clock = store, audit, clock
        self._next: Listener = current()
        self._last = clock()
        started = self._last.isoformat(timespec="seconds")
        self._about: dict[str, Any] = {"state": "starting", "started": started, "process": os.getpid(), "runs": 0}

    def stage(self, name: str, total: int) -> None:
        self._next.stage(name, total)
        self.write(stage=name, units=0, total=total)

    def advance(self, units: int) -> None:
        self._next.advance(units)
        self._about["units"] += units
        if self._about["stage"].startswith("sample"):
            self._about["runs"] += units
        if (self._clock() - self._last).total_seconds() >= 1:
            self.write()

    def say(self, text: str) -> None:
        self._next.say(text)

    def write(self, **changes: Any) -> None:
        self._last = self._clock()
        self._about |= changes | {"changed": self._last.isoformat(timespec="seconds")}
        write_progress(self._store, self._audit, self._about)

    def wait(self) -> None:
        self.say("another audit is running in this store; this one begins when it is done.")
        self.write(state="waiting")

    @contextmanager
    def told(self) -> Iterator[None]:
        """Say how it ended."""
        try:
            with listening(self):
                yield
        except KeyboardInterrupt:
            self.write(state="interrupted")
            raise
        except BaseException as error:
            # Of an error that nobody foresaw the kind alone: its message may hold anything.
            reason = str(error) if isinstance(error, KsdpError) else f"{type(error).__name__}, which is a fault."
            self.write(state="failed", reason=reason)
            raise
        self.write(state="done")


def _asked(store: Store, audit: str, wanted: WantedRuns) -> list[str]:
    """Documents for which somebody asked for more runs."""
    if wanted.documents is not None:
        asked = list(dict.fromkeys(wanted.documents))
    else:
        asked = [name for name, state in states(store, audit).items() if state.asks_for_runs]
    if not asked:
        raise InputError(f"no decision asks for more runs of documents of audit {audit}.")
    return asked


def _more(store: Store, audit: str, asked: Sequence[str], with_runs: int | None) -> Spec:
    """The spec of the audit that continues another for these documents."""
    folder = store.audit(audit)
    rows = read_verdicts(folder).to_pandas().set_index("document")
    missing = [name for name in asked if name not in rows.index]
    if missing:
        raise InputError(f"audit {audit} has no document {missing[0]!r}.")
    mine = rows.loc[list(asked)]
    # Both arms together are a part of the runs; the forecast is in runs.
    done = read_summary(folder).design.reading.total(mine["n_with"] + mine["n_without"])
    factor = wanted_factor(done, mine["runs_to_decide"])
    return topped_up(read_spec(folder), asked, factor, with_runs=with_runs)


def more_runs(
    store: Path,
    audit: str,
    wanted: WantedRuns | None = None,
    place: Place = ANYWHERE,
    *,
    wait: bool = False,
    held: int | None = None,
    clock: Clock = utc_now,
) -> Summary:
    """Audit again with more runs, and return the summary of the audit that continues this one.

    Its runs contain this one's (shared design), its level is half of this one's, and it asks the same question, so
    it supersedes this one: decide there. `ksdp.storage.audits.continuation.read_progress` says how far it is.

    Parameters
    ----------
    audit : str
        The one to continue.
    wanted : WantedRuns, optional
        For which documents, and how many.
    place : Place, optional
        Where it is run.
    wait : bool
        Wait for another audit that is running in the store.
    held : int, optional
        As for `ksdp.storage.audits.continuation.claimed`.
    clock : callable
        The present time, for the progress file.
    """
    opened, wanted = Store.open(store, create=False), wanted or WantedRuns()
    summary = read_summary(opened.audit(audit))
    with claimed(opened, audit, held) as mine:
        if mine is None:
            raise StoreError(f"audit {audit} is being continued already.")
        if held is None:  # else it was said that this starts: how it ended must be said too
            _more(opened, audit, _asked(opened, audit, wanted), wanted.with_runs)
        written = _Written(opened, audit, clock)
        with written.told(), one_at_a_time(opened.root, written.wait if wait else None):
            asked = _asked(opened, audit, wanted)  # the wait may have been long
            more = _more(opened, audit, asked, wanted.with_runs)
            corpus = open_corpus(opened.corpus(summary.corpus))
            prepared = prepare_stored(make_plan(more, corpus), opened.root, may_sample=True, after=audit)
            before = read_origin(opened, audit) or Origin(read_spec(opened.audit(audit)).hash, (audit,))
            write_origin(opened, prepared.ref.audit, Origin(before.spec, (*before.audits, prepared.ref.audit)))
            progress = {"audit": prepared.ref.audit, "documents": len(asked), "with_runs": more.design.with_runs}
            written.write(state="running", stage="prepare", units=0, total=1, **progress)
            return run_prepared([prepared], place, held=True)[0]
