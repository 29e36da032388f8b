"""Which statistics an audit tests: what its spec asks for, less what would take too long; and the default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ksdp.audit.mechanisms.callables import FunctionMechanism
from ksdp.audit.mechanisms.contract import Mechanism, Shown, traits_of
from ksdp.audit.party_view import Holdings
from ksdp.audit.recorded import RecordedRuns
from ksdp.audit.registry import default_statistics, select_statistics
from ksdp.audit.statistics.contract import Statistic, own_statistics
from ksdp.audit.statistics.learned import LEARNED_PREFIX, RAW
from ksdp.audit.statistics.linear.groups import OfGroups, OverRows, solves_groups
from ksdp.audit.statistics.plain import coefficients


@dataclass(frozen=True, eq=False)
class PlannedStatistics:
    """The statistics of an audit; see `Plan`."""

    chosen: tuple[Statistic, ...]
    skipped: dict[str, str]
    default: tuple[str, ...]


def planned_statistics(
    families: Sequence[str],
    names: Sequence[str],
    learners: Sequence[str],
    mechanism: Mechanism,
    shown: Shown,
    held: Holdings,
    background: Mapping[str, Any],
) -> PlannedStatistics:
    """Those that a spec asks for and the mechanism's observables allow.

    Parameters
    ----------
    families, names, learners : asked for; learners are named besides
    """
    plain = [n for n in names if not n.startswith(LEARNED_PREFIX)]
    brought = own_statistics(mechanism)
    chosen, skipped = select_statistics(families, plain, shown.seen, background, brought)
    needs = _left_out([s for s in chosen if s.name not in plain], shown, held.unknown)
    chosen, skipped = tuple(s for s in chosen if s.name not in needs), skipped | needs
    if held.units.word == "group":
        solved = (OfGroups(statistic) for statistic in chosen if solves_groups(statistic))
        chosen = (*chosen, *(OverRows(statistic) for statistic in chosen), *solved)
    rank = traits_of(mechanism).rank
    if set(learners) - {RAW} and rank is not None:
        chosen += coefficients(rank, shown.seen)
    default: tuple[str, ...] = ()
    # Arrays of a program's own function, or of recorded runs, may have the names of ours and be something else.
    if not isinstance(mechanism, FunctionMechanism | RecordedRuns):
        every = default_statistics(shown.seen, background, brought)
        dear = _left_out(every, shown, held.unknown)
        default = tuple(statistic.name for statistic in every if statistic.name not in dear)
    return PlannedStatistics(chosen, skipped, default)


def _left_out(statistics: Sequence[Statistic], shown: Shown, documents: int) -> dict[str, str]:
    """Those that are not worth their time with so many documents (`Statistic`), and what they need."""
    shapes = {array.name: array.shape for array in shown.read}
    asked = {s.name: cast(Any, s).asks_for(shapes, documents) for s in statistics if hasattr(s, "asks_for")}
    return {name: f"needs {what}" for name, what in asked.items() if what}
