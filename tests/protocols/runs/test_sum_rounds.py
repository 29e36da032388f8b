"""Secure sums of a run: whoever tells two parties different things is noticed with the next sum."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ksdp.audit.errors import ProtocolError
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.protocols.channel.rounds import Bodies, RoundEngine, Rounds, run_together
from ksdp.protocols.runs.programs import Precision
from ksdp.protocols.runs.run_terms import RunTerms
from ksdp.protocols.runs.sum_rounds import SumRounds
from ksdp.protocols.sums.sum_messages import SumTerms

from ..conftest import identity, participant, seeded

NAMES = ("ada", "bob", "cyd")
Array = NDArray[np.float64]


def two_sums(name: str, first: float) -> Rounds[list[Array]]:
    """One party's side of two sums of two numbers."""
    everybody = tuple(map(participant, NAMES))
    terms = RunTerms(PDNMF(rank=2), 4, "sha256:0", Precision(31, 2.0**12), everybody)
    engine = RoundEngine(name, terms.others(name))
    sums = SumRounds(terms, SumTerms(everybody, b"a session"), engine, identity(name), seeded(name))
    yield from sums.begin()
    one = yield from sums.total(np.array([first, 1.0]))
    return [one, (yield from sums.total(one + 1.0))]


def test_all_have_the_same_sums() -> None:
    results, _ = run_together({name: two_sums(name, float(place)) for place, name in enumerate(NAMES)})
    for one, two in results.values():
        np.testing.assert_allclose(one, [3.0, 3.0], atol=1e-8)
        np.testing.assert_allclose(two, 3 * (one + 1.0), atol=1e-8)


def test_a_party_that_tells_two_others_different_numbers_ends_the_run_with_the_next_sum() -> None:
    """Bob is there twice, with the same keys: one of him speaks with ada, the other with cyd."""
    sides = {"ada": two_sums("ada", 0.0), "bob": two_sums("bob", 1.0), "cyd": two_sums("cyd", 2.0)}
    sides["bob to cyd"] = two_sums("bob", 5.0)
    spoken = {name: next(side) for name, side in sides.items()}

    def step() -> None:
        heard: dict[str, Bodies] = {
            "ada": {n: spoken[n].messages["ada"] for n in ("bob", "cyd")},
            "cyd": {"ada": spoken["ada"].messages["cyd"], "bob": spoken["bob to cyd"].messages["cyd"]},
            "bob": {n: spoken[n].messages["bob"] for n in ("ada", "cyd")},
            "bob to cyd": {n: spoken[n].messages["bob"] for n in ("ada", "cyd")},
        }
        for name, side in sides.items():
            spoken[name] = side.send(heard[name])

    step()
    step()
    with pytest.raises(ProtocolError, match="received another sum.*different values to different parties"):
        step()
    assert spoken["ada"].number == 2, "the first sum went through, the second did not"
