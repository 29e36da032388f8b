"""What an audit keeps is what was said before, and what it moves follows from that."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.corpus.matrix import Corpus, canonical
from ksdp.audit.planning import make_plan
from ksdp.audit.spec.models import parse_spec
from ksdp.flows.audits.forecast import Bill, bill, forecast_words
from ksdp.flows.prepare import prepare_stored
from ksdp.tasks.blocks import compute_block


@pytest.mark.parametrize("party_size", [100, 12])
def test_bytes_kept_are_those_that_were_said(party_size: int, tmp_path: Path) -> None:
    """All runs of every document, and a part of those without it."""
    rng = np.random.default_rng(3)
    counts = rng.poisson(0.2, size=(400, 60)).astype(float)
    counts[:, 0] += 1
    corpus = Corpus(canonical(sp.csr_array(counts)), np.array([f"document {n}" for n in range(400)]))
    tables = {"corpus": {"path": "x"}, "mechanism": {"name": "pd-svd", "rank": 2}, "seed": 4}
    tables |= {"design": {"party_size": party_size, "with_runs": 20}}
    tables |= {"statistics": {"families": [], "names": ["row-space-energy", "span-energy"]}}
    ready = prepare_stored(make_plan(parse_spec(tables), corpus), tmp_path, may_sample=True)
    for block in ready.plan.blocks:
        compute_block(ready.ref, block)
    said = bill(ready.plan)
    kept = {name: sum(f.stat().st_size for f in tmp_path.glob(f"runs/*/{name}/**/*.parquet")) for name in NAMES}
    assert said.values == pytest.approx(kept["values"], rel=0.1)
    assert said.observables == pytest.approx(kept["observables"], rel=0.4)  # so small that headers count
    stored = sum(file.stat().st_size for file in tmp_path.glob("corpora/*/*.*"))
    assert said.corpus == pytest.approx(stored, rel=0.5)  # names of documents compress
    assert said.kept == said.values + said.observables + said.corpus


NAMES = ("values", "observables")


def test_values_travel_twice_and_the_corpus_to_every_machine() -> None:
    assert Bill(100, 10, 1).moved(0) == 100 + 100 + 10 + 1
    assert Bill(100, 10, 1).moved(20) == 100 + 100 + 10 + 21


def test_the_words_name_units() -> None:
    said = {
        **{"views": [], "documents": 3, "unit": "document", "runs": 5, "blocks": 1, "statistics": ["a"]},
        **{"certificate_runs": 0, "cpu_hours": 0.5, "seconds_a_run": 0.002, "unread": [], "margin": 0.0},
        **{"bytes": 2.34e9, "moved_bytes": 4.5e12, "corpus_bytes": 1200, "cpu_seconds": {"sample": 1.0}},
        **{"detectable_D": 0.2, "certifiable_margin": 0.1, "runs_for_margin": None},
    }
    words = forecast_words(said)
    assert "2.3 GB kept\n" in words
    assert "with blocks at a URL 4.5 TB moved, and 1.2 kB more for each machine\n" in words
