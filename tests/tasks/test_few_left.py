"""Runs that no test of the few contents left open reads: not made, and nothing else is otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import ksdp
from ksdp.audit import plan
from ksdp.audit.contract import Database, Observables
from ksdp.audit.corpus.matrix import Corpus, canonical
from ksdp.audit.mechanisms.factorisation.pd_svd import PDSVD
from ksdp.audit.planning import make_plan
from ksdp.audit.results.summary import Summary
from ksdp.audit.specs.models import parse_spec
from ksdp.audit.verdicts import looks
from ksdp.dashboards.audits.sentences import looks as looks_in_words
from ksdp.flows.audits.place import Place
from ksdp.flows.audits.replay import replay, values_of
from ksdp.flows.audits.run import run_prepared, run_test
from ksdp.flows.prepare import prepare_stored
from ksdp.storage.audits.documents import read_values_by_run, stored_statistics
from ksdp.storage.audits.stages import read_stage
from ksdp.storage.findings import place_of, read_curves, read_effects, read_statistics, read_verdicts
from ksdp.storage.store import Store

pytestmark = pytest.mark.e2e

OPEN = np.arange(40)
"""Documents of two contents, twenty of each: what a run tells of one of them is just above the margin."""
TABLES: dict[str, Any] = {
    "seed": 5,
    "corpus": {"path": "x"},
    "mechanism": {"name": "pd-svd", "rank": 2, "opens": "final"},
    "design": {"party_size": 0.03, "with_runs": 40, "fresh_runs": 0},
    "statistics": {"families": [], "names": ["missing-weight"]},
    "decision": {"margin": 0.5},
}
SMALL = {
    (plan, "_BLOCK_BYTES"): 2**16,
    (looks, "LOOKS"): {0.3: 0.2, 0.6: 0.1, 1.0: 0.7},
    (looks, "_LEAST_VALUES"): 0,
}
"""Three looks, and so many blocks that a document's tests read one in four."""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans of few runs; workers know nothing of what is patched here."""
    for (module, name), value in SMALL.items():
        monkeypatch.setattr(module, name, value)


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    """Documents with a word that nobody else has, but for two contents."""
    own = np.eye(300)
    own[OPEN] = own[OPEN // 20]
    matrix = np.concatenate([np.random.default_rng(4).poisson(1.0, (300, 4)) + 1.0, own], axis=1)
    matrix[OPEN] = matrix[OPEN // 20]
    return Corpus(canonical(sp.csr_array(matrix)), np.array([f"d{row:03}" for row in range(300)]))


def audited(
    corpus: Corpus, folder: Path, workers: int | None = None, with_runs: int = 40, **store: Any
) -> Summary:
    """The audit, without a server."""
    tables = TABLES | {"store": store, "design": TABLES["design"] | {"with_runs": with_runs}}
    ready = prepare_stored(make_plan(parse_spec(tables), corpus), folder, may_sample=True)
    return run_prepared([ready], Place(workers, here=True))[0]


@pytest.fixture(scope="module")
def usual(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Summary]:
    """With all values kept, in one process."""
    folder = tmp_path_factory.mktemp("usual") / "store"
    with pytest.MonkeyPatch.context() as patch:
        for (module, name), value in SMALL.items():
            patch.setattr(module, name, value)
        return Store(folder.resolve()), audited(corpus, folder, values="all")


def assert_same_tables(mine: tuple[Store, Summary], theirs: tuple[Store, Summary]) -> None:
    """To the last bit."""
    folders = [store.audit(found.audit) for store, found in (mine, theirs)]
    for read in (read_verdicts, read_statistics, read_effects):
        pd.testing.assert_frame_equal(*(read(folder).to_pandas() for folder in folders), check_exact=True)
    for one, other in zip(*(read_curves(folder) for folder in folders), strict=True):
        assert one.with_values.tolist() == other.with_values.tolist()


@pytest.mark.usefixtures("small")
def test_runs_of_nobody_who_is_open_are_not_made(usual: tuple[Store, Summary], corpus: Corpus) -> None:
    store, found = usual
    assert found.valid
    stage = read_stage(store.audit(found.audit), "look-3")
    assert stage.few_from == 896
    assert set(OPEN) <= set(stage.rows)
    contents = len(stage.rows) - 38
    assert [look.tested > 0 for look in found.looks] == [True, True, True]
    plan = make_plan(parse_spec(TABLES), corpus).narrowed(stage)
    assert found.spared_runs == 1472 - found.runs == plan.spared()
    assert found.sampled_runs == found.runs
    # Of three blocks in four those runs are made that hold the document of a content.
    assert found.spared_runs == pytest.approx(576 * 0.75 * 0.97**contents, abs=45)
    assert f"{found.spared_runs} runs that no test of these reads were not made" in str(looks_in_words(found))
    stored = list(store.root.glob("runs/*/observables/*.parquet"))
    assert len(stored) == 896 // 16 + 576 // 16 // 4  # whole blocks alone


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "store",
    [{"values": "none", "values_at_once": 1e-4}, {"values": "none", "observables": "none"}],
    ids=["parts", "nothing"],
)
def test_tables_are_the_same_however_it_is_stored(
    usual: tuple[Store, Summary], corpus: Corpus, tmp_path: Path, store: dict[str, Any]
) -> None:
    found = audited(corpus, tmp_path, **store)
    assert_same_tables((Store(tmp_path), found), usual)
    names = stored_statistics(usual[1])
    for document in ("d000", "d039", "d150"):
        place = place_of(usual[0].audit(usual[1].audit), document)
        held, values = read_values_by_run(*usual, document, place, names)
        again, those = values_of(Store(tmp_path), found, document, names)
        assert (held == again).all()
        assert (values == those).all()
        assert replay(tmp_path, found.audit, document, names[0])["equal"]


@pytest.mark.usefixtures("small")
def test_an_audit_that_was_interrupted_goes_on(
    usual: tuple[Store, Summary], corpus: Corpus, tmp_path: Path
) -> None:
    found = audited(corpus, tmp_path)
    assert audited(corpus, tmp_path).provenance.finished == found.provenance.finished  # nothing is missed
    late = [path for path in tmp_path.glob("runs/*/*/**/*.parquet") if int(path.name.split("-")[1]) >= 800]
    for path in late[::2]:
        path.unlink()
    again = audited(corpus, tmp_path)
    assert 0 < again.sampled_runs < found.sampled_runs
    assert_same_tables((Store(tmp_path), again), usual)


def test_two_workers_give_the_same_tables(corpus: Corpus, tmp_path: Path) -> None:
    one = audited(corpus, tmp_path / "one", with_runs=101)  # the fewest of which there are several looks
    two = audited(corpus, tmp_path / "two", 2, with_runs=101)
    assert one.valid
    assert one.spared_runs > 1000
    assert_same_tables((Store(tmp_path / "one"), one), (Store(tmp_path / "two"), two))


@pytest.mark.usefixtures("small")
def test_other_statistics_are_explored_in_the_runs_that_are_there(usual: tuple[Store, Summary]) -> None:
    store, found = usual
    explored = run_test(store.root, found.audit, ("w-square-sum",), Place(here=True))
    assert [look.tested > 0 for look in explored.looks] == [True, True, False]
    assert explored.runs == 896


@dataclass(frozen=True)
class Mine(PDSVD):
    """Somebody's own code, whose runs are made again to see whether they announce the same."""

    def run(self, database: Database, rng: np.random.Generator) -> Observables:
        """Zeros have no sign."""
        return {name: array + 0.0 for name, array in super().run(database, rng).items()}


@pytest.mark.usefixtures("small")
def test_runs_are_made_again_after_looks_with_ever_fewer_open(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looks, "LOOKS", {0.3: 0.1, 0.6: 0.1, 0.8: 0.05, 0.95: 0.55, 1.0: 0.2})
    settings = TABLES["design"] | {"statistics": ["missing-weight"], "margin": 0.5, "seed": 5}
    mine = Mine(rank=2, opens="final")
    found = ksdp.audit(corpus.matrix, mine, store=tmp_path, **settings).summary
    assert found.valid
    folder = Store(tmp_path).audit(found.audit)
    before, last = (read_stage(folder, f"look-{number}") for number in (4, 5))
    assert before.few_from == last.few_from
    assert len(last.rows) < len(before.rows)
    made = [look.runs for look in found.looks]
    assert made[2] < found.runs < made[4]
    assert found.spared_runs == made[4] - found.runs
