"""The weighted sum of all statistics: scikit-learn's discriminant, and leaks that no statistic tells alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from ksdp.audit.contract import Database, Documents, Observables, Pool, Release, TableStatistic
from ksdp.audit.statistics.combined import STATISTICS, discriminants
from ksdp.audit.verdicts.laws import ks_table

Floats = NDArray[np.float64]


@pytest.mark.parametrize("shift", [0.0, 0.7])
def test_weights_are_those_of_the_linear_discriminant(shift: float) -> None:
    rng = np.random.default_rng(3)
    mixing = rng.normal(size=(4, 4))
    bits = rng.random((400, 5)) < 0.3
    values = rng.normal(size=(400, 5, 4)) @ mixing + shift * bits[:, :, None] * np.array([1.0, -2.0, 0.0, 3.0])
    values[:, :, 3] *= 1e6  # units are of no account
    found = discriminants((np.asarray(v), np.asarray(b)) for v, b in zip(values, bits, strict=True))
    for i in range(5):
        z = np.clip((values[:, i] - found.centre[i]) / found.deviation[i], -8.0, 8.0)
        spread = z.copy()
        for arm in (bits[:, i], ~bits[:, i]):
            spread[arm] -= z[arm].mean(axis=0)
        units = spread.std(axis=0)
        oracle = LinearDiscriminantAnalysis("lsqr", shrinkage=4 / 404).fit(z / units, bits[:, i])
        assert found.weights[i] * units == pytest.approx(oracle.coef_[0], rel=2e-2, abs=1e-9)


def test_constant_statistics_and_documents_that_are_always_in_weigh_nothing() -> None:
    rng = np.random.default_rng(4)
    runs = [(np.array([[1.0, x], [1.0, x]]), np.array([x > 0, True])) for x in rng.normal(size=200)]
    found = discriminants(iter(runs))
    assert found.weights[0, 0] == 0.0 < found.weights[0, 1]
    assert (found.weights[1] == 0.0).all()
    assert np.isfinite(found.standardised(np.array([[5.0, 1e9], [5.0, -1e9]]))).all()


@dataclass(frozen=True)
class Halves:
    """Announces the sum of the documents with noise, and the same sum with nearly the opposite noise."""

    name: str = "halves"
    version: int = 1

    def releases(self, features: int) -> tuple[Release, ...]:
        return (Release("left", (features,)), Release("right", (features,)))

    def run(self, database: Database, rng: np.random.Generator) -> Observables:
        total = np.sum([np.asarray(part.sum(axis=0)).ravel() for part in database.parties], axis=0)
        noise = rng.normal(size=(2, len(total)))
        return Observables({"left": total + 20.0 * noise[0], "right": total - 20.0 * noise[0] + noise[1]})


@dataclass(frozen=True)
class Along:
    """The product of a document with what is left of an array."""

    name: str

    def __call__(self, observables: Observables, documents: Documents) -> Floats:
        return documents.matrix @ np.asarray(observables[self.name], np.float64)


def test_together_they_tell_what_none_tells_alone() -> None:
    matrix = sp.csr_array(np.random.default_rng(5).normal(size=(40, 8)))
    pool = Pool(matrix, 0.5, mechanism=Halves())
    documents = Documents(matrix, pool=pool)
    others = tuple(TableStatistic(name, "arrays", Along(name), "Products.", (name,)) for name in ("left", "right"))
    statistic = STATISTICS[0].over(others, ["left", "right"])
    rng, bits, values = np.random.default_rng(6), [], {s.name: [] for s in (*others, statistic)}
    for _ in range(600):
        places, rows = pool.one_choice(rng)
        seen = Observables(Halves().run(Database(rows), rng))
        bits.append(np.isin(np.arange(40), places))
        for one in (*others, statistic):
            values[one.name].append(one.evaluate(seen, documents))
        some = documents.at(np.array([7, 3]))
        assert (statistic.evaluate(seen, some) == values["combined"][-1][[7, 3]]).all(), "whoever is beside it"
    held = np.array(bits).T
    distance = {
        name: np.median(ks_table(np.array(of, np.float32).T, held).distance) for name, of in values.items()
    }
    assert max(distance["left"], distance["right"]) < 0.12
    assert distance["combined"] > 0.25


def test_it_needs_others_and_documents_that_fit() -> None:
    (alone,) = STATISTICS
    assert alone.asks_for({}, 10) == "two other statistics, or more"
    two = replace(alone, others=(alone, alone))
    assert two.asks_for({}, 2**23) == ""
    assert "8,388,608 documents" in two.asks_for({}, 2**23 + 1)
