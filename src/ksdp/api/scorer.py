"""What an estimator gives away, as a score for searches over its settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ksdp.api.call_spec import check_settings
from ksdp.api.calls import audit
from ksdp.audit.errors import InvalidAudit

_SHARE = 0.95
"""Of the documents, as in advice: one document moves the largest D of all."""


@dataclass(frozen=True)
class LeakScorer:
    """What `leak_scorer` gives; it can be pickled where its settings can."""

    settings: Mapping[str, Any]

    def __call__(self, estimator: Any, X: Any, y: Any = None) -> float:
        """Minus the D that 95 % of the rows stay below.

        Parameters
        ----------
        estimator : estimator or Pipeline
            A copy is fitted in every run; what it has learnt already is not looked at.
        X : matrix or table, shape (n_rows, n_features)
        y : sequence, shape (n_rows,), optional
            Labels.

        Returns
        -------
        float
            From -1, certainty, to 0.

        Raises
        ------
        InputError
            If the rows are refused, or the estimator publishes nothing.
        InvalidAudit
            If the controls failed.
        """
        labels = {} if y is None else {"y": y}
        found = audit(X, estimator, progress=False, **self.settings, **labels)
        if not found.summary.valid:
            raise InvalidAudit(f"{found.summary.controls.reason}. Nothing may be said of this setting.")
        rows = found.arrow("statistics").to_pandas()
        return -float(rows.groupby("document")["distance"].max().quantile(_SHARE))


def leak_scorer(**settings: Any) -> LeakScorer:
    """A scorer for scikit-learn's searches: the less an estimator gives away of the scored rows, the higher.

    The score is minus the D that 95 % of the rows stay below, as `ksdp.advise` measures it: chance is in it, and
    fewer rows leak more. So it compares settings; what is to be published is audited whole, by `ksdp.audit`.

    Parameters
    ----------
    **settings
        Those of `ksdp.audit`; here `party_size` is 0.5, `with_runs` 50 and `fresh_runs` 0 unless they are given.

    Returns
    -------
    callable
        `(estimator, X, y=None)` to a number from -1 to 0. The same rows, settings and seed give the same number.

    Raises
    ------
    InputError
        If a setting is refused.

    Examples
    --------
    >>> import numpy as np, ksdp
    >>> from sklearn.decomposition import PCA
    >>> X = np.random.default_rng(0).normal(size=(40, 6))
    >>> leak = ksdp.leak_scorer(with_runs=20, seed=1)
    >>> -1.0 <= leak(PCA(2), X) <= 0.0
    True
    """
    settings = {"party_size": 0.5, "with_runs": 50, "fresh_runs": 0} | settings
    check_settings(settings)
    return LeakScorer(settings)
