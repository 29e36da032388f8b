"""Write the keys of files beside a spec (`docs/file-keys.md`) and every option (`docs/commands.md`)."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, get_args

import typer.main
from pydantic import BaseModel
from tools.spec_docs import key_list

from ksdp.audit.results import appetite
from ksdp.cli import COMMANDS, app
from ksdp.extras.pem import spec
from ksdp.flows.runs import budget
from ksdp.protocols.programs import protocol_file
from ksdp.storage.reviews.decisions import Policy

FILES: dict[str, tuple[str, Mapping[str, type[BaseModel]]]] = {
    "A protocol file ([what a run computes](run-reference.md#the-protocol-file))": (
        "`protocol = 1` and `learns` stand above all sections. `learns` says what everybody learns and whom "
        "one must trust; `ksdp agree --invite` writes it. `[mechanism]` has `opens`.",
        {
            "[features]": protocol_file.FeaturesSpec,
            "[precision]": protocol_file.PrecisionSpec,
            "[timeouts]": protocol_file.TimeoutsSpec,
            "[shares]": protocol_file.SharesSpec,
            "[leave]": protocol_file.LeaveSpec,
            "[[parties]], [server]": protocol_file.EnteringSpec,
        },
    ),
    "A budget ([what runs cost together](protocol-run.md#what-runs-cost-together))": (
        "",
        {"[budget]": budget.PartyBudgetSpec},
    ),
    "A policy ([who may read, decide and sign](reviewing.md))": ("", {"Above all sections": Policy}),
    "A risk appetite ([in a pipeline](ci.md))": ("", {"Above all sections": appetite.Appetite}),
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
}


def file_keys() -> str:
    """`docs/file-keys.md`."""
    lines = [
        "# Keys of the other files",
        "",
        "*For those who write a protocol file, a budget, a policy, an appetite or a PEM file.*",
        "",
    ]
    lines += [
        "Written by `tools/reference_docs.py` from the models that check these files. The keys of a spec have"
    ]
    lines += ["[a page of their own](spec.md). Unknown keys are refused."]
    for title, (said, models) in FILES.items():
        lines += ["", f"## {title}", *(["", said] if said else [])]
        for name, model in models.items():
            lines += ["", f"### {name}", "", inspect.cleandoc(model.__doc__ or "").split("\n\n")[0], ""]
            lines += key_list(model)
    return "\n".join(lines) + "\n"


EXAMPLES = """
ksdp show latest DOCUMENT
ksdp show latest DOCUMENT --again row-space-energy
ksdp test latest --statistics d-sum,w-sum
ksdp verify mail.clearance --key ada.pub
ksdp decide latest DOCUMENT --decision exclude --reason "..." --who Ada
""".strip().splitlines()
_SEVERAL = 2


def _help_of(one: Any) -> tuple[str, str]:
    """How an argument or option is written, and its help, the values that it may have and its default."""
    said, kind = [one.help], one.type_descriptor.annotation
    values = get_args(kind)[0] if get_args(kind) else kind
    if issubclass(values, StrEnum):
        said.append(f"One of {', '.join(f'`{each}`' for each in values)}.")
    if one.param_type_name == "argument":
        return one.name.upper(), " ".join(said)
    default = f"{one.default:.3g}" if isinstance(one.default, float) else str(one.default)
    default = one.opts[0] if default == "True" else default
    if one.required or default not in ("", "None", "False"):
        said.append("Required." if one.required else f"Default: `{default}`.")
    return ", ".join([*one.opts, *one.secondary_opts]), " ".join(said)


def _of_command(name: str, command: Any, shared: Mapping[str, str]) -> list[str]:
    if hasattr(command, "commands"):
        parts = command.commands.items()
        return [line for part, one in parts for line in _of_command(f"{name} {part}", one, shared)]
    lines = ["", f"### `ksdp {name}`", "", inspect.cleandoc(command.help or "").replace("\b\n", "")]
    example = [line for line in EXAMPLES if line.split()[1] == name]
    lines += ["", "```", *example, "```"] if example else []
    every = [_help_of(one) for one in _shown(command)]
    also = ", ".join(f"`{key}`" for key, said in every if shared.get(key) == said and key != "--store")
    rows = [f"- `{key}`: {said}" for key, said in every if shared.get(key) != said]
    return [*lines, *(["", *rows] if rows else []), *(["", f"Also {also}."] if also else [])]


def _shown(command: Any) -> list[Any]:
    return [one for one in command.params if not getattr(one, "hidden", False)]


def _all_commands(name: str, command: Any) -> Iterator[Any]:
    for part, one in getattr(command, "commands", {name: None}).items():
        yield from _all_commands(part, one) if one else [command]


def commands() -> str:
    """`docs/commands.md`."""
    every: Any = typer.main.get_command(app)
    times = Counter(_help_of(one) for command in _all_commands("", every) for one in _shown(command))
    shared: dict[str, str] = {}
    for (key, said), number in times.most_common():
        if number >= _SEVERAL:
            shared.setdefault(key, said)
    lines = [
        "# Commands",
        "",
        "*For everybody who types ksdp's commands. Each command has its arguments and options here; which ones",
        "a job needs, and in which order, is shown in the [how-to guides](README.md#how-to-guides).*",
        "",
        "Written by `tools/reference_docs.py` from the commands, as `ksdp COMMAND --help` prints it.",
        "`ksdp --install-completion` completes commands in your shell. `export KSDP_STORE=~/ksdp-store` names the",
        "store once for all; every command takes `--store`.",
        "",
        "| exit code | of an audit; [`ksdp party` has its own](protocol-run.md#what---check-finds) |",
        "|---|---|",
        "| 0 | done, and every document is clear; or no verdict of `--fail-on` occurs |",
        "| 3 | some documents are sensitive |",
        "| 4 | none is sensitive; some are undecided, or no test read something that is published (`uncovered`) |",
        "| 2 | the input was refused, and nothing was written |",
        "| 5 | the controls failed: the audit is void |",
        "| 130, 143 | stopped by Ctrl-C or SIGTERM; the same command resumes |",
        "| 1 | anything else |",
        "",
        "Without `--fail-on`, all verdicts count; for `ksdp show` none, only a missed `--appetite`.",
        "",
        "## Arguments and options of several commands",
        "",
        *(f"- `{key}`: {said}" for key, said in sorted(shared.items(), key=lambda one: one[0].lower())),
    ]
    for group, names in COMMANDS.items():
        lines += ["", f"## {group}"]
        for name in names:
            lines += _of_command(name, every.commands[name], shared)
    return "\n".join(lines) + "\n"
