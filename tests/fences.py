"""Fenced blocks of the documentation."""

import os
import re
import subprocess
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


def type_page(page: str, folder: Path, programs: Path) -> None:
    """Write a tutorial's scripts, type its commands and look for its answers; `programs` is first on the path."""
    text = (DOCS / page).read_text(encoding="utf-8")
    for name, code in re.findall(r"```python\n# (\S+)\n(.*?)```", text, re.DOTALL):
        (folder / name).write_text(code, encoding="utf-8")
    environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "KSDP_STORE": str(folder / "store")}
    for block in re.findall(r"```console\n(.*?)```", text, re.DOTALL):
        for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *answers = step.splitlines()
            done = subprocess.run(
                ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, timeout=900
            )
            printed = done.stdout + done.stderr
            assert done.returncode in {0, 3, 4}, (command, printed)
            assert [answer for answer in answers if answer not in printed] == [], (command, printed)
