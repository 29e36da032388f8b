"""Who learns: the run that a spec asks for, the exact run, a party by itself, public data alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ksdp.audit.array_types import Floats
from ksdp.audit.errors import SpecError
from ksdp.audit.learning.ratings import predicts
from ksdp.audit.mechanisms.contract import Database, Mechanism
from ksdp.audit.mechanisms.counted import Counted
from ksdp.audit.mechanisms.factorisation.nmf_kernels import PLAIN, Penalties
from ksdp.audit.mechanisms.privacy.noisy import Noisy
from ksdp.audit.mechanisms.privacy.transcript import GaussianReleases
from ksdp.audit.registry import make_mechanism
from ksdp.audit.statistics.products import BASES


@dataclass(frozen=True, eq=False)
class Learnt:
    """What a learner holds at the end, in columns of the corpus without levers."""

    rows: Floats
    """Its basis as it was announced, brought back: shape (k, features)."""
    mean: Floats | None
    nonnegative: bool
    """Whether the rows are topics."""
    of_ratings: Penalties | None = None
    """Where they are topics of ratings: the regularisers by which coefficients are fitted to them."""

    @property
    def directions(self) -> Floats:
        """An orthonormal basis of the rows, shape (features, at most k)."""
        _, sizes, rows = np.linalg.svd(self.rows, full_matrices=False)
        floor = np.finfo(np.float64).eps * max(self.rows.shape) * (sizes[0] if len(sizes) else 0.0)
        return np.ascontiguousarray(rows[sizes > floor].T)


def exact_of(mechanism: Mechanism) -> Mechanism:
    """The mechanism without noise, at the same rank: what it would be if nothing had to be protected."""
    if isinstance(mechanism, Noisy | Counted):
        return mechanism.inner
    if isinstance(mechanism, GaussianReleases):
        name = "pd-nmf" if getattr(mechanism, "nonnegative", False) else "pd-svd"
        return make_mechanism(name, {"rank": int(getattr(mechanism, "rank", 1))})
    if not {a.name for a in mechanism.observables(2**20)} & set(BASES):
        raise SpecError(f"{mechanism.name} learns no basis: what is gained by it is not measured.")
    return mechanism


def quickly(mechanism: Mechanism) -> Mechanism:
    """The same result, without what only an observer of every round needs."""
    changes: dict[str, Any] = {}
    if isinstance(mechanism, Noisy):
        if "opens" in mechanism.parameters:
            changes["parameters"] = {**mechanism.parameters, "opens": "final"}
    elif dataclasses.is_dataclass(mechanism) and any(f.name == "opens" for f in dataclasses.fields(mechanism)):
        changes["opens"] = "final"
        if getattr(mechanism, "announce", ()):
            changes["announce"] = ()
    if not changes:
        return mechanism
    same: Any = mechanism
    try:
        changed: Mechanism = dataclasses.replace(same, **changes)
    except ValueError:
        return mechanism
    return changed


def learn(
    mechanism: Mechanism, parties: Sequence[sp.csr_array], lift: sp.csr_array | None, rng: np.random.Generator
) -> Learnt:
    """Run once and bring the basis back to the columns of the corpus.

    Parameters
    ----------
    parties : one matrix a party
    lift : csr_array, shape (features, columns of the parties), optional
        `ksdp.audit.levers.lift`; None where these are the corpus's own columns.
    """
    seen = mechanism.run(Database(tuple(parties)), rng)
    name = next((name for name in BASES if name in seen), None)
    if name is None:
        raise SpecError(f"{mechanism.name} announces no basis: what is gained by it is not measured.")
    rows = np.asarray(seen[name], dtype=np.float64)
    mean = np.asarray(seen["mean"], dtype=np.float64).ravel() if "mean" in seen else None
    if lift is not None:
        rows = np.asarray((lift @ rows.T).T)
        mean = None if mean is None else np.asarray(lift @ mean)
    how = getattr(mechanism, "penalties", PLAIN) if predicts(mechanism) else None
    return Learnt(rows, mean, name == "T", how)
