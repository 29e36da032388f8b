"""The matched filter on noisy sums of second moments: what documents add, and who is in."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import Database, Observables
from ksdp.audit.mechanisms.pem.added import noise_variance
from ksdp.audit.mechanisms.pem.algorithm import PemState, contribution
from ksdp.audit.mechanisms.pem.mechanisms import PEMApriori, PEMKMeans, PEMLogistic, PemMechanism
from ksdp.audit.mechanisms.pem.noise import Budget, VectorBlock, log_law
from ksdp.audit.mechanisms.privacy.dp_nmf import DPNMF
from ksdp.audit.mechanisms.privacy.fedpower import FedPower, UtilityFedPower
from ksdp.audit.mechanisms.privacy.fedpower_private import PrivateFedPower
from ksdp.audit.mechanisms.privacy.hardt_roth import BrokenPower, HardtRoth
from ksdp.audit.numeric.array_types import Floats
from ksdp.audit.statistic import Documents, Pool
from ksdp.audit.statistics.linear.operator import LOST, FactoredContributions
from ksdp.audit.statistics.linear.releases import LinearReleases, moment_numbers
from ksdp.audit.statistics.linear.solve import RunSystem, most_even_draw
from ksdp.audit.statistics.linear.system import LinearSystem

from .who_is_in import check_it_tells_who_is_in


def rows(n: int = 24, d: int = 16, seed: int = 1) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    return sp.csr_array(rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6) * rng.uniform(0.05, 1.0, (n, 1)))


@pytest.mark.parametrize("kind", [HardtRoth, BrokenPower])
@pytest.mark.parametrize("unit", ["record", "entry-printed"])
def test_what_documents_add_makes_the_sums(kind: type[HardtRoth], unit: str) -> None:
    made, matrix = kind(rank=2, iterations=4, epsilon=1e9, unit=unit), rows()
    seen = made.run(Database((matrix,)), np.random.default_rng(0))
    blocks, deviations = made.asked(seen["sums"], (24,), 1, None)
    terms = moment_numbers(made.bounded(matrix), blocks)
    assert deviations.max() < 1e-3
    noise = 6 * np.repeat(deviations, seen["sums"][0].size)
    assert (np.abs(terms.rmatvec(np.ones(24)) - seen["sums"].ravel()) < noise + 1e-9).all()
    told = made.transcript(Database((matrix,)), np.random.default_rng(0))
    np.testing.assert_allclose(deviations, [one.deviation for one in told])


def counts(n: int = 24, d: int = 40, seed: int = 1) -> sp.csr_array:
    """Not negative; some longer than 1, and what some add is clipped."""
    return sp.csr_array(abs(rows(n, d, seed)))


def dp_nmf(epsilon: float) -> DPNMF:
    return DPNMF(rank=2, sweeps=3, epsilon=epsilon, delta=1e-5, contribution=0.5)


def test_dp_nmf_announces_what_its_documents_add() -> None:
    """Topics are those that the run went through: the last sums are right only if all before are."""
    mechanism, matrix = dp_nmf(1e9), counts()
    seen = Observables(mechanism.run(Database((matrix,)), np.random.default_rng(0)))
    adds, known = mechanism.as_equations(seen, Pool(matrix))
    assert np.sqrt(known.noise).max() < 1e-3
    np.testing.assert_allclose(adds(matrix).rmatvec(np.ones(24)), known.sums, atol=1e-2)
    each = np.stack([adds(matrix[[i]]).written()[0] for i in range(24)])
    np.testing.assert_allclose(adds(matrix).written(), each, atol=1e-12)
    numerators, denominators = each[:, :-6].reshape(24, 6, 40), each[:, -6:]
    lengths = np.sqrt(np.square(numerators).sum(axis=2) + denominators**2)
    assert lengths.max() == pytest.approx(0.5)


def test_sums_miss_the_noise_and_what_single_precision_rounds_off() -> None:
    mechanism, matrix = HardtRoth(rank=2, iterations=2, epsilon=1e9), rows()
    seen = Observables(mechanism.run(Database((matrix,)), np.random.default_rng(0)))
    pool = Pool(matrix, 0.5, mechanism=mechanism)
    sent = mechanism.as_equations(seen, pool)[1]
    _, known = LinearReleases().linear_model(seen, pool)
    np.testing.assert_allclose(known.noise, sent.noise + LOST * np.square(sent.sums).mean())


QUIET = FedPower(rank=2, iterations=4, period=1, noise=1e-9, central_noise=1e-9)


@pytest.mark.parametrize("reference", ["common", "first"])
def test_what_the_victims_documents_add_makes_its_uploads(reference: str) -> None:
    made, matrix = replace(QUIET, reference=reference, noise=0.01), rows()
    parties = (sp.csr_array(matrix[:10]), sp.csr_array(matrix[10:]))
    seen = made.run(Database(parties), np.random.default_rng(0))
    blocks, deviations = made.uploaded(seen["means"], (10, 14))
    np.testing.assert_allclose(deviations, 0.01 * np.abs(blocks).max(axis=(1, 2)))
    added = moment_numbers(parties[0], blocks).rmatvec(np.ones(10)) / 10
    noise = 6 * np.repeat(deviations, seen["uploads"][0].size)
    off = np.abs(added - seen["uploads"].ravel())
    assert (off < noise).all()
    assert off.max() > deviations.min(), "the noise is not left out"
    wanted = [np.outer(x @ z, x) for x in parties[0].toarray()[[3]] for z in [blocks[1].T]]
    np.testing.assert_allclose(moment_numbers(parties[0], blocks).written()[3].reshape(4, 2, -1)[1], wanted[0])


def summed(kind: str, noise: float = 1e-9) -> PrivateFedPower | UtilityFedPower:
    """With rows bounded, and every iteration a sum."""
    if kind == "private":
        return PrivateFedPower(rank=2, iterations=4, noise=noise)
    return UtilityFedPower(rank=2, iterations=4, period=1, noise=noise, row_bound=1.0)


@pytest.mark.parametrize("kind", ["private", "utility"])
def test_of_fedpower_with_secure_sums_documents_make_the_sums(kind: str) -> None:
    """The whole is that of all parties' documents, and noise as large as what is left in the sums."""
    matrix, parties = rows(), (sp.csr_array(rows()[:10]), sp.csr_array(rows()[10:]))
    made = summed(kind)
    seen = Observables(made.run(Database(parties), np.random.default_rng(0)))
    adds, known = made.as_equations(seen, Pool(sp.csr_array(matrix[:10]), 1.0, sp.csr_array(matrix[10:]), made))
    np.testing.assert_allclose(adds(matrix).rmatvec(np.ones(24)), known.sums, atol=1e-5)
    loud = summed(kind, 0.5)
    apart = []
    for seed in range(60):
        seen = Observables(loud.run(Database(parties), np.random.default_rng(seed)))
        pool = Pool(sp.csr_array(matrix[:10]), 1.0, sp.csr_array(matrix[10:]), loud)
        adds, known = loud.as_equations(seen, pool)
        apart.append(np.mean(np.square(known.sums - adds(matrix).rmatvec(np.ones(24))) / known.noise))
    assert np.mean(apart) == pytest.approx(1.0, abs=0.1)


