"""What the requests of a run open, number by number, beside what the audit of the mechanism declares."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.contract import Database, Observables
from ksdp.audit.mechanisms.factorisation.power_iteration import (
    normalised,
    normed_sec_sum,
    orthonormalise,
    start_block,
)
from ksdp.audit.mechanisms.party_side import SecSum
from ksdp.audit.registry import make_mechanism
from ksdp.protocols.programs.programs import party_program

ROWS = sp.csr_array(np.random.default_rng(3).poisson(0.8, (36, 14)).astype(np.float64))
PARTIES = (ROWS[:12], ROWS[12:24], ROWS[24:])
POWER: dict[str, Any] = {"rank": 2, "solver": "power", "iterations": 14, "tolerance": 0.0}
NMF: dict[str, Any] = {"rank": 2, "sweeps": 20, "tolerance": 0.0}


def opened(name: str, parameters: dict[str, Any]) -> tuple[list[NDArray[np.float64]], Observables]:
    """The answers to all requests of a run, and what the audit's run announces."""
    mechanism, answers = make_mechanism(name, parameters), []
    programs = [party_program(mechanism, part, len(PARTIES)) for part in PARTIES]
    requests: list[Any] = [next(program) for program in programs]
    while requests:
        shares = [request.share for request in requests]
        plain = isinstance(requests[0], SecSum)
        answers.append(np.asarray(sum(shares) if plain else normed_sec_sum(shares)[0]))
        try:
            requests = [program.send(answers[-1].copy()) for program in programs]
        except StopIteration:
            requests = []
    return answers, mechanism.run(Database(PARTIES), np.random.default_rng(0))


def missing(answers: list[NDArray[np.float64]], seen: Observables) -> int:
    """How many of the numbers are not among those that are declared."""
    declared = np.sort(np.concatenate([np.ravel(array) for array in seen.values()]))
    numbers = np.concatenate([np.ravel(answer) for answer in answers])
    at = np.clip(np.searchsorted(declared, numbers), 1, len(declared) - 1)
    apart = np.minimum(np.abs(declared[at] - numbers), np.abs(declared[at - 1] - numbers))
    return int((apart > 1e-9 * np.maximum(np.abs(numbers), 1.0)).sum())


def of_blocks(seen: Observables) -> NDArray[np.float64]:
    """X^T X on the space of all blocks, up to a factor where Sigma is hidden."""
    return np.asarray(seen["span"].T @ (np.square(seen["span_sigma"])[:, None] * seen["span"]))


def test_every_sum_of_small_nmf_is_declared_as_it_is() -> None:
    answers, seen = opened("pd-nmf", NMF)
    assert len(answers) == 40
    assert missing(answers, seen) == 0


def test_sums_of_ten_iterations_are_declared_as_they_are_and_later_ones_follow() -> None:
    answers, seen = opened("sigma-svd", POWER)
    assert missing(answers[:10], seen) == 0
    square = of_blocks(seen)  # all of X^T X, as ten blocks of two span the columns
    start = start_block(0, ROWS.shape[1], 2)
    for before, answer in pairwise(answers[9:]):
        block = orthonormalise(normalised(before)[0], start)
        np.testing.assert_allclose(block @ square, answer, rtol=1e-6)


@pytest.mark.parametrize("name", ["pd-svd", "pd-pca"])
def test_normed_sums_follow_from_the_space_of_all_blocks(name: str) -> None:
    """Each row is X^T X times one of the block before, of length 1: known from `span` and `span_sigma` but for one
    factor, which the length takes away."""
    answers, seen = opened(name, POWER)
    if name == "pd-pca":
        sums, *answers = answers
        np.testing.assert_allclose(seen["mean"], sums[:-1] / len(ROWS.toarray()), rtol=1e-12)
        assert sums[-1] == 36  # the sizes of parties are public
    square = of_blocks(seen)
    blocks = seen["first_blocks"]
    assert len(blocks) == 11
    for number, answer in enumerate(answers[:10]):
        made = blocks[number] @ square
        made /= np.linalg.norm(made, axis=1, keepdims=True)
        np.testing.assert_allclose(made, answer, atol=1e-7)
