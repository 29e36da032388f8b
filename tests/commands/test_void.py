"""What is shown of a void audit says so, of a document as of the whole."""

import json
from pathlib import Path

import pytest

import ksdp

from .. import finished
from ..finished import made_once
from ..typed import typed


@pytest.fixture(scope="module")
def void(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """`show` of an audit that did not notice its controls."""
    return ["show", "latest", "--store", str(made_once(tmp_path_factory, "void", finished.void) / "store")]


def test_a_document_of_a_void_audit_has_no_verdict(void: list[str]) -> None:
    for asked in (void, [*void[:2], "3", *void[2:]]):
        shown = typed(*asked, code=0)
        assert "VOID: a control failed. No verdict may be used." in shown.output
        assert json.loads(typed(*asked, "--json").stdout)["valid"] is False


def test_tables_of_a_void_audit_come_with_the_word(void: list[str], tmp_path: Path) -> None:
    _, audit, *store = void
    for asked in (
        ("sql", audit, "--to", str(tmp_path / "verdicts.csv"), *store),
        ("sql", audit, "select verdict from verdicts", *store),
    ):
        assert "VOID: a control failed" in typed(*asked, code=0).stderr
    found = ksdp.load(Path(store[1]), audit)
    with pytest.warns(UserWarning, match="VOID: a control failed"):
        assert len(found.verdicts) == 20
    with pytest.warns(UserWarning, match="VOID"):
        found.document("3")
