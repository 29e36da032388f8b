"""Documents with many copies, from spec to verdict, report, page and clearance."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse as sp

from ksdp.audit.verdicts.certificates import told_by_count
from ksdp.flows.audits.forecast import forecast, forecast_words
from ksdp.flows.prepare import open_spec
from ksdp.storage.keys import make_identity
from ksdp.storage.readers.spec_files import read_spec_file

from ...specs import spec_text

SPEC = {
    "seed": 3,
    "corpus": {"path": "copies.npz"},
    "mechanism": {"name": "pd-svd", "rank": 2},
    "design": {"party_size": 20, "with_runs": 20},
}


def test_many_copies_are_clear_against_every_attack_whatever_the_run_shows(
    ksdp: Callable, pages: Callable, tmp_path: Path
) -> None:
    rng = np.random.default_rng(4)
    rows = rng.integers(0, 6, (60, 12))
    rows[20:50], rows[7] = rows[20], rows[6]
    sp.save_npz(tmp_path / "copies.npz", sp.csr_matrix(rows))
    (tmp_path / "copies.toml").write_text(spec_text(SPEC))
    store = tmp_path / "store"
    planned = forecast(open_spec(*read_spec_file(tmp_path / "copies.toml")))
    assert planned["certified_copies"] == 30
    assert "30 documents have so many that they are clear against every attack" in forecast_words(planned)
    ran = ksdp("audit", tmp_path / "copies.toml", "--store", store, "--json")
    folder = store / "audits" / ran.out["audit"]
    table = pd.read_parquet(folder / "verdicts.parquet")
    bound = told_by_count(30, 60, 20)
    assert bound < 0.2
    assert (table.verdict[20:50] == "clear").all()
    assert (table.proof[20:50] == "every attack").all()
    np.testing.assert_allclose(table.certified_bound[20:50], bound)
    np.testing.assert_allclose(table.certified_bound[[6, 7]], told_by_count(2, 60, 20))
    alone = table.drop(index=[6, 7, *range(20, 50)])
    assert alone.certified_bound.isna().all()
    assert (alone.verdict == "sensitive").all(), "every round says who was in"
    (copies,) = json.loads((folder / "audit.json").read_text())["bounds"]
    kept = [copies[key] for key in ("by", "certified", "sensitive", "contradicted", "fewest_copies")]
    assert (*kept, copies["largest_certified"]) == ("copies", 30, 0, 0, 30, bound)
    assert "30 documents have so many copies" in ksdp("show", ran.out["audit"], "--store", store).text
    assert "30 documents have so many copies" in (folder / "report.html").read_text()

    shown = ksdp("show", ran.out["audit"], table.document[30], "--store", store, "--json").out
    assert (shown["certified_bound"], shown["knows_all"]) == (bound, 1)
    page = pages(store).words(f"/audits/{ran.out['audit']}/document?id={table.document[30]}")
    assert "if copies of a document are as likely to take part as it is" in page
    make_identity(tmp_path, "ana")
    by = ("--key", tmp_path / "ana.key", "--who", "Ana", "--clearance", tmp_path / "c.json")
    ksdp("clear", ran.out["audit"], "--store", store, *by, check=0)
    assert "30 are clear against every attack" in (tmp_path / "c.json").read_text()
