"""The registry of programs, against all mechanisms that there are."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.contract import recorded
from ksdp.audit.mechanisms.privacy.transcript import GaussianReleases
from ksdp.audit.registry import make_mechanism, mechanism_names
from ksdp.protocols.runs.programs import PROGRAMS, check_program, is_noisy, program_of, sum_entries

EVERY_ROUND = {"sums", "weights", "means", "uploads", "scales"}
"""Announced one round after the other, and stacked for the audit."""


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
    for name, mechanism in installed().items():
        if name in PROGRAMS and PROGRAMS[name].noisy:
            each = [(a.name in EVERY_ROUND, a.shape) for a in recorded(mechanism, 30)]
            rounds = (shape[1:] if of_rounds else shape for of_rounds, shape in each)
            assert sum_entries(mechanism, 30) >= max(math.prod(shape) for shape in rounds)
