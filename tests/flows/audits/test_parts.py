"""Documents measured part by part, values that go when they are tested: the same tables, and a smaller store."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import ksdp
from ksdp.audit import planning
from ksdp.audit.corpus.matrix import Corpus, canonical
from ksdp.audit.errors import InputError, StoreError
from ksdp.audit.opened import Opened
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

THREE_LOOKS = {"LOOKS": {0.1: 0.1, 0.5: 0.2, 1.0: 0.7}, "_LEAST_VALUES": 0, "_LEAST_WITH": 0}
DOCUMENTS = 440
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
        patch.setattr(planning, "_BLOCK_BYTES", 2**16)
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


def audited(
    corpus: Corpus, folder: Path, design: Mapping[str, Any] = MappingProxyType({}), **store: Any
) -> Summary:
    """The audit, without a server."""
    with pytest.MonkeyPatch.context() as patch:
        if store.pop("in_parts", False):
            patch.setattr("ksdp.audit.plan.VALUES_AT_ONCE", 100_000)
        spec = parse_spec(TABLES | {"store": store, "design": TABLES["design"] | dict(design)})
        ready = prepare_stored(make_plan(Opened.of(spec, corpus)), folder, may_sample=True)
        return run_prepared([ready], Place(None, here=True))[0]


WAYS: dict[str, dict[str, Any]] = {
    "kept": {"values": "all"},
    "dropped": {"values": "none"},
    "parts": {"values": "none", "in_parts": True},
    "nothing": {"values": "none", "in_parts": True, "observables": "none"},
}
SLOW = pytest.mark.validity


class Runs(dict[str, tuple[Store, Summary]]):
    """The same audit with all values kept, with none, in parts, and in parts with nothing kept, once asked for."""

    def __init__(self, corpus: Corpus, folders: pytest.TempPathFactory) -> None:
        self._corpus, self._folders = corpus, folders

    def __missing__(self, way: str) -> tuple[Store, Summary]:
        folder = self._folders.mktemp(way) / "store"
        self[way] = Store(folder.resolve()), audited(self._corpus, folder, **WAYS[way])
        return self[way]


@pytest.fixture(scope="module")
def runs(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    found = Runs(corpus, tmp_path_factory)
    design = found["kept"][1].design
    assert design.every > 1
    assert design.early > 0  # the first look reads all of its few blocks
    return found


@pytest.mark.parametrize("way", [*(pytest.param(way, marks=SLOW) for way in ("dropped", "parts")), "nothing"])
def test_tables_are_the_same_to_the_last_bit(runs: Runs, way: str) -> None:
    (kept, usual), (store, found) = runs["kept"], runs[way]
    assert usual.valid
    assert len(usual.looks) == 3
    assert usual.fresh is not None
    for read in (read_verdicts, read_statistics, read_effects):  # NaN is NaN here
        mine, theirs = (read(at.audit(audit.audit)).to_pandas() for at, audit in (runs[way], runs["kept"]))
        pd.testing.assert_frame_equal(mine, theirs, check_exact=True)
    curves = read_curves(store.audit(found.audit)), read_curves(kept.audit(usual.audit))
    assert len(curves[0]) == len(curves[1]) > 2
    for mine, theirs in zip(*curves, strict=True):
        assert (mine.document, mine.statistic, mine.gap) == (theirs.document, theirs.statistic, theirs.gap)
        assert mine.with_values.tolist() == theirs.with_values.tolist()
        assert mine.without_values.tolist() == theirs.without_values.tolist()
    same = ("verdicts", "detected", "controls", "power", "chance", "looks", "fresh", "statistics", "valid")
    assert {name: getattr(found, name) for name in same} == {name: getattr(usual, name) for name in same}


@SLOW
@pytest.mark.parametrize("way", ["kept", "parts"])
def test_effects_are_those_of_fresh_runs_in_which_every_statistic_is_measured(
    runs: Runs, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setattr(audit, "strongest_alone", lambda *_: None)
    more = {} if way == "kept" else {"values": "none", "in_parts": True}
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


def test_what_is_not_kept_is_not_there(runs: Runs) -> None:
    store, found = runs["nothing"]
    assert not any(stage.kept for stage in found.provenance.stages)
    assert not list(store.root.glob("runs/*/values/*"))
    assert not list(store.root.glob("runs/*/passing/*"))
    store, found = runs["kept"]
    assert all(stage.kept for stage in found.provenance.stages)
    assert list(store.root.glob("runs/*/values/*"))
    assert list(store.root.glob("runs/*/observables/*"))
    assert not list(runs["nothing"][0].root.glob("runs/*/observables/*"))


@pytest.mark.parametrize("way", [pytest.param("dropped", marks=SLOW), "nothing"])
def test_values_of_a_document_are_the_same_again(runs: Runs, way: str) -> None:
    (kept, usual), (store, found) = runs["kept"], runs[way]
    names = stored_statistics(usual)
    document = "d0431"
    place = place_of(kept.audit(usual.audit), document)
    held, values = read_values_by_run(kept, usual, document, place, names)
    again, those = values_of(store, found, document, names)
    assert (held == again).all()
    assert (values == those).all()
    loaded = ksdp.load(store.root, found.audit)
    assert loaded.unbiased(document) == held_out_of(kept, usual, document)
    curve = loaded.values(document, names[0])
    assert curve.with_values.tolist() == np.sort(values[0][held]).tolist()


def test_who_cannot_compute_says_so(runs: Runs) -> None:
    store, found = runs["nothing"]
    with pytest.raises(StoreError, match="keeps no values of single runs"):
        read_values_by_run(store, found, "d0000", 0, stored_statistics(found))
    with pytest.raises(InputError, match="keeps no values"):
        ask(store, found.audit, "select count(*) from runs")
    page = read_document_page(store, found.audit, {"id": "d0000"})
    assert page.pictures == ()
    assert "keeps no values of single runs" in str(page.no_values)
    assert page.tests


def test_a_finished_audit_is_not_done_again(runs: Runs, corpus: Corpus) -> None:
    store, found = runs["nothing"]
    again = audited(corpus, store.root, **WAYS["nothing"])
    assert again.sampled_runs == 0
    assert again.provenance.finished == found.provenance.finished
