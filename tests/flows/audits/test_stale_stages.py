"""Stages that an earlier version of an audit reached, and this one does not."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.corpus.matrix import Corpus, canonical
from ksdp.audit.verdicts.looks import FRESH, Stage
from ksdp.flows.audits.place import Place
from ksdp.flows.audits.run import run_prepared
from ksdp.flows.prepare import prepare_stored
from ksdp.storage.audits.stages import stage_names, write_stage
from ksdp.storage.store import Store

from ...plans import planned


@pytest.mark.parametrize("name", ["look-7", FRESH])
def test_what_an_audit_does_not_reach_any_more_is_removed(tmp_path: Path, name: str) -> None:
    """Otherwise its runs are missed by every command, and the audit is made again each time."""
    tables = {
        "mechanism": {"name": "pd-svd", "rank": 2, "opens": "final"},
        "design": {"party_size": 0.3, "with_runs": 4},
        "statistics": {"families": [], "names": ["row-space-energy"]},
        "decision": {"margin": 0.9},
    }
    rows = np.random.default_rng(4).random((40, 8))
    corpus = Corpus(canonical(sp.csr_array(rows)), np.array([f"d{row:02}" for row in range(40)]))
    ready = prepare_stored(planned(corpus, seed=0, **tables), tmp_path, may_sample=True)
    here = Place(here=True)
    first = run_prepared([ready], here)[0]
    folder = Store(tmp_path).audit(ready.ref.audit)
    reached = stage_names(folder)
    assert name not in reached
    stale = Stage(name, 12345, 60, np.arange(5), ("row-space-energy",), "look-6" if name != FRESH else None)
    write_stage(folder, stale)
    assert run_prepared([ready], here)[0].seconds_by_stage  # made again, once
    assert stage_names(folder) == reached
    assert not run_prepared([ready], here)[0].seconds_by_stage  # and found finished
    assert first.verdicts == run_prepared([ready], here)[0].verdicts
