"""Where an audit runs: in this process, in workers of this machine, or where a server or a cluster is named."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.corpus.matrix import Corpus, canonical
from ksdp.audit.errors import InputError
from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.specs.models import parse_spec
from ksdp.commands.options import PlaceOptions
from ksdp.flows.audits.costs import likely_runs, memory_of
from ksdp.flows.audits.place import (
    ANYWHERE,
    HERE,
    Place,
    available_memory,
    check_memory,
    chosen_place,
    nobody_watches,
    processes_here,
)
from ksdp.flows.audits.run import run_audit
from ksdp.flows.prepare import open_spec
from ksdp.storage.prefect_home import make_home, sharing_address
from ksdp.storage.store import Store

from ...plans import planned


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "t.csv").write_text("a,b\n" + "".join(f"{n},{n * n % 7}\n" for n in range(12)))
    return tmp_path


def plan(folder: Path, **changes: Any) -> Plan:
    tables = {"corpus": {"path": "t.csv"}, "mechanism": {"name": "pd-svd", "rank": 1}}
    spec = parse_spec(tables | {"design": {"party_size": 0.5, "with_runs": 20}} | changes)
    return make_plan(open_spec(spec, folder))


def test_seconds_of_all_audits_together_take_one_process_and_more_takes_all_cores(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    small, large = plan(table), plan(table, design={"party_size": 0.5, "with_runs": 100_000})
    assert [processes_here(some) for some in ([small], [large], [small, large], [small] * 500)] == [1, 4, 4, 4]
    assert processes_here([plan(table, certificate={"pairs": 100}, mechanism=NOISY)]) == 4


NOISY = {"name": "noisy", "noise": 1.0, "scale": 1.0, "parameters": {"rank": 1, "opens": "final"}}


def test_the_default_is_this_machine_and_what_is_named_stands(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    store = Store.open(table / "store")
    small, large = plan(table), plan(table, design={"party_size": 0.5, "with_runs": 100_000})
    cores = os.cpu_count()
    assert chosen_place(ANYWHERE, store, [small]) == Place(1, here=True)
    assert chosen_place(ANYWHERE, store, [large]) == Place(cores, here=True)
    for asked in (Place(2), Place(3, here=True), Place(dask="tls://host:1"), HERE):
        assert chosen_place(asked, store, [large]) == asked
    named = plan(table, cluster={"address": "tls://host:1"})
    assert chosen_place(ANYWHERE, store, [named]) == ANYWHERE
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:4200/api")
    assert chosen_place(ANYWHERE, store, [small]) == ANYWHERE


@pytest.mark.parametrize("opens", ["every round", "final"])
def test_where_equations_tell_who_is_in_the_first_look_is_likely_the_last(opens: str) -> None:
    rows = np.random.default_rng(1).normal(size=(600, 40))
    corpus = Corpus(canonical(sp.csr_array(rows)), np.arange(600).astype(str))
    design = {"party_size": 0.1, "with_runs": 250}
    told = planned(corpus, {"name": "pd-svd", "rank": 2, "opens": opens}, seed=0, design=design)
    assert len(told.looks) > 1
    assert likely_runs(told) == (told.looks[0].runs if opens == "every round" else told.runs)


def test_whoever_has_a_prefect_server_sees_the_audit_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    store = Store.open(tmp_path / "store")
    assert nobody_watches(store)
    make_home(store.prefect)
    with sharing_address(store.prefect, "http://127.0.0.1:4200"):  # as `ksdp serve` does
        assert not nobody_watches(store)
    assert nobody_watches(store)
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:4200/api")
    assert not nobody_watches(store)


def test_here_is_refused_with_what_asks_for_dask() -> None:
    assert PlaceOptions(here=2).place() == Place(2, here=True)
    assert PlaceOptions(dask="3").place() == Place(3)
    assert PlaceOptions(dask="tls://host:1").place() == Place(dask="tls://host:1")
    for other in (PlaceOptions(2, "2"), PlaceOptions(2, "tls://host:1")):
        with pytest.raises(InputError, match="name one of them"):
            other.place()
    with pytest.raises(InputError, match="at least 1 worker"):
        PlaceOptions(dask="0").place()


def test_memory_grows_with_documents_features_and_workers(table: Path) -> None:
    def needed(rows: int, features: int, with_runs: int = 20) -> float:
        counts = np.random.default_rng(0).integers(1, 9, (rows, features))
        corpus = Corpus(canonical(sp.csr_array(counts)), np.arange(rows).astype(str))
        design = {"party_size": 0.5, "with_runs": with_runs}
        return memory_of(planned(corpus, {"name": "pd-svd", "rank": 1}, seed=0, design=design)).worker

    assert needed(30, 5) < needed(300, 5) < needed(300, 50) <= needed(300, 50, 2000)
    memory = memory_of(plan(table))
    assert 3e8 < memory.worker < memory.start < 6e8
    assert memory.of(1) == memory.start < memory.of(2) < memory.of(3) == memory.start + 3 * memory.worker


def test_an_audit_that_needs_far_more_memory_than_there_is_is_refused_before_it_runs(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = plan(table)
    need = memory_of(small)
    monkeypatch.setattr("ksdp.flows.audits.place.available_memory", lambda: int(need.of(3)))
    check_memory([small], 4)  # a doubtful case
    with pytest.raises(InputError, match=r"GB and the starting process\), where .* fewer workers \(`--here 3`\)"):
        check_memory([small], 9)
    monkeypatch.setattr("ksdp.flows.audits.place.available_memory", lambda: 10**8)
    with pytest.raises(InputError, match="needs about 0.4 GB of memory, where 0.1 GB are available: take a small"):
        run_audit(small.opened, table / "store", HERE)
    assert not list((table / "store").glob("runs/*"))


def test_the_limit_of_a_container_counts(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (table / "memory.max").write_text("700")
    (table / "memory.stat").write_text("anon 300\nfile 90\n")
    files = ((str(table / "memory.max"), str(table / "memory.stat"), "anon"),)
    monkeypatch.setattr("ksdp.flows.audits.place._CGROUPS", files)
    assert available_memory() == 400
