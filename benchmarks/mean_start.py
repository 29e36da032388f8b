"""Whether PD-NMF-Init does better from independent U[0, 1] entries or from the mean of M such matrices.

Algorithm 2 of PD-ML-Lite has every party draw a matrix, and takes their mean; ksdp draws one from the agreed seed.

::

    python -m benchmarks.mean_start    # KOS, parties of 10 % of its documents, rank 20, five seeds
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from papers.data import Floats, stemmed, tf_idf
from papers.gains import left_over

from benchmarks import data_folder
from ksdp.audit.mechanisms.factorisation.nmf_starts import LocalFit, local_models, pseudo_documents

RANK, SHARE, SEEDS = 20, 0.1, 5


def mean_of_uniform(rng: np.random.Generator, parties: int, columns: int) -> Floats:
    """Topics that begin the merge: the mean of the parties' matrices, each row divided by its sum."""
    topics = np.mean([rng.random((RANK, columns)) for _ in range(parties)], axis=0)
    return np.asarray(topics / topics.sum(axis=1, keepdims=True))


def errors(parts: list[sp.csr_array], drawn: tuple[int, ...]) -> dict[int, list[float]]:
    """Error of PD-NMF after PD-NMF-Init, relative to the rows' length, by the number of matrices in the mean."""
    rule, rows = LocalFit(sweeps=20, tolerance=0.0), sp.csr_array(sp.vstack(parts, format="csr"))
    merged = [pseudo_documents(model) for model in local_models(parts, RANK, rule)]
    found: dict[int, list[float]] = {}
    for count in drawn:
        for rng in np.random.default_rng(count).spawn(SEEDS):
            start = rule.factorise(merged, mean_of_uniform(rng, count, rows.shape[1])).T
            T = rule.factorise(parts, start).T
            found.setdefault(count, []).append(float(np.sqrt(left_over(rows, T)) / np.linalg.norm(rows.data)))
    return found


if __name__ == "__main__":
    words = stemmed(data_folder(), "kos")
    for parties in (3, 30):
        rng = np.random.default_rng(parties)
        held = [rng.choice(words.shape[0], round(SHARE * words.shape[0]), replace=False) for _ in range(parties)]
        measured = errors([tf_idf(sp.csr_array(words[np.sort(rows)])) for rows in held], (1, parties))
        for count, values in measured.items():
            print(f"{parties} parties, mean of {count}: {np.mean(values):.4f} +- {np.std(values, ddof=1):.4f}")
