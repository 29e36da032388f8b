"""Write `docs/spec.md` and `docs/spec.schema.json` from the models that check a spec."""

from __future__ import annotations

import ast
import inspect
import json
from pathlib import Path
from typing import Any

from ksdp.audit import spec

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


def page() -> str:
    """`docs/spec.md`."""
    models = {name: getattr(spec, f"{name.capitalize()}Spec") for name in SECTIONS}
    lines = [
        "# Every key of a spec",
        "",
        "Written by `tools/spec_docs.py` from the models that check a spec. Unknown keys are refused.",
        "For editors: `#:schema docs/spec.schema.json` as the first line of a spec.",
        "",
        "`seed`, a whole number, stands above all sections; 0 by default.",
    ]
    for name, model in models.items():
        lines += ["", f"## [{name}]", "", inspect.cleandoc(model.__doc__ or ""), ""]
        if name == "mechanism":
            lines += ["`name`, and the parameters of that mechanism: `ksdp mechanisms` lists them."]
            continue
        lines += ["| key | is | default | means |", "|---|---|---|---|"]
        words, kinds = described(model), types_of(model)
        for key, field in model.model_fields.items():
            default = (
                "needed"
                if field.is_required()
                else f"`{json.dumps(field.get_default(call_default_factory=True), default=list)}`"
            )
            kind = kinds[key].replace("|", "\\|").replace("\n", " ")
            said = words.get(key, "").replace("|", chr(92) + "|")
            lines.append(f"| `{field.alias or key}` | `{kind}` | {default} | {said} |")
    return "\n".join(lines) + "\n"


def schema() -> str:
    """`docs/spec.schema.json`."""
    return json.dumps(spec.Spec.model_json_schema(), indent=2, sort_keys=True) + "\n"


def main() -> None:
    """Write both."""
    (ROOT / "docs" / "spec.md").write_text(page(), encoding="utf-8")
    (ROOT / "docs" / "spec.schema.json").write_text(schema(), encoding="utf-8")


if __name__ == "__main__":
    main()
