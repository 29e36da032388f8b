"""Groups through the commands: planned, audited, cleared; a clearance lists all documents of a group or none."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from ksdp.storage.clearances import read_clearance

from ...specs import spec_text
from ..overlap import OVERLAP

MODULE = (
    '''
"""Column sums under fixed noise."""
from dataclasses import dataclass
import numpy as np
import ksdp
from ksdp.audit.contract import Observables, Release

@dataclass(frozen=True)
class NoisyTotal:
    name: str = "sums"
    version: int = 1

    def releases(self, features):
        return (Release("total", (features,)),)

    def run(self, database, rng):
        total = sum(np.asarray(part.sum(axis=0)).ravel() for part in database.parties)
        return Observables({"total": ksdp.noise(total, rng, scale=0.5)})
'''
    + OVERLAP
)

LABELS = {"labels": "labels.csv", "id": "mail", "group": "owner"}
SPEC = {
    "seed": 5,
    "corpus": {"path": "counts.npz", "weighting": "counts"} | LABELS,
    "mechanism": {"name": "summed:NoisyTotal"},
    "design": {"unit": "group", "party_size": 0.2, "with_runs": 80},
    "statistics": {"families": [], "names": ["summed:OVERLAP"]},
    "decision": {"margin": 0.5},
}

LOUD = ["ann", "bob", "cid"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 owners of 3 mails, all alike but one mail each of three owners."""
    made = tmp_path_factory.mktemp("groups")
    matrix = np.zeros((120, 4))
    matrix[:, 3] = 1.0
    owners = np.array([*LOUD, *(f"owner {i}" for i in range(37))] * 3)
    matrix[range(3), range(3)] = 6.0
    sp.save_npz(made / "counts.npz", sp.csr_matrix(matrix))
    pd.DataFrame({"mail": [f"m{i}" for i in range(120)], "owner": owners}).to_csv(made / "labels.csv", index=False)
    (made / "summed.py").write_text(MODULE)
    (made / "groups.toml").write_text(spec_text(SPEC))
    return made


def test_the_plan_counts_groups(typed: Callable, folder: Path) -> None:
    said = typed("plan", folder / "groups.toml", "--json", check=0).out
    assert (said["documents"], said["unit"], said["runs"]) == (40, "group", 400)


def test_whole_groups_are_left_out_of_a_list_and_lists_documents(
    typed: Callable, folder: Path, tmp_path: Path, pages: Callable
) -> None:
    typed("keys", "ana", "--folder", tmp_path, check=0)
    store, clearance = tmp_path / "store", tmp_path / "mail.clearance"
    arguments = ("--clearance", clearance, "--key", tmp_path / "ana.key", "--who", "Ana", "--store", store)
    out = typed("clear", folder / "groups.toml", *arguments, "--json", check=0).out
    assert out["outcome"] == "signed", out["reason"]
    assert [about["documents"] for about in out["rounds"]] == [40, 37]
    assert [about["verdicts"]["sensitive"] for about in out["rounds"]] == [3, 0]
    assert (out["unit"], out["documents"], out["proposed"], out["allowed"]) == ("group", 120, 111, 111)
    assert "All 37 groups of the list hold" in out["reason"]

    labels = pd.read_csv(folder / "labels.csv")
    cleared = read_clearance(clearance)
    assert set(cleared.documents) == set(labels["mail"][~labels["owner"].isin(LOUD)])
    assert "Groups were audited" in cleared.statement
    checked = typed(
        "verify", clearance, "--key", tmp_path / "ana.pub", "--spec", folder / "groups.toml", "--json",
        check=0,
    ).out  # fmt: skip
    assert (checked["allowed"], checked["of"]) == (111, 120)

    first = out["rounds"][0]["audit"]
    summary = json.loads((store / "audits" / first / "audit.json").read_text())
    assert set(summary["statistics"]) == {"overlap", "overlap-of-rows", "simulated"}
    assert summary["design"]["unit"] == "group"
    verdicts = pd.read_parquet(store / "audits" / first / "verdicts.parquet").set_index("document")["verdict"]
    assert (verdicts[LOUD] == "sensitive").all()
    curves = pd.read_parquet(store / "audits" / first / "curves.parquet")
    assert set(LOUD) <= set(curves["document"]) <= set(labels["owner"])
    report = (store / "audits" / first / "report.html").read_text(encoding="utf-8")
    assert "gives away 3 of 40 groups" in report
    assert "Audited are groups" in report
    shown = typed("show", first, "ann", "--store", store, "--json", check=0).out
    assert shown["verdict"] == "sensitive"

    # The dashboard says "groups", and shows the screening and its page.
    look, audit = pages(store), out["rounds"][0]["audit"]
    for address, said in (
        (f"/audits/{audit}", "gives away 3 of 40 groups"),
        (f"/audits/{audit}?verdict=sensitive", "3 groups with the verdict sensitive"),
        (f"/queue?audit={audit}", "3 groups to decide about"),
        ("/audits", "40 groups"),
    ):
        assert said in look.words(address), address
    assert "One group: all documents of one person" in look.words(f"/audits/{audit}/document?id={LOUD[0]}")
    screen = f"/screens/{out['screen']}"
    assert "All 37 groups of the list hold" in look.words(screen)
    assert f'href="{screen}/report.html"' in look.client.get(screen).text
    alone = look.client.get(f"{screen}/report.html")
    assert alone.text == Path(out["report"]).read_text(encoding="utf-8")
    assert "style-src 'sha256-" in alone.headers["content-security-policy"]
    assert look.client.get("/screens/none/report.html").status_code == 404


def test_a_corpus_without_groups_is_refused(typed: Callable, folder: Path, tmp_path: Path) -> None:
    spec = folder / "none.toml"
    spec.write_text(spec_text(SPEC, corpus={"group": None}))
    ran = typed("audit", spec, "--store", tmp_path / "store", check=2)
    assert "set `corpus.group`" in ran.err
    assert not (tmp_path / "store").exists()
