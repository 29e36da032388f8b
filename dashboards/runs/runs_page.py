"""Runs among parties that this one took part in: who, what, which clearance, how much was sent, what it cost."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass

from ksdp.dashboards.addresses import PAGE_ROWS, page_number
from ksdp.storage.errors import StoreError
from ksdp.storage.runs.party_runs import PartyRun, party_run_ids, read_party_run
from ksdp.storage.store import Store


@dataclass(frozen=True)
class RunsPage:
    """Runs, the newest first."""

    runs: tuple[PartyRun, ...]
    damaged: tuple[str, ...]
    """Sessions of those on this page that cannot be read."""
    total: int
    page: int
    pages: int

    @property
    def spent(self) -> str:
        """What all runs of the ledger gave away together, when the newest of them ended."""
        return self.runs[0].spent if self.runs else ""


def read_runs_page(store: Store, query: Mapping[str, str]) -> RunsPage:
    """Read the list."""
    ids, page = party_run_ids(store), page_number(query)
    shown = ids[(page - 1) * PAGE_ROWS : page * PAGE_ROWS]
    found: dict[str, PartyRun] = {}
    for session in shown:
        with contextlib.suppress(StoreError):
            found[session] = read_party_run(store, session)
    damaged = tuple(session for session in shown if session not in found)
    return RunsPage(tuple(found.values()), damaged, len(ids), page, max(1, -(-len(ids) // PAGE_ROWS)))
