"""Measure, document by document, what a private learning protocol gives away, before it is run.

>>> import ksdp
>>> sorted(ksdp.__all__)[:4]
['Audit', 'KsdpError', 'Recorded', '__version__']

The command is `ksdp`. `ksdp.audit` is a function, and the package of the numerical modules too.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import ksdp.audit as _audit

if TYPE_CHECKING:
    from importlib.metadata import version as _version

    from ksdp.api.calls import advise, audit, bound_release, clear, compare, load, mechanism, plan
    from ksdp.api.results import Audit
    from ksdp.audit.errors import KsdpError
    from ksdp.audit.mechanisms.chance import noise
    from ksdp.flows.screening.clear import require_clearance
    from ksdp.storage.in_memory import Recorded

    __version__ = _version("ksdp")

__all__ = [
    "Audit",
    "KsdpError",
    "Recorded",
    "__version__",
    "advise",
    "audit",
    "bound_release",
    "clear",
    "compare",
    "load",
    "mechanism",
    "noise",
    "plan",
    "require_clearance",
]

_WHERE = {
    "Audit": "ksdp.api.results",
    "KsdpError": "ksdp.audit.errors",
    "Recorded": "ksdp.storage.in_memory",
    "advise": "ksdp.api.calls",
    "bound_release": "ksdp.api.calls",
    "clear": "ksdp.api.calls",
    "compare": "ksdp.api.calls",
    "load": "ksdp.api.calls",
    "mechanism": "ksdp.api.calls",
    "noise": "ksdp.audit.mechanisms.chance",
    "plan": "ksdp.api.calls",
    "require_clearance": "ksdp.flows.screening.clear",
}
"""Imported when first asked for: `import ksdp` takes a hundredth of a second."""


class _CallableRoom(ModuleType):
    """The package `ksdp.audit`, which can be called: importing any module of it puts it where the function is."""

    def __call__(self, *arguments: Any, **settings: Any) -> Audit:
        from ksdp.api.calls import audit

        return audit(*arguments, **settings)

    @property
    def __signature__(self) -> inspect.Signature:
        from ksdp.api.calls import signature_of_calls

        return signature_of_calls()


def _described(room: _CallableRoom) -> str:
    from ksdp.api.calls import audit, settings_words

    return f"{inspect.getdoc(audit)}\n\n{settings_words()}"


setattr(_CallableRoom, "__doc__", property(_described))  # noqa: B010
sys.modules["ksdp.audit"].__class__ = _CallableRoom
del _audit


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("ksdp")
    if name not in _WHERE:
        raise AttributeError(f"module 'ksdp' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(importlib.import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
