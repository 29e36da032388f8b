"""Documents measured part by part, values that go when they are tested: the same tables, and a smaller store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import ksdp
from ksdp.audit import plan
from ksdp.audit.corpus.matrix import Corpus, canonical
from ksdp.audit.errors import InputError, StoreError
from ksdp.audit.planning import make_plan
from ksdp.audit.results.summary import Summary
from ksdp.audit.specs.models import parse_spec
from ksdp.audit.verdicts import looks
from ksdp.dashboards.audits.pages import read_document_page
from ksdp.flows.audits import audit
from ksdp.flows.audits.place import Place
from ksdp.flows.audits.replay import held_out_of, values_of
from ksdp.flows.audits.run import run_prepared
from ksdp.flows.prepare import prepare_stored
from ksdp.storage.audits.documents import read_values_by_run, stored_statistics
from ksdp.storage.audits.sql import ask
from ksdp.storage.audits.stages import read_stage
from ksdp.storage.findings import place_of, read_curves, read_effects, read_statistics, read_verdicts
from ksdp.storage.store import Store

pytestmark = pytest.mark.e2e

BLOCK_BYTES = plan._BLOCK_BYTES
THREE_LOOKS = {"LOOKS": {0.1: 0.1, 0.5: 0.2, 1.0: 0.7}, "_LEAST_VALUES": 0, "_LEAST_WITH": 0}
PLANNED = {name: getattr(looks, name) for name in THREE_LOOKS}
DOCUMENTS = 1100
TABLES: dict[str, Any] = {
    "seed": 5,
    "corpus": {"path": "x"},
    "mechanism": {"name": "pd-svd", "rank": 2, "opens": "final"},
    "design": {"party_size": 0.03, "with_runs": 12, "fresh_runs": 6},
    "statistics": {"families": [], "names": ["row-space-energy", "missing-weight"]},
    "decision": {"margin": 0.9},
}


@pytest.fixture(scope="module", autouse=True)
def many_blocks() -> Iterator[None]:
    """So many blocks that tests read a part of the without runs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "_BLOCK_BYTES", 2**16)
        for name, value in THREE_LOOKS.items():
            patch.setattr(looks, name, value)
        yield


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    """Short documents that hide among others, and twenty that stand out."""
    rng = np.random.default_rng(4)
    matrix = rng.poisson(0.3, (DOCUMENTS, 24)).astype(np.float64)
    matrix[np.arange(DOCUMENTS), rng.integers(24, size=DOCUMENTS)] += 1
    for at, row in enumerate(range(0, DOCUMENTS, 55)):
        matrix[row, at % 24] += 400
    return Corpus(canonical(sp.csr_array(matrix)), np.array([f"d{row:04}" for row in range(DOCUMENTS)]))


def audited(corpus: Corpus, folder: Path, workers: int | None = None, **store: Any) -> Summary:
    """The audit, without a server."""
    spec = parse_spec(TABLES | {"store": store})
    ready = prepare_stored(make_plan(spec, corpus), folder, may_sample=True)
    return run_prepared([ready], Place(workers, here=True))[0]


@pytest.fixture(scope="module")
def runs(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Store, Summary]]:
    """The same audit with all values kept, with none, in parts, and in parts with nothing kept."""
    ways: dict[str, dict[str, Any]] = {
        "kept": {"values": "all"},
        "dropped": {"values": "none"},
        "parts": {"values": "none", "values_at_once": 1e-4},
        "nothing": {"values": "none", "values_at_once": 1e-4, "observables": "none"},
    }
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "_BLOCK_BYTES", 2**16)  # many blocks, so that tests read a part of the without runs
        for name, store in ways.items():
            folder = tmp_path_factory.mktemp(name) / "store"
            found[name] = (Store(folder.resolve()), audited(corpus, folder, **store))
    design = found["kept"][1].design
    assert design.every > 1
    assert design.early > 0  # the first look reads all of its few blocks
    return found


@pytest.mark.parametrize("way", ["dropped", "parts", "nothing"])
def test_tables_are_the_same_to_the_last_bit(runs: dict[str, tuple[Store, Summary]], way: str) -> None:
    (kept, usual), (store, found) = runs["kept"], runs[way]
    assert usual.valid
    assert len(usual.looks) == 3
    assert usual.fresh is not None
    for read in (read_verdicts, read_statistics, read_effects):  # NaN is NaN here
        mine, theirs = (read(at.audit(audit.audit)).to_pandas() for at, audit in (runs[way], runs["kept"]))
        pd.testing.assert_frame_equal(mine, theirs, check_exact=True)
    curves = read_curves(store.audit(found.audit)), read_curves(kept.audit(usual.audit))
    assert len(curves[0]) == len(curves[1]) > 10
    for mine, theirs in zip(*curves, strict=True):
        assert (mine.document, mine.statistic, mine.gap) == (theirs.document, theirs.statistic, theirs.gap)
        assert mine.with_values.tolist() == theirs.with_values.tolist()
        assert mine.without_values.tolist() == theirs.without_values.tolist()
    same = ("verdicts", "detected", "controls", "power", "chance", "looks", "fresh", "statistics", "valid")
    assert {name: getattr(found, name) for name in same} == {name: getattr(usual, name) for name in same}


