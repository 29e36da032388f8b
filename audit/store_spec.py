"""What an audit keeps in the store: a section of its spec."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from ksdp.audit.spec_tables import Section


class StoreSpec(Section, frozen=True):
    """What is kept."""

    observables: Literal["all", "last", "none"] = "last"
    """Keep of every run's observables all, or those of the last round, so that `ksdp test` with statistics of
    these needs no sampling; or nothing, and recompute them from the seed. All rounds are 5 to 11 times as many
    bytes as the last."""
    values: Literal["small", "all", "none"] = "small"
    """Keep what every statistic gave in every run, so that any document's distributions are drawn at once; or
    nothing, and compute one document's again when it is asked for. `small`: where all of them take at most
    512 MiB."""
    values_at_once: Annotated[float, Field(gt=0)] = 4.0
    """GiB of values on disk at once, where they are not kept. What takes more is measured and tested part by part
    of the documents; no number depends on it."""
    precision: Literal["float32", "float64"] = "float32"
    """Of stored observables and values. Observables are in double precision in any case where exact sums of rounds
    are solved for who was in (2,048 documents or fewer): single hides some of what a run's wire shows."""
