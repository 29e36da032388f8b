"""The sums that PD-NMF's sweeps announce.

The first ones, and all of them added up, are what statistics look at. Every one of them is what noise is added to
(`privacy.noisy`); the others are then worked out from those.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.mechanisms.contract import Announced
from ksdp.audit.mechanisms.factorisation.nmf_iterations import Factorisation
from ksdp.audit.mechanisms.factorisation.nmf_kernels import Penalties
from ksdp.audit.mechanisms.factorisation.nmf_starts import random_topics
from ksdp.audit.mechanisms.factorisation.simplex import project_simplex

Array = NDArray[np.float64]

_DERIVED = ("sums", "weights", "total", "total_weights")


def announced_sums(
    prefix: str, early: int, wide: tuple[int, ...], narrow: tuple[int, ...], stops: bool, cap: int = 0
) -> list[Announced]:
    """What stands for all sweeps: so many first ones and their total, and how many there were where data says when
    it `stops`.

    Parameters
    ----------
    cap : sweeps at most, whose sums are different numbers
    """
    sums = [
        Announced(f"{prefix}sums", (early, *wide), early=True, in_all=cap * (math.prod(wide) + math.prod(narrow))),
        Announced(f"{prefix}weights", (early, *narrow), early=len(narrow) > 1),
        Announced(f"{prefix}total", wide, early=True),
        Announced(f"{prefix}total_weights", narrow, early=len(narrow) > 1),
    ]
    return [*sums, Announced(f"{prefix}sweeps", (1,))] if stops else sums


def first_sweeps(prefix: str, fit: Factorisation, early: Sequence[int]) -> dict[str, Array]:
    """The arrays of `announced_sums`, of a factorisation with snapshots of the early sweeps."""
    assert fit.total is not None
    assert fit.total_denominators is not None
    moments = [fit.snapshots[number] for number in early]
    return {
        f"{prefix}sums": np.stack([moment.numerators for moment in moments]),
        f"{prefix}weights": np.stack([moment.denominators for moment in moments]),
        f"{prefix}total": fit.total,
        f"{prefix}total_weights": fit.total_denominators,
        f"{prefix}sweeps": np.array([float(fit.sweeps)]),
    }


def first_topics(start: Array, fit: Factorisation, early: Sequence[int]) -> Array:
    """Topics before the first sweep and after each early one, shape (1 + len(early), k, d)."""
    return np.stack([start, *(fit.snapshots[number].T for number in early)])


def topics_from(released: Mapping[str, Array], penalties: Penalties, seed: int) -> Array:
    """Topics before the first sweep and after each early one, as everybody computes them from what is announced.

    Parameters
    ----------
    released : ``sums`` and ``weights``, and ``start`` where it depends on data
    seed : of a start that does not
    """
    _, rank, features = released["sums"].shape
    found = [released["start"] if "start" in released else random_topics(features, rank, seed)]
    for numerators, denominators in zip(released["sums"], released["weights"], strict=True):
        rated = denominators.ndim == 2  # an entry has a weight of its own
        below = denominators + penalties.beta if rated else (denominators + penalties.beta)[:, None]
        topics = np.maximum(numerators - penalties.alpha, 0.0) / np.where(below > 0.0, below, 1.0)
        if not any(penalties) and not rated:
            topics = project_simplex(topics)
        found.append(np.where(below > 0.0, topics, found[-1]))
    return np.stack(found)


def released_sums(observables: Iterable[Announced], caps: Mapping[str, int]) -> Iterator[Announced]:
    """Observables with the sums of every sweep in place of what is worked out from them.

    Parameters
    ----------
    caps : prefix of names to the most sweeps there are
    """
    known = {a.name: a for a in observables}
    derived = {"numerators", "denominators", "topics", *(prefix + name for prefix in caps for name in _DERIVED)}
    yield from (a for name, a in known.items() if name not in derived)
    for prefix, cap in caps.items():
        yield Announced(f"{prefix}round_sums", (cap, *known[f"{prefix}total"].shape), early=True)
        yield Announced(f"{prefix}round_weights", (cap, *known[f"{prefix}total_weights"].shape), early=True)


def every_sweep(prefix: str, fit: Factorisation, cap: int) -> dict[str, Array]:
    """What a factorisation with a snapshot of every sweep releases; zeros after its last sweep."""
    moments = [fit.snapshots[number] for number in range(1, fit.sweeps + 1)]
    sums, weights = ([getattr(m, name) for m in moments] for name in ("numerators", "denominators"))
    return {
        f"{prefix}round_sums": _padded(sums, cap),
        f"{prefix}round_weights": _padded(weights, cap),
        f"{prefix}sweeps": np.array([float(fit.sweeps)]),
    }


def _padded(parts: Sequence[Array], cap: int) -> Array:
    out = np.zeros((cap, *parts[0].shape))
    out[: len(parts)] = parts
    return out


def summed_up(prefix: str, released: Mapping[str, Array], early: Sequence[int]) -> dict[str, Array]:
    """The first sweeps, the last one, and all of them added up; a run that ended before repeats its last one."""
    sums, weights = released[f"{prefix}round_sums"], released[f"{prefix}round_weights"]
    done = int(released[f"{prefix}sweeps"][0]) if f"{prefix}sweeps" in released else len(sums)
    first = [min(number, done) - 1 for number in early]
    found = {
        f"{prefix}sums": sums[first],
        f"{prefix}weights": weights[first],
        f"{prefix}total": sums[:done].sum(axis=0),
        f"{prefix}total_weights": weights[:done].sum(axis=0),
    }
    return found if prefix else found | {"numerators": sums[done - 1], "denominators": weights[done - 1]}
