"""Documents with many copies, from spec to verdict, report, page and clearance."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse as sp

from ksdp.audit.verdicts.copies import count_laws
from ksdp.flows.audits.forecast import forecast, forecast_words
from ksdp.flows.prepare import read_spec_file
from ksdp.storage.keys import make_identity

SPEC = """
seed = 3
[corpus]
path = "copies.npz"
[mechanism]
name = "pd-svd"
rank = 2
[design]
party_size = 40
with_runs = 40
"""


def test_many_copies_are_certified_clear_whatever_the_run_shows(
    ksdp: Callable, pages: Callable, tmp_path: Path
) -> None:
    rng = np.random.default_rng(4)
    rows = rng.integers(0, 6, (120, 30))
    rows[30:90], rows[7] = rows[30], rows[6]
    sp.save_npz(tmp_path / "copies.npz", sp.csr_matrix(rows))
    (tmp_path / "copies.toml").write_text(SPEC)
    store = tmp_path / "store"
    planned = forecast(*read_spec_file(tmp_path / "copies.toml"))
    assert planned["certified_copies"] == 60
    assert "60 documents have so many that they are certified clear" in forecast_words(planned)
    ran = ksdp("audit", tmp_path / "copies.toml", "--store", store, "--json")
    folder = store / "audits" / ran.out["audit"]
    table = pd.read_parquet(folder / "verdicts.parquet")
    bound = count_laws(60, 120, 40).told
    assert bound < 0.2
    assert (table.verdict[30:90] == "certified clear").all()
    np.testing.assert_allclose(table.certified_bound[30:90], bound)
    np.testing.assert_allclose(table.certified_bound[[6, 7]], count_laws(2, 120, 40).told)
    alone = table.drop(index=[6, 7, *range(30, 90)])
    assert alone.certified_bound.isna().all()
    assert (alone.verdict == "sensitive").all(), "every round says who was in"
    copies = {
        "certified": 60,
        "sensitive": 0,
        "contradicted": 0,
        "fewest": 60,
        "largest_bound": bound,
        "together": 2,
    }
    assert json.loads((folder / "audit.json").read_text())["copies"] == copies
    assert "60 documents have so many copies" in ksdp("show", ran.out["audit"], "--store", store).err
    assert "60 documents have so many copies" in (folder / "report.html").read_text()

    shown = ksdp("show", ran.out["audit"], table.document[40], "--store", store, "--json").out
    assert (shown["certified_bound"], shown["knows_all"]) == (bound, 1)
    page = pages(store).words(f"/audits/{ran.out['audit']}/document?id={table.document[40]}")
    assert "if copies of a document are as likely to take part as it is" in page
    make_identity(tmp_path, "ana")
    by = ("--key", tmp_path / "ana.key", "--who", "Ana", "--clearance", tmp_path / "c.json")
    said = ksdp("clear", ran.out["audit"], "--store", store, *by, check=0).err
    assert "60 are certified clear" in (tmp_path / "c.json").read_text(), said
    assert "60 are certified clear" in (tmp_path / "c.json").read_text()


TOGETHER = """
seed = 3
[corpus]
path = "copies.npz"
[mechanism]
name = "pd-svd"
rank = 2
opens = "final"
[statistics]
names = ["row-space-energy", "best-cosine"]
families = []
[design]
party_size = 8
with_runs = 80
[decision]
margin = 0.1
"""


def test_some_copies_are_tested_together_and_have_one_verdict(
    ksdp: Callable, pages: Callable, tmp_path: Path
) -> None:
    rng = np.random.default_rng(5)
    rows = rng.poisson(0.6, (150, 30))
    rows[:, 0] += 1
    rows[20:32], rows[40:60], rows[7] = rows[20], rows[40], rows[6]
    sp.save_npz(tmp_path / "copies.npz", sp.csr_matrix(rows))
    (tmp_path / "copies.toml").write_text(TOGETHER)
    store = tmp_path / "store"
    ran = ksdp("audit", tmp_path / "copies.toml", "--store", store, "--json")
    folder = store / "audits" / ran.out["audit"]
    table = pd.read_parquet(folder / "verdicts.parquet")
    of = np.zeros(150, int)
    of[20:32], of[40:60] = 12, 20
    np.testing.assert_array_equal(table.together, of)
    tests = pd.read_parquet(folder / "statistics.parquet")
    tests["place"] = np.repeat(np.arange(150), 2)
    for alike in (range(20, 32), range(40, 60)):
        mine = tests[tests.place.isin(alike)]
        for name in ("band_low", "band_high", "log10_p_above", "log10_p_below"):
            assert (mine.groupby("statistic")[name].nunique() == 1).all(), name
        assert table.verdict[list(alike)].nunique() == 1
        own = tests[tests.place < 6]
        width, alone = ((some.band_high - some.band_low).median() for some in (mine, own))
        assert width < 0.7 * alone
        assert mine.distance.nunique() > 2, "D stays that of each document's own runs"
    assert (
        "32 documents are tested together with their copies"
        in ksdp("show", ran.out["audit"], "--store", store).err
    )
    assert "32 documents are tested together with their copies" in (folder / "report.html").read_text()
    document = table.document[45]
    assert ksdp("show", ran.out["audit"], document, "--store", store, "--json").out["together"] == 20
    assert ksdp("replay", ran.out["audit"], document, "best-cosine", "--store", store, "--json").out["equal"]
    assert "those of all 20 copies" in pages(store).words(f"/audits/{ran.out['audit']}/document?id={document}")
