"""The tests of some documents, as values that can be cut, stacked and set side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class ArmTests:
    """Tests of some documents: every table has shape (n_documents, n_columns)."""

    n_with: NDArray[np.int64]
    """Runs in the arm; a learned column has the effective size of its tested runs."""
    n_without: NDArray[np.int64]
    distance: NDArray[np.float64]
    """NaN where an arm is empty."""
    log10_p: NDArray[np.float64]
    """Of the distance (four fifths of the level) and the tails (one fifth) together; 0 where an arm is empty."""
    log10_tail: NDArray[np.float64]
    """Of the tails alone: what finds a rare but certain leak, to which the distance is blind."""
    learned: Any = None
    """Bool: whether the distance is that of attacks fixed before the runs that test them, not the largest over all
    thresholds; False everywhere where not given."""

    def __post_init__(self) -> None:
        if self.learned is None:
            object.__setattr__(self, "learned", np.zeros(np.shape(self.distance), np.bool_))

    @staticmethod
    def join(parts: Sequence[ArmTests]) -> ArmTests:
        """Stack documents in order."""
        return ArmTests(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(ArmTests)))

    @staticmethod
    def beside(parts: Sequence[ArmTests]) -> ArmTests:
        """Set columns of the same documents side by side."""
        return ArmTests(*(np.concatenate([getattr(p, f.name) for p in parts], axis=1) for f in fields(ArmTests)))

    def __getitem__(self, rows: slice | NDArray[np.int64] | NDArray[np.bool_]) -> ArmTests:
        return ArmTests(*(getattr(self, f.name)[rows] for f in fields(self)))

    def columns(self, chosen: Sequence[int]) -> ArmTests:
        """Some columns only."""
        picked = np.asarray(chosen, dtype=np.int64)
        return ArmTests(*(getattr(self, f.name)[:, picked] for f in fields(self)))

    def __len__(self) -> int:
        return len(self.distance)
