"""Certified bounds against the true total variation, and against what is measured. Each test prints its line."""

from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.integrate import quad
from scipy.stats import norm

from ksdp.audit.contract import Database, Mechanism
from ksdp.audit.corpus.matrix import Corpus, canonical
from ksdp.audit.opened import Opened
from ksdp.audit.planning import make_plan
from ksdp.audit.proofs import certify, paired_advantages
from ksdp.audit.specs.models import parse_spec
from ksdp.audit.verdicts.certificates import certified_bound, pair_advantage
from ksdp.audit.verdicts.laws import ArmTests, ks_table
from ksdp.audit.verdicts.margins import distance_band

pytestmark = pytest.mark.validity

REPLAYS, DOCUMENTS = 1000, 10
SCATTER = 0.1


def true_mean(shift: float) -> float:
    """Of the advantage over all pairs."""
    weight = lambda x: pair_advantage(abs(x)) * norm.pdf(x, shift, SCATTER)  # noqa: E731
    return float(quad(weight, shift - 1, shift + 1, points=[0.0, shift], limit=200)[0])


def total_variation(shift: float, tau: float) -> float:
    """Of the two laws, by integration."""
    free = np.sqrt(1 + tau**2)
    gap = lambda t: abs(norm.pdf(t, shift, np.hypot(free, SCATTER)) - norm.pdf(t, 0, free))  # noqa: E731
    return float(quad(gap, -15, 17, limit=400)[0] / 2)


@pytest.mark.parametrize("pairs", [50, 300])
@pytest.mark.parametrize("tau", [0.0, 1.0], ids=["nothing hidden by the others", "others hide half"])
def test_the_bound_covers_and_is_seldom_below_what_is_measured(pairs: int, tau: float) -> None:
    """What is announced is s + x with the document and s without it, s ~ N(0, tau^2), with noise N(0, 1)."""
    rng = np.random.default_rng(1)
    shift = np.linspace(0.02, 2.0, DOCUMENTS)
    mean, truth = np.array([true_mean(s) for s in shift]), np.array([total_variation(s, tau) for s in shift])
    assert (truth <= mean + 1e-9).all()
    below, under, contradicted, width = 0, 0, 0, 0.0
    inclusion = np.arange(600) % 3 == 0
    for _ in range(REPLAYS):
        # The run's own value of the document scatters around its shift, so that pairs differ.
        found = pair_advantage(np.abs(shift[:, None] + SCATTER * rng.normal(size=(DOCUMENTS, pairs))))
        bound = certified_bound(found, 0.05, DOCUMENTS)
        noise = np.sqrt(1 + tau**2) * rng.normal(size=(DOCUMENTS, 600))
        held = inclusion * (shift[:, None] + SCATTER * rng.normal(size=noise.shape))
        bits = np.broadcast_to(inclusion, noise.shape)
        table = ks_table(noise + held, np.ascontiguousarray(bits))
        low, _ = distance_band(table.distance, table.n_with, table.n_without, 0.05 / DOCUMENTS)
        below += bool((bound < truth).any())
        under += bool((bound < mean).any())
        contradicted += bool((bound < low).any())
        width += float((bound - found.mean(axis=1)).mean()) / REPLAYS
    print(
        f"{pairs} pairs, tau {tau}: below the truth in {below / REPLAYS}, below the mean over all pairs in "
        f"{under / REPLAYS}, below what is measured {contradicted} times; adds {width:.3f}"
    )
    assert below <= under <= 0.05 * REPLAYS
    assert contradicted <= 0.05 * REPLAYS  # the band's level; what voids an audit is far stricter, see below


@pytest.mark.parametrize("share", [0.01, 0.3])
def test_the_mean_is_covered_where_few_pairs_tell_everything(share: float) -> None:
    """Values 0 and 1: what the empirical variance does not see."""
    rng = np.random.default_rng(2)
    missed = [certified_bound((rng.random((1, 200)) < share) * 1.0, 0.2, 1)[0] < share for _ in range(REPLAYS)]
    print(f"share {share}: the mean is above the bound in {np.mean(missed)} at 0.2")
    assert np.mean(missed) <= 0.2


def test_adding_pairs_until_the_bound_is_small_enough_gains_nothing() -> None:
    """The smallest bound over looks after every 50 pairs is below the mean as rarely as promised."""
    rng = np.random.default_rng(3)
    looks = range(50, 401, 50)
    missed = np.zeros(2)
    for _ in range(REPLAYS):
        for kind, found in enumerate(((rng.random((1, 400)) < 0.3) * 1.0, rng.beta(2, 18, (1, 400)))):
            mean = (0.3, 0.1)[kind]
            missed[kind] += min(certified_bound(found[:, :stop], 0.2, 1)[0] for stop in looks) < mean
    print(f"at any of {len(looks)} looks below the mean: {missed / REPLAYS} at 0.2")
    assert (missed <= 0.2 * REPLAYS).all()


