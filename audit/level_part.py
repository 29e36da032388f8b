"""A part of the level of an audit, for one of several that answer its question together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ksdp.audit.spec.models import Spec


def tables_at_part(spec: Spec, part: Callable[[float], float]) -> dict[str, Any]:
    """The spec's tables with this part of every level in it: of discoveries, of "clear" and of the certificate.

    Parameters
    ----------
    part : callable
        From a level to this audit's part of it.

    Examples
    --------
    >>> spec = Spec.model_validate({"corpus": {"path": "demo"}, "mechanism": {"name": "pd-svd"}})
    >>> tables_at_part(spec, lambda level: level / 2)["decision"]["level"]
    0.025
    """
    tables = spec.tables()
    tables["decision"]["level"] = part(spec.decision.level)
    if spec.decision.clear_level is not None:
        tables["decision"]["clear_level"] = part(spec.decision.clear_level)
    if spec.certificate is not None and spec.certificate.level is not None:
        tables["certificate"]["level"] = part(spec.certificate.level)
    return tables


def level_of_clear(spec: Spec) -> float:
    """What an audit may err by in what it calls clear: the level of its tests and that of its certificate."""
    return spec.decision.for_clear + (0.0 if spec.certificate is None else spec.certificate_level)