def test_of_fedpower_with_secure_sums_a_coalition_knows_its_own_noise() -> None:
    loud, matrix = summed("private", 0.5), rows()
    own = sp.csr_array(matrix[10:])
    database, pool = Database((sp.csr_array(matrix[:10]), own), frozenset({1})), Pool(matrix[:10], 1.0, own, loud)
    apart = []
    for seed in range(60):
        seen = Observables(loud.run(database, np.random.default_rng(seed)))
        adds, known = loud.as_equations(seen, replace(pool, colluding=True))
        first = np.arange(seen["sums"][0].size)  # of a public block
        left = known.sums - adds(sp.csr_array(matrix[:10])).rmatvec(np.ones(10))
        apart.append(np.mean(np.square(left)[first] / np.asarray(known.noise)[first]))
    assert np.mean(apart) == pytest.approx(1.0, abs=0.1)


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
    algorithm = mechanism.algorithm(D)
    first = algorithm.init()
    if isinstance(mechanism, PEMKMeans):
        return [PemState(0, {"centres": now}, first.blocks) for now in seen["centres"]]
    if isinstance(mechanism, PEMLogistic):
        return [PemState(0, {"w": now}, first.blocks) for now in seen["weights"]]
    ran = mechanism.transcript(Database((records(),)), np.random.default_rng(0))
    return [*ran.states[: len(ran.seen)]]


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
    np.testing.assert_allclose(adds(matrix).rmatvec(np.ones(N)), told.sums, atol=N * 2.0**-16)


