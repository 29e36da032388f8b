"""What mechanisms share that run another one: which one, with all its parameters, is part of what they are."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.contract import Mechanism, traits_of
from ksdp.audit.registry import make_mechanism


class Delegated:
    """Names that another mechanism gives under the same attribute; none where it has no such attribute."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, mechanism: Any, owner: type) -> tuple[str, ...]:
        names: tuple[str, ...] = () if mechanism is None else mechanism.inner_names(self._name)
        return names


class DelegatingMechanism:
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
        return traits_of(self.inner).nonnegative

    @property
    def order_free(self) -> bool:
        """Whether the order of documents does not matter to the other."""
        return traits_of(self.inner).order_free

    learn_from = Delegated()
    """What must be learnt from where it is small: see `audit.coverage.learnable`."""
    learn_always = Delegated()
    """What must be learnt from whatever its size."""

    def inner_names(self, attribute: str) -> tuple[str, ...]:
        """What the other mechanism names there."""
        return tuple(getattr(self.inner, attribute, ()))

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
