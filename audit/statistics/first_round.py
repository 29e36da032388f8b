"""What the first round alone says, where noise was added to what later rounds are computed from.

A filter of all rounds takes what a document adds to a round from what was announced before. Where `noisy` adds
noise to that, the run itself went on without: what the document really added to later rounds is known about, and
a filter that trusts it says less than the first round by itself, which starts from what is public.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ksdp.audit.array_types import Floats
from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.statistics.contract import Documents, Statistic, sentence_of
from ksdp.audit.statistics.of_another import OfAnother

_ROUNDS = {
    "sums-match": {"topics": 2, "sums": 1, "weights": 1},
    "blocks-match": {"first_blocks": 2},
    "block-sums-match": {"first_blocks": 2, "block_sums": 1},
    "releases-match": dict.fromkeys(("sums", "weights", "means", "uploads", "counts", "centres", "gradients"), 1),
}
"""Filters of rounds, to the arrays that have a round after the other, and how many of each say the first round:
two where what is there before it comes first."""


def first_rounds(statistics: Iterable[Statistic]) -> tuple[OfFirstRound, ...]:
    """Of the filters of rounds among these, what the first round says alone."""
    return tuple(OfFirstRound(one) for one in statistics if _ROUNDS.get(one.name, {}).keys() & set(one.needs))


@dataclass(frozen=True)
class OfFirstRound(OfAnother):
    """A filter of rounds, given the first one alone."""

    statistic: Statistic
    """One of the filters of rounds."""

    @property
    def name(self) -> str:
        """The statistic's, and that it is of the first round."""
        return f"first-{self.statistic.name}"

    @property
    def sentence(self) -> str:
        """That of the statistic, for the first round."""
        return f"Of the first round alone: {sentence_of(self.statistic)}"

    @property
    def family(self) -> str:
        """That of the statistic."""
        return self.statistic.family

    def evaluate(self, observables: Observables, documents: Documents) -> Floats:
        """One number a document, shape (n_documents,)."""

        def cut() -> Observables:
            of_first = {
                name: np.asarray(observables[name])[:rounds]
                for name, rounds in _ROUNDS[self.statistic.name].items()
                if name in observables
            }
            return Observables({**observables, **of_first})

        first: Observables = observables.derive(("first round", self.statistic.name), cut)
        return self.statistic.evaluate(first, documents)
