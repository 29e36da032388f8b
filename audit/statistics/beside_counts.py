"""Sums of rounds joined with the counts that chose their columns: one set of equations in who is in.

A count adds 1 for each document that has the column (`document_counts`), a sum of a round what the document adds
to it (`round_terms`). Each alone leaves open what both together say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from ksdp.audit.sparse_rows import take_rows
from ksdp.audit.statistics.additive import Additive
from ksdp.audit.statistics.contract import Pool
from ksdp.audit.statistics.document_counts import marked
from ksdp.audit.statistics.equations import Equations
from ksdp.audit.statistics.solved_parts import few_enough
from ksdp.audit.statistics.term_numbers import TermNumbers


def beside_counts(
    pool: Pool, terms: Callable[..., Additive], known: Equations
) -> tuple[Callable[..., Additive], Equations]:
    """The terms and equations, and those of the counts of the columns that were kept, where these were announced.

    Where documents are solved for, and all of them are the victim's: of others' documents a coalition's share was
    taken from one and not from the other.

    Parameters
    ----------
    pool : with the `counts` of its columns
    terms : of documents, in their kept columns, given these
    known : the sums that they add to
    """
    counts = pool.counts
    if counts is None or not known.exact or pool.fixed is not None or not few_enough(pool.drawn.shape[0]):
        return terms, known
    columns = np.flatnonzero(counts)
    alone = terms(take_rows(pool.drawn, np.zeros(1, np.int64)))
    if not isinstance(alone, TermNumbers):
        return terms, known

    def both(rows: sp.csr_array) -> TermNumbers:
        made = terms(rows)
        assert isinstance(made, TermNumbers)
        return replace(made, scalars=np.hstack([made.scalars, marked(rows).toarray()[:, columns]]))

    sums = np.broadcast_to(np.asarray(known.sums, dtype=np.float64), alone.entries)
    return both, replace(known, sums=np.concatenate([sums, counts[columns]]), noise=0.0)