QUIETLY = [
    *((mechanism, rows(), rows(8, seed=5)) for mechanism in (QUIET, summed("private"), summed("utility"))),
    (HardtRoth(rank=2, iterations=4, epsilon=1e9), rows(), rows(8, seed=5)),
    (dp_nmf(1e7), counts(), counts(8, seed=5)),
    *((mechanism, records(), records(5, 8)) for mechanism in mechanisms(1e7)),
]


@pytest.mark.parametrize(
    ("mechanism", "matrix", "fixed", "others"),
    [*((*case, others) for case in QUIETLY for others in ("none", "fixed", "colluding")), (*QUIETLY[0], "drawn")],
    ids=lambda value: getattr(value, "name", value if isinstance(value, str) else ""),
)
def test_sums_without_much_noise_tell_who_is_in_whoever_else_takes_part(
    mechanism: Any, matrix: sp.csr_array, fixed: sp.csr_array, others: str
) -> None:
    check_it_tells_who_is_in(mechanism, matrix, fixed, others)


@pytest.mark.parametrize(
    ("mechanism", "tried"),
    [
        *((mechanism, True) for mechanism, *_ in QUIETLY),
        *((kind(opens="final"), False) for kind in (HardtRoth, DPNMF, PrivateFedPower)),
        (FedPower(period=1, opens="final"), False),
        *((kind(period=4), False) for kind in (FedPower, UtilityFedPower)),
        (PrivateFedPower(unit="entry-printed", noise=0.1), False),
    ],
)
def test_sums_are_tried_where_they_are_over_documents_and_shown(mechanism: Any, tried: bool) -> None:
    assert [s.name for s in mechanism.statistics] == ["linear-releases"] * tried


@pytest.mark.parametrize("scale", [0.3, 1.0, 20.0])
def test_the_variance_of_the_noise_is_that_of_its_law(scale: float) -> None:
    block, numbers = VectorBlock(1, bound=4.0, fraction_bits=3), np.arange(-2000, 2001)
    budget = Budget(epsilon=block.sensitivity / scale, iterations=1)
    one = float((np.exp(log_law(scale, numbers)) * numbers**2).sum()) / 8.0**2
    assert noise_variance(block, budget, 3) == pytest.approx(3 * one, rel=1e-9)


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
    off = np.stack([mechanism.as_equations(seen, pool)[1].sums - terms.rmatvec(np.ones(N)) for seen in runs])
    expected = told.noise + 0.5 * told.shrink * terms.diagonal()  # `shrink` is over p (1 - p), for p who are in
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
def test_of_few_records_noise_and_coins_are_the_noise_of_the_most_even_draw(kind: type[PemMechanism]) -> None:
    share = 0.8
    found, terms, told = one_run(kind, share)
    noise, shares = told.noise + share * (1 - share) * told.shrink * terms.diagonal(), np.full(len(found), share)
    run = RunSystem(terms, told.sums - terms.rmatvec(shares), shares, noise)
    wanted = most_even_draw(run).of(terms)
    np.testing.assert_allclose(found, wanted, atol=1e-6)
