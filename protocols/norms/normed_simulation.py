"""All parties of a normed sum in one process: for tests, examples and benchmarks, not among real parties.

Each party keeps its own script and its own randomness; what they tell each other passes through `deliver`, which
gives back everything that a listener on all lines would have seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from ksdp.audit.errors import InputError
from ksdp.audit.randomness import RandomBytes, os_random
from ksdp.protocols.channel.rounds import Round, RoundEngine, Script, run_together
from ksdp.protocols.norms.normed_material import NormedMaterial, Offline, deal
from ksdp.protocols.norms.normed_parameters import NormedSumParameters
from ksdp.protocols.norms.normed_sum import NormedSum, online_script
from ksdp.protocols.norms.offline_ways import OFFLINE_WAYS

_Result = TypeVar("_Result")


def deliver(scripts: Sequence[Script[_Result]]) -> tuple[tuple[_Result, ...], list[tuple[str, Round]]]:
    """Run the scripts of all parties, by place; their results, and all that was sent by "party 0" and so on."""
    places = [f"party {place}" for place in range(len(scripts))]
    nodes = {
        name: RoundEngine(name, [other for other in places if other != name]).play("script", b"", places, [script])
        for name, script in zip(places, scripts, strict=True)
    }
    results, sent = run_together(nodes)
    return tuple(results[name][0] for name in places), sent


def simulate_setup(
    parameters: NormedSumParameters, *, offline: Offline = "transfers", random_bytes: RandomBytes = os_random
) -> tuple[Any, ...]:
    """What all pairs do once a session."""
    session, way = random_bytes(32), OFFLINE_WAYS[offline]
    return deliver([way.setup(session, me, parameters, random_bytes) for me in range(parameters.parties)])[0]


def simulate_material(
    parameters: NormedSumParameters,
    setups: Sequence[Any],
    number: int = 0,
    *,
    offline: Offline = "transfers",
    random_bytes: RandomBytes = os_random,
) -> tuple[NormedMaterial, ...]:
    """Everybody's material for sum `number`, with what was set up in the same way."""
    way = OFFLINE_WAYS[offline]
    return deliver([way.material(setup, parameters, number, random_bytes) for setup in setups])[0]


def simulate_normed_sum(
    vectors: ArrayLike,
    *,
    fraction_bits: int = 31,
    integer_bits: int = 16,
    floor_bits: int | None = None,
    offline: Offline = "transfers",
    random_bytes: RandomBytes = os_random,
) -> NormedSum:
    """The whole protocol on the rows of a matrix, one party a row.

    Parameters
    ----------
    vectors : array_like of shape (M, d)
        Everybody's input.
    fraction_bits, integer_bits, floor_bits : int
        As in `NormedSumParameters`.
    offline : {"transfers", "lattice", "dealer"}
        Where the material comes from.
    random_bytes : callable
        Source of secrets.

    Examples
    --------
    >>> found = simulate_normed_sum([[1.0, 2.0], [2.0, 2.0]], offline="dealer")
    >>> found.values.round(8), found.offline
    (array([0.6, 0.8]), 'dealer')
    """
    rows = np.asarray(vectors, dtype=np.float64)
    if rows.ndim != 2:
        raise InputError(f"`vectors` must have two dimensions; got {rows.ndim}.")
    parameters = NormedSumParameters(len(rows), rows.shape[1], fraction_bits, integer_bits, floor_bits)
    if offline == "dealer":
        materials = deal(parameters, random_bytes)
    else:
        setups = simulate_setup(parameters, offline=offline, random_bytes=random_bytes)
        materials = simulate_material(parameters, setups, offline=offline, random_bytes=random_bytes)
    return deliver([online_script(material, row) for material, row in zip(materials, rows, strict=True)])[0][0]
