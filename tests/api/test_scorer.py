"""`ksdp.leak_scorer` in scikit-learn's own searches."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ksdp
from ksdp.audit.errors import InputError, InvalidAudit

FEW: dict[str, Any] = {"with_runs": 30, "seed": 1}
HALF = ShuffleSplit(1, test_size=0.5, random_state=0)


@pytest.fixture(scope="module")
def rows() -> NDArray[np.float64]:
    return np.random.default_rng(3).normal(size=(60, 12))


def test_a_search_prefers_fewer_components(rows: NDArray[np.float64]) -> None:
    leak = ksdp.leak_scorer(publishes="pca__components_", **FEW)
    pipeline = make_pipeline(StandardScaler(), PCA())
    search = GridSearchCV(pipeline, {"pca__n_components": [6, 1]}, scoring=leak, cv=HALF, error_score="raise")
    assert search.fit(rows).best_params_ == {"pca__n_components": 1}
    assert (score := search.cv_results_["mean_test_score"]).max() < 0
    search.param_grid = {"pca__n_components": [6]}
    assert search.fit(pl.DataFrame(rows)).best_score_ == score[0]


def test_regularisation_leaks_less_and_accuracy_may_still_decide(rows: NDArray[np.float64]) -> None:
    scoring = {"accuracy": "accuracy", "leak": ksdp.leak_scorer(**FEW)}
    model, labels = LogisticRegression(), np.where(rows[:, 0] > 0, "yes", "no")
    search = GridSearchCV(
        model, {"C": [1e-3, 1e3]}, scoring=scoring, refit="accuracy", cv=HALF, error_score="raise"
    )
    found = search.fit(rows, labels).cv_results_
    assert found["mean_test_leak"][0] > found["mean_test_leak"][1]
    assert search.best_params_ == {"C": 1e3}


def test_a_seed_decides_and_the_score_is_what_an_audit_measures(rows: NDArray[np.float64]) -> None:
    leak = ksdp.leak_scorer(**FEW)
    score = leak(PCA(2), rows)
    assert score == pickle.loads(pickle.dumps(leak))(PCA(2).fit(rows[:9]), rows)
    found = ksdp.audit(rows, PCA(2), party_size=0.5, fresh_runs=0, **FEW)
    largest = found.statistics["distance"].groupby("document").max()
    assert score == -np.quantile(largest, 0.95)
    assert score != ksdp.leak_scorer(**{**FEW, "seed": 2})(PCA(2), rows)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"with_run": 30}, "did you mean `with_runs`"),
        ({"with_runs": "many"}, "must be a whole number"),
        ({"y": [0, 1]}, "`y` comes with the rows"),
        ({"publishes": 3}, "must be names of fitted attributes; got 3"),
        ({"store": "audits"}, "`store` must be a mapping"),
    ],
)
def test_what_is_no_setting_is_refused_before_a_search(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        ksdp.leak_scorer(**settings)


def test_a_void_audit_is_no_score(rows: NDArray[np.float64], monkeypatch: pytest.MonkeyPatch) -> None:
    void = SimpleNamespace(summary=SimpleNamespace(valid=False, controls=SimpleNamespace(reason="a canary sings")))
    monkeypatch.setattr("ksdp.api.scorer.audit", lambda *_, **__: void)
    with pytest.raises(InvalidAudit, match=r"^a canary sings\. Nothing may be said of this setting\.$"):
        ksdp.leak_scorer(**FEW)(PCA(2), rows)
