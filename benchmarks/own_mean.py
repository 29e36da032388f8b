"""What PD-PCA gives away by its final V where the mean of all is released, and where each party hides its own.

::

    python -m benchmarks.own_mean    # 400 articles of 58 columns, half of them in each of 60 runs of one party
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from papers.data import news
from scipy.stats import ks_2samp

from benchmarks import data_folder
from ksdp.audit.contract import Database, Observables
from ksdp.audit.corpus.matrix import canonical
from ksdp.audit.mechanisms.factorisation.pd_svd import PDPCA
from ksdp.audit.statistic import Documents, Pool, Statistic
from ksdp.audit.statistics.linear.expected import FirstOrderBasis, FirstOrderMean
from ksdp.audit.statistics.linear.releases import LinearBasis

DOCUMENTS, RUNS, EVERY = 400, 60, 10


def distances(rows: sp.csr_array, mechanism: PDPCA) -> dict[str, tuple[float, float]]:
    """D of every tenth document by each statistic: the median and the 95 % quantile."""
    statistics: list[Statistic] = [LinearBasis(), FirstOrderBasis()]
    statistics += [FirstOrderMean()] if mechanism.centre == "all" else []
    documents, half = Documents(rows, pool=Pool(rows, 0.5, mechanism=mechanism)), rows.shape[0] // 2
    held, scores = [], []
    for run in range(RUNS):
        rng = np.random.default_rng(run)
        held.append(np.isin(np.arange(2 * half), rng.choice(2 * half, half, replace=False)))
        seen = Observables(mechanism.run(Database((sp.csr_array(rows[held[-1]]),)), rng))
        scores.append([statistic.evaluate(seen, documents) for statistic in statistics])
    bits, values, found = np.array(held), np.array(scores), {}
    for at, statistic in enumerate(statistics):
        d = [
            ks_2samp(v[b], v[~b]).statistic
            for v, b in zip(values[:, at, ::EVERY].T, bits[:, ::EVERY].T, strict=True)
        ]
        found[statistic.name] = (round(float(np.median(d)), 2), round(float(np.quantile(d, 0.95)), 2))
    return found


if __name__ == "__main__":
    articles, _ = news(data_folder())
    chosen = np.random.default_rng(0).choice(articles.shape[0], DOCUMENTS, replace=False)
    sample = canonical(sp.csr_array(articles[np.sort(chosen)]))
    for rank in (7, 1):
        for centre in ("all", "own"):
            print(rank, centre, distances(sample, PDPCA(rank=rank, opens="final", centre=centre)), flush=True)
