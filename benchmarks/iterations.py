"""How many iterations a PD-SVD on shares needs until it has converged.

::

    python -m benchmarks iterations --ranks 7 20 50 --features 500 1000 3000

The same block iteration in the clear, of 2 k + 10 vectors, until `protocols/shares/subspace.py` would say so.
A party's own rows tell it nothing of the others', so that a run's number is agreed beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks import ROOT
from ksdp.audit.mechanisms.factorisation.power_iteration import start_block
from ksdp.flows.prepare import open_spec
from ksdp.protocols.programs.share_terms import enough_rounds
from ksdp.protocols.shares.subspace import RESIDUAL_BITS
from ksdp.storage.readers.spec_files import read_spec_file

CORPORA = ("enron-mail6", "20newsgroups", "kos")
MOST = 200


def run(features: Sequence[int], ranks: Sequence[int]) -> None:
    """Print one line a corpus, vocabulary and rank."""
    for name in CORPORA:
        read, base = read_spec_file(ROOT / "examples" / "specs" / f"{name}-svd.toml")
        for most in features:
            tables = read.model_dump(mode="json")
            tables["corpus"]["levers"] = {"most_frequent": most}
            rows = open_spec(type(read).model_validate(tables), base).corpus.matrix
            moments = (rows.T @ rows).toarray()
            for rank in ranks:
                needed = _iterations(moments, rank, 2 * rank + 10)
                print(
                    f"{name:13} {most:6} terms, rank {rank:3}: {needed:4} iterations of {2 * rank + 10} vectors; "
                    f"{enough_rounds(rank)} by default",
                    flush=True,
                )


def _iterations(moments: np.ndarray, rank: int, block: int) -> int:
    """Until |(I - QQ^T) A Q P|_F <= 2^-19 theta, P the projector on the first k Ritz vectors."""
    basis = np.linalg.qr(start_block(0, moments.shape[0], block).T)[0]
    for done in range(1, MOST):
        image = moments @ basis
        basis = np.linalg.qr(image)[0]
        image = moments @ basis
        values, vectors = np.linalg.eigh(basis.T @ image)
        theta = (values[-rank] + values[-rank - 1]) / 2
        led = vectors[:, -rank:]
        residual = image @ led - basis @ (basis.T @ (image @ led))
        if np.linalg.norm(residual) <= 2.0 ** (-RESIDUAL_BITS / 2) * theta:
            return done
    return MOST
