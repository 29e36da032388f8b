"""Prose: what happens in an audit, a screening, a forecast, in which order.

Flows to call, serve or deploy on one's own Prefect server are here: `from ksdp.flows import audit_flow`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ksdp.flows.deployable import audit_flow, clear_flow, party_flow

__all__ = ["audit_flow", "clear_flow", "party_flow"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'ksdp.flows' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(importlib.import_module("ksdp.flows.deployable"), name)  # Prefect is loaded by who asks
