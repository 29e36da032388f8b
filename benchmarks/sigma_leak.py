"""What revealing the singular values gives away beside what PD-SVD announces anyway, by whole audits.

::

    python -m benchmarks sigma-leak --corpora enron-mail6 kos 20newsgroups --documents 200 --with-runs 200

The same databases (a party of a third, the 1,000 most frequent terms, rank 7, every round looked at) under PD-SVD
with normed sums and with plain sums, which reveal Sigma; every default statistic of each. D is the largest of a
document's statistics; there are more of them where Sigma is revealed.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

import ksdp
from benchmarks import data_folder

__all__ = ["CORPORA", "run"]

CORPORA = ("enron-mail6", "kos", "20newsgroups")
TERMS, PARTY, RANK, MARGIN = 1000, 1 / 3, 7, 0.2


def run(corpora: list[str], documents: int, with_runs: int) -> None:
    """Print one line an audit."""
    for corpus in corpora:
        counts = sp.csr_array(sp.load_npz(data_folder() / corpus / "counts.npz"))
        most = np.sort(np.argsort(-np.asarray(counts.sum(axis=0)), kind="stable")[:TERMS])
        part = sp.csr_array(counts[:, most])
        part = sp.csr_array(part[np.diff(part.indptr) > 0])
        for mechanism in ("pd-svd", "sigma-svd"):
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
