"""Several views through the command: a leak that one of them shows, nothing sampled twice, one page for all."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ksdp.audit.errors import InputError, StoreError
from ksdp.dashboards.audits.report import render_views
from ksdp.flows.audits.forecast import forecast
from ksdp.flows.audits.place import HERE
from ksdp.flows.audits.views import run_views
from ksdp.flows.screening.clear import Signing, clear
from ksdp.storage.audits.history import finished_views, read_views
from ksdp.storage.audits.view_tables import read_view_verdicts
from ksdp.storage.codec import write_json_with_checksum
from ksdp.storage.readers.spec_files import read_spec_file
from ksdp.storage.store import Store

from ...dashboards.html_page import HtmlPage

MODULE = '''
"""Sums of everybody outside the coalition, under noise that only honest parties add; a final output of noise."""
from dataclasses import dataclass
import numpy as np
import ksdp
from ksdp.audit.contract import Observables, Release

@dataclass(frozen=True)
class Hidden:
    name: str = "hidden"
    version: int = 1

    def releases(self, features):
        return (Release("total", (features,)), Release("basis", (features,), final=True))

    def run(self, database, rng):
        total = sum(np.asarray(database.parties[i].sum(axis=0)).ravel() for i in database.outside)
        noise = 0.1 if len(database.outside) == 1 else 1e4
        return Observables({
            "total": ksdp.noise(total, rng, scale=noise),
            "basis": ksdp.noise(0.0 * total, rng, scale=1.0),
        })

@dataclass(frozen=True)
class Overlap:
    name: str
    needs: tuple
    version: int = 1
    family: str = "test"

    def evaluate(self, observables, documents):
        return np.asarray(documents.matrix @ observables[self.needs[0]]).ravel()

TOTAL, BASIS = Overlap("total-overlap", ("total",)), Overlap("basis-overlap", ("basis",))
'''

SPEC = """
seed = 3
[corpus]
path = "{counts}"
[mechanism]
name = "seen_by:Hidden"
[design]
party_size = 0.2
with_runs = 80
[statistics]
families = []
names = ["seen_by:TOTAL", "seen_by:BASIS"]
[decision]
margin = 0
level = 0.06
[views]
coalitions = [0, 0.1]
final = true
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, corpus_folder: Path) -> Path:
    made = tmp_path_factory.mktemp("views")
    (made / "seen_by.py").write_text(MODULE)
    (made / "views.toml").write_text(SPEC.format(counts=corpus_folder / "counts.npz"))
    return made


