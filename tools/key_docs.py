"""Write the keys of files beside a spec (`docs/file-keys.md`) and every option (`docs/options.md`)."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import typer.main
from pydantic import BaseModel
from tools.spec_docs import cell, key_table

from ksdp.cli import COMMANDS, app
from ksdp.extras.pem import spec
from ksdp.flows.runs import budget
from ksdp.protocols.programs import protocol_file
from ksdp.storage.schedules import schedule_files

__all__ = ["file_keys", "options"]

_PARTY = "protocol-run.md"
FILES: dict[str, tuple[str, Mapping[str, type[BaseModel]]]] = {
    f"A protocol file ([a run among parties]({_PARTY}))": (
        "`protocol = 1` stands above all sections; `[mechanism]` is that of a spec, with `opens`.",
        {
            "[features]": protocol_file.FeaturesSpec,
            "[precision]": protocol_file.PrecisionSpec,
            "[timeouts]": protocol_file.TimeoutsSpec,
            "[shares]": protocol_file.SharesSpec,
            "[[parties]], [server]": protocol_file.PartySpec,
        },
    ),
    f"A budget ([what runs on a party's data give away together]({_PARTY}))": (
        "",
        {"[budget]": budget.PartyBudgetSpec},
    ),
    "A PEM file ([PEM](pem.md))": (
        "`[data]`, `[algorithm]`, `[budget]` and `[run]`.",
        {
            "[data]": spec.PemDataSpec,
            "[algorithm], k-means": spec.KMeansSpec,
            "[algorithm], logistic regression": spec.LogisticSpec,
            "[algorithm], Apriori": spec.AprioriSpec,
            "[budget.sparse]": spec.SparseSpec,
            "[budget]": spec.BudgetSpec,
            "[run]": spec.PemRunSpec,
        },
    ),
    "Notices ([who is told of what](notices.md))": ("", {"[[notice]]": schedule_files.Notice}),
}


def file_keys() -> str:
    """`docs/file-keys.md`."""
    lines = ["# Every key of every other file", ""]
    lines += [
        "Written by `tools/reference_docs.py` from the models that check these files; those of a spec are in"
    ]
    lines += ["[its own page](spec.md). Unknown keys are refused."]
    for title, (said, models) in FILES.items():
        lines += ["", f"## {title}", *(["", said] if said else [])]
        for name, model in models.items():
            lines += ["", f"### {name}", "", inspect.cleandoc(model.__doc__ or "").split("\n\n")[0], ""]
            lines += key_table(model)
    return "\n".join(lines) + "\n"


def _of_command(name: str, command: Any) -> list[str]:
    if hasattr(command, "commands"):
        return [line for part, one in command.commands.items() for line in _of_command(f"{name} {part}", one)]
    lines = ["", f"### `ksdp {name}`", "", inspect.cleandoc(command.help or "").replace("\b\n", "")]
    rows = []
    for one in command.params:
        if one.param_type_name == "argument":
            rows.append((one.name.upper(), str(getattr(one, "help", "") or "")))
        else:
            rows.append((", ".join([*one.opts, *one.secondary_opts]), str(getattr(one, "help", "") or "")))
    lines += ["", "| | |", "|---|---|", *(f"| `{cell(key)}` | {cell(said)} |" for key, said in rows)]
    return lines


def options() -> str:
    """`docs/options.md`."""
    every: Any = typer.main.get_command(app)
    lines = ["# Every option of every command", "", "Written by `tools/reference_docs.py` from the commands; as"]
    lines += ["`ksdp COMMAND --help` prints it. What they are for: [every command](commands.md)."]
    for group, names in COMMANDS.items():
        lines += ["", f"## {group}"]
        for name in names:
            lines += _of_command(name, every.commands[name])
    return "\n".join(lines) + "\n"
