"""The matched filter on PEM's noisy sums: what records add, how much noise there is, and who is in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.array_types import Floats
from ksdp.audit.mechanisms.contract import Database, Observables
from ksdp.audit.mechanisms.pem.added import noise_variance
from ksdp.audit.mechanisms.pem.algorithm import PemState, VectorBlock, contribution
from ksdp.audit.mechanisms.pem.mechanisms import PEMApriori, PEMKMeans, PEMLogistic, PemMechanism
from ksdp.audit.mechanisms.pem.noise import Budget, law
from ksdp.audit.statistics.contract import Documents, Pool
from ksdp.audit.statistics.linear import tilting
from ksdp.audit.statistics.linear.operator import FactoredContributions
from ksdp.audit.statistics.linear.system import LinearSystem
from ksdp.audit.statistics.linear.tilting import direction_of

from .who_is_in import check_it_tells_who_is_in

N, D = 24, 30


def records(seed: int = 1, n: int = N) -> sp.csr_array:
    """Of 0 and 1; a third of them longer than the bounds below."""
    rng = np.random.default_rng(seed)
    return sp.csr_array((rng.random((n, D)) < rng.choice([0.2, 0.6], size=(n, 1))).astype(float))


def mechanisms(epsilon: float, **more: Any) -> list[PemMechanism]:
    return [
        PEMKMeans(clusters=2, iterations=3, bound=9.0, epsilon=epsilon, **more),
        PEMLogistic(iterations=4, bound=3.0, label=2, epsilon=epsilon, **more),
        PEMApriori(longest=12, support=0.3, epsilon=epsilon, **more),
    ]


KINDS = [type(one) for one in mechanisms(1.0)]


def made(kind: type[PemMechanism], epsilon: float, **more: Any) -> PemMechanism:
    return next(one for one in mechanisms(epsilon, **more) if isinstance(one, kind))


def states(mechanism: PemMechanism, seen: Observables) -> list[PemState]:
    """As the run went through them."""
    algorithm = mechanism.algorithm(D)
    first = algorithm.init()
    if isinstance(mechanism, PEMKMeans):
        return [PemState(0, {"centres": now}, first.blocks) for now in seen["centres"]]
    if isinstance(mechanism, PEMLogistic):
        return [PemState(0, {"w": now}, first.blocks) for now in seen["weights"]]
    items = np.flatnonzero(seen["T"][0] >= mechanism.support).astype(np.int16)  # type: ignore[attr-defined]
    pairs = len(items) * (len(items) - 1) // 2
    counted = PemState(1, {"items1": items[:, None]}, algorithm.block(2, pairs) and (algorithm.block(2, pairs),))  # type: ignore[attr-defined]
    return [first, counted]


def sent(mechanism: PemMechanism, state: PemState, record: sp.csr_array) -> list[np.ndarray]:
    """What the record's client would send, by block, in the blocks' units."""
    ends = np.cumsum([block.size for block in state.blocks])[:-1]
    parts = np.split(contribution(mechanism.algorithm(D), record, state), ends)
    return [part * 2.0**-block.fraction_bits for part, block in zip(parts, state.blocks, strict=True)]


@pytest.mark.parametrize("kind", KINDS)
def test_terms_are_what_clients_send(kind: type[PemMechanism]) -> None:
    mechanism, matrix = made(kind, 5.0), records()
    seen = Observables(mechanism.run(Database((matrix,)), np.random.default_rng(0)))
    written = mechanism.as_equations(seen, Pool(matrix))[0](matrix).written()
    for i in range(N):
        every = [sent(mechanism, state, matrix[[i]]) for state in states(mechanism, seen)]
        blocks = zip(*every, strict=True) if kind is PEMKMeans else [[part for (part,) in every]]
        expected = np.concatenate([part for block in blocks for part in block])
        np.testing.assert_allclose(written[i], expected, atol=2.0**-16)


@pytest.mark.parametrize("kind", KINDS)
def test_without_noise_terms_make_the_sums(kind: type[PemMechanism]) -> None:
    mechanism, matrix = made(kind, 1e9), records()
    seen = Observables(mechanism.run(Database((matrix,)), np.random.default_rng(0)))
    adds, told = mechanism.as_equations(seen, Pool(matrix))
    np.testing.assert_allclose(adds(matrix).summed(np.ones(N)), told.sums, atol=N * 2.0**-16)


@pytest.mark.parametrize("scale", [0.3, 1.0, 20.0])
def test_the_variance_of_the_noise_is_that_of_its_law(scale: float) -> None:
    block, numbers = VectorBlock(1, bound=4.0, fraction_bits=3), np.arange(-2000, 2001)
    budget = Budget(epsilon=block.sensitivity / scale, iterations=1)
    one = float((law(scale, numbers) * numbers**2).sum()) / 8.0**2
    assert noise_variance(block, budget, 3) == pytest.approx(3 * one, rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("others", ["none", "fixed", "colluding"])
def test_without_much_noise_it_tells_who_is_in(kind: type[PemMechanism], others: str) -> None:
    check_it_tells_who_is_in(made(kind, 1e7), records(), records(5, 8), others)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sampling", [1.0, 0.5])
def test_much_noise_leaves_the_records_product_with_the_sums(kind: type[PemMechanism], sampling: float) -> None:
    """Where noise is nearly all, the likelihood ratio is terms times sums, each over the noise's variance."""
    mechanism, matrix = made(kind, 0.01, sampling=sampling), records()
    seen = Observables(mechanism.run(Database((matrix[:12],)), np.random.default_rng(0)))
    (statistic,) = mechanism.statistics
    found = statistic.evaluate(seen, Documents(matrix, pool=Pool(matrix, 0.5, mechanism=mechanism)))
    adds, told = mechanism.as_equations(seen, Pool(matrix))
    terms = adds(matrix).written()
    apart = told.sums - 0.5 * terms.sum(axis=0)
    plain = (terms - terms.mean(axis=0)) @ (apart / told.noise)
    assert np.corrcoef(found, plain)[0, 1] > 0.999


