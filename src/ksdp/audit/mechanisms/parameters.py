"""Parameters of mechanisms: what they are in a spec, and checks of them."""

from __future__ import annotations

import json
import math
from dataclasses import fields, is_dataclass
from typing import Any

from ksdp.audit.contract import Mechanism
from ksdp.audit.errors import SpecError
from ksdp.audit.numeric.whole_numbers import not_whole


def check_least(mechanism: object, **least: int) -> None:
    """Refuse a parameter that is no whole number, or below its least value.

    A rank of 2.5 would be taken for 2 by some routines and fail in others, in the middle of a run.

    >>> from types import SimpleNamespace
    >>> check_least(SimpleNamespace(rank=2.5), rank=1)
    Traceback (most recent call last):
    ...
    ksdp.audit.errors.SpecError: `rank` must be a whole number of at least 1; got 2.5.
    """
    for name, smallest in least.items():
        if wrong := not_whole(vars(mechanism)[name], smallest):
            raise SpecError(f"`{name}` {wrong}")


def check_positive(mechanism: object, *names: str) -> None:
    """Refuse a parameter that is given and not positive and finite."""
    for name in names:
        value = vars(mechanism)[name]
        if value is not None and not (math.isfinite(value) and value > 0):
            raise SpecError(f"`{name}` must be positive and finite; got {value}.")


def check_one_of(mechanism: object, name: str, choices: tuple[str, ...]) -> None:
    """Refuse a word that is none of the choices."""
    value = vars(mechanism)[name]
    if value not in choices:
        raise SpecError(f"`{name}` must be {' or '.join(map(repr, choices))}; got {value!r}.")


def check_rank(rank: int, features: int) -> None:
    """Refuse a basis of as many rows as there are features, or more."""
    if rank >= features:
        raise SpecError(f"`rank` must be below the number of features ({features}); got {rank}.")


def parameters_of(mechanism: Mechanism) -> dict[str, Any]:
    """Every parameter of a mechanism, defaults included, as JSON values."""
    return dict(json.loads(json.dumps(given_fields(mechanism), default=_written)))


def given_fields(mechanism: object) -> dict[str, Any]:
    """Return the parameters of a mechanism, defaults included; none if it is no dataclass."""
    if not is_dataclass(mechanism) or isinstance(mechanism, type):
        return {}
    values = vars(mechanism)
    return {f.name: values[f.name] for f in fields(mechanism) if f.init}


def _written(value: Any) -> str:
    """A parameter in a key: the same in every process, so never an address in memory."""
    return f"{value.__module__}:{value.__qualname__}" if callable(value) else repr(value)
