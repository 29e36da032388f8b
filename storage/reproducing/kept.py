"""A repeated table in a folder: NAME.json, NAME.md, and NAME.png where a plot was drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ksdp.audit.reproducing.outcome import Outcome
from ksdp.storage.checksums import write_checked_json
from ksdp.storage.store import write_text


def markdown(
    title: str, outcome: Outcome, differs: Sequence[str], about: Mapping[str, Any], plot: str | None
) -> str:
    """What is found first, then the table, then why the numbers are not the paper's."""
    head = "| " + " | ".join(outcome.columns) + " |"
    table = [head, "|" + "---|" * len(outcome.columns)]
    table += ["| " + " | ".join("" if cell is None else str(cell) for cell in row) + " |" for row in outcome.rows]
    parts = [f"# {title}", *outcome.found]
    if plot is not None:
        parts.append(f"![{title}]({plot})")
    parts += ["\n".join(table)]
    if differs:
        parts += ["## Why the numbers differ", "\n".join(f"- {sentence}" for sentence in differs)]
    parts.append("; ".join(f"{key} {value}" for key, value in about.items()) + ".")
    return "\n\n".join(parts) + "\n"


def write_outcome(
    folder: Path, name: str, title: str, outcome: Outcome, differs: Sequence[str], about: Mapping[str, Any]
) -> tuple[Path, Path]:
    """Keep one; returns where the page is, and where a plot belongs."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    plot = folder / f"{name}.png"
    content = {"name": name, "title": title, **asdict(outcome), "differs": list(differs), "about": dict(about)}
    write_checked_json(folder / f"{name}.json", content)
    drawn = plot.name if plot.exists() and outcome.lines else None
    page = folder / f"{name}.md"
    write_text(page, markdown(title, outcome, differs, about, drawn))
    return page, plot
