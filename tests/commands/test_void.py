"""What is shown of a void audit says so, of a document as of the whole."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ksdp
from ksdp.storage.findings import write_summary
from ksdp.storage.store import Store

from ..typed import typed


@pytest.fixture
def void(tmp_path: Path) -> list[str]:
    """`show` of an audit that did not notice its controls."""
    rows = np.random.default_rng(0).poisson(1.0, (20, 5)) + 0.5
    found = ksdp.audit(rows, "pd-svd", rank=2, party_size=0.3, with_runs=5, fresh_runs=0, store=tmp_path / "s")
    controls = replace(found.summary.controls, reason="a control failed")
    write_summary(Store(found.store).audit(found.id), replace(found.summary, valid=False, controls=controls))
    return ["show", found.id, "--store", str(found.store)]


def test_a_document_of_a_void_audit_has_no_verdict(void: list[str]) -> None:
    for asked in (void, [*void[:2], "3", *void[2:]]):
        shown = typed(*asked, code=0)
        assert "VOID: a control failed. No verdict may be used." in shown.output
        assert json.loads(typed(*asked, "--json").stdout)["valid"] is False


def test_tables_of_a_void_audit_come_with_the_word(void: list[str], tmp_path: Path) -> None:
    _, audit, *store = void
    for asked in (
        ("export", audit, "--to", str(tmp_path / "verdicts.csv"), *store),
        ("sql", audit, "select verdict from verdicts", *store),
    ):
        assert "VOID: a control failed" in typed(*asked, code=0).stderr
    found = ksdp.load(Path(store[1]), audit)
    with pytest.warns(UserWarning, match="VOID: a control failed"):
        assert len(found.verdicts) == 20
    with pytest.warns(UserWarning, match="VOID"):
        found.document("3")
