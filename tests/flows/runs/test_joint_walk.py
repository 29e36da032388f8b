"""Two runs of the same documents, from the first to the refusal of a third: what a joint audit makes of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.flows.runs.terms import read_run

from .test_protocol import SVD, TERMS, Organisations, organisations

NMF = 'name = "pd-nmf"\nrank = 1\nsweeps = 1\ntolerance = 0.0'
DOCUMENTS = 150


def ksdp(*arguments: str | Path, code: int = 0) -> str:
    command = [sys.executable, "-m", "ksdp", *map(str, arguments)]
    done = subprocess.run(command, env=os.environ | {"OPENBLAS_NUM_THREADS": "1"}, capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def take_part(org: Organisations, protocol: Path, *grounds: str) -> None:
    """Ada on her grounds, bob without any."""
    started = [org.start(protocol, "ada", *grounds), org.start(protocol, "bob")]
    for process in started:
        _, error = process.communicate(timeout=300)
        assert process.returncode == 0, error


@pytest.fixture
def two(tmp_path: Path) -> Organisations:
    org = organisations(tmp_path, 2)
    rows = np.random.default_rng(4).poisson(0.8, (DOCUMENTS, len(TERMS))).astype(float)
    rows[:, 0] += 1.0  # no row is empty
    sp.save_npz(tmp_path / "ada.npz", sp.csr_array(rows))
    (tmp_path / "ada.budget.toml").write_text("[budget]\nunbounded = 1\n")
    return org


@pytest.mark.e2e
def test_a_joint_audit_lets_the_second_run_be_and_not_the_third(two: Organisations) -> None:
    ledger = two.folder / "ada.ledger"
    first, second = two.protocol(NMF), two.protocol(NMF.replace("rank = 1", "rank = 2"))
    take_part(two, first)
    refused = ksdp(*two.command(second, "ada")[3:], code=2)
    assert "beyond the budget" in refused
    assert "A joint audit is needed" in refused
    assert not (second.with_suffix("") / "ada").exists(), "nothing is left of a start that was refused"
    joint = two.folder / "joint.toml"
    joint.write_text(
        'seed = 3\n[corpus]\npath = "ada.npz"\nvocabulary = "vocabulary.txt"\n'
        '[design]\nparty_size = 0.5\nwith_runs = 300\n[decision]\nmargin = 0.8\n[store]\nobservables = "all"\n'
        + ksdp("budget", ledger, "--next", second).replace("[statistics]", '[statistics]\nnames = ["learned-raw"]')
    )
    store = two.folder / "store"
    audit = subprocess.run(
        [sys.executable, "-m", "ksdp", "audit", joint, "--store", store, "--json"], capture_output=True, text=True
    )
    found: dict[str, Any] = json.loads(audit.stdout)
    assert found["verdicts"]["clear"] == DOCUMENTS, (found["verdicts"], audit.stderr)
    said = ksdp("budget", ledger, "--joint", found["audit"], "--store", store)
    assert "1 run without a promise of a record, all in one joint audit" in said
    listed = [str(document) for document in range(DOCUMENTS)]
    clearance = two.clear(read_run(second), "ada", listed)
    take_part(two, second, "--clearance", str(clearance))
    said = ksdp("verify", clearance, "--ledger", ledger)
    assert "2 runs without a promise of a record, all in one joint audit, which found every document clear" in said
    third = two.protocol(SVD)
    assert "it would be 3" in ksdp(*two.command(third, "ada")[3:], code=2)
    assert "it would be 3" in ksdp("party", "check", *two.command(third, "ada")[4:-3], "--wait", "0", code=1)
