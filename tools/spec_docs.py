"""Write `docs/spec.md`, and the schemas of a spec and a dossier, from the types that check them."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo

from ksdp.api.call_spec import described
from ksdp.audit.specs import models
from ksdp.dashboards.audits.dossier import Dossier

ROOT = Path(__file__).resolve().parents[1]
SECTIONS = (
    "corpus",
    "levers",
    "mechanism",
    "parties",
    "design",
    "statistics",
    "decision",
    "store",
    "certificate",
    "gain",
    "declared",
    "cluster",
)


BY_PROGRAMS = {
    "design": ("kind", "looks", "without_runs", "sampling", "absent"),
    "statistics": ("explored", "runs_of"),
    "decision": ("clear_level",),
    "store": ("values", "precision"),
}
"""Keys that ksdp and scripts of papers set: each has a default that is right for whoever writes a spec."""


def types_of(model: type[Any]) -> dict[str, str]:
    """What each column of a table's row holds."""
    body = ast.parse(inspect.getsource(model)).body[0]
    assert isinstance(body, ast.ClassDef)
    fields = (n for n in body.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name))
    return {n.target.id: _plain(ast.unparse(n.annotation)) for n in fields}  # type: ignore[union-attr]


def _plain(annotation: str) -> str:
    """A type of a row in words: what `Annotated` adds says how it is stored, not what it is."""
    name = annotation.removeprefix("Annotated[").split(",")[0].split("[")[0]
    words = {"str": "text", "float": "number", "int": "whole number", "bool": "true or false", "tuple": "list"}
    parts = [words.get(part.strip(), part.strip()) for part in name.split("|")]
    return " or ".join("none" if part == "None" else part for part in parts)


def all_of(model: type[Any], what: Callable[[type[Any]], dict[str, str]]) -> dict[str, str]:
    """Of a model and of those that it is made from."""
    found: dict[str, str] = {}
    for part in reversed(inspect.getmro(model)):
        if part.__module__.startswith("ksdp."):
            found |= {key: said for key, said in what(part).items() if said or key not in found}
    return found


def key_list(model: type[BaseModel], unnamed: Collection[str] = ()) -> list[str]:
    """What each key of a section is: a line a key."""
    lines = []
    words, kinds = all_of(model, described), model.model_json_schema()["properties"]
    for key, field in model.model_fields.items():
        if key in unnamed:
            continue
        name = field.alias or key
        said = f": {words[key]}" if words.get(key) else ""
        lines.append(f"- `{name}` ({kind(kinds[name])}{_default(field)}){said}")
    return lines


def kind(schema: dict[str, Any]) -> str:
    """What a value may be, in words, from its JSON schema.

    >>> kind({"type": "number", "minimum": 0, "maximum": 1})
    'a fraction from 0 to 1'
    >>> kind({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]})
    'a whole number from 1'
    """
    if "anyOf" in schema:
        return ", or ".join(kind(one) for one in schema["anyOf"] if one.get("type") != "null")
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{json.dumps(one)}`" for one in schema.get("enum", [schema.get("const")]))
    of = schema.get("type")
    if of in ("integer", "number"):
        return _number(schema, whole=of == "integer")
    if of == "array":
        each = schema.get("prefixItems") or [schema.get("items", {})]
        return "a list: " + " and ".join(kind(one) for one in each)
    if of == "string":
        return "a hash: `sha256:` and 64 hex digits" if "sha256" in schema.get("pattern", "") else "text"
    return "true or false" if of == "boolean" else "a table"


def _number(schema: dict[str, Any], *, whole: bool) -> str:
    """A number and its range."""
    least, above = schema.get("minimum"), schema.get("exclusiveMinimum")
    most, below = schema.get("maximum"), schema.get("exclusiveMaximum")
    noun = "a whole number" if whole else "a fraction" if 1 in (most, below) else "a number"
    if (above, below) == (0, 1):
        return f"{noun} between 0 and 1"
    parts = [f"from {least:.12g}"] if least is not None else [f"above {above:g}"] if above is not None else []
    parts += [f"to {most:.12g}"] if most is not None else [f"below {below:g}"] if below is not None else []
    return " ".join([noun, *parts])


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return ", needed"
    value = field.get_default(call_default_factory=True)
    shown = json.dumps(value, default=lambda other: None if isinstance(other, BaseModel) else list(other))
    return "" if shown in ("null", '""', "[]", "{}") else f"; default `{shown}`"


def cell(text: str) -> str:
    """A text inside a table."""
    return text.replace("|", "\\|").replace("\n", " ")


def page() -> str:
    """`docs/spec.md`."""
    tables = {name: getattr(models, f"{name.capitalize()}Spec") for name in SECTIONS}
    lines = [
        "# Keys of a spec",
        "",
        "*For engineers who write a spec: the TOML file that says what is audited. `ksdp init` writes one that",
        "runs, so that you look up here only what you change. [Words](glossary.md) are explained in one place.*",
        "",
        "Written by `tools/spec_docs.py` from the models that check a spec. Unknown keys are refused. Editors",
        "complete and check keys if the first line of a spec is `#:schema docs/spec.schema.json`.",
        "",
        "This is a whole spec; each section is explained below, and what is left out has a default:",
        "",
        "```toml",
        "seed = 7",
        "[corpus]",
        'path = "mail.csv"',
        'text = "body"            # of a table of numbers: columns = [...]',
        "[mechanism]",
        'name = "pd-svd"',
        "rank = 2",
        'opens = "final"          # what a run shows: its final output alone',
        "[design]",
        "party_size = 0.4         # share of the documents in each run",
        "with_runs = 200",
        "[decision]",
        "margin = 0.3             # the largest advantage that you accept",
        "```",
        "",
        "Two keys stand above all sections: `seed`, a whole number (default 0), and `title`, a name of the",
        "audit for people. `ksdp power` writes a section `[[planted]]`.",
    ]
    for name, model in tables.items():
        lines += [
            "",
            f"## [{'corpus.levers' if name == 'levers' else name}]",
            "",
            inspect.cleandoc(model.__doc__ or ""),
            "",
        ]
        if name == "mechanism":
            lines += ["`name`, and the parameters of that mechanism: `ksdp mechanisms` lists them."]
            continue
        lines += key_list(model, BY_PROGRAMS.get(name, ()))
    programs = ", ".join(f"`{table}.{key}`" for table, keys in BY_PROGRAMS.items() for key in keys)
    lines += [
        "",
        "## Keys that programs set",
        "",
        f"A person need not set them; the schema describes them: {programs}.",
    ]
    return "\n".join(lines) + "\n"


def schema() -> str:
    """`docs/spec.schema.json`."""
    return json.dumps(models.Spec.model_json_schema(), indent=2, sort_keys=True) + "\n"


def dossier_schema() -> str:
    """`docs/dossier.schema.json`."""
    return json.dumps(TypeAdapter(Dossier).json_schema(mode="serialization"), indent=2, sort_keys=True) + "\n"


def main() -> None:
    """Write all three."""
    for name, text in {
        "spec.md": page(),
        "spec.schema.json": schema(),
        "dossier.schema.json": dossier_schema(),
    }.items():
        (ROOT / "docs" / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
