"""Counts and V in one run: against dense algebra, and what its counts say of who is in, and of who is held."""

import numpy as np
import pytest
import scipy.sparse as sp
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from scipy.stats import ks_2samp

from ksdp.audit.contract import Database, Observables
from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.coverage import coverage_of
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.privacy.counted_svd import CountedSVD
from ksdp.audit.statistic import Documents, Pool
from ksdp.protocols.programs.secret_draw import secret_draw

from ....plans import planned

RNG = np.random.default_rng(5)
COUNTS = RNG.poisson(RNG.dirichlet([0.2] * 4, 240) @ (RNG.random((4, 60)) ** 6 * 6.0))
COUNTS[:, 0] += 1  # in every document: it weighs nothing
ROWS = sp.csr_array(COUNTS.astype(float))


def test_it_is_the_svd_of_rows_weighed_by_their_own_counts() -> None:
    parties = (ROWS[:100], ROWS[100:])
    seen = CountedSVD(rank=1, shrink=3.0, iterations=300).run(Database(parties), RNG)
    held = (COUNTS > 0).sum(axis=0)
    assert seen["counts"].tolist() == [*held, len(COUNTS)]
    weighed = COUNTS * np.log(len(COUNTS) / np.maximum(held, 1))
    root = np.sqrt(held / (held + 3.0))
    weighed = weighed / np.maximum(np.linalg.norm(weighed, axis=1, keepdims=True), 1e-12) * root
    wanted = np.linalg.qr((np.linalg.svd(weighed)[2][:1] * root).T)[0]
    np.testing.assert_allclose(np.linalg.svd(seen["V"] @ wanted)[1], 1.0, atol=1e-6)
    assert np.linalg.norm(seen["V"]) == pytest.approx(1.0)


@pytest.mark.parametrize("shrink", [-1.0, 0.0, float("inf")])
def test_refuses_a_shrinking_that_is_not_positive(shrink: float) -> None:
    with pytest.raises(SpecError, match="`shrink` must be positive and finite"):
        CountedSVD(shrink=shrink)


def test_counts_say_who_is_in_and_a_draw_who_is_held_by_its_share() -> None:
    """Single runs with equations: everybody who is in is told, and of who is held no more than the share drawn."""
    few, share, mechanism = sp.csr_array(ROWS[:50]), 0.3, CountedSVD(rank=2)
    (solved,) = mechanism.statistics
    scores, inside, held = [], [], []
    for seed in range(50):
        rng = np.random.default_rng(seed)
        holds = rng.permutation(50) < 25
        mine = np.flatnonzero(holds)
        drawn = np.zeros(50, bool)
        drawn[mine[secret_draw(Ed25519PrivateKey.from_private_bytes(rng.bytes(32)), map(str, mine), share)]] = True
        if drawn.sum() > 2:
            documents = Documents(few, pool=Pool(few, drawn.mean(), mechanism=mechanism))
            seen = Observables(mechanism.run(Database((sp.csr_array(few[drawn]),)), rng))
            scores.append(solved.evaluate(seen, documents))
            inside.append(drawn)
            held.append(holds)
    score, of_in, of_held = np.concatenate(scores), np.concatenate(inside), np.concatenate(held)
    assert ks_2samp(score[of_in], score[~of_in]).statistic > 0.97
    assert 0.2 < ks_2samp(score[of_held], score[~of_held]).statistic <= share + 1.95 * np.sqrt(4 / len(score))


@pytest.mark.parametrize(("drawn", "proved"), [(None, False), (0.3, False), (0.2, True)])
def test_nobody_is_clear_without_a_draw_within_the_margin(drawn: float | None, proved: bool) -> None:
    levers = {} if drawn is None else {"drawn": drawn}
    tables = {
        "corpus": {"path": "x.npz", "weighting": "counts", "levers": levers},
        "mechanism": {"name": "counted-svd", "rank": 2},
        "design": {"party_size": 0.2, "with_runs": 10},
        "decision": {"margin": 0.2},
    }
    plan = planned(Corpus(ROWS, np.arange(240).astype(str)), seed=0, **tables)
    assert plan.spec.proved_by_draw == proved
    assert any("`V`, which no statistic follows" in one for one in coverage_of(plan).unread)