@pytest.mark.parametrize("way", ["kept", "parts"])
def test_effects_are_those_of_fresh_runs_in_which_every_statistic_is_measured(
    runs: dict[str, tuple[Store, Summary]],
    corpus: Corpus,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
) -> None:
    monkeypatch.setattr(audit, "strongest_alone", lambda *_: None)
    more = {} if way == "kept" else {"values": "none", "values_at_once": 1e-4}
    every = audited(corpus, tmp_path / "every", **more)
    store, usual = runs[way]
    stages = [
        read_stage(at.audit(a.audit), "fresh") for at, a in ((store, usual), (Store(tmp_path / "every"), every))
    ]
    assert [stage.strongest is None for stage in stages] == [False, True]
    mine, theirs = (
        read_effects(at.audit(a.audit)).to_pandas()
        for at, a in ((store, usual), (Store(tmp_path / "every"), every))
    )
    assert mine.statistic.nunique() > 1
    pd.testing.assert_frame_equal(mine, theirs, check_exact=True)


def test_two_workers_give_the_same_tables(corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "_BLOCK_BYTES", BLOCK_BYTES)  # workers know nothing of what is patched here
    for name, value in PLANNED.items():
        monkeypatch.setattr(looks, name, value)
    one = audited(corpus, tmp_path / "one", values="none")
    two = audited(corpus, tmp_path / "two", 2, values="none", values_at_once=1e-4)
    assert two.valid
    for read in (read_verdicts, read_statistics, read_effects):
        folders = (Store(tmp_path / "one").audit(one.audit), Store(tmp_path / "two").audit(two.audit))
        pd.testing.assert_frame_equal(*(read(folder).to_pandas() for folder in folders), check_exact=True)


def test_what_is_not_kept_is_not_there(runs: dict[str, tuple[Store, Summary]]) -> None:
    for way in ("dropped", "parts", "nothing"):
        store, found = runs[way]
        assert not any(stage.kept for stage in found.provenance.stages)
        assert not list(store.root.glob("runs/*/values/*"))
        assert not list(store.root.glob("runs/*/passing/*"))
    store, found = runs["kept"]
    assert all(stage.kept for stage in found.provenance.stages)
    assert list(store.root.glob("runs/*/values/*"))
    assert list(runs["parts"][0].root.glob("runs/*/observables/*"))
    assert not list(runs["nothing"][0].root.glob("runs/*/observables/*"))


@pytest.mark.parametrize("way", ["dropped", "nothing"])
def test_values_of_a_document_are_the_same_again(runs: dict[str, tuple[Store, Summary]], way: str) -> None:
    (kept, usual), (store, found) = runs["kept"], runs[way]
    names = stored_statistics(usual)
    for document in ("d0000", "d1077"):
        place = place_of(kept.audit(usual.audit), document)
        held, values = read_values_by_run(kept, usual, document, place, names)
        again, those = values_of(store, found, document, names)
        assert (held == again).all()
        assert (values == those).all()
        loaded = ksdp.load(store.root, found.audit)
        assert loaded.unbiased(document) == held_out_of(kept, usual, document)
        curve = loaded.values(document, names[0])
        assert curve.with_values.tolist() == np.sort(values[0][held]).tolist()


def test_who_cannot_compute_says_so(runs: dict[str, tuple[Store, Summary]]) -> None:
    store, found = runs["parts"]
    with pytest.raises(StoreError, match="keeps no values of single runs"):
        read_values_by_run(store, found, "d0000", 0, stored_statistics(found))
    with pytest.raises(InputError, match="keeps no values"):
        ask(store, found.audit, "select count(*) from runs")
    page = read_document_page(store, found.audit, {"id": "d0000"})
    assert page.pictures == ()
    assert "keeps no values of single runs" in str(page.no_values)
    assert page.tests


def test_a_finished_audit_is_not_done_again(runs: dict[str, tuple[Store, Summary]], corpus: Corpus) -> None:
    store, found = runs["parts"]
    again = audited(corpus, store.root, values="none", values_at_once=1e-4)
    assert again.sampled_runs == 0
    assert again.provenance.finished == found.provenance.finished
