"""Runs that were made elsewhere, for `ksdp.audit`: two tables in place of a mechanism."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ksdp.audit.corpus import Corpus
from ksdp.audit.errors import InputError
from ksdp.audit.recorded import RecordedRuns
from ksdp.storage.readers.spec_files import spec_path
from ksdp.storage.recorded_tables import read_inclusion, read_observables

NAME = "recorded"
"""What a spec calls such a mechanism."""
_DECIDED = (
    "kind",
    "unit",
    "party_size",
    "with_runs",
    "looks",
    "fresh_runs",
    "without_runs",
    "sampling",
    "documents",
)


@dataclass(frozen=True, eq=False)
class Recorded:
    """What runs announced and who was in them, computed elsewhere; nothing is run.

    The documents of every run have to have been drawn at random, afresh for each run, whatever they are. Verdicts
    rest on that, and it is taken on trust: an audit that runs the mechanism itself checks it.

    Parameters
    ----------
    observables : Parquet file, table, or mapping of names to arrays
        One row a run: a column `run`, and one for each announced array (a number, a list, a list of lists). As a
        mapping, the first axis of each array is the run.
    inclusion : Parquet file, table, or bool array of shape (runs, documents)
        One row for each document of each run: columns `run` and `document` (its id).
    """

    observables: Any
    inclusion: Any


def recorded_runs(given: Recorded, corpus: Corpus) -> RecordedRuns:
    """The recorded runs of the documents of a corpus.

    Raises
    ------
    InputError
        If the tables are refused.
    """
    arrays, runs = read_observables(given.observables)
    return RecordedRuns(arrays, read_inclusion(given.inclusion, runs, corpus.ids), corpus.features)


def recorded_tables(made: RecordedRuns, tables: Mapping[str, Any], design: Mapping[str, Any]) -> dict[str, Any]:
    """The tables of a spec that audits recorded runs: what the record decides, nobody else does.

    Raises
    ------
    InputError
        If the design says what the record decides.
    """
    if wrong := [key for key in design if key in _DECIDED]:
        raise InputError(f"`design.{wrong[0]}` is what the recorded runs say; leave it out.")
    recorded = {
        "party_size": made.rows,
        "with_runs": made.smaller_arm,
        "fresh_runs": 0,
        "without_runs": "all",
        "sampling": "fixed" if made.fixed else "poisson",
    }
    statistics = dict(tables.get("statistics", {}))
    statistics.setdefault("families", ())
    return {**tables, "design": recorded, "mechanism": {"name": made.name}, "statistics": statistics}


def recorded_in_spec(tables: Mapping[str, Any], base: Path) -> Recorded:
    """The two files that `[mechanism]` of a spec names, relative to its folder.

    Raises
    ------
    InputError
        If one is missing, or something else is said.
    """
    mechanism = dict(tables["mechanism"])
    mechanism.pop("name")
    if set(mechanism) != {"observables", "inclusion"}:
        raise InputError(
            '`mechanism` "recorded" must name two Parquet files, `observables` and `inclusion`, and nothing else.'
        )
    return Recorded(*(spec_path(base, str(mechanism[key])) for key in ("observables", "inclusion")))
