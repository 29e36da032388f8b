"""What is written is what is there: generated pages, links, and the tutorial, which runs."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def test_generated_pages_are_those_of_the_code() -> None:
    found = importlib.util.spec_from_file_location("reference_docs", ROOT / "tools" / "reference_docs.py")
    assert found is not None
    assert found.loader is not None
    docs = importlib.util.module_from_spec(found)
    found.loader.exec_module(docs)
    for name, page in docs.WRITTEN.items():
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == page(), "run tools/reference_docs.py"
    listed = {page for pages in docs.PAGES.values() for page in pages}
    assert listed == {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text)]
    missing = [link for link in links if link and "://" not in link and not (page.parent / link).exists()]
    assert missing == []


@pytest.mark.e2e
def test_the_tutorial_runs() -> None:
    blocks = re.findall(
        r"```python\n(.*?)```", (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8"), re.DOTALL
    )
    known: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, "tutorial.md", "exec"), known)
    assert len(known["found"].verdicts) == len(known["recorded"].verdicts) == 300  # type: ignore[attr-defined]
    assert known["again"].id == known["found"].id  # type: ignore[attr-defined]
