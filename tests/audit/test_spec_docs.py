"""What is written of the spec is what checks it."""

from pathlib import Path

from ..scripts import script

ROOT = Path(__file__).resolve().parents[2]


def test_docs_and_schemas_are_those_of_the_types() -> None:
    docs = script("spec_docs")
    pages = {"spec.md": docs.page, "spec.schema.json": docs.schema, "dossier.schema.json": docs.dossier_schema}
    for name, made in pages.items():
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == made(), "run tools/spec_docs.py"
