"""What is written of the spec is what checks it."""

from __future__ import annotations

from pathlib import Path

from ..scripts import script

ROOT = Path(__file__).resolve().parents[2]


def test_docs_and_schema_are_those_of_the_models() -> None:
    docs = script("spec_docs")
    assert (ROOT / "docs" / "spec.md").read_text(encoding="utf-8") == docs.page(), "run tools/spec_docs.py"
    assert (ROOT / "docs" / "spec.schema.json").read_text(encoding="utf-8") == docs.schema(), (
        "run tools/spec_docs.py"
    )
