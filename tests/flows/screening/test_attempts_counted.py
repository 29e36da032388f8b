"""Whoever clears again with another seed is told how often the question was asked."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.storage.keys import make_identity

from ...specs import spec_text

FINAL = {"rank": 1, "opens": "final"}
SPEC = {
    "corpus": {"path": "counts.npz", "weighting": "counts"},
    "mechanism": {"name": "noisy", "mechanism": "pd-svd", "noise": 50.0, "parameters": FINAL},
    "design": {"party_size": 0.5, "with_runs": 100, "fresh_runs": 0},
    "decision": {"margin": 0.8},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    counts = np.random.default_rng(5).poisson(3.0, (40, 6)).astype(float)
    sp.save_npz(tmp_path / "counts.npz", sp.csr_matrix(counts))
    make_identity(tmp_path, "ana")
    return tmp_path


def test_a_second_clearance_says_that_it_is_one_and_verify_states_it(folder: Path, ksdp: Callable) -> None:
    said = []
    for seed in (1, 2):
        spec, clearance = folder / f"seed-{seed}.toml", folder / f"clearance-{seed}.json"
        spec.write_text(spec_text(SPEC, seed=seed))
        signed = ("--key", folder / "ana.key", "--who", "Ana", "--clearance", clearance)
        found = ksdp("clear", spec, *signed, "--store", folder / "store", "--json", check=0).out
        assert found["outcome"] == "signed"
        checked = ksdp("verify", clearance, "--key", folder / "ana.pub", "--json", check=0).out
        said.append(json.dumps(checked))
    # An audit and the audits of its list are two attempts.
    asked = [int(re.search(r"was asked (\d+) times of|was asked (once) of", one)[1] or 1) for one in said]
    assert asked[0] < asked[1]
    (seeds,) = map(int, re.findall(r"(\d+) seeds", said[1]))
    assert seeds >= 2