def test_likelihood_ratios_cover_where_each_release_hangs_on_the_noise_of_the_one_before() -> None:
    """y1 ~ N(m, 1), y2 ~ N(m |y1|, 1), m = 0 or 0.4: total variation by integration over y1."""
    m, pairs = 0.4, 120
    grid = np.linspace(-9, 9.4, 4001)
    other = norm.pdf(grid, m)
    here = norm.pdf(grid)
    # Over y2 given y1: the part of one weighted normal above the other, in closed form.
    apart = m * np.abs(grid)
    with np.errstate(divide="ignore", invalid="ignore"):
        at = apart / 2 + np.log(here / other) / apart
    above = here * norm.cdf(at) - other * norm.cdf(at - apart)
    truth = float(np.trapezoid(np.where(apart > 0, above, np.maximum(here - other, 0)), grid))
    rng = np.random.default_rng(4)
    below, means = 0, []
    for _ in range(REPLAYS):
        one = rng.normal(size=pairs)
        two = rng.normal(size=pairs)
        ratio = norm.logpdf(one) + norm.logpdf(two) - norm.logpdf(one, m) - norm.logpdf(two, m * np.abs(one))
        found = np.maximum(0.0, -np.expm1(-np.maximum(ratio, 0.0)))
        means.append(found.mean())
        below += bool(certified_bound(found[None], 0.05, 1)[0] < truth)
    print(f"total variation {truth:.4f}, mean {np.mean(means):.4f}; bound below it in {below / REPLAYS} at 0.05")
    assert np.mean(means) == pytest.approx(truth, abs=4 * np.std(means) / np.sqrt(REPLAYS))
    assert below <= 0.05 * REPLAYS


def test_only_noise_that_is_not_what_it_says_contradicts_its_certificate() -> None:
    """The largest advantage there is, at its bound: sound audits are never voided, half of the noise always is."""
    rng = np.random.default_rng(5)
    shift, pairs, runs = 1.0, 200, 1200
    sound = wrong = 0
    inclusion = np.broadcast_to(np.arange(runs) % 3 == 0, (DOCUMENTS, runs))
    found = np.full((DOCUMENTS, pairs), pair_advantage(shift))
    for replay in range(REPLAYS):
        for factor in (1.0, 0.4) if replay < 50 else (1.0,):
            values = factor * rng.normal(size=(DOCUMENTS, runs)) + shift * inclusion
            table = ks_table(values, np.ascontiguousarray(inclusion))
            arms = [np.asarray(a)[:, None] for a in (table.n_with, table.n_without, table.distance)]
            blank = np.zeros((DOCUMENTS, 1))
            tests = ArmTests(*arms, blank, blank)
            voided = bool(certify(found, DOCUMENTS, 0.005).contradicted(tests, DOCUMENTS, 1).any())
            sound, wrong = sound + (voided and factor == 1), wrong + (voided and factor < 1)
    print(f"voided: {sound} of {REPLAYS} sound audits, {wrong} of 50 with 0.4 of the noise")
    assert sound == 0
    assert wrong == 50


IN_ALL, IN = 16, 8
CERTIFIED = {
    "moments": {"name": "moments", "rank": 2, "advantage": 0.4, "colluders": 1},
    "V alone": {
        "name": "noisy",
        "mechanism": "pd-svd",
        "noise": 1.0,
        "scale": 1.0,
        "parameters": {"rank": 2, "opens": "final"},
    },
}


