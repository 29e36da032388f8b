"""What a person may have meant by an unknown key."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel

__all__ = ["meant", "permitted"]

_ELSEWHERE: dict[tuple[str, ...], str] = {
    ("corpus", "levers", "at_least"): '`name = "counted"` with `at_least` in `[mechanism]` counts documents, as '
    "what the counts tell is audited (docs/protocol-run.md, A vocabulary by counts). ",
}
"""Keys that somebody looks for in another place than where they are."""


def permitted(model: type[BaseModel], where: tuple[int | str, ...]) -> str:
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
