"""What a mechanism is called where people read: in lists, reports and terminals. It imports no numerics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def mechanism_words(name: str, parameters: Mapping[str, Any]) -> str:
    """The name; of a mechanism around others, which these are and what is done to them.

    Parameters
    ----------
    parameters : as a spec, a clearance or a ledger has them; what is left out is a default

    Examples
    --------
    >>> mechanism_words("pd-svd", {"rank": 2})
    'pd-svd'
    >>> mechanism_words("noisy", {"mechanism": "pd-svd"})
    'pd-svd with noise'
    >>> mechanism_words("together", {"runs": [{"name": "noisy", "mechanism": "pd-svd"}, {"name": "pd-nmf"}]})
    'together: pd-svd with noise; pd-nmf'
    """
    if name == "noisy":
        return f"{_inner(parameters, 'pd-svd')} with noise"
    runs = parameters.get("runs")
    if name == "together" and isinstance(runs, list | tuple):
        return "together: " + "; ".join(mechanism_words(str(run.get("name")), run) for run in runs)
    return name


def _inner(parameters: Mapping[str, Any], default: str) -> str:
    nested = parameters.get("parameters")
    return mechanism_words(
        str(parameters.get("mechanism", default)), nested if isinstance(nested, Mapping) else {}
    )