def test_a_leak_in_one_view_is_found_and_the_runs_are_shared(
    typed: Callable, folder: Path, tmp_path: Path, pages: Callable
) -> None:
    store = tmp_path / "store"
    arguments = ("audit", folder / "views.toml", "--store", store, "--json")
    ran = typed(*arguments, check=3)
    out: dict[str, Any] = ran.out
    outsider, coalition, final = out["views"]
    assert [view["name"] for view in out["views"]] == ["outsider", "coalition of 12 documents", "final output"]
    assert out["valid"]
    assert outsider["verdicts"]["sensitive"] == final["verdicts"]["sensitive"] == 0
    assert coalition["verdicts"]["sensitive"] == coalition["sensitive_here_alone"] > 50
    assert out["verdicts"]["sensitive"] == coalition["verdicts"]["sensitive"]
    assert out["documents"] == sum(out["verdicts"].values()) == 108
    # The final output was measured on the outsider's observables: no run for it.
    assert [view["sampled_runs"] for view in out["views"]] == [360, 360, 0]
    assert [view["runs"] for view in out["views"]] == [360, 360, 360]
    assert out["runs"] == 720
    assert final["observables"] == ["basis"]
    assert set(out["statistics"]) == {"total-overlap", "basis-overlap", "simulated"}

    rows = pd.read_parquet(store / "views" / f"{out['audit']}.parquet")
    sensitive = rows[rows["verdict"] == "sensitive"]
    assert set(sensitive["view"]) == {"coalition of 12 documents"}
    assert "basis-overlap" not in set(sensitive["statistic"])
    assert (sensitive["log10_adjusted_p"] <= np.log10(0.06)).all()
    of_view = pd.read_parquet(store / "audits" / coalition["audit"] / "verdicts.parquet")
    together = of_view.set_index("document").loc[sensitive["document"], "log10_adjusted_p"].to_numpy()
    assert sensitive["log10_adjusted_p"].to_numpy() == pytest.approx(together + np.log10(3))
    assert len(of_view) == len(rows)

    said = HtmlPage(Path(out["report"]).read_text(encoding="utf-8")).text()
    assert f"gives away {len(sensitive)} of 108 documents in at least one of the views tried" in said
    opened = Store.open(store, create=False)
    assert read_views(opened, out["audit"]).to_json()["views"] == out["views"]
    assert len(read_view_verdicts(opened, out["audit"])) == 108

    again = typed(*arguments, check=3).out
    assert again["audit"] == out["audit"]
    assert again["cached_runs"] == again["runs"] == out["runs"]
    assert again["verdicts"] == out["verdicts"]

    assert finished_views(opened) == [out["audit"]]
    name = str(sensitive["document"].iloc[0])
    shown = typed("show", out["audit"], name, "--store", store, "--json", check=0).out
    assert (shown["verdict"], shown["sensitive_in"]) == ("sensitive", ["coalition of 12 documents"])
    assert typed("show", out["audit"], "--store", store, "--json", check=0).out["verdicts"] == out["verdicts"]
    assert "no document 'nobody'" in typed("show", out["audit"], "nobody", "--store", store, check=2).err

    # The dashboard: in the list, on a page of its own, from its views and back.
    look, here = pages(store), f"/views/{out['audit']}"
    assert "1 audit of several views" in look.words("/audits")
    assert 'href="/views">All' not in look.client.get("/audits").text, "it is shown already"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ksdp.dashboards.audits.pages._VIEWS", 0)
        assert 'href="/views">All 1<' in look.client.get("/audits").text, "there is more than is shown"
    assert look.words("/views").count("outsider, coalition of 12 documents, final output") == 1
    assert f"gives away {len(sensitive)} of 108 documents in at least one of the views tried" in look.words(here)
    shown_page = look.client.get(here).text
    assert f'href="/audits/{coalition["audit"]}/document?id={name}"' in shown_page
    assert all(f'href="/audits/{view["audit"]}"' in shown_page for view in out["views"])
    for view in out["views"]:
        assert f'href="{here}"' in look.client.get(f"/audits/{view['audit']}").text
    alone = look.client.get(f"{here}/report.html")
    assert alone.text == Path(out["report"]).read_text(encoding="utf-8")
    assert "style-src 'sha256-" in alone.headers["content-security-policy"]
    for missing in ("/views/none", "/views/none/report.html", "/views/..%2Faudits"):
        assert look.client.get(missing).status_code == 404

    # A void view makes everything void.
    void = {"valid": False, "controls": {"reason": "outsider: <a test>"}}
    void = read_views(opened, out["audit"]).to_json() | void
    write_json_with_checksum(store / "views" / f"{out['audit']}.json", void)
    text = render_views(opened, out["audit"])
    assert "No verdict on this page may be used" in text
    assert "outsider: &lt;a test&gt;" in text
    assert "void: outsider: <a test>" in look.words("/views")
    assert "No verdict on this page may be used" in look.words(here)
    assert "<a test>" not in text


def test_what_holds_in_one_view_is_signed_by_nobody(folder: Path, tmp_path: Path, corpus_folder: Path) -> None:
    """Else a clearance of what an outsider sees would list what a coalition of the same run sees."""
    small = SPEC.format(counts=corpus_folder / "counts.npz").replace("margin = 0", "margin = 0.5")
    (tmp_path / "views.toml").write_text(small.replace("with_runs = 80", "with_runs = 20"))
    sys.path.insert(0, str(folder))
    try:
        out = run_views(*read_spec_file(tmp_path / "views.toml"), tmp_path / "store", HERE)
    finally:
        sys.path.remove(str(folder))
    now, key = datetime(2100, 1, 1, tzinfo=UTC), Ed25519PrivateKey.generate()
    signing = Signing(tmp_path / "one.clearance", key, "Ana", now, now + timedelta(days=9))
    store = Store.open(tmp_path / "store")
    for about in out.views:
        with pytest.raises(InputError, match="one of several of an attempt"):
            clear(store.root, about.audit, signing)
    assert not signing.path.exists()


def test_the_forecast_is_of_all_views(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(folder)
    said = forecast(*read_spec_file(folder / "views.toml"))
    assert [view["shared"] for view in said["views"]] == [False, False, True]
    assert said["runs"] == said["views"][0]["runs"] + said["views"][1]["runs"]
    assert said["detectable_D"] == max(view["detectable_D"] for view in said["views"])


def test_a_view_that_cannot_be_is_refused_before_anything_is_written(
    typed: Callable, folder: Path, tmp_path: Path
) -> None:
    bad = folder / "bad.toml"
    bad.write_text((folder / "views.toml").read_text().replace("[0, 0.1]", "[0, 119]"))
    ran = typed("audit", bad, "--store", tmp_path / "store", check=2)
    assert "`design.party_size`" in ran.err
    assert not (tmp_path / "store").exists()


def test_views_that_are_not_there(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store")
    for read in (read_views, read_view_verdicts):
        with pytest.raises(StoreError, match="views 'none'"):
            read(store, "none")
