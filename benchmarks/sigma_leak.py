"""What the singular values give away on top of what PD-SVD announces anyway, by whole audits.

::

    python -m benchmarks sigma-leak --corpora enron-mail6 kos 20newsgroups --documents 200 --with-runs 200

The same databases (a party of a third, the 1,000 most frequent terms, rank 7, every round looked at) under PD-SVD
with normed sums and with plain sums, which reveal Sigma; every default statistic of each. D is the largest of a
document's statistics; there are more of them where Sigma is revealed, and the largest of more is larger by noise
alone. So a third line sets, document by document, the two largest beside each other, and those of the statistics
that only Sigma gives.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import scipy.sparse as sp

import ksdp
from benchmarks import data_folder

__all__ = ["CORPORA", "run"]

CORPORA = ("enron-mail6", "kos", "20newsgroups")
TERMS, PARTY, RANK, MARGIN = 1000, 1 / 3, 7, 0.2
_DRAWS = 2000


def run(corpora: list[str], documents: int, with_runs: int) -> None:
    """Print one line an audit, and one that sets the two beside each other."""
    for corpus in corpora:
        part = _rows(corpus)
        tables = {mechanism: _audit(corpus, part, mechanism, documents, with_runs) for mechanism in _MECHANISMS}
        _beside(corpus, tables["pd-svd"], tables["sigma-svd"])


_MECHANISMS = ("pd-svd", "sigma-svd")


def _rows(corpus: str) -> sp.csr_array:
    counts = sp.csr_array(sp.load_npz(data_folder() / corpus / "counts.npz"))
    most = np.sort(np.argsort(-np.asarray(counts.sum(axis=0)), kind="stable")[:TERMS])
    part = sp.csr_array(counts[:, most])
    return sp.csr_array(part[np.diff(part.indptr) > 0])


def _audit(corpus: str, part: sp.csr_array, mechanism: str, documents: int, with_runs: int) -> pd.DataFrame:
    found = ksdp.audit(
        part,
        mechanism,
        rank=RANK,
        solver="power",
        weighting="tf-idf",
        documents=documents,
        party_size=PARTY,
        with_runs=with_runs,
        margin=MARGIN,
        seed=7,
        fresh_runs=0,
        progress=False,
    )
    verdicts, columns = found.verdicts, found.statistics.reset_index()
    largest = columns.groupby("document")["distance"].max()
    counted = verdicts["verdict"].value_counts().to_dict()
    print(
        f"{corpus:13} {mechanism:9} {columns['statistic'].nunique():2} statistics, largest D median "
        f"{largest.median():.3f}, 95 % {largest.quantile(0.95):.3f}; {counted}",
        flush=True,
    )
    return columns.pivot_table(index="document", columns="statistic", values="distance")


def _beside(corpus: str, normed: pd.DataFrame, plain: pd.DataFrame) -> None:
    both = [name for name in plain.columns if name in normed.columns]
    alone = [name for name in plain.columns if name not in normed.columns]
    same = plain.index.intersection(normed.index)
    before, after = normed.loc[same, both].max(axis=1), plain.loc[same].max(axis=1)
    of_sigma = plain.loc[same, alone].max(axis=1) if alone else 0.0 * before
    more = (after - before).to_numpy()
    drawn = np.random.default_rng(0).choice(more, (_DRAWS, len(more))).mean(axis=1)
    low, high = np.quantile(drawn, (0.025, 0.975))
    print(
        f"{corpus:13} Sigma reveals {more.mean():+.4f} (95 %: {low:+.4f} to {high:+.4f}) in the mean over "
        f"{len(same)} documents; statistics of Sigma alone ({', '.join(alone) or 'none'}): D median "
        f"{np.median(of_sigma):.3f}, 95 % {np.quantile(of_sigma, 0.95):.3f}, largest of all for "
        f"{int((of_sigma > before).sum())} documents",
        flush=True,
    )
