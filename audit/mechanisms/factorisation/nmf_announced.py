"""What a PD-NMF may be told to announce in place of everything that it opens, checked."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.checks import check_least, check_one_of
from ksdp.audit.mechanisms.contract import OPENS
from ksdp.audit.mechanisms.factorisation.nmf_inputs import check_rule
from ksdp.audit.mechanisms.factorisation.nmf_kernels import Penalties
from ksdp.audit.mechanisms.factorisation.nmf_starts import STARTS

SUMS = ("T", "numerators", "denominators")
DATA_STARTS = ("nnsvd", "best-of-m", "pd-nmf-init")


def check_parameters(mechanism: Any) -> None:
    """Check numbers, `start` and `weighted` of a PD-NMF, and make floats of the numbers that may be some."""
    check_least(mechanism, rank=1, sweeps=1, start_seed=0)
    for name in ("tolerance", *Penalties._fields):
        value = getattr(mechanism, name)
        if not _is_number(value, Real):
            raise SpecError(f"`{name}` must be a number; got {value!r}.")
        object.__setattr__(mechanism, name, float(value))
    check_rule(mechanism.sweeps, mechanism.tolerance, mechanism.penalties)
    if mechanism.start not in STARTS:
        raise SpecError(f"`start` must be one of {', '.join(STARTS)}; got {mechanism.start!r}.")
    if not isinstance(mechanism.weighted, bool):
        raise SpecError(f"`weighted` must be true or false; got {mechanism.weighted!r}.")


def _is_number(value: object, kind: type) -> bool:
    """Whether a parameter is one; true and false are none."""
    return isinstance(value, kind) and not isinstance(value, bool)


def check_views(mechanism: Any) -> None:
    """Check `announce`, `at` and `opens` of a PD-NMF, and make tuples of the first two."""
    for name in ("announce", "at"):
        value = getattr(mechanism, name)
        least = 1 if name == "at" else 0
        if not isinstance(value, (list, tuple)) or len(value) < least or len(set(map(repr, value))) != len(value):
            raise SpecError(f"`{name}` must be a list of different entries; got {value!r}.")
        object.__setattr__(mechanism, name, tuple(value))
    check_one_of(mechanism, "opens", OPENS)
    if mechanism.opens == "final" and mechanism.announce:
        raise SpecError('`announce` must be left out where `opens` is "final": a run shows T alone.')
    for name in mechanism.announce:
        if name not in (*SUMS, "start"):
            raise SpecError(f"`announce` must be among {', '.join((*SUMS, 'start'))}; got {name!r}.")
    if "start" in mechanism.announce and mechanism.start not in DATA_STARTS:
        raise SpecError(
            f"`announce` must not name the start where `start` holds no data; got {mechanism.start!r}."
        )
    for when in mechanism.at:
        if when != "last" and not (
            isinstance(when, Integral) and not isinstance(when, bool) and 1 <= int(when) <= mechanism.cap
        ):
            raise SpecError(f'`at` must hold "last" or sweeps from 1 to {mechanism.cap}; got {when!r}.')
    if not mechanism.announce and mechanism.at != ("last",):
        raise SpecError("`at` must be left out where `announce` is: the sums of every sweep are looked at.")


def label(what: str, when: str | int) -> str:
    """Name of an array at a sweep."""
    return what if when == "last" else f"{what}@{when}"
