"""Shifts of recorded runs: found where there is one, and never named where there is none."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.verdicts.mix_ups import better_shift

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
            "signs": np.array([np.linalg.svd(rows[held])[2][:2] for held in bits])
            * rng.choice([-1, 1], (RUNS, 2, 1)),
            "codes": bits @ rng.normal(size=(DOCUMENTS, 40)),
            "nothing": rng.normal(size=(RUNS, 30)),
            "constant": np.ones((RUNS, 3)),
        }[what],
        bits,
        rows,
    )


@pytest.mark.parametrize("what", ["means", "noisy", "signs", "codes", "nothing", "constant"])
def test_what_belongs_together_is_left_alone(what: str) -> None:
    for seed in range(20):
        announced, bits, rows = made(seed, what)
        assert better_shift(announced, bits, sp.csr_array(rows)) is None


@pytest.mark.parametrize("what", ["means", "noisy", "signs"])
@pytest.mark.parametrize("by", [1, -2, 70])
def test_a_shift_of_runs_is_found(what: str, by: int) -> None:
    announced, bits, rows = made(1, what)
    found = better_shift(np.roll(announced, by, axis=0), bits, sp.csr_array(rows))
    assert found is not None
    assert (found.what, found.by) == ("runs", by)
    assert found.digits > found.recorded + 9


def test_a_shift_of_documents_is_found() -> None:
    announced, bits, rows = made(1, "means")
    found = better_shift(announced, np.roll(bits, 3, axis=1), sp.csr_array(rows))
    assert found is not None
    assert (found.what, found.by) == ("documents", 3)


def test_what_tells_nothing_of_who_was_in_has_no_order() -> None:
    for seed in range(20):
        announced, bits, rows = made(seed, "nothing")
        assert better_shift(np.roll(announced, 1, axis=0), bits, sp.csr_array(rows)) is None
