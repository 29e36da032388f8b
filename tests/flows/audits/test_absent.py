"""An audit of documents that absence proves: what is stored of them, and what commands and pages say."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

import ksdp as product
from ksdp.audit.absence import absence_bounds
from ksdp.audit.errors import DamagedFile, InputError
from ksdp.dashboards.audits.sentences import absent
from ksdp.flows.audits.first_spec import first_spec
from ksdp.flows.audits.forecast import forecast, forecast_words
from ksdp.flows.audits.replay import replay
from ksdp.flows.prepare import open_spec
from ksdp.storage.audits.queries import Filter, Findings
from ksdp.storage.codec import write_table_with_checksum
from ksdp.storage.findings import check_verdicts, read_spec, read_statistics, read_verdicts
from ksdp.storage.readers.spec_files import read_spec_file
from ksdp.storage.store import Store

pytestmark = pytest.mark.absence
MEASURED, PROVED = "45", "7"


@pytest.fixture(scope="module")
def rows() -> sp.csr_array:
    """60 documents: everybody has two features, half of them one that nobody else has."""
    rng = np.random.default_rng(0)
    dense = np.zeros((60, 32))
    dense[:, :2] = rng.poisson(2.0, (60, 2)) + 1.0
    dense[np.arange(30), 2 + np.arange(30)] = rng.uniform(0.5, 2.0, 30)
    return sp.csr_array(dense)


@pytest.fixture(scope="module")
def found(rows: sp.csr_array, tmp_path_factory: pytest.TempPathFactory) -> product.Audit:
    store = tmp_path_factory.mktemp("absent") / "store"
    settings = {"rank": 1, "opens": "final", "party_size": 0.3, "with_runs": 40, "fresh_runs": 8, "seed": 3}
    return product.audit(rows, "pd-svd", store=store, **settings)


def folder_of(found: product.Audit) -> Path:
    return Store(Path(found.store)).audit(found.id)


def test_tables_and_summary_hold_who_was_measured_and_who_was_not(
    found: product.Audit, rows: sp.csr_array
) -> None:
    summary, table = found.summary, read_verdicts(folder_of(found)).to_pandas()
    bound = absence_bounds(rows, 18, "factor").bound
    proved = table[table["proof"] == "absence"]
    assert len(proved) == summary.absence.documents == (bound > 0.2).sum() == 30
    np.testing.assert_array_equal(proved["distance"], bound[bound > 0.2])
    assert summary.documents == len(table) == 60
    assert summary.verdicts.sensitive == (table["verdict"] == "sensitive").sum() >= 30
    assert summary.detected == table["detected"].sum()
    assert summary.largest_distance == 1.0
    measured = set(read_statistics(folder_of(found))["document"].to_pylist())
    assert measured == set(table["document"]) - set(proved["document"])
    assert summary.provenance.stages[0].documents == 30
    assert "30 documents are sensitive before any run" in str(absent(summary))
    check_verdicts(folder_of(found), read_spec(folder_of(found)))
    findings = Findings(folder_of(found))
    rows_of = {name: findings.document(name) for name in (MEASURED, PROVED)}
    tests = {name: findings.tests(row) for name, row in rows_of.items() if row is not None}
    assert {test.document for test in tests[MEASURED]} == {MEASURED}
    assert (len(tests[MEASURED]), tests[PROVED]) == (len(summary.statistics), ())
    assert findings.page(Filter(verdict="sensitive")).rows[0].proof == "absence"


def test_pages_and_commands_say_that_nobody_measured_it(
    found: product.Audit, ksdp: Callable, pages: Callable
) -> None:
    said = "In 100 % of the runs without it, no other document has its rarest feature"
    shown = pages(Path(found.store)).words(f"/audits/{found.id}/document?id={PROVED}")
    assert said in shown
    assert "no run measured it" in shown
    assert said in ksdp("show", found.id, PROVED, "--store", found.store).text
    assert "30 documents are sensitive before any run" in ksdp("show", found.id, "--store", found.store).text
    assert "sensitive before any run" in (folder_of(found) / "report.html").read_text()
    with pytest.raises(InputError):
        replay(Path(found.store), found.id, PROVED, next(iter(found.summary.statistics)))


def test_a_row_that_absence_does_not_prove_is_damage(found: product.Audit, tmp_path: Path) -> None:
    table, spec = read_verdicts(folder_of(found)), read_spec(folder_of(found))
    distance = np.where(np.array(table["document"].to_pylist()) == PROVED, 0.1, table["distance"].to_numpy())
    table = table.set_column(table.column_names.index("distance"), "distance", pa.array(distance))
    write_table_with_checksum(tmp_path / "statistics.parquet", read_statistics(folder_of(found)))
    write_table_with_checksum(tmp_path / "verdicts.parquet", table)
    with pytest.raises(DamagedFile, match=f"'{PROVED}'"):
        check_verdicts(tmp_path, spec)


def test_a_forecast_and_a_first_spec_show_who_is_proved_and_who_is_next(
    rows: sp.csr_array, tmp_path: Path
) -> None:
    dense = np.column_stack((np.ceil(rows.toarray()[:, 2:]), np.ones((60, 5))))
    dense[np.arange(60), 30 + np.arange(60) % 5] = 0  # a column that all have would weigh nothing
    sp.save_npz(tmp_path / "rows.npz", sp.csr_matrix(dense))
    text = first_spec(str(tmp_path / "rows.npz"), tmp_path, 0.2)
    (tmp_path / "rows.toml").write_text(text)
    planned = forecast(open_spec(*read_spec_file(tmp_path / "rows.toml")))
    assert (planned["documents"], planned["before"]["sensitive"]) == (60, 30)
    assert planned["before"]["tenths"] == {"0.9": 30}
    assert "".join(planned["before"]["furthest"]).isdigit()
    for words in (text, forecast_words(planned)):
        assert "30 documents are sensitive before any run, by their rarest feature alone" in words
        assert "move the released V furthest" in words
