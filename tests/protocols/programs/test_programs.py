"""The registry of programs, against all mechanisms that there are."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import Database
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.party_side import drive, trusted_party
from ksdp.audit.mechanisms.privacy.transcript import GaussianReleases
from ksdp.audit.mechanisms.schema import recorded
from ksdp.audit.registry import make_mechanism, mechanism_names
from ksdp.protocols.programs.programs import (
    PROGRAMS,
    check_program,
    is_noisy,
    party_program,
    program_of,
    sum_entries,
)


def installed() -> dict[str, Any]:
    return {name: make_mechanism(name, {}) for name in mechanism_names()}


def test_every_mechanism_with_noise_can_be_run_but_those_that_are_broken_on_purpose() -> None:
    noisy = {n for n, m in installed().items() if isinstance(m, GaussianReleases) and m.noise_factor == 1.0}
    assert noisy == {name for name, program in PROGRAMS.items() if program.noisy}


def test_nothing_else_is_taken_for_one() -> None:
    for name, mechanism in installed().items():
        assert is_noisy(mechanism) == (name in PROGRAMS and PROGRAMS[name].noisy)
        if name not in PROGRAMS:
            with pytest.raises(SpecError, match="in a run among parties"):
                check_program(mechanism)


def test_a_name_alone_makes_no_program() -> None:
    class Other:
        name = "hardt-roth"

    with pytest.raises(SpecError, match="in a run among parties"):
        program_of(Other())  # type: ignore[arg-type]


def test_whoever_collects_is_asked_for_where_the_mechanism_has_a_server() -> None:
    """A mechanism that says what its server makes of uploads needs one."""
    for name, mechanism in installed().items():
        if isinstance(mechanism, GaussianReleases) and name in PROGRAMS:
            collects = type(mechanism).collected is not GaussianReleases.collected
            assert bool(program_of(mechanism).server) == (collects or bool(program_of(mechanism).extra))


def test_no_array_that_is_announced_is_larger_than_is_said() -> None:
    matrix = sp.csr_array(np.random.default_rng(0).random((60, 30)))
    for name, mechanism in installed().items():
        if name in PROGRAMS and PROGRAMS[name].noisy:
            seen = mechanism.run(Database((matrix[:30], matrix[30:])), np.random.default_rng(0))
            each = [seen[a.name][0] if len(a.shape) == 3 else seen[a.name] for a in recorded(mechanism, 30)]
            assert sum_entries(mechanism, 30) >= max(array.size for array in each)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("pd-nmf", {"sweeps": 2}),
        ("pd-nmf", {"sweeps": 2, "start": "nnsvd"}),
        ("pd-nmf", {"sweeps": 2, "weighted": True, "beta": 0.1, "delta": 0.1}),
        ("pd-pca", {"solver": "power", "iterations": 2}),
        ("sigma-svd", {"solver": "power", "iterations": 2}),
    ],
)
def test_no_sum_that_is_requested_is_larger_than_is_said(name: str, parameters: dict[str, Any]) -> None:
    mechanism, sizes = make_mechanism(name, parameters), []
    matrix = sp.csr_array(np.random.default_rng(0).random((60, 30)))

    def answers(requests: Any) -> Any:
        sizes.extend(request.share.size for request in requests)
        return trusted_party(requests)

    drive([party_program(mechanism, part, 2) for part in (matrix[:30], matrix[30:])], answers)
    assert max(sizes) <= sum_entries(mechanism, 30)
