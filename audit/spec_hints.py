"""What a person may have meant by an unknown key."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel

__all__ = ["permitted"]


def permitted(model: type[BaseModel], where: tuple[int | str, ...]) -> str:
    """What an unknown key may have been meant to be, and what is permitted; empty where that is not known."""
    for part in where[:-1]:
        field = model.model_fields.get(str(part))
        models = [m for m in (*get_args(field.annotation), field.annotation) if _is_model(m)] if field else []
        if not models:
            return ""
        model = models[0]
    known, wrong = [field.alias or name for name, field in model.model_fields.items()], str(where[-1])
    close = get_close_matches(wrong, known, n=1)
    meant = f"did you mean `{close[0]}`? " if close else ""
    return f"there is no such key; {meant}Permitted are {', '.join(known)}."


def _is_model(thing: Any) -> bool:
    return isinstance(thing, type) and issubclass(thing, BaseModel)
