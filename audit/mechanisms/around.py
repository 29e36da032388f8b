"""What mechanisms share that run another one: which one, with all its parameters, is part of what they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.contract import Mechanism
from ksdp.audit.registry import make_mechanism

__all__ = ["Around"]


class Around:
    """A frozen dataclass with the parameters `mechanism`, `parameters` and `mechanism_version` of another one."""

    mechanism: str
    parameters: Mapping[str, Any]
    mechanism_version: int | None

    @cached_property
    def inner(self) -> Mechanism:
        """The other mechanism."""
        return make_mechanism(self.mechanism, self.parameters)

    @property
    def nonnegative(self) -> bool:
        """Whether the other mechanism refuses negative entries, and what it announces has none."""
        return bool(getattr(self.inner, "nonnegative", False))

    @property
    def order_free(self) -> bool:
        """Whether the order of documents does not matter to the other."""
        return bool(getattr(self.inner, "order_free", False))

    @property
    def learn_from(self) -> tuple[str, ...]:
        """What must be learnt from where it is small, as of the other: see `audit.coverage.learnable`."""
        return tuple(getattr(self.inner, "learn_from", ()))

    @property
    def learn_always(self) -> tuple[str, ...]:
        """What must be learnt from whatever its size, as of the other."""
        return tuple(getattr(self.inner, "learn_always", ()))

    def fill_in(self) -> None:
        """Write down the other's version and all its parameters, so that another version is never taken for it."""
        inner = self.inner
        if self.mechanism_version not in (None, inner.version):
            raise SpecError(f"`mechanism_version` must be {inner.version}; got {self.mechanism_version!r}.")
        filled = dict(self.parameters)
        if dataclasses.is_dataclass(inner):
            filled = {f.name: getattr(inner, f.name) for f in dataclasses.fields(inner) if f.init}
        object.__setattr__(self, "parameters", filled)
        object.__setattr__(self, "mechanism_version", inner.version)
