"""Audits that share a level with others, or continue one with more runs.

More runs for some documents: the spec of the audit that continues another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ksdp.audit.errors import InputError
from ksdp.audit.randomness import Purpose, derived_seed
from ksdp.audit.specs.models import Spec


def tables_at_part(spec: Spec, part: Callable[[float], float]) -> dict[str, Any]:
    """The spec's tables with this part of every level in it: of discoveries, of "clear" and of the certificate."""
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


_LEAST, _MOST = 2.0, 16.0


def wanted_factor(runs: ArrayLike, runs_to_decide: ArrayLike) -> float:
    """How many times as many runs would decide every document, between 2 and 16."""
    done, needed = np.asarray(runs, dtype=np.float64), np.asarray(runs_to_decide, dtype=np.float64)
    factors = (needed / done)[np.isfinite(needed)]
    return float(min(max(_LEAST, *factors), _MOST)) if len(factors) else _LEAST


def topped_up(spec: Spec, documents: Sequence[str], factor: float, *, with_runs: int | None = None) -> Spec:
    """The spec of the audit that looks again.

    The shared design continues the same sequence of runs, so all that was run is used again and every document
    gains: nobody is chosen. The others, whose runs belong to the documents they name, audit those that were asked
    for alone. Those were chosen by what was seen of them, and what was seen must not count twice: they get runs of
    a seed of their own, and no others.

    The level is halved: looking again because of what was seen is a second look, and the levels of a first look
    and all that may follow it add up to less than twice the first.
    """
    before = spec.design.with_runs
    more = math.ceil(before * factor) if with_runs is None else with_runs
    if more <= before:
        raise InputError(f"`with_runs` must be above the {before} of the audit; got {more}.")
    tables = tables_at_part(spec, lambda level: level / 2)
    tables["design"]["with_runs"] = more
    if spec.design.kind != "shared":
        tables["design"]["documents"] = sorted(documents)
        tables["seed"] = derived_seed(spec.seed, Purpose.MORE, more)
    return Spec.model_validate(tables)
