"""`docs/audit-and-run.md` is what trying every mechanism with every lever gives today."""

from pathlib import Path
from types import ModuleType

import pytest

from .scripts import script

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def table() -> ModuleType:
    return script("lever_table")


@pytest.fixture(scope="module")
def page(table: ModuleType) -> str:
    return str(table.page())


def test_the_page_is_of_today(page: str) -> None:
    written = (ROOT / "docs" / "audit-and-run.md").read_text(encoding="utf-8")
    assert written == page, "run tools/lever_table.py"
