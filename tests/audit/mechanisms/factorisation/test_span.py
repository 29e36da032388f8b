"""The space that all announced blocks span, against iterating for real; and what blocks give away."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import ks_2samp

from ksdp.audit.mechanisms.contract import Database
from ksdp.audit.mechanisms.factorisation.pd_pca import PDPCA
from ksdp.audit.mechanisms.factorisation.pd_svd import PDSVD, SigmaSVD
from ksdp.audit.mechanisms.factorisation.power_iteration import (
    normed_sec_sum,
    orthonormalise,
    share_of,
    start_block,
)
from ksdp.audit.mechanisms.factorisation.span import announced_span
from ksdp.audit.statistics.contract import Documents, Pool
from ksdp.audit.statistics.rounds_match import BlockSumsMatch


def blocks_of(matrix, start, rounds, mean=None):
    """What NormedSecSum announces, iteration by iteration, and the blocks that it is applied to."""
    block, seen, before = orthonormalise(start, start), [], []
    for _ in range(rounds):
        announced, _ = normed_sec_sum([share_of(matrix, block, mean)])
        seen.append(announced)
        before.append(block)
        block = orthonormalise(announced, start)
    return seen, before


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("shape", [(60, 200), (200, 60), (30, 40), (40, 30)])
def test_it_is_what_the_blocks_span(shape: tuple[int, int], centred: bool) -> None:
    matrix = sp.csr_array(sp.random_array(shape, density=0.2, rng=np.random.default_rng(1), format="csr"))
    mean = np.asarray(matrix.mean(axis=0)).ravel() if centred else None
    start = start_block(0, shape[1], 3)
    seen, _ = blocks_of(matrix, start, 5, mean)
    _, lengths, rows = np.linalg.svd(np.vstack(seen), full_matrices=False)
    rows = rows[lengths > 1e-9 * lengths[0]]
    found = announced_span(matrix, start, 5, mean)
    np.testing.assert_allclose(found.rows.T @ found.rows, rows.T @ rows, atol=1e-8)
    dense = matrix.toarray() - (0.0 if mean is None else mean)
    image = dense @ rows.T
    np.testing.assert_allclose(found.values**2, np.linalg.eigvalsh(image.T @ image)[::-1], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found.rows @ found.rows.T, np.eye(15), atol=1e-10)


def test_normed_blocks_give_the_singular_values_away_but_for_one_factor() -> None:
    """From announced blocks alone, as any party can: hidden norms by the symmetry of V S V^T."""
    matrix = sp.csr_array(sp.random_array((50, 30), density=0.4, rng=np.random.default_rng(3), format="csr"))
    start, rounds = start_block(0, 30, 2), 3
    seen, before = blocks_of(matrix, start, rounds + 1)
    norms, factor = [], 1.0
    for number, (announced, block) in enumerate(zip(seen, before, strict=True)):
        form = announced @ block.T  # diag(1 / norms) V S V^T
        ratio = np.array([1.0, form[0, 1] / form[1, 0]])
        if number:  # |S v|^2 = <v, S (S v)>, with S v in the span of this block
            last, turn = seen[number - 1], seen[number - 1] @ block.T
            square = norms[-1][0] ** 2 * (last[0] @ last[0])
            again = norms[-1][0] * (before[number - 1][0] @ (turn[0] @ (ratio[:, None] * announced)))
            factor = square / again
        norms.append(factor * ratio)
    known = np.vstack([n[:, None] * a for n, a in zip(norms, seen, strict=True)])  # S V for all blocks V
    basis = np.vstack(before)
    span = np.linalg.svd(np.vstack(seen[:rounds]).T, full_matrices=False)[0]
    onto = np.linalg.lstsq(basis.T, span, rcond=None)[0]  # the span in terms of the blocks
    values = np.sqrt(np.linalg.eigvals(span.T @ (known.T @ onto)).real)
    found = announced_span(matrix, start, rounds).values
    np.testing.assert_allclose(np.sort(values)[::-1] / values.max(), found / found[0], rtol=1e-6)


def test_a_small_matrix_ends_the_space() -> None:
    matrix = sp.csr_array(np.vstack([np.eye(3, 9), np.zeros((4, 9))]) * [[3], [2], [1], [0], [0], [0], [0]])
    found = announced_span(matrix, start_block(0, 9, 2), 4)
    np.testing.assert_allclose(found.values, [3, 2, 1, 0, 0, 0, 0, 0], atol=1e-12)
    np.testing.assert_allclose(np.abs(found.rows[:3]), np.eye(3, 9), atol=1e-8)
    assert not found.rows[3:].any()
    assert not announced_span(sp.csr_array((5, 9)), start_block(0, 9, 2), 4).rows.any()


@pytest.mark.parametrize("solver", ["limit", "power"])
def test_every_round_or_the_final_output(solver: str) -> None:
    database = Database((sp.csr_array(sp.random_array((60, 40), density=0.3, rng=np.random.default_rng(4))),))
    rng = np.random.default_rng(0)
    whole = PDSVD(rank=2, solver=solver, iterations=4, tolerance=0).run(database, rng)
    final = PDSVD(rank=2, solver=solver, iterations=4, opens="final").run(database, rng)
    assert set(final) == {"V"}
    np.testing.assert_array_equal(final["V"], whole["V"])
    shown = SigmaSVD(rank=2).run(database, rng)
    np.testing.assert_allclose(shown["span_sigma"][:2], shown["sigma"], rtol=1e-3)
    stopped = PDSVD(rank=2, solver="power", iterations=9, tolerance=0.9).run(database, rng)
    done = int(stopped["iterations"][0])
    assert done < 9
    assert stopped["span"][2 * done - 1].any()
    assert not stopped["span"][2 * done :].any()


@pytest.mark.parametrize("kind", [PDSVD, PDPCA])
def test_hidden_norms_follow_from_what_is_opened_but_for_one_factor(kind: type[PDSVD]) -> None:
    """n_s (v_t . w_s) = n_t (v_s . w_t) for rows v that were multiplied and rows w of norm 1 that were opened."""
    matrix = sp.csr_array(sp.random_array((80, 40), density=0.3, rng=np.random.default_rng(6), format="csr"))
    seen = kind(rank=3).run(Database((matrix,)), np.random.default_rng(0))
    sums = seen["block_sums"].reshape(-1, 40)
    norms = np.linalg.norm(sums, axis=1)
    products = (sums / norms[:, None]) @ seen["first_blocks"][:-1].reshape(-1, 40).T
    misfit = np.diag(np.square(products).sum(axis=1)) - products * products.T
    found = np.abs(np.linalg.eigh(misfit)[1][:, 0])
    np.testing.assert_allclose(found / found.max(), norms / norms.max(), rtol=1e-6)


@pytest.mark.parametrize(("hidden", "revealed"), [(PDSVD(rank=2), SigmaSVD(rank=2)), (PDPCA(rank=2), None)])
def test_hiding_sigma_takes_nothing_from_the_statistic_of_sums(hidden: PDSVD, revealed: PDSVD | None) -> None:
    """D of all documents in a run against all out is that of the run that reveals Sigma."""
    rng = np.random.default_rng(2)
    matrix = sp.csr_array(rng.normal(size=(300, 15)))
    held = np.isin(np.arange(300), rng.choice(300, 150, replace=False))
    database = Database((sp.csr_array(matrix[held]),))
    scores = []
    for mechanism in (hidden, revealed or PDPCA(rank=2, reveal_sigma=True)):
        seen = mechanism.run(database, np.random.default_rng(0))
        documents = Documents(matrix, pool=Pool(matrix, 0.5, mechanism=mechanism))
        assert set(BlockSumsMatch.needs) <= {a.name for a in mechanism.observables(15)}
        scores.append(BlockSumsMatch().evaluate(seen, documents))
    np.testing.assert_array_equal(*scores)
    assert ks_2samp(scores[0][held], scores[0][~held]).statistic > 0.5
