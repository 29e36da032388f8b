"""What mechanisms share that run another one: which one, with all its parameters, is part of what they are."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from ksdp.audit.contract import Mechanism, Traits, traits_of
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.parameters import given_fields
from ksdp.audit.registry import make_mechanism


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
    def traits(self) -> Traits:
        """Those of the other mechanism."""
        return traits_of(self.inner)

    def fill_in(self) -> None:
        """Write down the other's version and all its parameters, so that another version is never taken for it."""
        inner = self.inner
        if self.mechanism_version not in (None, inner.version):
            raise SpecError(f"`mechanism_version` must be {inner.version}; got {self.mechanism_version!r}.")
        object.__setattr__(self, "parameters", given_fields(inner) or dict(self.parameters))
        object.__setattr__(self, "mechanism_version", inner.version)
