"""What an audit moves and keeps, in bytes, before it is run: from sizes alone."""

from __future__ import annotations

from dataclasses import dataclass

from ksdp.audit.plan import CONTROLS, Plan

_BLOCK = 4096
"""Bytes of a block's footer and headers, about: a column costs some hundred."""
_HANDED = 8
"""Rows of the corpus in a byte of what a run was handed."""


@dataclass(frozen=True)
class Bill:
    """Bytes of the looks, fresh runs and certificates left out."""

    values: int
    """Values and canaries of the documents, and which runs held them."""
    observables: int
    """What the runs announced; zeros are kept too, so this is a bound."""
    corpus: int

    @property
    def kept(self) -> int:
        """In the store, or at its URL, when the audit is done; the corpus too."""
        return self.values + self.observables + self.corpus

    def moved(self, machines: int) -> int:
        """Over the network, where blocks are at a URL: all is written, values read again, the corpus by all."""
        return self.observables + 2 * self.values + self.corpus * (1 + machines)


def bill(plan: Plan) -> Bill:
    """The bytes of a plan."""
    rows = len(plan.audited) / plan.design.lanes + CONTROLS
    columns = len(plan.statistics) + 1  # and the canary
    bits = (2 - plan.reading.all) / 8  # which runs held a document; which of its values are kept
    values = plan.runs * rows * (columns * plan.measured * plan.bytes_a_value + bits)
    announced = plan.kept_bytes + len(plan.corpus) / _HANDED
    observables = plan.runs * announced if plan.spec.store.observables != "none" else 0
    matrix, blocks = plan.corpus.matrix, len(plan.blocks) * _BLOCK
    corpus = sum(part.nbytes for part in (matrix.data, matrix.indices, matrix.indptr))
    corpus += sum(len(str(name)) + 8 for name in plan.corpus.ids)
    return Bill(int(values) + blocks, int(observables) + (blocks if observables else 0), corpus)
