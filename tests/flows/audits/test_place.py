"""Small audits are made in the command's process, and give what workers would give."""

from __future__ import annotations

import itertools
import math
import pickle
from dataclasses import replace
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
from ksdp.flows.audits.place import Place, likely_runs, nobody_watches, work_of, workers_here
from ksdp.flows.prepare import prepare, spec_corpus
from ksdp.storage.prefect_home import make_home, sharing_address
from ksdp.storage.store import Store
from ksdp.tasks import audit_ref
from ksdp.tasks.audit_ref import open_audit

from ...typed import typed


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "t.csv").write_text("a,b\n" + "".join(f"{n},{n * n % 7}\n" for n in range(12)))
    return tmp_path


def plan(folder: Path, **changes: Any) -> Plan:
    tables = {"corpus": {"path": "t.csv"}, "mechanism": {"name": "pd-svd", "rank": 1}}
    spec = parse_spec(tables | {"design": {"party_size": 0.5, "with_runs": 20}} | changes)
    return make_plan(spec, spec_corpus(spec, folder))


def test_work_is_forecast_for_all_audits_together(table: Path) -> None:
    small = plan(table)
    assert work_of([small, small], clock=lambda: 0.0) < 0.01  # what is written and read, by its bytes
    seconds = itertools.count()  # every look at the clock is a second later
    one = work_of([small], clock=lambda: float(next(seconds)))
    seconds = itertools.count()
    assert work_of([small, small], clock=lambda: float(next(seconds))) == pytest.approx(2 * one)
    seconds = itertools.count()
    assert work_of([small, small], lambda: float(next(seconds)), most=one / 2) == pytest.approx(one)


def test_what_is_not_forecast_is_never_small(table: Path) -> None:
    many = plan(table, design={"party_size": 0.5, "with_runs": 1_000_000})
    assert work_of([many], clock=lambda: 0.0) == math.inf


def test_seconds_take_one_process_a_minute_all_cores_and_more_takes_prefect_and_dask() -> None:
    assert [workers_here(work, cores=4) for work in (0.0, 9.0, 11.0, 239.0, 241.0, math.inf)] == [
        1,
        1,
        4,
        4,
        None,
        None,
    ]
    assert workers_here(61.0, cores=1) is None


@pytest.mark.parametrize("opens", ["every round", "final"])
def test_where_equations_tell_who_is_in_the_first_look_is_likely_the_last(opens: str) -> None:
    rows = np.random.default_rng(1).normal(size=(600, 40))
    corpus = Corpus(canonical(sp.csr_array(rows)), np.arange(600).astype(str))
    tables = {"corpus": {"path": "x"}, "mechanism": {"name": "pd-svd", "rank": 2, "opens": opens}}
    told = make_plan(parse_spec(tables | {"design": {"party_size": 0.1, "with_runs": 250}}), corpus)
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


def test_what_trying_worked_out_is_known_where_the_audit_is_opened(table: Path) -> None:
    """Memo, and to that audit alone: others have a pool of their own."""
    tables = {"corpus": {"path": "t.csv"}, "mechanism": {"name": "pd-svd", "rank": 1}}
    first, other = (
        prepare(
            parse_spec(tables | {"seed": seed, "design": {"party_size": 0.5, "with_runs": 20}}),
            table,
            Store.open(table / "store").root,
        )
        for seed in (1, 2)
    )
    known = replace(first.ref, pool=first.plan.pool)
    assert known == first.ref
    assert open_audit(other.ref).pool is not first.plan.pool
    assert open_audit(known).pool is first.plan.pool
    audit_ref._audit.cache_clear()
    sent = pickle.loads(pickle.dumps(known))  # as to a worker, which works it out itself
    assert sent == known
    assert open_audit(sent).pool is not first.plan.pool


def test_a_finished_audit_says_that_it_writes_no_performance_report(table: Path) -> None:
    mechanism, design = "[mechanism]\nname = 'pd-svd'\nrank = 1\n", "[design]\nparty_size = 0.5\nwith_runs = 20\n"
    (table / "spec.toml").write_text(f"[corpus]\npath = 't.csv'\n{mechanism}{design}")
    asked, page = ("audit", table / "spec.toml", "--store", table / "store"), table / "dask.html"
    typed(*asked, "--here", 1)
    assert f"{page} is not written" in typed(*asked, "--performance-report", page).stderr
    assert not page.exists()


def test_here_is_refused_with_what_asks_for_dask() -> None:
    assert PlaceOptions(here=2).place() == Place(2, here=True)
    for other in (PlaceOptions(2, workers=2), PlaceOptions(2, dask="tls://host:1")):
        with pytest.raises(InputError, match="name one of them"):
            other.place()
    with pytest.raises(InputError, match="leave one of them out"):
        PlaceOptions(2).place(Path("dask.html"))
    with pytest.raises(InputError, match="there is no folder nowhere"):
        PlaceOptions().place(Path("nowhere/dask.html"))
