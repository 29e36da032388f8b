"""The parameters of PEM's algorithms, once: what an audited mechanism and the spec of a run have in common.

Both are made of these classes: `mechanisms.py` adds defaults for what a run's spec must state, `run_spec.py`
checks the ranges that the annotations name. What only one of the two knows stands there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from ksdp.audit.mechanisms.pem.kmeans import PemKMeans
from ksdp.audit.mechanisms.pem.logistic import PemLogistic
from ksdp.audit.whole_numbers import Whole

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]
Part = Annotated[float, Field(gt=0, lt=1, strict=True)]
Number = Annotated[int, Whole(1)]
_MOST_COLUMNS = 2**31
Bits = Annotated[int, Whole(0, 40)]


@dataclass(frozen=True, kw_only=True)
class KMeansParameters:
    """Of k-means."""

    clusters: Number
    iterations: Number
    bound: Positive
    """Largest L1 norm of a record; longer ones are scaled down."""
    high: Positive = 1.0
    """Largest entry of a record; larger ones are cut."""
    share: Part = 0.5
    """Of epsilon for the sums; the rest is for the counts."""
    start_seed: Annotated[int, Whole(0)] = 0
    """What the parties agreed to draw the start from."""
    fraction_bits: Bits = 16
    """Sums are whole multiples of 2^-fraction_bits."""

    def algorithm(self, features: int) -> PemKMeans:
        """The three functions, for records of so many columns."""
        return PemKMeans(
            self.clusters, features, self.bound, self.high, self.share,
            start_seed=self.start_seed, fraction_bits=self.fraction_bits,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class LogisticParameters:
    """Of logistic regression."""

    iterations: Number
    bound: Positive
    """Largest L1 norm of one record's gradient."""
    label: Annotated[int, Whole(-_MOST_COLUMNS, _MOST_COLUMNS)] | None = None
    """Column of the label, from 0; the last unless given."""
    rate: Positive = 1.0
    penalty: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    fraction_bits: Bits = 16
    """Gradients are whole multiples of 2^-fraction_bits."""

    def logistic(self, features: int, cap: float | None = None) -> PemLogistic:
        """The three functions, for records of so many columns."""
        label = -1 if self.label is None else self.label
        return PemLogistic(features, self.bound, label, cap, self.rate, self.penalty, self.fraction_bits)


@dataclass(frozen=True, kw_only=True)
class AprioriParameters:
    """Of frequent itemsets."""

    longest: Number
    """Most items that one record counts with."""
    support: Annotated[float, Field(gt=0, le=1)]
    """Smallest part of the records for an itemset to be frequent."""