def test_coins_of_sampling_are_noise_as_well() -> None:
    """What the sums, over the rate, miss of all who are held has the variance of the noise and of the coins."""
    mechanism, matrix = PEMKMeans(clusters=1, iterations=1, bound=9.0, epsilon=100.0, sampling=0.25), records()
    rng = np.random.default_rng(4)
    runs = [Observables(mechanism.run(Database((matrix,)), rng)) for _ in range(600)]
    pool = Pool(matrix)
    adds, told = mechanism.as_equations(runs[0], pool)
    terms = adds(matrix)
    off = np.stack([mechanism.as_equations(seen, pool)[1].sums - terms.summed(np.ones(N)) for seen in runs])
    expected = told.noise + 0.5 * told.shrink * terms.variances  # `shrink` is over p (1 - p), for p who are in
    assert np.square(off).mean() == pytest.approx(expected.mean(), rel=0.1)
    assert told.noise.mean() < 0.9 * expected.mean()


def one_run(kind: type[PemMechanism], share: float) -> tuple[Floats, FactoredContributions, LinearSystem]:
    """What is said of all records, what they add, and what a run of 19 of them says, half of whom take part."""
    mechanism, matrix = made(kind, 200.0, sampling=0.5), records()
    seen = Observables(mechanism.run(Database((matrix[:19],)), np.random.default_rng(0)))
    (statistic,) = mechanism.statistics
    found = statistic.evaluate(seen, Documents(matrix, pool=Pool(matrix, share, mechanism=mechanism)))
    adds, told = mechanism.as_equations(seen, Pool(matrix, share))
    return found, adds(matrix), told


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_the_filter_of_terms_noise_and_coins(
    kind: type[PemMechanism], monkeypatch: pytest.MonkeyPatch
) -> None:
    """<C^-1 (a_x - mean), Z - E Z>, every covariance written out."""
    monkeypatch.setattr(tilting, "MOST_NOISY", 0)
    share = 0.8
    found, made_of, told = one_run(kind, share)
    terms = made_of.written()
    apart = told.sums - share * terms.sum(axis=0)
    coins = share * (terms**2).sum(axis=0)  # var of coin / 0.5, for those who are in
    centred = terms - terms.mean(axis=0)
    covariance = share * (1 - share) * centred.T @ centred + np.diag(told.noise + coins)
    expected = centred @ np.linalg.solve(covariance, apart)
    assert np.corrcoef(found, expected)[0, 1] > 0.9999
    scale = found / (share * (1 - share) * expected)
    np.testing.assert_allclose(scale, 1.0, rtol=0.02)


@pytest.mark.parametrize("kind", KINDS)
def test_of_few_records_noise_and_coins_are_the_noise_of_the_most_even_draw(kind: type[PemMechanism]) -> None:
    share = 0.8
    found, terms, told = one_run(kind, share)
    noise, shares = told.noise + share * (1 - share) * told.shrink * terms.variances, np.full(len(found), share)
    wanted = direction_of(terms, told.sums - terms.summed(shares), shares, noise).of(terms)
    np.testing.assert_allclose(found, wanted, atol=1e-6)
