"""Tables that a person wrote, checked against models: what is wrong with them, and what may have been meant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, TypeVar, cast, get_args

from pydantic import BaseModel, ValidationError

from ksdp.audit.errors import SpecError

Model = TypeVar("Model", bound=BaseModel)

_ELSEWHERE: dict[tuple[str, ...], str] = {
    ("corpus", "levers", "at_least"): '`name = "counted"` with `at_least` in `[mechanism]` counts documents, as '
    "what the counts tell is audited (docs/protocol-run.md, A vocabulary by counts). ",
}
"""Keys that somebody looks for in another place than where they are."""


class Section(BaseModel, extra="forbid", frozen=True, defer_build=True):
    """A table of a spec: unknown keys are refused."""


def validated(model: type[Model], tables: Mapping[str, Any], what: str) -> Model:
    """Check tables against a model.

    Raises
    ------
    SpecError
        Naming every wrong key, one a line.
    """
    try:
        return model.model_validate(tables)
    except ValidationError as error:
        lines = []
        for problem in error.errors(include_url=False, include_input=False):
            where = ".".join(_keys(tables, problem["loc"]))
            hint = problem["type"] == "extra_forbidden" and _permitted(model, problem["loc"])
            told = hint or problem["msg"].removeprefix("Value error, ")
            lines.append(f"`{where or what}`{'' if told.startswith('must be a whole') else ':'} {told}")
        raise SpecError(f"the {what} is refused.\n  " + "\n  ".join(dict.fromkeys(lines))) from None


def _keys(tables: Mapping[str, Any], loc: tuple[int | str, ...]) -> list[str]:
    """The keys of a file in a place that pydantic names, without its own words for what they may hold."""
    keys, here = [], cast(Any, tables)
    for at, part in enumerate(loc):
        inside = isinstance(here, Mapping)
        last = at == len(loc) - 1
        if str(part).startswith(("constrained", "function")) or (inside and part not in here and not last):
            continue
        name = str(part)
        keys.append(name if name.isprintable() else ascii(name))
        here = here.get(part) if inside else None
    return keys


def _permitted(model: type[BaseModel], where: tuple[int | str, ...]) -> str:
    """What an unknown key may have been meant to be, and what is permitted; empty where that is not known."""
    for part in where[:-1]:
        field = model.model_fields.get(str(part))
        models = [m for m in (*get_args(field.annotation), field.annotation) if _is_model(m)] if field else []
        if not models:
            return ""
        model = models[0]
    known, wrong = [field.alias or name for name, field in model.model_fields.items()], str(where[-1])
    instead = _ELSEWHERE.get(tuple(map(str, where))) or meant(wrong, known)
    return f"there is no such key; {instead}Permitted are {', '.join(known)}."


def meant(wrong: str, known: Iterable[str]) -> str:
    """A question for the name that is nearest to a wrong one, with a space behind it; empty where none is near.

    >>> meant("rnak", ["rank", "solver"])
    'did you mean `rank`? '
    """
    close = get_close_matches(wrong, known, n=1)
    return f"did you mean `{close[0]}`? " if close else ""


def _is_model(thing: Any) -> bool:
    return isinstance(thing, type) and issubclass(thing, BaseModel)
