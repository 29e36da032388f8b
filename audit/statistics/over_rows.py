"""A statistic of a group: the mean of a statistic of documents over the group's documents."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.statistics.contract import Documents, Statistic, sentence_of
from ksdp.audit.statistics.of_another import OfAnother


@dataclass(frozen=True)
class OverRows(OfAnother):
    """Mean of `statistic` over the documents of each group.

    The group vector (the sum of its documents) hides what its documents do not share; their mean does not. The
    mean and not the largest, because it is the same test whether a statistic rises or falls with membership.
    """

    statistic: Statistic
    """Any statistic of documents."""
    family: str = "groups"

    @property
    def sentence(self) -> str:
        """That of the statistic, for a group's documents."""
        return f"The mean over the group’s documents. Of each: {sentence_of(self.statistic)}"

    @property
    def name(self) -> str:
        """Its name and `-of-rows`."""
        return f"{self.statistic.name}-of-rows"

    def evaluate(self, observables: Observables, documents: Documents) -> NDArray[np.float64]:
        """One number a group, shape (n_groups,).

        Raises
        ------
        InputError
            If the documents are not groups.
        """
        if documents.rows is None or documents.starts is None:
            raise InputError(f"`{self.name}` is a statistic of groups; these are documents.")
        values = self.statistic.evaluate(observables, documents.rows)
        return np.add.reduceat(values, documents.starts[:-1]) / np.diff(documents.starts)
