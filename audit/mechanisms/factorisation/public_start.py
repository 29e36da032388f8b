"""The start that everybody knows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.mechanisms.contract import Mechanism
from ksdp.audit.mechanisms.factorisation.nmf_announced import DATA_STARTS
from ksdp.audit.mechanisms.factorisation.nmf_starts import random_topics
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF

__all__ = ["public_start"]


def public_start(mechanism: Mechanism, features: int) -> NDArray[np.float64] | None:
    """The agreed topics of a plain PD-NMF, with noise or without, shape (k, features); None of anything else.

    With them and the announced sums anybody can repeat what a document does in the first sweeps. Of weighted
    forms, and of those whose topics are not on the simplex, nobody has written that down.
    """
    inner = getattr(mechanism, "inner", mechanism)
    if not isinstance(inner, PDNMF) or inner.weighted or any(inner.penalties) or inner.start in DATA_STARTS:
        return None
    return random_topics(features, inner.rank, inner.start_seed)
