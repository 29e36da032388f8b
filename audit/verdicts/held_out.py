"""D without the bias of choosing: threshold and statistic from one half of the runs, the advantage from the other.

D is the largest of many gaps, over thresholds and statistics, so it is too large on average: where nothing leaks
it still measures some 0.1 with 400 runs. Here each half of the runs chooses a statistic, a threshold and a side,
and the other half says what an adversary with that choice gains; the two answers are averaged. Given the choice
the answer is unbiased for that adversary's advantage, who is one of those that D ranges over: on average it is
never above the true D, and 0 where nothing leaks. It is below the true D by what half of the runs choose badly.
No verdict uses it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def _chosen(values: NDArray[np.float64], held: NDArray[np.bool_]) -> tuple[int, float, float]:
    """(statistic, threshold, sign) of the largest gap between the two arms' shares at or below a threshold."""
    best, choice = -1.0, (0, 0.0, 1.0)
    steps = np.where(held, 1 / held.sum(), -1 / (~held).sum())
    for number, row in enumerate(values):
        order = np.argsort(row, kind="stable")
        ascending, gaps = row[order], np.cumsum(steps[order])
        gaps[:-1][ascending[:-1] == ascending[1:]] = 0.0  # between equal values there is no threshold
        at = int(np.argmax(np.abs(gaps)))
        if abs(gaps[at]) > best:
            best, choice = abs(gaps[at]), (number, float(ascending[at]), float(np.sign(gaps[at]) or 1.0))
    return choice


def held_out_advantage(values: NDArray[np.float64], held: NDArray[np.bool_]) -> float:
    """The advantage of an adversary who chose on one half of the runs, measured on the other; both ways, averaged.

    Parameters
    ----------
    values : (statistics, runs) array
    held : (runs,) bool array
        Which runs held the document. Runs are independent, so that every second one of each arm is a fair half.

    Returns
    -------
    float
        In [-1, 1]; below 0 by chance alone. NaN where an arm has fewer than two runs.
    """
    if min(held.sum(), (~held).sum()) < 2:
        return float("nan")
    first = np.zeros(len(held), dtype=bool)
    for arm in (held, ~held):
        first[np.flatnonzero(arm)[::2]] = True
    found = []
    for chooses, measures in ((first, ~first), (~first, first)):
        statistic, threshold, sign = _chosen(values[:, chooses], held[chooses])
        below, arm = values[statistic, measures] <= threshold, held[measures]
        found.append(sign * (below[arm].mean() - below[~arm].mean()))
    return float(np.mean(found))
