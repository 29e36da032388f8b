"""Logistic regression by gradient descent, as three PEM functions (the paper's Algorithm 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import expit

from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.pem.algorithm import PemState, PemTotal, VectorBlock


@dataclass(frozen=True)
class PemLogistic:
    """w <- w - rate / sqrt(t) (g / n + penalty w), g being the noisy sum of the records' gradients.

    A record's gradient is (sigma(w^T x) - y) x. Its L1 norm is at most that of x, and it is clipped: without a
    bound per record there is no sensitivity to speak of. One column of the records is the label y, 0 or 1; its
    weight is always 0.

    Parameters
    ----------
    features : int
        Columns of the records, the label's included.
    bound : float
        Largest L1 norm of one record's gradient; for one-hot rows the number of attributes.
    label : int
        Column of y; the last by default.
    cap : float, optional
        Largest size of one entry of a gradient; 1 for one-hot rows.
    rate : float
        eta_1; eta_t = eta_1 / sqrt(t), as in the paper.
    penalty : float
        Of the squared weights; in the aggregator, so it costs no privacy.
    fraction_bits : int
        Gradients are whole multiples of 2^-fraction_bits.
    """

    name: ClassVar[str] = "logistic regression"

    features: int
    bound: float
    label: int = -1
    cap: float | None = None
    rate: float = 1.0
    penalty: float = 0.0
    fraction_bits: int = 16

    def __post_init__(self) -> None:
        if self.features < 2:
            raise InputError(f"`features` must be at least 2, a label and another; got {self.features}.")
        if not -self.features <= self.label < self.features:
            raise InputError(f"`label` must be a column from 0 to {self.features - 1}; got {self.label}.")
        if not self.rate > 0 or not self.penalty >= 0:
            raise InputError(f"`rate` must be above 0, `penalty` at least 0; got {self.rate}, {self.penalty}.")
        self._blocks()

    def _blocks(self) -> tuple[VectorBlock, ...]:
        return (VectorBlock(self.features, self.bound, cap=self.cap, fraction_bits=self.fraction_bits),)

    def init(self) -> PemState:
        """All weights 0."""
        return PemState(0, {"w": np.zeros(self.features)}, self._blocks())

    def map_in_client(self, records: sp.csr_array, state: PemState) -> sp.csr_array:
        """The gradient of every record at w; 0 in the label's place."""
        keep = np.ones(self.features)
        keep[self.label] = 0.0
        y = records @ (1.0 - keep)
        off = expit(records @ state.arrays["w"]) - y
        data = records.data * keep[records.indices] * np.repeat(off, np.diff(records.indptr))
        return sp.csr_array((data, records.indices, records.indptr), shape=records.shape)

    def reduce_in_aggregator(self, state: PemState, total: PemTotal) -> PemState:
        """One step against the mean gradient."""
        w = state.arrays["w"]
        mean = total.values[0] / (max(total.rows, 1) * total.sampling)
        w = w - self.rate / np.sqrt(state.iteration + 1) * (mean + self.penalty * w)
        w[self.label] = 0.0
        return PemState(state.iteration + 1, {"w": w}, state.blocks)

    def accuracy(self, state: PemState, records: sp.csr_array) -> float:
        """Part of the records whose label is the likelier one."""
        only_label = np.zeros(self.features)
        only_label[self.label] = 1.0
        guessed: NDArray[Any] = records @ state.arrays["w"] > 0
        return float(cast(float, (guessed == (records @ only_label > 0.5)).mean()))
