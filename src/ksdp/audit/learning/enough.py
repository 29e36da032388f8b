r"""From how many documents on a noisy sum of second moments is useful: forecast from one look at the corpus.

An estimate and no bound. The sum keeps its k-th direction where the k-th eigenvalue is large beside the noise.
Where noise of deviation s is added to every number of a symmetric r x r matrix, off its diagonal s / sqrt(2), its
spectral norm is about :math:`s \sqrt{2 r}` (the edge of Wigner's semicircle; Vershynin, High-Dimensional
Probability, 2018, 4.4), and by Davis and Kahan (1970, https://doi.org/10.1137/0707001) directions turn by about
the ratio of the two. Eigenvalues grow with the documents. At a ratio of 5 the noise cost under 1 % of the
energy on the corpora that were tried.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from ksdp.audit.contract import Mechanism
from ksdp.audit.corpus.matrix import clip_rows
from ksdp.audit.mechanisms.party_side import noise_part
from ksdp.audit.mechanisms.privacy.moments import Moments

RATIO = 5.0
"""Ratio of the k-th eigenvalue to the norm of the noise from which the noise hardly costs anything."""
_MOST_COLUMNS = 2000
"""An eigenvalue of more is not looked for."""


def noise_norm(mechanism: Moments, features: int, parties: int) -> float:
    """Spectral norm of the noise that so many parties add, about."""
    parties = max(parties, 1 + (mechanism.colluders or 0))
    part = noise_part(mechanism.scale(features), parties, mechanism.colluders)
    return part * math.sqrt(2 * features * parties)


@dataclass(frozen=True)
class Useful:
    """How strong the wanted directions are beside the noise."""

    ratio: float
    """The k-th eigenvalue over the noise's norm, with all documents."""
    documents: int
    """From which on it is `RATIO`, about."""


def documents_useful(mechanism: Mechanism, matrix: sp.csr_array, parties: int) -> Useful | None:
    """Forecast; None if a mechanism adds no noise to second moments, or there are too many columns."""
    count, features = matrix.shape
    if not isinstance(mechanism, Moments) or features > _MOST_COLUMNS:
        return None
    rows = clip_rows(matrix, mechanism.row_bound)
    values = np.linalg.eigvalsh((rows.T @ rows).toarray())
    ratio = float(values[-mechanism.rank]) / noise_norm(mechanism, features, parties)
    return None if ratio <= 0 else Useful(ratio, math.ceil(count * RATIO / ratio))
