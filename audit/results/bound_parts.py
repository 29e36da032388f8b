"""What a summary says of bounds that hold for every attack."""

from __future__ import annotations

from pydantic.dataclasses import dataclass

from ksdp.audit.results.parts import FORMAT


@dataclass(frozen=True, config=FORMAT)
class CertificateSummary:
    """What paired runs proved about every attack: `audit.certifying.Certificate`."""

    pairs: int
    level: float
    """All bounds hold together but with this probability."""
    runs: int
    """Of the mechanism, that the pairs took."""
    certified: int
    """Documents whose bound is at most the margin, sensitive ones included."""
    sensitive: int
    """Of these, those that are called sensitive: one of the two errs."""
    contradicted: int
    """Documents measured to be above their bound, all errors accounted for: then the audit is void."""
    median_bound: float
    largest_bound: float
    median_knows_all: float
    """Half of the documents give at most this to somebody who knows all others, on average over databases."""
    largest_knows_all: float


@dataclass(frozen=True, config=FORMAT)
class CopiesSummary:
    """What the number of copies in a run proves of documents that have many: `audit.copies`."""

    certified: int
    """Documents of whom no attack tells more than the margin, sensitive ones included."""
    sensitive: int
    """Of these, those that are called sensitive: false alarms, at the rate stated for them."""
    contradicted: int
    """Documents measured to be above their bound, all errors accounted for: then the audit is void."""
    fewest: int
    """Copies that each of the certified has at least, itself included."""
    largest_bound: float
    """Of the certified."""
