"""What a mechanism is: a function of (database, rng) that announces observables.

A mechanism runs on the *ideal functionality*: a secure sum is a plain sum here, because the cryptographic
protocol announces exactly that sum and nothing else. It returns what one coalition sees of the transcript,
after the coalition has subtracted its own share from every announced sum.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Array = NDArray[Any]

OPENS = ("every round", "final")
"""What a run may show its parties: what every round announces, or its final output alone."""


@dataclass(frozen=True, slots=True)
class Announced:
    """One named array of a view, known before any run."""

    name: str
    shape: tuple[int, ...]
    early: bool = field(default=False, compare=False)
    """Raw sums, or of rounds before the last: large, and kept only where `store.observables` is `all`."""
    in_all: int = field(default=0, compare=False)
    """Where these are of the first rounds: different exact numbers of their kind that all rounds open."""


@dataclass(frozen=True, eq=False)
class Database:
    """The parties' matrices of one run; the victim's, which holds the audited document, comes first."""

    parties: tuple[sp.csr_array, ...]
    """One canonical float64 CSR (documents by features) a party."""
    coalition: frozenset[int] = field(default=frozenset())
    """Indices of the parties that pool what they see; never the victim (index 0)."""
    held: NDArray[np.int64] | None = None
    """Rows of the corpus that were stacked into the victim's matrix, in its order; None where there is no corpus.
    For the audit's canaries: no mechanism reads it."""
    chosen: tuple[NDArray[np.int64], int] | None = None
    """Which columns these are of how many candidates, where fewer are left: what is drawn in public for a column
    is drawn for all candidates, so that it is the same whichever are left."""

    def __post_init__(self) -> None:
        if not self.parties:
            raise ValueError("a database needs at least one party.")
        if not self.coalition <= set(range(1, len(self.parties))):
            raise ValueError(f"`coalition` must name parties other than the victim; got {sorted(self.coalition)}.")

    @property
    def outside(self) -> tuple[int, ...]:
        """Indices of the parties whose shares the coalition cannot subtract."""
        return tuple(i for i in range(len(self.parties)) if i not in self.coalition)

    @property
    def rows(self) -> int:
        """Documents of all parties together."""
        return sum(p.shape[0] for p in self.parties)


class Observables(Mapping[str, Array]):
    """What a coalition sees of one run: named arrays, and what is derived from them, computed once a run."""

    __slots__ = ("_arrays", "_derived")

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._arrays = dict(arrays)
        self._derived: dict[Hashable, Any] = {}

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name]

    def __contains__(self, name: object) -> bool:
        return name in self._arrays  # `Mapping` tries and catches, and this is asked hundreds of times a run

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def derive(self, key: Hashable, compute: Callable[[], Any]) -> Any:
        """Return what `compute` gives, computed once for this run.

        Statistics of one family share costly intermediate results this way (the product of all documents
        with the basis, say). `key` must name everything the result depends on besides the run itself.
        """
        if key not in self._derived:
            self._derived[key] = compute()
        return self._derived[key]


@runtime_checkable
class Mechanism(Protocol):
    """A mechanism: a frozen dataclass of parameters with a `run`.

    One may also say

    - `nonnegative`: it refuses negative entries;
    - `final`, a tuple: which of its observables are its final output, all that somebody gets who is given the
      result and did not take part. Without it, the final output cannot be audited by itself;
    - `statistics`, a tuple: statistics of its own, tried besides those that the spec names;
    - `opens`, one of `OPENS`: what a run shows its parties. One that has a single round need not say it;
    - `order_free`: what it announces has the same law whichever order documents stand in. Then no run shows which
      of several copies was in, and who has many is certified clear (`audit.copies`);
    - `opened`, a tuple: names of all that such a run shows them, where `observables` may be told to leave some
      out. An audit that has not looked at all of it clears nothing.

    `name` and `version` never change meaning: a change of what a run computes is a new version, and cached
    runs of another version are never reused.
    """

    @property
    def name(self) -> str:
        """Name in specs and reports."""
        ...

    @property
    def version(self) -> int:
        """Version of what a run computes."""
        ...

    def observables(self, features: int) -> tuple[Announced, ...]:
        """Names and shapes of what `run` announces for a corpus of `features` columns."""
        ...

    def run(self, database: Database, rng: np.random.Generator) -> Observables:
        """Run once; `rng` is the mechanism's own randomness (noise), not that of the database."""
        ...


@runtime_checkable
class Releases(Protocol):
    """A mechanism some of whose observables stand for what it releases: spans of blocks, sums over rounds.

    Whoever adds noise must add it to what is released; observables are then worked out from that, as everybody can
    who sees it.
    """

    def released(self, features: int) -> tuple[Announced, ...]:
        """Names and shapes of what a run releases."""
        ...

    def release(self, database: Database, rng: np.random.Generator) -> Observables:
        """Run once."""
        ...

    def worked_out(self, released: Observables) -> Observables:
        """The observables, from what was released, with or without noise."""
        ...
