"""Split a count matrix into a public and a private part, as `docs/gain-and-levers.md` measured them.

    python -m benchmarks.public_parts COUNTS.npz VOCABULARY.txt LABELS.parquet OUT --public 500 --rank 40

OUT gets `public.tsv` (document frequencies of the public part), `basis.npy` (its leading singular vectors on its
most frequent terms, weighed by its own idf), and the private part as `counts.npz` with `labels.parquet`.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse as sp
from scipy.sparse.linalg import svds

from ksdp.audit.corpus.levers import most_frequent
from ksdp.audit.corpus.matrix import unit_rows


def main() -> None:
    """Read, split, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("counts", "vocabulary", "labels", "out"):
        parser.add_argument(name, type=Path)
    for name, value in (("--public", 500), ("--rank", 40), ("--terms", 3000), ("--seed", 0)):
        parser.add_argument(name, type=int, default=value)
    asked = parser.parse_args()
    counts = sp.csr_array(sp.load_npz(asked.counts), dtype=np.float64)
    terms = asked.vocabulary.read_text(encoding="utf-8").splitlines()
    labels = pd.read_parquet(asked.labels).reset_index(drop=True)
    public = np.zeros(counts.shape[0], dtype=bool)
    public[np.random.default_rng(asked.seed).permutation(len(public))[: asked.public]] = True
    seen = sp.csr_array(counts[np.flatnonzero(public)])
    frequency = np.bincount(seen.indices, minlength=counts.shape[1])
    kept = most_frequent(frequency, asked.terms)
    kept = kept[frequency[kept] > 0]
    weighted = sp.csr_array(seen[:, kept] @ sp.diags_array(np.log(asked.public / frequency[kept])))
    weighted.eliminate_zeros()
    basis = svds(unit_rows(weighted), k=asked.rank, rng=np.random.default_rng(0))[2][::-1].T
    asked.out.mkdir(exist_ok=True)
    lines = [f"documents\t{asked.public}", *(f"{terms[j]}\t{frequency[j]}" for j in np.flatnonzero(frequency))]
    (asked.out / "public.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    np.save(asked.out / "basis.npy", np.ascontiguousarray(basis))
    sp.save_npz(asked.out / "counts.npz", sp.csr_array(counts[np.flatnonzero(~public)]))
    labels[~public].to_parquet(asked.out / "labels.parquet")
    shutil.copyfile(asked.vocabulary, asked.out / "vocabulary.txt")


if __name__ == "__main__":
    main()
