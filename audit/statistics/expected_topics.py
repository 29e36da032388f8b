"""What an adversary expects of a run's topics, and what the documents of a run must have added to move them.

Topics T of a run are stationary for its documents: the sum over them of w^T (x - w T) vanishes, w >= 0 the
coefficients of x under T. So the sum over all that databases are drawn from, at the run's T, is what is left when
the run's documents are more, or other, than their share: to first order the sum of the terms of the run's
documents at the expected topics T_0, with the sign turned. T_0 is what the mechanism announces of everybody.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
import scipy.sparse as sp

from ksdp.audit.array_types import Floats
from ksdp.audit.errors import KsdpError
from ksdp.audit.kernels import add_rows_to_panel, csr_times_panel, lined, one_thread, panel_of
from ksdp.audit.mechanisms.contract import Database
from ksdp.audit.sparse_rows import arrays_of
from ksdp.audit.statistics.additions import Additions, at_even_steps
from ksdp.audit.statistics.boxed import box_least_squares
from ksdp.audit.statistics.contract import Pool

MOST_ROWS = 2**16
"""Documents that topics are expected from, and whose terms are looked at, at most."""
MOST_EACH_RUN = 2**12
"""Documents whose terms are added up in every run, at most."""


@dataclass(frozen=True, eq=False)
class ExpectedTopics:
    """The topics that are expected, and the documents that tell how far a run's are from them."""

    additions: Additions
    some: sp.csr_array
    """Documents whose terms are added up at each run's topics."""

    @property
    def topics(self) -> Floats:
        """T_0, shape (k, d)."""
        return self.additions.basis

    def sums(self, found: Floats) -> Floats:
        """How far the terms of everybody are from those at T_0, where the run's T is `found`; shape (k, d).

        Nothing is learnt from an entry that is at its bound both times.
        """
        apart = _total(self.some, found) - self._at_expected
        apart[(found <= 0.0) & (self.topics <= 0.0)] = 0.0
        return apart

    @cached_property
    def _at_expected(self) -> Floats:
        return _total(self.some, self.topics)


def coefficients_under(topics: Floats, products: Floats) -> Floats:
    """Nonnegative least squares of documents under topics, from their products with these; shape (n, k)."""
    form = np.ascontiguousarray(topics @ topics.T)
    return box_least_squares(np.ascontiguousarray(products), form, upper=np.inf)


def _total(rows: sp.csr_array, topics: Floats) -> Floats:
    """The sum over rows of w^T (x - w T), w >= 0 their coefficients; shape (k, d).

    From 0: from the coefficients under the expected topics it takes twice as long, as others are 0 under a run's.
    """
    csr = arrays_of(rows)
    panel, products = panel_of(topics), np.empty((rows.shape[0], len(topics)))
    csr_times_panel(*csr, panel, products)
    weights = coefficients_under(topics, products)
    across = panel_of(weights.T)
    total = lined((topics.shape[1], across.shape[1]))
    add_rows_to_panel(*csr, across, total)
    return np.asarray(total[:, : len(topics)].T - (weights.T @ weights) @ topics)


def expected_topics(pool: Pool, rank: int) -> ExpectedTopics | None:
    """What is expected of runs; None where the mechanism cannot be run, or announces another number of topics."""
    found = pool.derive(("expected topics", rank), lambda: _expected_topics(pool, rank))
    return cast(ExpectedTopics | None, found)


def _expected_topics(pool: Pool, rank: int) -> ExpectedTopics | None:
    if pool.mechanism is None:
        return None
    rows = at_even_steps(pool.drawn, MOST_ROWS)
    drawn, parties = rows, []
    if pool.fixed is not None:
        drawn, parties = at_even_steps(drawn, max(1, int(pool.share * drawn.shape[0]))), [pool.fixed]
    try:
        found = pool.mechanism.run(Database((drawn, *parties)), np.random.default_rng(0))
    except KsdpError:  # too few documents for its rank, say
        return None
    topics = np.asarray(found.get("T", np.empty(0)), dtype=np.float64)
    if topics.shape != (rank, drawn.shape[1]):
        return None
    with one_thread():
        weights = coefficients_under(topics, rows @ topics.T)
    additions = Additions(rows, weights, topics, np.zeros(topics.shape[1]))
    return ExpectedTopics(additions, at_even_steps(pool.drawn, MOST_EACH_RUN))
