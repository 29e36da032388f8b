"""The parameters of a mechanism, as keys, summaries and clearances name them."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any

from ksdp.audit.mechanisms.contract import Mechanism


def parameters_of(mechanism: Mechanism) -> dict[str, Any]:
    """Every parameter of a mechanism, defaults included, as JSON values."""
    if not is_dataclass(mechanism):
        return {}
    given = {f.name: getattr(mechanism, f.name) for f in fields(mechanism) if f.init}
    return dict(json.loads(json.dumps(given, default=_written)))


def _written(value: Any) -> str:
    """A parameter in a key: the same in every process, so never an address in memory."""
    return f"{value.__module__}:{value.__qualname__}" if callable(value) else repr(value)
