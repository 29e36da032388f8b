"""Mechanisms that every audit can be checked against: one leaks nothing, the other what it is told to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.contract import Database, Guarantee, Observables, Release, Traits
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.factorisation.power_iteration import orthonormalise
from ksdp.audit.mechanisms.parameters import check_least, check_rank


@dataclass(frozen=True)
class NullMechanism:
    """Announces a basis that is drawn from `rng` alone: an audit of it must flag nothing.

    Announces ``V``, shape (rank, features): orthonormal rows, uniformly distributed over all such bases.

    Parameters
    ----------
    rank : int
        At least 1, below the number of features.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> rng = np.random.default_rng(0)
    >>> seen = NullMechanism(rank=2).run(Database((sp.csr_array(np.eye(4)),)), rng)
    >>> seen["V"].round(2)
    array([[ 0.19, -0.2 ,  0.95,  0.16],
           [-0.61,  0.48,  0.12,  0.61]])
    """

    name: ClassVar[str] = "null"
    version: ClassVar[int] = 1
    guarantee: ClassVar[Guarantee] = Guarantee("none", notes="A control: depends on no data.")

    rank: int = 7

    def __post_init__(self) -> None:
        check_least(self, rank=1)

    @property
    def traits(self) -> Traits:
        """Its rank."""
        return Traits(rank=self.rank)

    def releases(self, features: int) -> tuple[Release, ...]:
        """The basis."""
        check_rank(self.rank, features)
        return (Release("V", (self.rank, features), final=True),)

    def run(self, database: Database, rng: np.random.Generator) -> Observables:
        """Draw a basis; of `database` only the number of features is used."""
        return Observables({"V": self._basis(database, rng)})

    def _basis(self, database: Database, rng: np.random.Generator) -> NDArray[np.float64]:
        features = database.parties[0].shape[1]
        self.releases(features)
        noise = rng.standard_normal((self.rank, features))
        return orthonormalise(noise, noise)


@dataclass(frozen=True)
class PlantedLeak(NullMechanism):
    """A null mechanism that now and then shows the data: an audit of it must find it.

    With probability `strength` (drawn from `rng`) the first row of ``V`` is the mean of the database's rows,
    divided by its norm, and the others are orthonormalised against it; otherwise nothing depends on the data.
    The advantage of the best adversary is therefore at most `strength`.

    Parameters
    ----------
    rank : int
        At least 1, below the number of features.
    strength : float
        In [0, 1].
    """

    name: ClassVar[str] = "planted-leak"
    version: ClassVar[int] = 1
    guarantee: ClassVar[Guarantee] = Guarantee("none", notes="A control: leaks on purpose.")

    strength: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.strength <= 1:
            raise SpecError(f"`strength` must be in [0, 1]; got {self.strength}.")

    def run(self, database: Database, rng: np.random.Generator) -> Observables:
        """Draw a basis and, with probability `strength`, put the mean row in it."""
        basis = self._basis(database, rng)
        if rng.random() < self.strength:
            total = sum(np.asarray(part.sum(axis=0)) for part in database.parties)
            if np.any(total):
                basis = orthonormalise(np.vstack((total, basis[1:])), basis)
        return Observables({"V": basis})
