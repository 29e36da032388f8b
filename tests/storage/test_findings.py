"""Findings come back as they were written."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ksdp.audit.errors import StoreError
from ksdp.audit.results.summary import VERSION
from ksdp.audit.specs.models import DecisionSpec, parse_spec
from ksdp.audit.testing import compare_arms
from ksdp.audit.verdicts.decide import decide
from ksdp.audit.verdicts.effects import Attack, measure_effect
from ksdp.audit.verdicts.laws import Gap
from ksdp.storage.audits.history import read_summary
from ksdp.storage.codec import write_json_with_checksum
from ksdp.storage.findings import (
    EFFECTS,
    STATISTICS,
    VERDICTS,
    Curve,
    Table,
    read_curves,
    read_document,
    read_spec,
    read_strength,
    read_verdicts,
    write_curves,
    write_effects,
    write_findings,
    write_spec,
    write_summary,
)

from ..summaries import example


def test_findings_of_a_document(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    inclusion = rng.random((5, 300)) < 0.5
    values = {"one": rng.normal(size=(5, 300)) + 2 * inclusion, "two": rng.normal(size=(5, 300))}
    tests = compare_arms(values, inclusion)
    decisions = decide(tests, DecisionSpec())
    ids = np.array(list("abcde"))
    known = {"knows_all": np.ones(5)}
    write_summary(tmp_path, example())
    write_json_with_checksum(tmp_path / "power.json", {})
    write_findings(tmp_path, ids, [("one", 1), ("two", 3)], tests, decisions, np.full(5, 0.2), known)
    assert read_verdicts(tmp_path)["document"].to_pylist() == list("abcde")
    with pytest.raises(StoreError, match=r"audit\.json .* is not what was written"):
        read_summary(tmp_path)  # of the tables before: whoever was killed here has none
    assert read_strength(tmp_path) is None, "and planted leaks were measured with these"
    held, free = rng.normal(2, 1, 40), rng.normal(size=90)
    effect = measure_effect(2, "one", Attack(1.0, above=True), held, free, 0.05)
    write_effects(tmp_path, ids, [effect])
    assert "fresh" not in repr(read_document(tmp_path, "d"))
    found = read_document(tmp_path, "c").to_json()
    assert f", advantage {effect.advantage:.3f} on fresh runs (" in repr(read_document(tmp_path, "c"))
    assert found["fresh"]["advantage"] == effect.advantage
    assert (found["verdict"], found["statistic"], found["fresh"]["statistic"]) == ("sensitive", "one", "one")
    assert [s["statistic"] for s in found["statistics"]] == ["one", "two"]
    assert [s["version"] for s in found["statistics"]] == [1, 3]
    assert found["statistics"][1]["distance"] == tests.distance[2, 1]
    assert found["statistics"][0]["log10_p"] == tests.log10_p[2, 0]
    with pytest.raises(StoreError, match="has no document 'z'"):
        read_document(tmp_path, "z")


def test_specs_summaries_and_curves(tmp_path: Path) -> None:
    spec = parse_spec({"corpus": {"path": "x"}, "mechanism": {"name": "pd-svd", "rank": 3}})
    write_spec(tmp_path, spec)
    assert read_spec(tmp_path) == spec
    write_summary(tmp_path, example(audit="a"))
    here = {"store": str(tmp_path.parents[1]), "report": str(tmp_path / "report.html")}
    assert read_summary(tmp_path) == replace(example(audit="a"), **here), "and where it lies now"
    write_curves(tmp_path, [Curve.of("d", "s", np.array([1.0, 2, 0.5]), np.array([True, True, False]))])
    (curve,) = read_curves(tmp_path)
    assert (curve.document, curve.with_values.tolist(), curve.without_values.tolist()) == ("d", [1, 2], [0.5])
    assert curve.gap == Gap(0.5, 0.0, 1.0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"version": VERSION + 1},
            f"has version {VERSION + 1}, and this ksdp reads version {VERSION}; `ksdp audit` with its spec",
        ),
        ({"version": None}, "has version None"),
        ({"surplus": 1}, "damaged at `surplus`"),
        ({"documents": "many"}, "damaged at `documents`"),
    ],
)
def test_a_summary_of_another_version_or_damaged_is_refused(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    write_json_with_checksum(tmp_path / "audit.json", example().to_json() | change)
    with pytest.raises(StoreError, match=said):
        read_summary(tmp_path)


@pytest.mark.parametrize("table", [VERDICTS, STATISTICS, EFFECTS])
def test_a_schema_has_the_fields_of_its_row_in_order(table: Table) -> None:
    assert table.schema.names == [f.name for f in fields(table.row)] == list(table.columns)
