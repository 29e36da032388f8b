"""Documents tested by many runs in this process, for Table 2 and Figure 6 of PD-ML-Lite.

The paper runs every document's two arms by themselves. Here some documents at a time share runs, each in half of
them by a coin of its own: the same law, so many times fewer runs, as long as they are few beside a party's rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.corpus import Corpus
from ksdp.audit.design import Block, as_rows
from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.sampling import Stored, run_observables
from ksdp.audit.spec import parse_spec
from ksdp.audit.verdicts.ks import KSTable, ks_table

FAMILIES = ("paper", "geometry", "rounds")
"""Of columns, by default."""
_OF_ROWS = 12
"""A database holds half of the documents that share runs; these are at most a twelfth of it."""


def arm_tables(
    plan: Plan, look: Callable[[Stored], None] | None = None
) -> tuple[NDArray[np.bool_], dict[str, KSTable]]:
    """Who is in which run of a plan's first lane, and every document's test by column.

    Parameters
    ----------
    look : callable, optional
        Shown what each run announces.
    """
    looked = plan.documents(0)
    values: dict[str, list[NDArray[np.float64]]] = {s.name: [] for s in plan.tested}
    for number in range(plan.design.runs):
        stored = run_observables(plan, 0, number)
        seen = Observables({name: stored[name].astype(float) for name in plan.seen})
        for statistic in plan.tested:
            values[statistic.name].append(statistic.evaluate(seen, looked))
        if look is not None:
            look(stored)
    bits = plan.design.inclusion(Block(0, 0, plan.design.runs))
    return bits, {
        name: ks_table(np.ascontiguousarray(np.array(column, dtype=np.float32).T), bits)
        for name, column in values.items()
    }


def distances(
    plan: Plan, look: Callable[[Stored], None] | None = None
) -> tuple[NDArray[np.bool_], dict[str, NDArray[np.float64]]]:
    """The same, D alone."""
    bits, found = arm_tables(plan, look)
    return bits, {name: table.distance for name, table in found.items()}


def largest(distance: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
    """Every document's largest D, of D by column."""
    return np.asarray(np.max(list(distance.values()), axis=0))


def strongest(distance: Mapping[str, NDArray[np.float64]]) -> str:
    """The column whose D is the largest in the median."""
    return max(distance, key=lambda name: float(np.median(distance[name])))


@dataclass(frozen=True, eq=False)
class ArmTables:
    """Of every document, by column: D and log10 of its exact p, shape (n_documents,)."""

    distance: Mapping[str, NDArray[np.float64]]
    log10_p: Mapping[str, NDArray[np.float64]]

    def smallest(self, names: tuple[str, ...]) -> NDArray[np.float64]:
        """Every document's smallest p over some columns, as the paper takes it: not corrected."""
        return np.asarray(10.0 ** np.min([self.log10_p[name] for name in names], axis=0))

    @cached_property
    def corrected(self) -> NDArray[np.float64]:
        """The smallest p over all columns, times their number (Bonferroni)."""
        least = np.min(list(self.log10_p.values()), axis=0)
        return np.asarray(np.minimum(1.0, len(self.log10_p) * 10.0**least))


def documents_arms(
    corpus: Corpus,
    mechanism: Mapping[str, Any],
    share: float,
    *,
    documents: int,
    runs: int,
    families: tuple[str, ...] = FAMILIES,
) -> ArmTables:
    """Test documents drawn from the corpus under databases of a share of it.

    Parameters
    ----------
    mechanism : mapping
        As `[mechanism]` of a spec.
    runs : int
        With each document; as many without, in the mean.
    """
    ids = np.random.default_rng(0).choice(corpus.ids, documents, replace=False)
    rows = as_rows(share, corpus.matrix.shape[0])
    lots = max(1, -(-documents * _OF_ROWS // (2 * rows)))
    found: dict[str, list[KSTable]] = {}
    for lot, some in enumerate(np.array_split(ids, min(lots, documents))):
        spec = parse_spec(
            {
                "seed": lot,
                "corpus": {"path": "x"},
                "mechanism": dict(mechanism),
                "design": {
                    "kind": "balanced",
                    "party_size": share,
                    "with_runs": runs,
                    "documents": [str(name) for name in some],
                },
                "statistics": {"families": list(families)},
            }
        )
        for name, table in arm_tables(make_plan(spec, corpus))[1].items():
            found.setdefault(name, []).append(table)
    return ArmTables(
        {name: np.concatenate([t.distance for t in tables]) for name, tables in found.items()},
        {name: np.concatenate([t.log10_p for t in tables]) for name, tables in found.items()},
    )
