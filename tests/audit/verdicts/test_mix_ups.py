"""Mixed-up tables of recorded runs: told from tables that belong together."""

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.verdicts.mix_ups import fits_documents

DOCUMENTS, RUNS = 60, 200


def made(seed: int, what: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(announced, bits, rows): by data alone, by data and noise, up to signs, or by noise alone."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(DOCUMENTS, 5))
    bits = np.array([np.isin(np.arange(DOCUMENTS), rng.choice(DOCUMENTS, 20, replace=False)) for _ in range(RUNS)])
    means = bits @ rows / 20
    return (
        {
            "means": means,
            "noisy": means + 0.2 * rng.normal(size=means.shape),
            "signs": (
                np.array([np.linalg.svd(rows[held])[2][:2] for held in bits]) * rng.choice([-1, 1], (RUNS, 2, 1))
            ).reshape(RUNS, -1),
            "nothing": rng.normal(size=(RUNS, 30)),
            "constant": np.ones((RUNS, 3)),
        }[what],
        bits,
        rows,
    )


@pytest.mark.parametrize("what", ["means", "noisy", "signs"])
def test_what_belongs_together_fits_and_shifted_or_shuffled_tables_do_not(what: str) -> None:
    for seed in range(20):
        announced, bits, rows = made(seed, what)
        rows, order = sp.csr_array(rows), np.random.default_rng([seed, 1])
        assert fits_documents(announced, bits, rows)
    mixed = [(np.roll(announced, by, axis=0), bits) for by in (1, -2, 70)] + [
        (announced, np.roll(bits, 3, axis=1)),
        (announced, bits[:, order.permutation(DOCUMENTS)]),
    ]
    assert not any(fits_documents(*tables, rows) for tables in mixed)


@pytest.mark.parametrize("what", ["nothing", "constant"])
def test_what_tells_nothing_of_who_was_in_fits_nobody(what: str) -> None:
    announced, bits, rows = made(0, what)
    assert not fits_documents(announced, bits, sp.csr_array(rows))
