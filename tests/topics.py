"""A small corpus with topics, in memory."""

import numpy as np
import scipy.sparse as sp

from ksdp.audit.corpus.matrix import Corpus, canonical


def corpus_of_topics() -> Corpus:
    """90 documents over 40 terms."""
    rng = np.random.default_rng(2)
    topics = rng.dirichlet(np.full(40, 0.1), size=3)
    mixture = rng.dirichlet(np.full(3, 0.4), size=90) @ topics
    counts = np.array([rng.multinomial(30, row / row.sum()) for row in mixture], dtype=float)
    return Corpus(canonical(sp.csr_array(counts)), np.array([f"d{i}" for i in range(90)]))
