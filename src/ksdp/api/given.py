"""Mechanisms and statistics of a Python program: functions, estimators, objects."""

from __future__ import annotations

import hashlib
import io
import secrets
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from ksdp.audit.contract import Mechanism, Observables
from ksdp.audit.errors import InputError
from ksdp.audit.mechanisms.callables import failure_of, pickled
from ksdp.audit.statistic import Documents, Statistic

PUBLISHED = {
    "coef_": ("coef_", "intercept_"),
    "components_": ("components_", "mean_"),
    "cluster_centers_": ("cluster_centers_",),
}
"""Attributes that an estimator is taken to publish: the first of these that it has after it was fitted.

Of a pipeline every step before the last publishes all numbers that it learnt: who uses the last needs them.
"""


def outside() -> int:
    """Level of the stack, for a warning, at which the program stands that calls this package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals["__name__"].partition(".")[0] == "ksdp":
        frame, level = frame.f_back, level + 1
    return level


def is_estimator(thing: Any) -> bool:
    """Whether it is a scikit-learn estimator, or behaves like one."""
    return not isinstance(thing, type) and hasattr(thing, "fit") and hasattr(thing, "get_params")


def lent_name(name: str, version: int | str | None) -> str:
    """The name under which a program's own object stands in a store.

    What a function computes cannot be told from its name, so what it computed is used again only where the caller
    says that it is the same `version`; otherwise the name is new at every call.
    """
    name = name.strip("<>")
    return f"{name}#{secrets.token_hex(4)}" if version is None else f"{name}#v{version}"


def version_of(*things: Any) -> str:
    """A version by what they hold and what their code is: enough to cite, and not to read stored runs by."""
    data = pickled(things)
    return secrets.token_hex(4) if data is None else hashlib.sha256(data).hexdigest()[:8]


def called(function: Callable[[Any, np.random.Generator], Any], dense: bool) -> Callable[..., Any]:
    """The function, handed what it was written for: a NumPy array, or a CSR array."""
    heard: set[tuple[Any, ...]] = set()

    def call(rows: sp.csr_array, rng: np.random.Generator) -> Any:
        with _heard_once(heard):
            return function(rows.toarray() if dense else rows, rng)

    return call


def labelled(features: int, rows: sp.csr_array) -> tuple[sp.csr_array, Any]:
    """Features, and the labels after them."""
    return sp.csr_array(rows[:, :features]), np.asarray(rows[:, features:].toarray()).ravel()


def estimator_call(estimator: Any, publishes: Sequence[str] | None, dense: bool, features: int | None) -> Any:
    """A mechanism that fits a copy of an estimator and announces some of what it learnt.

    A `random_state` that is None is drawn from the run's own generator; one that is set stays.

    Parameters
    ----------
    publishes : names of fitted attributes, `step__attribute` in a pipeline; by default what `PUBLISHED` says
    features : columns that are features, where labels come after them
    """
    from sklearn.base import clone

    heard: set[tuple[Any, ...]] = set()

    def call(rows: sp.csr_array, rng: np.random.Generator) -> dict[str, Any]:
        matrix, labels = (rows, None) if features is None else labelled(features, rows)
        fresh = clone(estimator)
        given = fresh.get_params().items()
        unset = [key for key, value in given if value is None and key.split("__")[-1] == "random_state"]
        fresh.set_params(**{key: int(rng.integers(2**31)) for key in unset})
        with _heard_once(heard):
            fitted = fresh.fit(matrix.toarray() if dense else matrix, *(() if labels is None else (labels,)))
        steps = dict(getattr(fitted, "steps", ()))
        last = fitted[-1] if steps else fitted
        if not (names := publishes or (*_learnt(list(steps.items())[:-1]), *_usual(last))):
            raise InputError(
                f"`publishes` must name the fitted attributes that {type(estimator).__name__} would publish."
            )
        values = {name: _attribute(steps, last, name) for name in names}
        if missing := [name for name, value in values.items() if value is None]:
            raise InputError(f"{type(estimator).__name__} has no fitted attribute {missing[0]!r} to publish.")
        return {name: np.asarray(value, dtype=np.float64) for name, value in values.items()}

    return call


def _usual(last: Any) -> tuple[str, ...]:
    names: tuple[str, ...] = next((names for first, names in PUBLISHED.items() if hasattr(last, first)), ())
    return tuple(name for name in names if getattr(last, name, None) is not None)


def _learnt(steps: Sequence[tuple[str, Any]]) -> list[str]:
    return [
        f"{step}__{name}"
        for step, estimator in steps
        for name, value in getattr(estimator, "__dict__", {}).items()
        if name.endswith("_") and isinstance(value, np.ndarray) and value.dtype.kind in "biuf"
    ]


def _attribute(steps: Mapping[str, Any], last: Any, name: str) -> Any:
    step, _, attribute = name.rpartition("__")
    return getattr(steps.get(step) if step else last, attribute, None)


_PRINTED = ("a run printed",)


@contextmanager
def _heard_once(heard: set[tuple[Any, ...]]) -> Iterator[None]:
    """Let through what the first run prints, and a warning the first time that it comes from a place."""
    silent = redirect_stdout(io.StringIO()) if _PRINTED in heard else nullcontext()
    heard.add(_PRINTED)
    with warnings.catch_warnings(record=True) as caught, silent:
        yield
    for warning in caught:
        if (place := (warning.category, warning.filename, warning.lineno)) not in heard:
            heard.add(place)
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


@dataclass(frozen=True)
class _FunctionStatistic:
    """A function of (observables, matrix of the documents) as a statistic."""

    name: str
    function: Callable[[Observables, Any], Any]
    dense: bool
    version: int = 1
    family: str = "own"
    needs: tuple[str, ...] = ()
    sentence = "A statistic of whoever made this audit."

    def evaluate(self, observables: Observables, documents: Documents) -> np.ndarray:
        matrix = documents.derive("dense", documents.matrix.toarray) if self.dense else documents.matrix
        try:
            values = np.asarray(self.function(observables, matrix), dtype=np.float64)
        except Exception as error:  # somebody else's code
            raise InputError(
                f"the statistic {self.name!r} failed: {failure_of(error)}. It is handed what a run announced "
                f"({', '.join(observables)}), and the documents as a matrix of shape {matrix.shape}."
            ) from error
        if values.shape != (len(documents),) or not np.isfinite(values).all():
            raise InputError(
                f"the statistic {self.name!r} must return a finite number a document, shape ({len(documents)},), "
                f"not shape {values.shape}{'' if np.isfinite(values).all() else ' with NaN or infinity'}."
            )
        return values


def lent_statistic(thing: Any, dense: bool = False) -> Statistic:
    """A statistic that follows the contract as it is; a function, handed a dense or a CSR matrix, as one.

    Raises
    ------
    InputError
        If it is neither.
    """
    made = thing() if isinstance(thing, type) else thing
    if all(hasattr(made, name) for name in ("name", "version", "family", "needs", "evaluate")):
        return cast(Statistic, made)
    if callable(made):
        return _FunctionStatistic(lent_name(getattr(made, "__name__", "statistic"), None), made, dense)
    raise InputError(f"`statistics` must hold names, statistics or functions; got {type(thing).__name__}.")


def follows_contract(thing: Any) -> bool:
    """Whether something is a mechanism already."""
    return isinstance(thing, Mechanism) and not isinstance(thing, type)
