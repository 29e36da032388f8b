"""The documentation as a site: `make docs`. Pages and their order are those of `README.md`, read as they stand."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

_HERE = Path(__file__).parent
_PROJECT = tomllib.loads((_HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = _PROJECT["name"]
release = version = _PROJECT["version"]
extensions = ["myst_parser"]
root_doc = "README"
exclude_patterns = ["sample"]
myst_heading_anchors = 3
nitpicky = True
html_theme = "furo"
html_title = f"{project} {release}"
html_theme_options = {"footer_icons": []}
html_copy_source = html_show_sourcelink = False
html_extra_path = ["llms.txt"]
html_static_path = ["static"]
html_js_files = [("copy.js", {"defer": "defer"})]
html_css_files = ["site.css"]


def _with_contents(app: Any, page: str, source: list[str]) -> None:
    """Give the index a table of contents for each of its headings, and decisions theirs; these say for whom.

    Pages are read on forges too, which know no such directive; so it is in no file.
    """
    if page.startswith("decisions/"):
        source[0] = source[0].replace("\n\n", "\n\n*For maintainers, and for people who ask why.*\n\n", 1)
        source[0] = "---\nnosearch: true\n---\n" + source[0]  # readers search the other pages
    if page == "decisions":
        pages = sorted(f"decisions/{path.name}" for path in _HERE.glob("decisions/*.md"))
        source[0] += "\n" + _contents("Decisions", pages)
    if page != root_doc:
        return
    parts = re.split(r"^## (.+)$", source[0], flags=re.MULTILINE)
    contents = []
    for heading, part in zip(parts[1::2], parts[2::2], strict=True):
        pages = re.findall(r"\]\((\S+\.md)\)", part)
        contents.append(_contents(heading, pages))
    source[0] += "\n" + "\n".join(contents)


def _contents(caption: str, pages: list[str]) -> str:
    listed = "\n".join(page.removesuffix(".md") for page in pages)
    return f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{listed}\n```\n"


def setup(app: Any) -> None:
    """What Sphinx calls."""
    app.connect("source-read", _with_contents)
