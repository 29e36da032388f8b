"""How strong attacks are: leaks are planted for documents that an audit called clear, and it audits again."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import ksdp
from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.planted import KINDS
from ksdp.audit.results.strength import Planted
from ksdp.audit.specs.models import parse_spec
from ksdp.dashboards.audits.report import render_report
from ksdp.dashboards.audits.result import audit_result
from ksdp.flows.audits.place import HERE
from ksdp.flows.audits.run import run_audit
from ksdp.flows.prepare import open_spec
from ksdp.storage.audits.history import read_summary
from ksdp.storage.findings import read_strength
from ksdp.storage.store import Store

from ..typed import typed

OWN = """
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import ksdp
from ksdp.audit.contract import Observables, Release


@dataclass(frozen=True)
class Noise:
    name: ClassVar[str] = "noise"
    version: ClassVar[int] = 1

    def releases(self, features):
        return (Release("numbers", (60,)),)

    def run(self, database, rng):
        return Observables({"numbers": ksdp.noise(np.zeros(60), rng, scale=1.0)})
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rows = np.random.default_rng(1).normal(size=(90, 4))
    table = pd.DataFrame(rows, columns=list("abcd")).assign(id=[f"d{at}" for at in range(90)])
    table.to_parquet(tmp_path / "x.parquet")
    (tmp_path / "planted_noise.py").write_text(OWN, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def tables(**changed: Any) -> dict[str, Any]:
    return {
        "corpus": {"path": "x.parquet", "id": "id"},
        "mechanism": {"name": "planted_noise:Noise"},
        "design": {"party_size": 0.5, "with_runs": 700},
        "decision": {"margin": 0.3},
    } | changed


def called_so(rows: Iterable[Planted]) -> Counter[str]:
    return sum((Counter(row.called) for row in rows), Counter())


@pytest.mark.validity
@pytest.mark.learns
def test_leaks_that_are_planted_are_found(folder: Path) -> None:
    store = folder / "store"
    audited = run_audit(open_spec(parse_spec(tables()), folder), store, HERE)
    assert audited.verdicts.clear > 80, "nothing is known of anybody"
    report = Path(audited.report).read_text(encoding="utf-8")
    assert f"<code>ksdp power {audited.audit}</code> plants leaks of known size" in report
    said = json.loads(typed("power", "latest", "--store", store, "--here", 1, "--json", code=0).stdout)
    found = read_strength(Store(store).audit(audited.audit))
    assert type(found).from_json(said) == found
    assert found.learnt
    above = [row for row in found.rows if row.above >= 0.1]
    assert {row.kind for row in above} == set(KINDS.values())
    called = called_so(above)
    assert called["clear"] <= 0.1 * (called["sensitive"] + called["undecided"])
    assert called["sensitive"] > 0.3 * (called["sensitive"] + called["undecided"])
    shown = render_report(audit_result(audited))
    assert found.sentence() in shown
    assert '<td class="num">' + f"{found.rows[0].advantage:.2f}" in shown
    assert Path(audited.report).read_text(encoding="utf-8") == shown
    typed("dossier", audited.audit, "--store", store, "--html", folder / "dossier.html", code=0)
    assert found.sentence() in (folder / "dossier.html").read_text(encoding="utf-8")
    assert not (store / "planted" / audited.audit).exists()
    assert read_summary(Store(store).audit(audited.audit)).verdicts == audited.verdicts, (
        "its verdicts are as before"
    )
    assert typed("check", "--store", store, code=0)


def test_where_nothing_could_be_missed_nothing_is_planted(folder: Path) -> None:
    store = folder / "store"
    few = {"party_size": 0.5, "with_runs": 40}
    undecided = run_audit(open_spec(parse_spec(tables(design=few, decision={"margin": 0.1})), folder), store, HERE)
    assert not undecided.verdicts.clear
    with pytest.raises(InputError, match="calls no document clear by the statistics tried"):
        typed("power", undecided.audit, "--store", store)


LEAK = {"document": "d0", "kind": "number", "array": "numbers", "places": [3], "amounts": [9.0]}


def test_nothing_is_signed_on_an_audit_with_leaks(folder: Path) -> None:
    store = folder / "store"
    few = {"party_size": 0.5, "with_runs": 200}
    spec = parse_spec(tables(planted=[LEAK], design=few, decision={"margin": 0.6}))
    audited = run_audit(open_spec(spec, folder), store, HERE)
    assert audited.verdicts.sensitive == 1, "a leak of this size is plain"
    assert audited.verdicts.clear > 80
    assert "no verdict may be used" in Path(audited.report).read_text(encoding="utf-8")
    typed("keys", "ada", "--folder", folder, code=0)
    to = ["--store", store, "--key", folder / "ada.key", "--who", "Ada", "--clearance", folder / "c.json"]
    with pytest.raises(InputError, match=r"leaks were planted in audit .*: it clears nothing"):
        typed("clear", audited.audit, *to)
    with pytest.raises(InputError, match="has no verdicts that could be looked into"):
        typed("power", audited.audit, "--store", store)


def test_of_a_function_of_this_process_too(tmp_path: Path) -> None:
    rows = np.random.default_rng(2).normal(size=(40, 4))
    settings = {"party_size": 0.5, "with_runs": 200, "margin": 0.6}
    found = ksdp.audit(
        rows, lambda X, rng: ksdp.noise(np.zeros(20), rng, scale=1.0), store=tmp_path / "store", **settings
    )
    assert found.summary.verdicts.clear > 30
    strength = found.power()
    assert strength.audit == found.id
    assert strength.sentence() in found.report().read_text(encoding="utf-8")


@pytest.mark.usefixtures("many_documents")
def test_of_counts_in_recorded_runs_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rows, inside = rng.normal(size=(40, 3)), rng.random((1000, 40)) < 0.5
    counts = rng.poisson(30 + (inside - 0.5) @ rows[:, :1], size=(1000, 20)).astype(float)
    strength = ksdp.audit(rows, ksdp.Recorded({"n": counts}, inside), margin=0.4).power()
    above = [row for row in strength.rows if row.advantage > 0.5]
    called = called_so(above)
    assert called["sensitive"] > 3 * called["clear"]
    few = ksdp.audit(rows, ksdp.Recorded({"n": counts[:390, 0]}, inside[:390]), margin=0.8)
    with pytest.raises(InputError, match="measured in runs to learn from; record 400"):
        few.power()
