"""A claim, audited and stored, beside the audit of the same mechanism: on its page and in its report."""

import html
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ksdp.audit.errors import InputError
from ksdp.audit.specs.models import Spec, parse_spec
from ksdp.flows.audits.claims import run_claim, run_once

from ...specs import spec_text

SPEC = {
    "seed": 3,
    "corpus": {"path": "counts.npz"},
    "mechanism": {"rank": 2, "iterations": 2, "epsilon": 1.0},
    "design": {"party_size": 0.2, "with_runs": 8},
    "statistics": {"families": ["geometry"]},
}
PROVED = r"proved on its worst case: at least ([\d.]+)(?:, and [\d.]+ as its noise is normal)? \(150 runs an arm"


@pytest.mark.parametrize(("mechanism", "code"), [("hardt-roth", 0), ("broken-power", 3)])
def test_the_claim_stands_beside_what_was_proved(
    mechanism: str, code: int, ksdp: Callable, pages: Callable, corpus_folder: Path, tmp_path: Path
) -> None:
    spec = corpus_folder / f"claim-{mechanism}.toml"
    spec.write_text(spec_text(SPEC, mechanism={"name": mechanism}))
    for attempt in range(
        3
    ):  # real parties' noise has no seed, and one true claim in twenty may be refuted by chance
        store = tmp_path / f"store-{attempt}"
        audit = ksdp("audit", spec, "--store", store, "--json").out["audit"]
        before = pages(store).words(f"/audits/{audit}")
        assert "Nobody tried in this store to refute" in before
        found = ksdp("claim", spec, "--store", store, "--runs", "150", "--json")
        if found.out["refuted"] is (code == 3):
            break
    assert found.out["refuted"] is (code == 3)
    assert ("REFUTED: broken-power does not keep its claim" in found.err) is (code == 3)
    assert not found.out["read"]
    # The spec simulates; what is audited is what real parties draw.
    assert found.out["guarantee"]["sampler"]["name"] == "discrete"
    again = ksdp("claim", spec, "--store", store, "--runs", "150", "--json", check=code).out
    assert again["read"]
    assert {**again, "read": False} == found.out
    told = ksdp("audit", spec, "--store", store).err
    assert ("REFUTED: Claimed epsilon 1 at" in told, "not refuted: Claimed" in told) == (code == 3, code != 3)
    ksdp("show", audit, "--html", store / "shown.html", "--store", store, check=0)
    report = (store / "shown.html").read_text()
    for text in (pages(store).words(f"/audits/{audit}"), html.unescape(re.sub(r"<[^>]+>", " ", report))):
        assert "was not tried" not in text
        low = re.search(PROVED, text.replace("\N{NO-BREAK SPACE}", " "))
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
        how = {"runs": 200, "confidence": 0.95, "clock": lambda: datetime.now(UTC), "simulated": True}
        found = run_claim(spec_of(tmp_path, base), tmp_path / "store", **how)
        return found.read, found.finding.refuted

    assert claim("HardtRoth") == (False, False)
    assert claim("HardtRoth") == (True, False)
    assert claim("BrokenPower") == (False, True), "its noise is too small on purpose"
    assert claim("BrokenPower") == (True, True)


OWN_MOMENTS = """
from dataclasses import dataclass

from ksdp.audit.mechanisms.privacy.moments import Moments


@dataclass(frozen=True)
class Mine(Moments):
    name, noise_factor = "mine", {factor}
"""


@pytest.mark.parametrize("adjacency", ["add-remove", pytest.param("replace-one", marks=pytest.mark.validity)])
def test_one_run_refutes_a_false_claim_and_no_true_one(
    adjacency: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    rows = np.random.default_rng(4).normal(size=(240, 40))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    pd.DataFrame(rows, columns=[f"c{at}" for at in range(40)]).to_parquet(tmp_path / "x.parquet")
    found = {}
    for factor in (0.01, 1.0):
        (tmp_path / "my_moments.py").write_text(OWN_MOMENTS.format(factor=factor))
        sys.modules.pop("my_moments", None)
        mechanism = {"name": "my_moments:Mine", "rank": 2, "advantage": 0.1, "adjacency": adjacency}
        tables = {"corpus": {"path": "x.parquet"}, "mechanism": mechanism}
        found[factor] = run_once(parse_spec(tables), tmp_path, confidence=0.95, simulated=True)
    false, true = found[0.01], found[1.0]
    assert (false.neighbours, false.found.records) == (adjacency, 240 if adjacency == "add-remove" else 120)
    assert false.claimed_epsilon == true.claimed_epsilon < 2
    assert false.refuted
    assert "REFUTED" in false.sentence()
    assert not true.refuted
    assert "not refuted. That is of all records together" in true.sentence()


def test_one_run_of_what_claims_nothing_is_a_bound_and_recorded_runs_are_refused(
    tmp_path: Path, ksdp: Callable, corpus_folder: Path
) -> None:
    spec = corpus_folder / "one-run.toml"
    spec.write_text(spec_text(SPEC, mechanism={"name": "pd-svd", "epsilon": None}))
    found = ksdp("claim", spec, "--one-run", "--store", tmp_path / "store", "--json", check=0).out
    assert (found["claimed_epsilon"], found["refuted"], found["delta"]) == (None, False, 0.0)
    assert found["found"]["epsilon_low"] > 0.3
    assert not (tmp_path / "store").exists()
    recorded = {"corpus": {"path": "counts.npz"}, "mechanism": {"name": "recorded"}}
    with pytest.raises(InputError, match="nobody here tossed its coins"):
        run_once(parse_spec(recorded), corpus_folder, confidence=0.95)
