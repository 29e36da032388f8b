"""Fenced blocks of the documentation."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1] / "docs"


def fences(page: str | Path, *kinds: str) -> list[str]:
    """Blocks of these kinds, as they stand; a page is named from `docs`."""
    text = (DOCS / page).read_text(encoding="utf-8")
    found = re.findall(r"^ *```(\w*)\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(block) for kind, block in found if kind in kinds]


def run_python(page: str | Path, known: dict[str, Any] | None = None) -> dict[str, Any]:
    """What a page's Python blocks leave behind, run one after the other; `known` are names that they find."""
    names = {} if known is None else known
    for block in fences(page, "python"):
        exec(compile(block, str(page), "exec"), names)
    return names
