"""What is linear in the squares of a document's entries: one pass over the documents serves all who ask for it.

Sums over the features a of x_a^2 c_a, and the largest x_a^2 c_a, for columns c that a run gives. Everything is in
single precision, as stored values are, and a column's sums depend on no column beside it (`kernels`): who asks for
what in the same pass changes no bit.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import cast

import numpy as np

from ksdp.audit.array_types import Singles
from ksdp.audit.kernels import LINE, lined, squared_csr_times_panel
from ksdp.audit.mechanisms.contract import Observables
from ksdp.audit.statistics.contract import Documents
from ksdp.audit.statistics.products import csr_arrays

_LANES = LINE // 4


@dataclass(frozen=True)
class EntryColumns:
    """Some columns c, by who fills them in."""

    count: int
    fill: Callable[[Singles], None]
    """Writes them into an array of shape (features, count)."""
    largest: bool = False
    """Whether the largest x_a^2 c_a are wanted, of c >= 0, and not the sums."""


def ask(observables: Observables, documents: Documents, key: Hashable, columns: EntryColumns) -> None:
    """Have columns in the next pass over the documents.

    `key` names what they hold, among all that the run gives.
    """
    _asked(observables, documents).setdefault(key, columns)


def over_entries(observables: Observables, documents: Documents, key: Hashable, columns: EntryColumns) -> Singles:
    """The sums, or the largest (0 without entries), of x_a^2 c_a for each column, shape (n_documents, count)."""
    found = cast(dict[Hashable, Singles], observables.derive(("found of entries", documents), dict))
    if key not in found:
        ask(observables, documents, key, columns)
        wanted = {name: some for name, some in _asked(observables, documents).items() if name not in found}
        found.update(_pass(observables, documents, wanted))
    return found[key]


def _asked(observables: Observables, documents: Documents) -> dict[Hashable, EntryColumns]:
    return cast(dict[Hashable, EntryColumns], observables.derive(("asked of entries", documents), dict))


def _pass(
    observables: Observables, documents: Documents, wanted: dict[Hashable, EntryColumns]
) -> dict[Hashable, Singles]:
    """All that is wanted; the columns of which the largest are looked for stand last."""
    order = sorted(wanted, key=lambda name: wanted[name].largest)
    tops = sum(wanted[name].count for name in order if wanted[name].largest)
    width = sum(wanted[name].count for name in order)
    lanes = -(-width // _LANES) * _LANES
    at, first = 0, {}
    for name in order:
        if wanted[name].largest and at < lanes - tops:
            at = lanes - tops
        first[name], at = at, at + wanted[name].count

    def panel() -> Singles:
        filled = lined((documents.matrix.shape[1], lanes), np.float32)
        for name in order:
            wanted[name].fill(filled[:, first[name] : first[name] + wanted[name].count])
        return filled

    filled = observables.derive(("panel of entries", tuple(order)), panel)
    out = np.empty((len(documents), lanes + _LANES), dtype=np.float32)
    squared_csr_times_panel(*csr_arrays(documents), filled, out)
    shift = {name: _LANES if wanted[name].largest else 0 for name in order}
    return {name: out[:, first[name] + shift[name] :][:, : wanted[name].count] for name in order}
