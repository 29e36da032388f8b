"""Write the pages of `docs` that are generated, and its index, from the code and the pages."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.key_docs import file_keys, options
from tools.spec_docs import all_of, described, types_of

import ksdp
import ksdp.flows
from ksdp.extras.pem.flow import pem_flow
from ksdp.storage import findings

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "Start": ("python.md", "tutorial.md", "gallery.md", "comparison.md"),
    "Decide": ("what-a-verdict-means.md", "reviewing.md", "gain-and-levers.md"),
    "Operate": ("prefect.md", "clusters.md", "protocol-run.md", "pem.md", "peers.md"),
    "Look up": (
        *(
            "commands.md",
            "options.md",
            "spec.md",
            "file-keys.md",
            "api.md",
            "audit-and-run.md",
            "tables.md",
            "notices.md",
        ),
        *("measured.md", "reproduced.md", "licences.md"),
    ),
}
FOR_WHOM = {
    "Start": "For a first look: how to call ksdp from Python, and what comes out.",
    "Decide": "For privacy officers and reviewers: what a verdict proves, and how to act on it.",
    "Operate": "For engineers: audits every night, on many machines, and the run among organisations.",
    "Look up": "Reference. Every command, option, key, table and notice.",
}
TABLES = ("VerdictRow", "StatisticTestRow", "EffectRow", "ViewsRow")
TITLES = {
    "api.md": "Python, name by name",
    "file-keys.md": "Every key of every other file",
    "options.md": "Every option of every command",
    "tables.md": "Files of a store",
}
"""Of pages that are written here, which may not be there yet."""
FLOWS = tuple(ksdp.flows.__all__)


def _section(name: str, thing: Any, module: str) -> list[str]:
    call = "" if inspect.isclass(thing) and issubclass(thing, Exception) else str(_signature(thing))
    said = inspect.getdoc(thing) or ""
    return [f"## `{module}.{name}`", "", "```python", f"{name}{call}", "```", "", "```text", said, "```", ""]


def _signature(thing: Any) -> Any:
    try:
        return inspect.signature(thing)
    except (TypeError, ValueError):
        return ""


def api() -> str:
    """`docs/api.md`."""
    from ksdp.api.calls import audit

    lines = ["# Python, name by name", "", "Written by `tools/reference_docs.py` from the code.", ""]
    for name in ksdp.__all__:
        if name != "__version__":
            thing = audit if name == "audit" else getattr(ksdp, name)
            lines += _section(name, thing, "ksdp")
            for method, what in vars(thing).items() if inspect.isclass(thing) else ():
                said = inspect.getdoc(what.fget if isinstance(what, property) else what)
                if not method.startswith("_") and (callable(what) or isinstance(what, property)) and said:
                    lines += [f"- `.{method}`: {said.splitlines()[0]}"]
            lines += [""] if inspect.isclass(thing) else []
    lines += ["# Prefect flows", ""]
    for name in FLOWS:
        lines += _section(name, getattr(ksdp.flows, name).fn, "ksdp.flows")
    lines += _section("pem_flow", pem_flow.fn, "ksdp.extras.pem.flow")
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n"


def tables() -> str:
    """`docs/tables.md`."""
    from ksdp.storage import store

    lines = [
        "# Files of a store",
        "",
        "Written by `tools/reference_docs.py` from the code. Parquet and JSON; any tool reads them. `ksdp",
        "export`, `ksdp tables` and `ksdp sql` open the tables of an audit without knowing where they are.",
        "",
        "```text",
        (inspect.getdoc(store) or "").partition("::\n\n")[2].partition("\n\nEverything")[0],
        "```",
        "",
    ]
    for name in TABLES:
        row = getattr(findings, name)
        first, _, rest = (inspect.getdoc(row) or "").partition("\n")
        lines += [f"## {first}", ""] + ([" ".join(rest.split()), ""] if rest.strip() else [])
        lines += ["| column | type | |", "|---|---|---|"]
        words, kinds = all_of(row, described), all_of(row, types_of)
        for column, said in words.items():
            kind = kinds[column].replace("|", "or").removeprefix("Annotated[").split(",")[0]
            lines.append(f"| `{column}` | {kind} | {said} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _title(page: str) -> str:
    path = ROOT / "docs" / page
    return TITLES.get(page) or path.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")


def index() -> str:
    """`docs/README.md`: every page of the documentation, by what it is for."""
    lines = [
        "# Documentation",
        "",
        "ksdp measures, document by document, what a joint computation gives away, before it is run.",
        "",
    ]
    for heading, pages in PAGES.items():
        lines += [f"## {heading}", "", FOR_WHOM[heading], ""]
        lines += [*(f"- [{_title(page)}]({page})" for page in pages), ""]
    lines += ["Why things are as they are: `docs/decisions/` in the repository."]
    return "\n".join(lines).rstrip() + "\n"


WRITTEN = {
    "api.md": api,
    "file-keys.md": file_keys,
    "options.md": options,
    "tables.md": tables,
    "README.md": index,
}


if __name__ == "__main__":
    for name, page in WRITTEN.items():
        (ROOT / "docs" / name).write_text(page(), encoding="utf-8")
