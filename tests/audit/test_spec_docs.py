"""What is written of the spec is what checks it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_docs_and_schema_are_those_of_the_models() -> None:
    found = importlib.util.spec_from_file_location("spec_docs", ROOT / "tools" / "spec_docs.py")
    assert found is not None
    assert found.loader is not None
    docs = importlib.util.module_from_spec(found)
    found.loader.exec_module(docs)
    assert (ROOT / "docs" / "spec.md").read_text(encoding="utf-8") == docs.page(), "run tools/spec_docs.py"
    assert (ROOT / "docs" / "spec.schema.json").read_text(encoding="utf-8") == docs.schema(), (
        "run tools/spec_docs.py"
    )
