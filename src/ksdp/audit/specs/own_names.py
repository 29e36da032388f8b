"""Names in a spec: `module:object` for somebody's own code, and what a mechanism is called where people read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ksdp.audit.specs.models import Spec

OBJECT_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
"""`module:object`."""


def mechanism_words(name: str, parameters: Mapping[str, Any]) -> str:
    """The name; of a mechanism around another one, which that is and what is done to it."""
    return f"{parameters.get('mechanism', 'pd-svd')} with noise" if name == "noisy" else name


def names_own_code(spec: Spec) -> bool:
    """Whether a spec names an object of a module (`module:object`) in place of something installed."""
    return bool(own_modules([spec.mechanism.model_dump(mode="json"), spec.statistics.names]))


def own_modules(tables: object) -> tuple[str, ...]:
    """The modules of all names `module:object` in tables of a spec, sorted: also of mechanisms within others."""
    return tuple(sorted({name.partition(":")[0] for name in _names(tables)}))


def _names(tables: object) -> Iterator[str]:
    if isinstance(tables, str):
        if OBJECT_PATH.fullmatch(tables):
            yield tables
    elif isinstance(tables, dict):
        yield from _names(list(tables.values()))
    elif isinstance(tables, list | tuple):
        for table in tables:
            yield from _names(table)