def certified(name: str, rows: np.ndarray) -> tuple[Mechanism, np.ndarray]:
    """The mechanism, and the bound of every row, of which half are in."""
    corpus = Corpus(canonical(sp.csr_array(rows)), np.array([f"d{i}" for i in range(len(rows))]))
    tables = {"seed": 1, "corpus": {"path": "x"}, "mechanism": CERTIFIED[name]}
    design = {"party_size": len(rows) // 2, "with_runs": 20}
    plan = make_plan(Opened.of(parse_spec(tables | {"design": design, "certificate": {"pairs": 200}}), corpus))
    return plan.mechanism, certified_bound(paired_advantages(plan, 0, 200), 0.05, len(rows))


def announced(mechanism: Mechanism, some: np.ndarray, own: sp.csr_array, rng: np.random.Generator) -> np.ndarray:
    """What a party that works with nobody sees of a run."""
    parts = tuple(sp.csr_array(part) for part in np.array_split(some, 2))
    if mechanism.name == "moments":  # of three
        return mechanism.run(Database((*parts, own), frozenset({2})), rng)["moments"]
    return mechanism.run(Database(parts), rng)["V"].ravel()


def advantages(guess: np.ndarray, truth: np.ndarray) -> np.ndarray:
    return np.array([guess[b, x].mean() - guess[~b, x].mean() for x, b in enumerate(truth.T)])


@pytest.mark.parametrize("name", CERTIFIED)
def test_a_discriminant_that_learns_from_runs_gets_no_more_than_is_certified(name: str) -> None:
    """Of 60 rows, 30 of them in, on half of 8,000 runs; judged on the other half."""
    rng = np.random.default_rng(8)
    rows = rng.normal(size=(60, 4)) * [1.0, 0.8, 0.3, 0.2]
    rows[0] = [0.0, 0.0, 0.0, 6.0]  # one that stands out
    mechanism, bound = certified(name, rows)
    own = sp.csr_array(rng.normal(size=(3, 4)))
    said, held = [], np.zeros((8_000, 60), dtype=bool)
    for bits in held:
        bits[rng.choice(60, 30, replace=False)] = True
        said.append(announced(mechanism, rows[bits], own, rng))
    numbers = np.array(said)
    numbers = numbers - numbers[:4_000].mean(axis=0)
    signs = np.where(held, 1.0, -1.0)
    weights = np.linalg.solve(np.cov(numbers[:4_000].T), numbers[:4_000].T @ signs[:4_000])
    found = advantages(numbers[4_000:] @ weights > 0, held[4_000:])
    most = found.argmax()
    print(f"{name}: a discriminant finds {found[most]:.3f}, where {bound[most]:.3f} is certified")
    chance = 4 * np.sqrt(0.5 / 4_000)
    assert (found <= bound + chance).all()
    assert found[most] > chance


@pytest.mark.parametrize("name", CERTIFIED)
def test_whoever_weighs_every_database_there_is_gets_no_more_than_is_certified(name: str) -> None:
    """16 rows, 8 of them in: the exact likelihood ratio over all 12,870 databases, on runs of the mechanism."""
    rng = np.random.default_rng(6)
    rows = rng.normal(size=(IN_ALL, 4)) * [1.0, 0.8, 0.3, 0.2]
    rows[0] = [0.0, 0.0, 0.0, 3.0]  # one that stands out
    mechanism, bound = certified(name, rows)
    databases = np.array(list(combinations(range(IN_ALL), IN)))
    held = np.zeros((len(databases), IN_ALL), dtype=bool)
    np.put_along_axis(held, databases, True, axis=1)
    own = sp.csr_array(rng.normal(size=(3, 4)))

    def exact(some: np.ndarray) -> np.ndarray:
        """Written apart from the mechanism."""
        if name == "moments":
            short = some / np.maximum(np.linalg.norm(some, axis=1, keepdims=True), 1)
            return ((short.T @ short) * (np.sqrt(2) - (np.sqrt(2) - 1) * np.eye(4)))[np.triu_indices(4)]
        V = np.linalg.svd(some)[2][:2]
        return (V * np.sign(np.take_along_axis(V, np.abs(V).argmax(1)[:, None], 1))).ravel()

    def seen(some: np.ndarray, factor: float) -> np.ndarray:
        return exact(some) + factor * (announced(mechanism, some, own, rng) - exact(some))

    deviation = mechanism.scale(4) if name == "moments" else mechanism.deviation("V")
    laws = np.array([exact(rows[some]) for some in databases])

    def advantage(factor: float) -> np.ndarray:
        said, bits = [], []
        for place in rng.integers(len(databases), size=3000):
            told = seen(rows[databases[place]], factor)
            far = np.square(told - laws).sum(axis=1) / (2 * (factor * deviation) ** 2)
            weights = np.exp(far.min() - far)
            said.append(weights @ held > weights.sum() / 2)  # as many databases have x as have not
            bits.append(held[place])
        return advantages(np.array(said), np.array(bits))

    found = advantage(1.0)
    most = found.argmax()
    print(f"{name}: at most {found[most]:.3f}, where {bound[most]:.3f} is certified (of others {bound.min():.3f})")
    chance = 4 * np.sqrt(0.5 / 3000)
    assert (found <= bound + chance).all()
    assert found[most] > max(0.3 * bound[most], chance)
    assert (advantage(0.2) > bound).any(), "a fifth of the noise is noticed"
