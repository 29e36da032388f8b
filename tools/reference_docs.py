"""Write `docs/api.md`, `docs/tables.md` and the index `docs/README.md` from the code and the pages."""

from __future__ import annotations

import inspect
import re
import sys
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tools.spec_docs import described, types_of

import ksdp
import ksdp.flows
from ksdp.storage import finding_tables

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "Start": ("python.md", "tutorial.md", "comparison.md"),
    "Decide": ("what-a-verdict-means.md", "reviewing.md", "gain-and-levers.md"),
    "Operate": ("prefect.md", "protocol-run.md", "party-check.md", "pem.md", "peers.md"),
    "Look up": (
        *("commands.md", "spec.md", "api.md", "audit-and-run.md", "tables.md", "notices.md", "measured.md"),
        "licences.md",
    ),
}
TABLES = ("VerdictRow", "StatisticTestRow", "EffectRow", "ViewsRow")
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
    from ksdp.interface.calls import audit

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
        row = getattr(finding_tables, name)
        first, _, rest = (inspect.getdoc(row) or "").partition("\n")
        lines += [f"## {first}", ""] + ([" ".join(rest.split()), ""] if rest.strip() else [])
        lines += ["| column | type | |", "|---|---|---|"]
        words, kinds = dict[str, str](), dict[str, str]()
        for part in reversed([c for c in inspect.getmro(row) if is_dataclass(c)]):
            words |= described(part)
            kinds |= types_of(part)
        for column, said in words.items():
            kind = kinds[column].replace("|", "or").removeprefix("Annotated[").split(",")[0]
            lines.append(f"| `{column}` | {kind} | {said} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def _title(page: str) -> str:
    path = ROOT / "docs" / page
    written = {"api.md": "Python, name by name", "tables.md": "Files of a store"}
    return written.get(page) or path.read_text(encoding="utf-8").splitlines()[0].lstrip("# ")


def index() -> str:
    """`docs/README.md`: every page of the documentation, by what it is for."""
    lines = [
        "# Documentation",
        "",
        "Written by `tools/reference_docs.py`. Why things are as they are: `decisions/`.",
        "",
    ]
    for heading, pages in PAGES.items():
        lines += [f"## {heading}", "", *(f"- [{_title(page)}]({page})" for page in pages), ""]
    return "\n".join(lines).rstrip() + "\n"


WRITTEN = {"api.md": api, "tables.md": tables, "README.md": index}


if __name__ == "__main__":
    for name, page in WRITTEN.items():
        (ROOT / "docs" / name).write_text(page(), encoding="utf-8")
