"""Leaks of known size beside a mechanism's own, in what it announces: what attacks have to find.

A leak changes some numbers of one array in the runs that hold its document:

- `number`, `numbers`: one number, or several together, move by fixed amounts;
- `spread`: a number strays from its centre by a multiple of what it would;
- `agreement`: two numbers that lie on different sides of their centres are made to agree, now and then, by
  reflecting the second: neither tells anything by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ksdp.audit.errors import SpecError
from ksdp.audit.numeric.array_types import Floats, Ints
from ksdp.audit.specs.models import PlantedSpec

KINDS = {
    "number": "one number moves",
    "numbers": "several numbers move together",
    "spread": "one number strays further",
    "agreement": "two numbers agree in sign",
}
"""Words for each kind of leak."""


@dataclass(frozen=True, eq=False)
class ArrayLeak:
    """One leak; amounts and centres have shape (n_places,)."""

    unit: int
    """Row of its document."""
    kind: str
    array: str
    places: Ints
    amounts: Floats
    centres: Floats

    def moved(self, numbers: Floats, coin: Floats) -> Floats:
        """Its numbers in runs with the document."""
        if self.kind == "spread":
            return np.asarray(self.centres + self.amounts * (numbers - self.centres))
        if self.kind != "agreement":
            return np.asarray(numbers + self.amounts)
        differ = np.prod(numbers - self.centres, axis=-1) < 0
        turned = np.where(
            differ & (coin < self.amounts[0]), 2 * self.centres[1] - numbers[..., 1], numbers[..., 1]
        )
        return np.stack([numbers[..., 0], turned], axis=-1)


def leaks_of(
    planted: Sequence[PlantedSpec], rows: Mapping[str, int], shapes: Mapping[str, tuple[int, ...]]
) -> tuple[ArrayLeak, ...]:
    """Return the leaks of a spec, given the row of each document and the shape of each announced array."""
    sizes = {name: int(np.prod(shape)) for name, shape in shapes.items()}
    leaks = []
    for leak in planted:
        where = f"`planted` of document {leak.document!r}"
        if leak.document not in rows:
            raise SpecError(f"{where}: no document that is audited is called so.")
        if max(leak.places, default=0) >= sizes.get(leak.array, 0):
            raise SpecError(f"{where}: runs announce no such number of {leak.array!r}.")
        count, moves = len(leak.places), leak.kind in ("number", "numbers")
        needed = {"amounts": 1 if leak.kind == "agreement" else count, "centres": 0 if moves else count}
        given = {"amounts": len(leak.amounts), "centres": len(leak.centres)}
        if count != {"numbers": max(count, 1), "agreement": 2}.get(leak.kind, 1) or given != needed:
            raise SpecError(f"{where}: {leak.kind!r} with {count} `places` takes {needed}; given are {given}.")
        amounts, centres = np.array(leak.amounts), np.array(leak.centres or (0.0,) * count)
        leaks.append(
            ArrayLeak(rows[leak.document], leak.kind, leak.array, np.array(leak.places), amounts, centres)
        )
    return tuple(leaks)


def with_leaks(
    leaks: Sequence[ArrayLeak], seen: Mapping[str, NDArray[Any]], units: Ints, rng: np.random.Generator
) -> dict[str, NDArray[Any]]:
    """Add the leaks of the units in a run to its announcement, in the types that it has."""
    changed = {leak.array: np.array(seen[leak.array], np.float64) for leak in leaks}
    coins, inside = rng.random(len(leaks)), set(units.tolist())
    for leak, coin in zip(leaks, coins, strict=True):
        if leak.unit in inside:
            flat = changed[leak.array].reshape(-1)
            flat[leak.places] = leak.moved(flat[leak.places], coin)
    return {**seen, **{name: array.astype(seen[name].dtype) for name, array in changed.items()}}
