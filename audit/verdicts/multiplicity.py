"""Corrections for having looked many times, on log10 p so that nothing underflows.

Over the statistics of one document: Bonferroni. Over documents: Benjamini-Yekutieli (false discovery rate
under any dependence; documents share runs, so this is the default), Benjamini-Hochberg (needs positive
dependence, unproved here) or Holm (family-wise error under any dependence).

References: Benjamini & Yekutieli (2001), https://doi.org/10.1214/aos/1013699998;
Holm (1979), https://www.jstor.org/stable/4615733.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["adjust", "bonferroni", "strictest_log10_p"]

Floats = NDArray[np.float64]
Procedure = Literal["by", "bh", "holm"]


def bonferroni(log10_p: Floats) -> Floats:
    """Log10 p of each document over all its statistics: min(1, S min_s p_s).

    Parameters
    ----------
    log10_p : shape (n_documents, n_statistics)
    """
    return np.asarray(np.minimum(log10_p.min(axis=1) + np.log10(log10_p.shape[1]), 0.0))


def adjust(log10_p: Floats, procedure: Procedure) -> Floats:
    """Adjusted log10 p: a document is rejected at a level iff its adjusted p is at or below it.

    Parameters
    ----------
    log10_p : shape (n_documents,)
    procedure : {"by", "bh", "holm"}

    Examples
    --------
    >>> (10 ** adjust(np.log10([0.01, 0.04, 0.03, 0.5]), "bh")).round(4)
    array([0.04  , 0.0533, 0.0533, 0.5   ])
    """
    count = len(log10_p)
    order = np.argsort(log10_p, kind="stable")
    rank = np.arange(1, count + 1)
    if procedure == "holm":
        stepped = np.maximum.accumulate(log10_p[order] + np.log10(count + 1 - rank))
    elif procedure in ("by", "bh"):
        penalty = np.log10((1 / rank).sum()) if procedure == "by" else 0.0
        stepped = log10_p[order] + np.log10(count / rank) + penalty
        stepped = np.minimum.accumulate(stepped[::-1])[::-1]
    else:
        raise ValueError(f"`procedure` must be one of by, bh, holm; got {procedure!r}.")
    out = np.empty(count)
    out[order] = np.minimum(stepped, 0.0)
    return out


def strictest_log10_p(level: float, documents: int, statistics: int, procedure: Procedure) -> float:
    """Log10 of the raw p that is always enough: what a single leaking document among many must reach."""
    log10_p = np.log10(level) - np.log10(documents) - np.log10(statistics)
    if procedure == "by":
        log10_p -= np.log10((1 / np.arange(1, documents + 1)).sum())
    return float(log10_p)
