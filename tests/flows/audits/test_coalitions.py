"""What several coalitions see: a spec for each at its part of the level, listed together and compared."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ksdp.storage.audits.history import find_audit
from ksdp.storage.store import Store

from ...specs import spec_text
from ...typed import typed as ask

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
SPEC = {
    "seed": 3,
    "mechanism": {"name": "seen_by_some:Hidden"},
    "design": {"party_size": 0.2, "with_runs": 30},
    "decision": {"margin": 0, "level": 0.02},
}
BOTH = ["seen_by_some:TOTAL", "seen_by_some:BASIS"]


@pytest.fixture
def specs(tmp_path: Path, corpus_folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "seen_by_some.py").write_text(MODULE)
    asked = {
        "outsider": ({"honest": 0.1}, "all", BOTH),
        "a tenth": ({"coalition": 0.1}, "all", BOTH),
        "final output": ({"honest": 0.1}, "final", BOTH[1:]),
    }
    for title, (parties, sees, names) in asked.items():
        corpus, read = {"path": str(corpus_folder / "counts.npz")}, {"families": [], "names": names, "sees": sees}
        tables = {"title": title, "corpus": corpus, "parties": parties, "statistics": read}
        (tmp_path / f"{title}.toml").write_text(spec_text(SPEC | tables))
    return {title: tmp_path / f"{title}.toml" for title in asked}


def test_a_leak_to_one_coalition_is_found_in_its_audit_and_stands_beside_the_others(
    specs: dict[str, Path], tmp_path: Path, pages: Callable
) -> None:
    store = tmp_path / "store"
    out = {}
    for title, path in specs.items():
        out[title] = json.loads(ask("audit", path, "--store", store, "--here", 1, "--json").stdout)
    sensitive = {title: found["verdicts"]["sensitive"] for title, found in out.items()}
    assert sensitive["a tenth"] > 50
    assert sensitive["outsider"] == sensitive["final output"] == 0
    assert all(found["valid"] for found in out.values())
    # The final output was measured on the outsider's observables: no run for it.
    assert out["final output"]["cached_runs"] == out["final output"]["runs"]
    listed = ask("list", "--store", store, code=0).output.splitlines()
    assert [line.split()[0] for line in listed] == [found["audit"] for found in reversed(out.values())]
    assert all(f"({title})" in line for title, line in zip(reversed(specs), listed, strict=True))
    assert find_audit(Store.open(store, create=False), "latest") == out["final output"]["audit"]
    one, other = out["outsider"]["audit"], out["a tenth"]["audit"]
    words = pages(store).words(f"/compare?a={one}&b={other}")
    moved = f"{sensitive['a tenth']} documents have another verdict"
    assert f"(outsider) {one} and hidden (a tenth) {other} on " in words
    assert moved in words
    assert "parties.coalition none 0.1" in words
    told = json.loads(ask("compare", one, other, "--store", store, "--json", code=0).stdout)
    assert sum(row["documents"] for row in told["verdicts"]) == sensitive["a tenth"]
    assert {"key": "parties.coalition", "before": "none", "after": "0.1"} in told["spec"]
    lines = ask("compare", one, other, "--store", store, code=0).output.splitlines()
    assert f"{sensitive['a tenth']:>7}  undecided -> sensitive" in lines or len(told["verdicts"]) > 1
    assert "No document has another verdict." in ask("compare", one, one, "--store", store, code=0).output
