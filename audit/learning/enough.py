r"""From how many documents on a run is useful and safe: forecast from one look at the corpus, before any run.

Two estimates, and no bounds.

*Useful.* A noisy sum of second moments keeps its k-th direction where the k-th eigenvalue is large beside the
noise. With M parties that each add noise of deviation s to every entry of a symmetric r x r matrix, the noise's
spectral norm is about :math:`2 s \sqrt{r M}` (the edge of Wigner's semicircle; Vershynin, High-Dimensional
Probability, 2018, 4.4), and by Davis and Kahan (1970, https://doi.org/10.1137/0707001) directions turn by about
the ratio of the two. Eigenvalues grow with the documents. At a ratio of 5 the noise cost under 1 % of the energy
on the corpora that were tried.

*Safe.* Whoever knows the population's moments and sees p sums over n documents tells whether one is in them by a
likelihood ratio whose two laws lie about :math:`\sqrt{p / n}` deviations apart, so that D is about
:math:`2 \Phi(\sqrt{p / n} / 2) - 1` (Sankararaman et al. 2009, https://doi.org/10.1038/ng.436, for the
frequencies of a pool: power depends on features over members alone). `first-order-basis` and `first-order-topics`
come close to it; long documents stand out by more than this says of a typical one.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.stats import norm

from ksdp.audit.corpus.matrix import clip_rows
from ksdp.audit.mechanisms.contract import Mechanism, recorded
from ksdp.audit.mechanisms.factorisation.pd_svd import PDSVD
from ksdp.audit.mechanisms.privacy.moments import Moments

RATIO = 5.0
"""Of the k-th eigenvalue to the norm of the noise, where the noise hardly costs anything."""
_AIM = 0.75
"""Of the margin: where D has to lie for an audit to clear most documents."""
_MOST_COLUMNS = 2000
"""An eigenvalue of more is not looked for."""


def typical_distance(numbers: int, documents: float) -> float:
    """D of a typical document among so many, of whom so many numbers are announced.

    Examples
    --------
    >>> round(typical_distance(100, 400), 3)
    0.197
    """
    return float(2 * norm.cdf(math.sqrt(numbers / documents) / 2) - 1)


def documents_hiding(numbers: int, distance: float) -> int:
    """The inverse: documents in a run from which on `typical_distance` is at most `distance`.

    Examples
    --------
    >>> documents_hiding(100, 0.197) in range(398, 405)
    True
    """
    return math.ceil(numbers / (2 * float(norm.ppf((1 + distance) / 2))) ** 2)


def noise_norm(scale: float, features: int, parties: int) -> float:
    """Spectral norm of a symmetric matrix of noise, about."""
    return 2 * scale * math.sqrt(features * parties)


@dataclass(frozen=True)
class Enough:
    """How many documents a run takes; estimates."""

    documents: int
    """That there are."""
    ratio: float | None
    """The k-th eigenvalue over the noise's norm, with all of them; None without noise, or with too many
    columns."""
    useful: int | None
    """Documents from which on it is `RATIO`."""
    distance: float
    """D of a typical document in a run of the audit, at least in theory; at most what is proved."""
    safe: int
    """Documents from which on that is within the margin; 0 where the mechanism proves the margin."""

    @property
    def sentence(self) -> str:
        """For people."""
        enough = max(self.safe, self.useful or 0)
        why = ["the margin is proved whatever their number"]
        what = "every document is within the margin"
        if self.safe:
            what = "half of the documents are within the margin"
            why = [f"a typical one's D is about {self.distance:.2f} here; `ksdp advise` measures the most exposed"]
        if self.ratio is not None:
            what = f"useful, and {what}"
            why.append(f"the wanted directions are {self.ratio:.1f} times as strong as the noise")
        if enough <= self.documents:
            return f"{what} with these {self.documents:,} documents, by estimate: {'; '.join(why)}"
        if self.useful is not None and self.useful > self.documents:
            why.append("fewer may do, which `ksdp gain` measures")
        return f"{what} from about {enough:,} documents on (there are {self.documents:,}): {'; '.join(why)}"

    def to_json(self) -> dict[str, Any]:
        """For machines."""
        return asdict(self) | {"sentence": self.sentence}


def documents_enough(
    mechanism: Mechanism, matrix: sp.csr_array, *, in_a_run: int, parties: int, margin: float, proved: float = 1.0
) -> Enough | None:
    """Forecast; None for a mechanism that is no function of second moments, or without a margin.

    Parameters
    ----------
    matrix : csr_array, shape (n_documents, n_features)
        The whole corpus, as the mechanism gets it.
    in_a_run : int
        Documents that hide one another in a run of the audit: the victim's and the honest parties'.
    proved : float
        What bounds every attack (`Plan.promise`).
    """
    if margin <= 0 or not isinstance(mechanism, PDSVD | Moments):
        return None
    count, features = matrix.shape
    announced = sum(math.prod(array.shape) for array in recorded(mechanism, features))
    numbers = min(announced, features * (features + 1) // 2)  # of second moments nothing else is to be seen
    distance, aim = typical_distance(numbers, in_a_run), _AIM * margin
    safe = 0 if proved <= margin else math.ceil(documents_hiding(numbers, aim) * count / in_a_run)
    distance = min(distance, proved)
    if not isinstance(mechanism, Moments) or features > _MOST_COLUMNS:
        return Enough(count, None, None, distance, safe)
    rows = clip_rows(matrix, mechanism.row_bound)
    values = np.linalg.eigvalsh((rows.T @ rows).toarray())
    ratio = float(values[-mechanism.rank]) / noise_norm(mechanism.scale(features), features, parties)
    useful = None if ratio <= 0 else math.ceil(count * RATIO / ratio)
    return Enough(count, ratio, useful, distance, safe)
