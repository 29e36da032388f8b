"""A bound on the advantage of *every* attack on a document that has copies: which of them was in, no run shows.

The law of what a mechanism announces that sees contents alone depends on how many of the copies were in, and not
on which. Let c be the number of copies in a run, the document included, where g of the N documents that may be in
are copies of each other, and a run holds m. Given c, the contents of the run have the same law whether or not the
document is one of them. So no attack of any kind, whoever makes it, has a larger TPR - FPR than somebody who is
told c: the total variation between c with the document, 1 + H(N - 1, g - 1, m - 1), and without it,
H(N - 1, g - 1, m), H hypergeometric. Where documents are in independently, each with probability q, these are
1 + B(g - 1, q) and B(g - 1, q), B binomial.

The bound is exact, and nothing is estimated: it holds at no level, for documents measured or not. It is about who
takes the others of a run for random, as every number of an audit is; who knows all others counts the copies.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import binom, hypergeom

from ksdp.audit.array_types import Floats


@dataclass(frozen=True, eq=False)
class CountLaws:
    """The law of how many of a document's copies a run holds, itself included; entry j of each is that of j."""

    held: Floats
    """Of runs that hold the document."""
    left_out: Floats
    """Of runs that do not."""
    share: float
    """Of the runs that hold it."""

    @property
    def told(self) -> float:
        """What the number tells of the document: the total variation of both, in [0, 1]."""
        return float(np.clip(np.abs(self.held - self.left_out).sum() / 2, 0.0, 1.0))

    @property
    def all(self) -> Floats:
        """Of all runs."""
        return self.share * self.held + (1 - self.share) * self.left_out


def count_laws(copies: int, documents: int, size: int) -> CountLaws:
    """Where every run holds the same number of documents.

    Parameters
    ----------
    copies : of the same content, the document included, at least 1
    documents : that may be in, copies included
    size : of a run, from 1 to `documents` - 1

    Examples
    --------
    >>> [round(count_laws(copies, 1000, 100).told, 3) for copies in (1, 2, 10, 50, 500)]
    [1.0, 0.9, 0.385, 0.18, 0.042]
    """
    count = np.arange(copies + 1)
    held = hypergeom(documents - 1, copies - 1, size - 1).pmf(count - 1)
    left_out = hypergeom(documents - 1, copies - 1, size).pmf(count)
    return CountLaws(held, left_out, size / documents)


def count_laws_independent(copies: int, share: float) -> CountLaws:
    """Where each document is in with probability `share`, independently.

    Examples
    --------
    >>> [round(count_laws_independent(copies, 0.1).told, 3) for copies in (1, 2, 10, 50, 500)]
    [1.0, 0.9, 0.387, 0.185, 0.059]
    """
    count = np.arange(copies + 1)
    return CountLaws(binom(copies - 1, share).pmf(count - 1), binom(copies - 1, share).pmf(count), share)
