"""From a spec with a certificate to verdicts, report and pages."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ...specs import spec_text

FINAL = {"rank": 2, "opens": "final"}
SPEC = {
    "seed": 3,
    "corpus": {"path": "counts.npz"},
    "mechanism": {"name": "noisy", "mechanism": "pd-svd", "noise": 1.0, "parameters": FINAL},
    "design": {"party_size": 0.3, "with_runs": 10, "documents": 24},
    "decision": {"margin": 0.4},
    "certificate": {"pairs": 60},
    "statistics": {"families": ["geometry"]},
}


@pytest.fixture
def certified(corpus_folder: Path) -> Callable[[float], Path]:
    def write(scale: float) -> Path:
        path = corpus_folder / f"certified-{scale}.toml"
        path.write_text(spec_text(SPEC, mechanism={"scale": scale}))
        return path

    return write


def verdicts(store: Path, audit: str) -> pd.DataFrame:
    return pd.read_parquet(store / "audits" / audit / "verdicts.parquet").set_index("document")


def test_documents_are_certified_from_spec_to_report_and_page(
    ksdp: Callable, certified: Callable, pages: Callable, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    ran = ksdp("audit", certified(2.0), "--store", store, "--json")
    audit = ran.out["audit"]
    table = verdicts(store, audit)
    assert ran.out["valid"]
    proved = table.proof == "every attack"
    assert (table.verdict[proved] == "clear").all()
    assert ran.out["verdicts"]["every_attack"] == proved.sum() > 12
    assert ((table.certified_bound <= 0.4) == proved).all()
    assert (table.certified_bound > table.knows_all).all()
    assert (table.band_low <= table.certified_bound).all()
    assert ran.code == (4 if ran.out["verdicts"]["undecided"] else 0)

    summary = json.loads((store / "audits" / audit / "audit.json").read_text())
    (pairs,) = summary["bounds"]
    assert (pairs["by"], pairs["pairs"]) == ("pairs", 60)
    assert pairs["level"] == pytest.approx(0.005)
    assert pairs["median"] == pytest.approx(table.certified_bound.median())
    document = table.index[proved][0]
    bound = table.certified_bound[document]
    report = (store / "audits" / audit / "report.html").read_text()
    assert "All against every attack" in report
    assert "bound the advantage of every attack" in report
    seen = pages(store)
    page = seen.words(f"/audits/{audit}/document?id={document}")
    assert "no attack of any kind has an advantage above 0.40" in page
    assert f"{bound:.3f}" in page
    assert "Somebody who knows all other documents of the run faces the noise alone" in page
    listed = seen.words(f"/audits/{audit}?verdict=clear&sort=bound")
    assert f"{(table.verdict == 'clear').sum()} documents with the verdict clear" in listed
    assert ksdp("show", audit, document, "--store", store, "--json").out["certified_bound"] == bound
    assert "bound     60 pairs" in ksdp("show", audit, "--store", store).text

    # A part that is damaged is computed again, and the table is the same; so it is in another store.
    parts = sorted(store.glob("runs/*/pairs/*/*.parquet"))
    parts[0].write_bytes(b"nothing")
    (store / "audits" / audit / "audit.json").unlink()
    again = ksdp("audit", certified(2.0), "--store", store, "--json")
    assert again.out["audit"] == audit
    pd.testing.assert_frame_equal(verdicts(store, audit), table)


def test_noise_that_hides_little_certifies_nobody_and_the_report_says_so(
    ksdp: Callable, certified: Callable, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    out = ksdp("audit", certified(0.001), "--store", store, "--json").out
    table = verdicts(store, out["audit"])
    assert out["valid"]
    assert out["verdicts"]["every_attack"] == 0
    assert np.median(table.certified_bound) > 0.9
    assert "for 0 of 24" in (store / "audits" / out["audit"] / "report.html").read_text()


def test_without_noise_whoever_knows_all_others_knows_everything(
    ksdp: Callable, spec: Callable, tmp_path: Path
) -> None:
    store, path = tmp_path / "store", spec("no-noise", families=["geometry"], with_runs=10)
    asked = path.read_text()
    path.write_text(asked + "[certificate]\npairs = 10\n")
    refused = ksdp("audit", path, "--store", store, check=2)
    assert "nothing bounds every attack on it" in refused.err
    path.write_text(asked)
    out = ksdp("audit", path, "--store", store, "--json").out
    table = verdicts(store, out["audit"])
    assert (table.knows_all == 1).all()
    assert table.certified_bound.isna().all()
    assert "can always tell (advantage 1)" in (store / "audits" / out["audit"] / "report.html").read_text()
