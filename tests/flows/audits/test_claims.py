"""A claim, audited and stored, beside the audit of the same mechanism: on its page and in its report."""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ksdp.audit.spec.models import Spec, parse_spec
from ksdp.flows.audits.claims import run_claim
from ksdp.storage.findings import report_whole

SPEC = """
seed = 3
[corpus]
path = "counts.npz"
[mechanism]
name = "{mechanism}"
rank = 2
iterations = 2
epsilon = 1.0
[design]
party_size = 0.2
with_runs = 20
[statistics]
families = ["geometry"]
"""
PROVED = r"at delta 1e-05; proved on its worst case: at least ([\d.]+) \(150 runs an arm, confidence 95 ?%\)"


@pytest.mark.parametrize(("mechanism", "code"), [("hardt-roth", 0), ("broken-power", 3)])
def test_the_claim_stands_beside_what_was_proved(
    mechanism: str, code: int, ksdp: Callable, pages: Callable, corpus_folder: Path, tmp_path: Path
) -> None:
    spec = corpus_folder / f"claim-{mechanism}.toml"
    spec.write_text(SPEC.format(mechanism=mechanism))
    for attempt in range(
        3
    ):  # real parties' noise has no seed, and one true claim in twenty may be refuted by chance
        store = tmp_path / f"store-{attempt}"
        audit = ksdp("audit", spec, "--store", store, "--json").out["audit"]
        before = pages(store).words(f"/audits/{audit}")
        assert "was not tried in this store" in before
        found = ksdp("claim", spec, "--store", store, "--runs", "150", "--json")
        if found.out["refuted"] is (code == 3):
            break
    assert found.out["refuted"] is (code == 3)
    assert ("REFUTED: broken-power does not keep its claim" in found.err) is (code == 3)
    assert not found.out["read"]
    # The spec simulates; what is audited is what real parties draw.
    assert found.out["guarantee"]["sampler"]["name"] == "discrete"
    if code == 0:
        fast = ksdp("claim", spec, "--store", store, "--runs", "20", "--simulated", "--json", check=0).out
        assert fast["guarantee"]["sampler"]["name"] == "fast"
    again = ksdp("claim", spec, "--store", store, "--runs", "150", "--json", check=code).out
    assert again["read"]
    assert {**again, "read": False} == found.out
    told = ksdp("audit", spec, "--store", store).err
    assert ("REFUTED: Claimed epsilon 1 at" in told, "not refuted: Claimed" in told) == (code == 3, code != 3)
    ksdp("report", audit, "--store", store, check=0)
    assert report_whole(store / "audits" / audit)
    report = (store / "audits" / audit / "report.html").read_text()
    for text in (pages(store).words(f"/audits/{audit}"), html.unescape(re.sub(r"<[^>]+>", " ", report))):
        assert "was not tried" not in text
        low = re.search(PROVED, text.replace("\N{NO-BREAK SPACE}", " "))
        assert low is not None
        assert float(low[1]) == pytest.approx(found.out["measured_low"], rel=0.01)
        assert ("REFUTED: it does not keep its claim of differential privacy." in text) is (code == 3)


OWN = """
from dataclasses import dataclass

from ksdp.audit.mechanisms.privacy.hardt_roth import {base} as Base


@dataclass(frozen=True)
class Mine(Base):
    name = "mine"
"""


def spec_of(folder: Path, base: str) -> Spec:
    """The own mechanism, as another process would import it."""
    (folder / "my_claiming.py").write_text(OWN.format(base=base))
    sys.modules.pop("my_claiming", None)
    mechanism = {"name": "my_claiming:Mine", "rank": 2, "iterations": 2, "epsilon": 1.0, "sampler": "fast"}
    return parse_spec({"seed": 3, "corpus": {"path": "x.npz"}, "mechanism": mechanism})


def test_the_claim_of_edited_code_is_audited_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def claim(base: str) -> tuple[bool, bool]:
        found = run_claim(
            spec_of(tmp_path, base),
            tmp_path / "store",
            runs=400,
            confidence=0.95,
            clock=lambda: datetime.now(UTC),
            simulated=True,
        )
        return found.read, found.finding.refuted

    assert claim("HardtRoth") == (False, False)
    assert claim("HardtRoth") == (True, False)
    assert claim("BrokenPower") == (False, True), "its noise is too small on purpose"
    assert claim("BrokenPower") == (True, True)
