"""Test all documents of a slice, and judge the controls."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.plan import CONTROLS, NULL_CONTROLS
from ksdp.audit.verdicts.ks import ks_table
from ksdp.audit.verdicts.multiplicity import weighted_minimum
from ksdp.audit.verdicts.tails import tail_table

__all__ = ["ArmTests", "Controls", "compare_arms", "judge_controls"]

# Controls are judged so strictly that a sound audit is called void once in a hundred thousand.
_CONTROL_LEVEL = 1e-5


@dataclass(frozen=True, eq=False)
class ArmTests:
    """Tests of some documents: arms by document; distance and log10 p by document and statistic."""

    n_with: NDArray[np.int64]
    n_without: NDArray[np.int64]
    distance: NDArray[np.float64]
    log10_p: NDArray[np.float64]
    """Of the distance (four fifths of the level) and the tails (one fifth) together."""
    log10_tail: NDArray[np.float64]
    """Of the tails alone: what finds a rare but certain leak, to which the distance is blind."""

    @staticmethod
    def join(parts: list[ArmTests]) -> ArmTests:
        """Stack slices in order."""
        return ArmTests(
            np.concatenate([p.n_with for p in parts]),
            np.concatenate([p.n_without for p in parts]),
            np.concatenate([p.distance for p in parts]),
            np.concatenate([p.log10_p for p in parts]),
            np.concatenate([p.log10_tail for p in parts]),
        )

    def __getitem__(self, rows: slice) -> ArmTests:
        return ArmTests(
            self.n_with[rows],
            self.n_without[rows],
            self.distance[rows],
            self.log10_p[rows],
            self.log10_tail[rows],
        )

    def __len__(self) -> int:
        return len(self.n_with)


@dataclass(frozen=True)
class Controls:
    """What became of the control documents."""

    valid: bool
    null: int
    """Null controls."""
    null_smallest_p: float
    """Smallest p among them; uniform minimum if the audit is sound."""
    planted: int
    """Planted leaks of advantage 0.9."""
    planted_largest_p: float
    """Largest p among them."""
    reason: str | None
    """Why the audit is void."""


def compare_arms(values: Mapping[str, NDArray[Any]], inclusion: NDArray[np.bool_]) -> ArmTests:
    """Test every document under every statistic: Kolmogorov-Smirnov, and the tails beside it.

    Parameters
    ----------
    values : statistic to array of shape (n_documents, n_runs)
    inclusion : bool, shape (n_documents, n_runs)
    """
    tables = [ks_table(array, inclusion) for array in values.values()]
    tails = np.stack([tail_table(array, inclusion).log10_p for array in values.values()], axis=1)
    distances = np.stack([t.log10_p for t in tables], axis=1)
    return ArmTests(
        tables[0].n_with,
        tables[0].n_without,
        np.stack([t.distance for t in tables], axis=1),
        weighted_minimum(distances, tails),
        tails,
    )


def judge_controls(controls: list[ArmTests]) -> Controls:
    """Judge the control documents of every lane.

    Their values stand in every statistic's column, went through the same store and the same test as
    everybody's, and their bits come from the same seed: a mixed-up run, document or arm shows here.

    Parameters
    ----------
    controls : one `ArmTests` of `CONTROLS` rows a lane
    """
    null = np.concatenate([part.log10_p[:NULL_CONTROLS].ravel() for part in controls])
    planted = np.concatenate([part.log10_p[NULL_CONTROLS:CONTROLS].ravel() for part in controls])
    smallest, largest = 10 ** float(null.min()), 10 ** float(planted.max())
    # Columns hold the same control values, so the tests to count are lanes times controls.
    trials = len(controls) * NULL_CONTROLS
    reason = None
    if smallest < _CONTROL_LEVEL / trials:
        reason = f"a null control was detected (p = {smallest:.1e})"
    weakest = _planted_bar(controls)
    if reason is None and weakest is not None and float(planted.max()) > weakest:
        reason = f"a planted leak of advantage 0.9 was missed (p = {largest:.1e})"
    return Controls(reason is None, trials, smallest, len(controls) * (CONTROLS - NULL_CONTROLS), largest, reason)


def _planted_bar(controls: list[ArmTests]) -> float | None:
    """Log10 p that a planted leak must reach: half its distance would; None where arms are too small for that."""
    m = min(int(part.n_with[NULL_CONTROLS:].min()) for part in controls)
    n = min(int(part.n_without[NULL_CONTROLS:].min()) for part in controls)
    if min(m, n) < 20:
        return None
    return (math.log(2) - 2 * m * n / (m + n) * 0.45**2) / math.log(10)
