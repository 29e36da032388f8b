"""Which documents are measured and tested together, and whether their values stay in the store.

An audit of every document has documents x runs x statistics values: 10^7 documents in 1,782 runs under eight
statistics are 0.6 TB. A test needs all runs of one document, and no other document. So where values are not kept,
documents go through measuring, storing, sorting and testing part by part, and what is left of a part is D, p and
bands. Observables are those of the first part's runs, from the store, or the same again from the seed.

A value depends on the run and the document alone, so neither the parts nor what is kept decide any number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from types import FunctionType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.design import Shared
from ksdp.audit.plan import Plan
from ksdp.audit.statistics.contract import Statistic

Part = tuple[int, int]
"""Places of a stage's documents, the first and the one after the last."""

_SMALL = 512 * 2**20
# What a worker holds of one block: values run by run, and turned.
_BLOCK_BYTES = 512 * 2**20


def reads_one_document(statistics: Sequence[Statistic]) -> bool:
    """Whether no value can depend on which documents are measured beside it: that of the package's own statistics.

    Those of others may look at who else is measured, and so may one of ours that is made of theirs: a function
    that `ksdp.audit` was handed, or another package's statistic in one of several runs.
    """
    return all(map(_ours, statistics))


def _ours(part: Any) -> bool:
    """Whether a statistic, and all that it is made of, is of this package; what cannot be told is not."""
    if isinstance(part, str | int | float | None):
        return True
    if isinstance(part, tuple):
        return all(map(_ours, part))
    home = part if isinstance(part, FunctionType) else type(part)
    held = [getattr(part, field.name) for field in fields(part)] if is_dataclass(part) else []
    return home.__module__.startswith("ksdp.") and all(map(_ours, held))


def strongest_alone(plan: Plan, statistics: Sequence[str], columns: Sequence[str]) -> NDArray[np.int64] | None:
    """Of each document the place of its column among the statistics, where no other need be measured of it.

    None where one statistic is all there is, where a column reads all of them, as learners do, and where documents
    cannot be measured apart: those of designs that draw for them, groups, and under statistics of others.

    Parameters
    ----------
    plan : Plan
        Of the whole audit.
    statistics : names, in the plan's order
    columns : of each document, its own
    """
    apart = isinstance(plan.design, Shared) and plan.units.order is None and reads_one_document(plan.statistics)
    if not apart or len(statistics) < 2 or set(columns) - set(statistics):
        return None
    return np.array([statistics.index(column) for column in columns], dtype=np.int64)


def _columns(plan: Plan) -> int:
    """Stored of a document: the statistics, or the one of them that is measured, and the canary."""
    return 1 + (len(plan.statistics) if plan.strongest is None else 1)


def bytes_a_document(plan: Plan) -> float:
    """Of a document's stored values, canary and bits, about."""
    bits = 1 if plan.reading.all else 2
    return plan.design.runs * (plan.measured * _columns(plan) * plan.bytes_a_value + bits / 8)


def keeps_values(plan: Plan) -> bool:
    """Whether the values of an audit stay in the store when it is finished.

    Those of designs that draw for the documents they name always do: their documents cannot be measured apart.

    Parameters
    ----------
    plan : Plan
        Of the whole audit, not of a stage.
    """
    asked = plan.spec.store.values
    if asked == "all" or not isinstance(plan.design, Shared) or not reads_one_document(plan.statistics):
        return True
    return asked == "small" and len(plan.audited) * bytes_a_document(plan) <= _SMALL


def document_parts(plan: Plan, together: int) -> list[Part]:
    """The parts of a stage's documents whose values are there at once, where they are not kept; one at least.

    Parameters
    ----------
    plan : Plan
        Of the stage.
    together : int
        Documents that one test reads: parts are whole multiples of it, so that tests are those of one part.
    """
    documents = len(plan.audited)
    fits = plan.spec.store.values_at_once * 2**30 / bytes_a_document(plan)
    turned = plan.block_runs * _columns(plan) * 2 * plan.bytes_a_value
    size = together * max(1, int(min(fits, _BLOCK_BYTES / turned) // together))
    return [(first, min(first + size, documents)) for first in range(0, documents, size)]
