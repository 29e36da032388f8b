"""What the runs of a look gave for the copies of one content, and their tests together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.array_types import Bits, Floats, Ints
from ksdp.audit.copies import OneContent
from ksdp.audit.verdicts.count_arms import CountTests
from ksdp.audit.verdicts.ks import ks_table


@dataclass(frozen=True, eq=False)
class ContentTests:
    """Tests of one content."""

    group: OneContent
    distance: Floats
    """sup |H - L| of each column, as measured."""
    arms: Ints
    """Runs of many copies, and of few."""


class SeenCopies:
    """The values of one content, run by run, as they come: copies and blocks in any order.

    Parameters
    ----------
    group : OneContent
    columns, runs : int
        Of the look.
    precision : of values
    """

    def __init__(self, group: OneContent, columns: int, runs: int, precision: str) -> None:
        self.group = group
        self.open = np.zeros(runs, np.bool_)
        """Runs of blocks of which some copy has all values: drawn from the seed, whatever is in them."""
        self._held = np.zeros(runs, np.int64)
        self._known = np.zeros(runs, np.bool_)
        self._values = np.full((columns, runs), np.nan, dtype=precision)
        self._alike = True

    def add(self, runs: slice, inclusion: Bits, kept: Bits, values: NDArray[np.floating]) -> None:
        """What some of the copies have of some runs: each has those that held it, and those of its own blocks.

        Parameters
        ----------
        inclusion, kept : shape (n_copies, n_runs)
            Which runs held a copy, and of which its values are there.
        values : shape (n_columns, n_copies, n_runs)
        """
        self._held[runs] += inclusion.sum(axis=0)
        found = np.take_along_axis(values, kept.argmax(axis=0)[None, None, :], axis=1)[:, 0]
        before = self._known[runs]
        known = np.where(before, self._values[:, runs], found)
        self._alike &= bool(((values == known[:, None]) | ~kept).all())
        self._values[:, runs] = known
        self._known[runs] = before | kept.any(axis=0)

    def tests(self, drawn: Floats) -> ContentTests | None:
        """None where an arm is empty, or copies had different values in a run: those are not of the content.

        Parameters
        ----------
        drawn : shape (n_runs,)
            Uniform numbers, a stream of its own.
        """
        many, few = self.group.thinning.arms(self._held, drawn, self.open)
        if not (self._alike and many.any() and few.any()):
            return None
        taken = many | few
        bits = many[None, taken]
        columns = (np.ascontiguousarray(column[None, taken]) for column in self._values)
        distance = np.array([float(ks_table(column, bits).distance[0]) for column in columns])
        return ContentTests(self.group, distance, np.array([many.sum(), few.sum()]))


def of_all_copies(found: Sequence[ContentTests]) -> CountTests | None:
    """Every copy has the tests of its content; None where there are none."""
    if not found:
        return None
    size = [len(one.group.rows) for one in found]
    told = np.repeat([one.group.thinning.told for one in found], size)
    arms = np.repeat(np.stack([one.arms for one in found]), size, axis=0)
    return CountTests(
        rows=np.concatenate([one.group.rows for one in found]),
        copies=np.repeat(np.array(size), size),
        distance=told[:, None] * np.repeat(np.stack([one.distance for one in found]), size, axis=0),
        told=told,
        n_many=arms[:, 0],
        n_few=arms[:, 1],
    )
