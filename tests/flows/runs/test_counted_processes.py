"""Real processes, one a party: a vocabulary agreed by counts, and the start nnsvd by secure sums."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.mechanisms.contract import Database
from ksdp.flows.runs.local import run_local
from ksdp.flows.runs.protocol_files import read_run
from ksdp.storage.corpora import load_corpus
from ksdp.storage.keys import make_identity
from ksdp.storage.readers.counts import read_counts
from ksdp.storage.readers.files import toml_value
from ksdp.storage.readers.spec_files import read_spec_file

from .entering import protocol_toml

NAMES = ("ada", "bob", "cyd")
TERMS = 16
NNSVD = {"rank": 2, "sweeps": 5, "tolerance": 0.0, "start": "nnsvd"}
MECHANISMS: dict[str, dict[str, Any]] = {
    "counted": {"name": "counted", "mechanism": "pd-nmf", "at_least": 12, "parameters": NNSVD},
    "nnsvd": {"name": "pd-nmf", **NNSVD},
}


def written(base: Path, mechanism: dict[str, Any]) -> Path:
    """Every party's key, counts and spec, and the protocol file."""
    rng = np.random.default_rng(4)
    (base / "words.txt").write_text("".join(f"t{place:02d}\n" for place in range(TERMS)))
    said = "".join(f"{key} = {toml_value(value)}\n" for key, value in mechanism.items())
    for name in NAMES:
        make_identity(base, name)
        rows = rng.poisson(2.0, (20, TERMS)) * (rng.random((20, TERMS)) < np.linspace(0.9, 0.05, TERMS))
        rows[:, 0] += 1
        sp.save_npz(base / f"{name}.npz", sp.csr_array(rows.astype(float)))
        corpus = f'[corpus]\npath = "{name}.npz"\nvocabulary = "words.txt"\nweighting = "counts"\nrows = "l2"\n'
        (base / f"{name}.toml").write_text(f"{corpus}[mechanism]\n{said}")
    path = base / "protocol.toml"
    path.write_text(protocol_toml(NAMES, said))
    return path


@pytest.mark.e2e
@pytest.mark.parametrize("which", MECHANISMS)
def test_processes_learn_what_the_audit_simulates(tmp_path: Path, which: str) -> None:
    protocol, out = written(tmp_path, MECHANISMS[which]), tmp_path / "out"
    run = read_run(protocol)
    ends = run_local(run, protocol, tmp_path, out, uncleared=True)
    assert {end["code"] for end in ends.values()} == {0}, ends
    specs = [read_spec_file(tmp_path / f"{name}.toml")[0].corpus for name in NAMES]
    rows = [load_corpus(spec, tmp_path, nonnegative=True).matrix for spec in specs]
    ideal = run.terms.mechanism.run(Database(tuple(rows)), np.random.default_rng(0))
    digests = set()
    for name in NAMES:
        result = np.load(out / name / "result.npz")
        np.testing.assert_allclose(result["T"], ideal["T"], rtol=0, atol=1e-6)
        digests.add(json.loads((out / name / "run.json").read_text())["result"])
        if which == "counted":
            counts = sum((read_counts(tmp_path / f"{each}.npz").toarray() != 0).sum(axis=0) for each in NAMES)
            np.testing.assert_array_equal(result["document_counts"], counts)
            assert 2 < result["kept_columns"].sum() < TERMS
            assert not result["T"][:, counts < 12].any()
    assert len(digests) == 1
