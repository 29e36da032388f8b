"""What several runs give away together: the exact law, against an accountant and samples."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import PLDAccountant
from scipy.stats import norm

from ksdp.audit.mechanisms.privacy.spent import Price, SecretDraw, price_of, spent_together, worst_price
from ksdp.audit.registry import make_mechanism, mechanism_of
from ksdp.storage.readers.spec_files import read_spec_file

ROOT = Path(__file__).parents[3]


def made(name: str, **parameters: object) -> object:
    return make_mechanism(name, {"rank": 2, **parameters})


def test_epsilons_of_runs_compose_as_the_pld_accountant_says() -> None:
    """Two runs of several releases each, of different noise."""
    runs = [("hardt-roth", {"epsilon": 1.0, "iterations": 3}), ("dp-nmf", {"epsilon": 2.0, "sweeps": 2})]
    mechanisms = [made(name, **parameters) for name, parameters in runs]
    prices = [price_of(mechanism, (9, 9), 5) for mechanism in mechanisms]
    accountant = PLDAccountant()
    for mechanism, price in zip(mechanisms, prices, strict=True):
        assert price.mu is not None
        twice = 2 if price.why.startswith("one record added") else 1
        for multiplier in mechanism.multipliers((9, 9), 5):
            accountant.compose(dp_event.GaussianDpEvent(multiplier / twice))
    together = spent_together(prices)
    assert together.epsilon(1e-5) == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-3)
    alone = [spent_together([price]).epsilon(1e-5) for price in prices]
    assert max(alone) < together.epsilon(1e-5) < sum(alone)


def test_what_promises_nothing_of_a_record_is_counted_and_not_added() -> None:
    for mechanism, why in (
        (made("pd-nmf"), "no promise"),
        (made("sigma-svd", solver="power", iterations=3), "no promise"),
        (made("fedpower", epsilon=1.0), "does not hold as printed"),
    ):
        price = price_of(mechanism, (9, 9), 5)
        assert price.mu is None
        assert why in price.why
    together = spent_together([Price(None, ""), Price(3.0, ""), Price(4.0, "")])
    assert (together.runs, together.mu, together.unbounded) == (3, 5.0, 1)
    nothing = spent_together([])
    assert (nothing.epsilon(1e-5), nothing.advantage) == (0.0, 0.0)


def draw(name: str, share: float) -> SecretDraw:
    return SecretDraw(share, name)


def test_runs_of_one_secret_draw_tell_no_more_together_than_its_share() -> None:
    """Against the law itself: a noisy bit of everybody, and whether the document was drawn, told without noise."""
    mu, share = 0.5, 0.2
    together = spent_together([Price(mu, ""), Price(None, "", draw("a", 0.1)), Price(None, "", draw("a", share))])
    assert (together.runs, together.unbounded, together.drawn) == (3, 0, share)
    at = np.linspace(-8, 8, 20_001)
    without, held = norm.pdf(at), norm.pdf(at, loc=mu)
    seen = share + (1 - share) * np.abs(without - held).sum() * (at[1] - at[0]) / 2
    assert together.advantage == pytest.approx(seen, abs=1e-6)
    assert together.epsilon(1e-5) == math.inf
    assert spent_together([Price(None, "", draw("a", share))]).advantage == pytest.approx(share)


def test_draws_of_two_keys_let_in_more_than_either() -> None:
    """Against drawing: who is in at least one of them."""
    prices = [Price(None, "", draw(*of)) for of in (("a", 0.2), ("b", 0.3), ("a", 0.1))]
    rng = np.random.default_rng(1)
    some = (rng.random(200_000) < 0.2) | (rng.random(200_000) < 0.3)
    assert spent_together(prices).drawn == pytest.approx(some.mean(), abs=0.005)
    assert spent_together(prices[::-1]).advantage == pytest.approx(0.44)


def test_a_record_that_may_come_or_go_counts_twice() -> None:
    """Replaced is removed and added."""
    comes = made("hardt-roth", epsilon=1.0, iterations=3, adjacency="add-remove")
    price = price_of(comes, (9, 9), 5)
    alone = math.sqrt(sum(1 / m**2 for m in comes.multipliers((9, 9), 5)))
    assert price.mu == pytest.approx(2 * alone)


def test_before_sizes_are_known_the_highest_price_counts() -> None:
    for name, parameters in (
        ("dpdispca", {"epsilon": 1.0}),
        ("hardt-roth", {"epsilon": 1.0, "iterations": 2}),
        ("fedpower-private", {"epsilon": 1.0}),
    ):
        mechanism = made(name, **parameters)
        worst = worst_price(mechanism, 40, 3, 5)
        for others in ((1, 1), (7, 300), (40, 40), (10**6, 2)):
            price = price_of(mechanism, (40, *others), 5)
            assert price.mu <= worst.mu * (1 + 1e-9)


def test_all_that_a_documented_path_opens_adds_up_to_what_its_spec_accepts() -> None:
    """Of noise-and-draw.md: noise after noise, and one run of a draw; counts of all documents are not covered."""
    asked, _ = read_spec_file(ROOT / "examples" / "specs" / "enron-mail6-drawn.toml")
    share, margin, sums = asked.corpus.levers.drawn, asked.decision.margin, mechanism_of(asked.mechanism)
    counts, moments = (
        make_mechanism(name, {"advantage": advantage, "colluders": 1})
        for name, advantage in (("term-counts", 0.06), ("moments", 0.191))
    )
    paths = [([(counts, None), (moments, None)], margin), ([(sums, share)], margin), ([(sums, share)] * 2, margin)]
    for runs, told in (*paths, ([(counts, None), (sums, share)], 0.06 + 0.94 * margin)):
        prices = [
            replace(worst_price(run, 3000, 6, 50), draw=None if drawn is None else draw("ada", drawn))
            for run, drawn in runs
        ]
        assert spent_together(prices).advantage == pytest.approx(told, abs=5e-4)
