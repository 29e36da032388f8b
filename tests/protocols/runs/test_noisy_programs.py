"""The list of mechanisms that run with noise, against all that there are."""

from __future__ import annotations

from typing import Any

from ksdp.audit.mechanisms.privacy.released import GaussianReleases
from ksdp.audit.registry import make_mechanism, mechanism_names
from ksdp.protocols.runs.noisy_programs import NOISY, is_noisy, noisy_entries, program_of


def installed() -> dict[str, Any]:
    return {name: make_mechanism(name, {}) for name in mechanism_names()}


def test_every_mechanism_with_noise_can_be_run_but_those_that_are_broken_on_purpose() -> None:
    noisy = {n for n, m in installed().items() if isinstance(m, GaussianReleases) and m.noise_factor == 1.0}
    assert noisy == set(NOISY)


def test_nothing_else_is_taken_for_one() -> None:
    for name, mechanism in installed().items():
        assert is_noisy(mechanism) == (name in NOISY)
        if name not in NOISY:
            assert not program_of(mechanism).server


def test_whoever_collects_is_asked_for_where_the_mechanism_has_a_server() -> None:
    """A mechanism that says what its server makes of uploads needs one."""
    for name, mechanism in installed().items():
        if isinstance(mechanism, GaussianReleases) and name in NOISY:
            collects = type(mechanism).collected is not GaussianReleases.collected
            assert bool(program_of(mechanism).server) == (collects or program_of(mechanism).one_noise)


def test_no_array_that_is_announced_is_larger_than_is_said() -> None:
    for name, mechanism in installed().items():
        if name in NOISY:
            largest = max(announced.shape[-1] * announced.shape[0] for announced in mechanism.observables(30))
            assert noisy_entries(mechanism, 30) >= largest
