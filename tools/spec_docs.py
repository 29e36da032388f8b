"""Write `docs/spec.md` and `docs/spec.schema.json` from the models that check a spec."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from ksdp.audit.spec import models

ROOT = Path(__file__).resolve().parents[1]
SECTIONS = (
    "corpus",
    "mechanism",
    "parties",
    "design",
    "statistics",
    "decision",
    "store",
    "views",
    "certificate",
    "gain",
    "cluster",
)


def described(model: type[Any]) -> dict[str, str]:
    """The words under each key of a section."""
    body = ast.parse(inspect.getsource(model)).body[0]
    assert isinstance(body, ast.ClassDef)
    words, last = {}, None
    for node in body.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            last = node.target.id
            words[last] = ""
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and last:
            words[last] = " ".join(str(node.value.value).split())
            last = None
        else:
            last = None
    return words


def types_of(model: type[Any]) -> dict[str, str]:
    """What each key may be, as the source says it."""
    body = ast.parse(inspect.getsource(model)).body[0]
    assert isinstance(body, ast.ClassDef)
    fields = (n for n in body.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name))
    return {n.target.id: ast.unparse(n.annotation) for n in fields}  # type: ignore[union-attr]


def all_of(model: type[Any], what: Callable[[type[Any]], dict[str, str]]) -> dict[str, str]:
    """Of a model and of those that it is made from."""
    found: dict[str, str] = {}
    for part in reversed(inspect.getmro(model)):
        if part.__module__.startswith("ksdp."):
            found |= {key: said for key, said in what(part).items() if said or key not in found}
    return found


def key_table(model: type[BaseModel]) -> list[str]:
    """What each key of a section is, as a table."""
    lines = ["| key | is | default | means |", "|---|---|---|---|"]
    words, kinds = all_of(model, described), all_of(model, types_of)
    for key, field in model.model_fields.items():
        name, kind, said = field.alias or key, cell(kinds[key]), cell(words.get(key, ""))
        lines.append(f"| `{name}` | `{kind}` | {_default(field)} | {said} |")
    return lines


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "needed"
    return f"`{json.dumps(field.get_default(call_default_factory=True), default=list)}`"


def cell(text: str) -> str:
    """A text inside a table."""
    return text.replace("|", "\\|").replace("\n", " ")


def page() -> str:
    """`docs/spec.md`."""
    tables = {name: getattr(models, f"{name.capitalize()}Spec") for name in SECTIONS}
    lines = [
        "# Every key of a spec",
        "",
        "Written by `tools/spec_docs.py` from the models that check a spec. Unknown keys are refused.",
        "For editors: `#:schema docs/spec.schema.json` as the first line of a spec.",
        "",
        "`seed`, a whole number, stands above all sections; 0 by default.",
    ]
    for name, model in tables.items():
        lines += ["", f"## [{name}]", "", inspect.cleandoc(model.__doc__ or ""), ""]
        if name == "mechanism":
            lines += ["`name`, and the parameters of that mechanism: `ksdp mechanisms` lists them."]
            continue
        lines += key_table(model)
    return "\n".join(lines) + "\n"


def schema() -> str:
    """`docs/spec.schema.json`."""
    return json.dumps(models.Spec.model_json_schema(), indent=2, sort_keys=True) + "\n"


def main() -> None:
    """Write both."""
    (ROOT / "docs" / "spec.md").write_text(page(), encoding="utf-8")
    (ROOT / "docs" / "spec.schema.json").write_text(schema(), encoding="utf-8")


if __name__ == "__main__":
    main()
