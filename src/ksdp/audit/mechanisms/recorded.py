"""Runs that were made elsewhere: their announcements and who was in which, as a mechanism and its design.

Nothing is run again. What the tests assume has to have been so: in every run the documents that took part were
drawn at random, whatever they are and however earlier runs came out, and the mechanism's own randomness was fresh.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.contract import Database, Mechanism, Observables, Release
from ksdp.audit.errors import InputError, KsdpError
from ksdp.audit.mechanisms.callables import FunctionMechanism
from ksdp.audit.mechanisms.schema import inner_of
from ksdp.audit.numeric.array_types import Bits, Floats, Ints
from ksdp.audit.specs.design import Block, Rows
from ksdp.audit.statistics.plain import statistics_of_arrays

_FEWEST = 2
ENOUGH, TRAINING_RUNS = 400, 2000
"""Recorded runs from which on some are learnt from; runs that are learnt from, at most, recorded or simulated."""
_ENOUGH_A_DOCUMENT, _MANY_A_DOCUMENT, _MOST_TOLD = 1.2, 2, 2048
"""Runs a document from which, and up to which, terms of all documents are told, and of how many documents."""


@dataclass(frozen=True, eq=False)
class RecordedDesign:
    """The recorded documents of each run."""

    bits: Bits
    """Shape (n_runs, n_documents)."""
    audited: Rows
    runs: int
    seed: int

    lanes = 1

    @property
    def share(self) -> float:
        """Probability that a run holds a document, as it came out."""
        return float(self.bits.mean())

    def targets(self, lane: int) -> Rows:
        """Every audited document."""
        return self.audited

    def rows(self, lane: int, run: int) -> Rows:
        """Return the documents that were in the run."""
        return np.flatnonzero(self.bits[run])

    def inclusion(self, block: Block) -> Bits:
        """Bits of the audited documents."""
        return np.ascontiguousarray(self.bits[block.start : block.stop, self.audited].T)


class RecordedRuns:
    """Arrays of recorded runs, first axis the run, and their documents, shape (n_runs, n_documents)."""

    version = 1

    def __init__(self, observables: Mapping[str, NDArray[Any]], bits: Bits, features: int) -> None:
        # -0.0 is 0.0
        self._arrays = {name: np.asarray(array, np.float64) + 0.0 for name, array in sorted(observables.items())}
        self._bits = np.ascontiguousarray(bits, dtype=np.bool_)
        if not self._arrays:
            raise InputError("the recorded runs announce nothing: `observables` has no array.")
        runs = len(self._bits)
        for name, array in self._arrays.items():
            if len(array) != runs:
                raise InputError(f"{name!r} was recorded for {len(array)} runs, and who was in them for {runs}.")
            if not np.isfinite(array).all():
                raise InputError(f"the recorded {name!r} holds NaN or infinity.")
        first = _first_of_each(self._bits, self._arrays)
        self.repeated = runs - len(first)
        """Runs that were recorded before, to the last bit; they are counted once."""
        if self.repeated:
            self._bits, self._arrays = self._bits[first], {n: a[first] for n, a in self._arrays.items()}
        self.learnt = min(len(first) // 2, TRAINING_RUNS) if len(first) >= ENOUGH else 0
        """Runs, the first of all, that a statistic may learn from; tests read the others."""
        self._tested = self._bits[self.learnt :]
        digest = hashlib.sha256(self._bits.tobytes())
        for name, array in self._arrays.items():
            digest.update(f"{name}{array.shape}".encode() + np.ascontiguousarray(array).tobytes())
        arms = np.minimum(self._tested.sum(axis=0), (~self._tested).sum(axis=0))
        if (arms < _FEWEST).any():
            raise InputError(
                f"{int((arms < _FEWEST).sum())} documents were in fewer than {_FEWEST} recorded runs, or outside "
                "of fewer: nothing can be said of them; leave them out of the data."
            )
        self.name = f"recorded#{digest.hexdigest()[:12]}"
        """Other tables are another mechanism, so that a store never takes their runs for these."""
        shapes = tuple(Release(name, array.shape[1:], dtype="float64") for name, array in self._arrays.items())
        self.statistics = statistics_of_arrays(shapes, features)
        self._shapes = shapes

    def parts(self, most: int) -> Iterator[tuple[int, tuple[Floats, Bits]]]:
        """The first runs of all and of each half: where they start, what they announced, and who was in."""
        runs = len(self._bits)
        for start, stop in ((0, runs), (0, runs // 2), (runs // 2, runs)):
            yield start, self._between(start, min(stop, start + most))

    def _between(self, start: int, stop: int) -> tuple[Floats, Bits]:
        bits = self._bits[start:stop]
        return np.hstack([array[start:stop].reshape(len(bits), -1) for array in self._arrays.values()]), bits

    @property
    def unexplained(self) -> float:
        """Share of what numbers vary by that is no sum over documents, on average; 1 where that is not seen."""
        documents = self._bits.shape[1]
        numbers, bits = self._between(0, _MANY_A_DOCUMENT * documents)
        runs = len(bits)
        if documents > _MOST_TOLD or runs < _ENOUGH_A_DOCUMENT * documents:
            return 1.0
        numbers = numbers - numbers.mean(axis=0)
        numbers = numbers[:, np.square(numbers).sum(axis=0) > 0.0]
        terms = np.column_stack([np.ones(runs), bits])
        residual = numbers - terms @ np.linalg.lstsq(terms, numbers, rcond=None)[0]
        share = np.square(residual).sum(axis=0) / np.square(numbers).sum(axis=0) / (1.0 - (documents + 1) / runs)
        return float(np.minimum(share, 1.0).mean()) if len(share) else 0.0

    @property
    def tested(self) -> int:
        """Runs that tests read."""
        return len(self._tested)

    @property
    def rows(self) -> int:
        """Documents that a run held: the median."""
        return int(np.median(self._tested.sum(axis=1)))

    @property
    def fixed(self) -> bool:
        """Whether every run held equally many."""
        return bool(np.ptp(self._tested.sum(axis=1)) == 0)

    @property
    def smaller_arm(self) -> int:
        """Runs in the smaller arm, on average."""
        share = self._tested.mean()
        return int(min(share, 1 - share) * len(self._tested))

    def design(self, audited: Rows, seed: int) -> RecordedDesign:
        """Return the recorded documents of the tested runs."""
        return RecordedDesign(self._tested, audited, self.tested, seed)

    def releases(self, features: int) -> tuple[Release, ...]:
        """The recorded arrays."""
        return self._shapes

    def run(self, database: Database, rng: np.random.Generator) -> Observables:
        """Refuse: no run can be made here."""
        raise KsdpError("the runs were recorded elsewhere; none can be made here.")

    def of_run(self, run: int) -> Observables:
        """Return the announcement of one of the tested runs."""
        return self._announced(self.learnt + run)

    def to_learn_from(self) -> Iterator[tuple[Ints, Observables]]:
        """Return the documents, as places in the corpus, and the announcement of each run that no test reads."""
        return ((np.flatnonzero(self._bits[run]), self._announced(run)) for run in range(self.learnt))

    def _announced(self, run: int) -> Observables:
        return Observables({name: array[run] for name, array in self._arrays.items()})


def _first_of_each(bits: Bits, arrays: Mapping[str, NDArray[Any]]) -> NDArray[np.int64]:
    seen: dict[bytes, int] = {}
    for run, row_bits in enumerate(np.packbits(bits, axis=1)):
        content = b"".join(np.ascontiguousarray(array[run]).tobytes() for array in arrays.values())
        seen.setdefault(hashlib.sha256(row_bits.tobytes() + content).digest(), run)
    return np.array(list(seen.values()), dtype=np.int64)


def own_parts(mechanism: Mechanism) -> tuple[Mechanism, ...]:
    """The mechanism, or the one that it runs, if it is not built into ksdp; recorded runs are none of these."""
    for part in (mechanism, inner_of(mechanism)):
        if isinstance(part, FunctionMechanism) or not type(part).__module__.startswith("ksdp."):
            return (part,)
    return ()


def is_own(mechanism: Mechanism) -> bool:
    """Whether it, or one that it runs, is somebody's own code or record: its numbers mean what their bits say."""
    return bool(own_parts(mechanism)) or isinstance(inner_of(mechanism), RecordedRuns)
