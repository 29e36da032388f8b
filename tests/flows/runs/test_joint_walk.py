"""Two runs without noise on the same documents, and a third that is refused: what a joint audit is for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.errors import InputError
from ksdp.flows.audits.place import HERE
from ksdp.flows.audits.run import run_audit
from ksdp.flows.runs.budget import BudgetGuard, open_guard
from ksdp.flows.runs.party import ContributedDocuments
from ksdp.flows.runs.protocol_files import read_run
from ksdp.storage.readers.spec_files import read_spec_file

from ...typed import typed
from .entering import played
from .test_protocol import NOW, SVD, TERMS, Organisations, organisations

FIRST = 'name = "pd-nmf"\nrank = 1\nsweeps = 1\ntolerance = 0.0'
SECOND = FIRST.replace("rank = 1", "rank = 2")
DOCUMENTS = 600


def said_by(*arguments: str | Path) -> str:
    return typed(*arguments, code=0).output


class Walk(Organisations):
    """Ada, who keeps a ledger and a budget of one run without noise, and bob."""

    @property
    def ledger(self) -> Path:
        return self.folder / "ada.ledger"

    def guard(self, protocol: Path, entered: ContributedDocuments) -> BudgetGuard:
        budget = self.folder / "ada.budget.toml"
        budget.write_text("[budget]\nunbounded = 1\n")
        run = read_run(protocol)
        return open_guard(run, entered.corpus.hash, len(entered.corpus), self.ledger, budget, lambda: NOW)

    def take_part(self, protocol: Path, **grounds: Any) -> None:
        """Both; ada on her grounds."""
        run = read_run(protocol)
        entered = {"ada": self.enter(run, "ada", **(grounds or {"uncleared": True}))}
        guard = self.guard(protocol, entered["ada"])
        guard.check()
        entered["bob"] = self.enter(run, "bob", uncleared=True)
        ends = played(run, self.folder, protocol.with_suffix(""), entered, {"ada": guard})
        assert all(isinstance(end, dict) for end in ends.values()), ends


@pytest.fixture
def two(tmp_path: Path) -> Walk:
    org = organisations(tmp_path, 2)
    rows = np.random.default_rng(4).poisson(1.2, (DOCUMENTS, len(TERMS))).astype(float)
    assert rows.any(axis=1).all(), "no row is empty"
    sp.save_npz(tmp_path / "ada.npz", sp.csr_array(rows))
    return Walk(org.folder, org.names)


@pytest.mark.e2e
def test_a_joint_audit_lets_the_second_run_be_and_not_the_third(two: Walk) -> None:
    first, second = two.protocol(FIRST), two.protocol(SECOND)
    two.take_part(first)
    with pytest.raises(InputError, match="beyond the budget.*A joint audit is needed"):
        two.take_part(second)

    joint, store = two.folder / "joint.toml", two.folder / "store"
    joint.write_text(
        'seed = 3\n[corpus]\npath = "ada.npz"\nvocabulary = "vocabulary.txt"\n'
        "[design]\nparty_size = 0.5\nwith_runs = 150\nfresh_runs = 0\n[decision]\nmargin = 0.95\n"
        + said_by("budget", two.ledger, "--next", second)
    )
    found = run_audit(*read_spec_file(joint), store, HERE)
    assert found.verdicts.clear == DOCUMENTS, (found.verdicts, found.unread, found.controls)
    said = said_by("budget", two.ledger, "--joint", found.audit[:6], "--store", store)
    assert "1 run without a promise of a record, all in one joint audit" in said

    run = read_run(second)
    ids = two.enter(run, "ada", uncleared=True).corpus.ids.tolist()
    with pytest.raises(InputError, match="it would be 2"):  # a run without one of them was not simulated
        two.take_part(second, clearance=two.clear(run, "ada", ids[1:]))
    clearance = two.clear(run, "ada", ids)
    two.take_part(second, clearance=clearance)
    said = said_by("verify", clearance, "--ledger", two.ledger)
    assert "2 runs without a promise of a record, all in one joint audit, which found every document clear" in said
    with pytest.raises(InputError, match="it would be 3"):
        two.take_part(two.protocol(SVD))
