"""Whole numbers of files and parameters: refused where they are none, in one sentence."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema


def not_whole(value: object, least: int, most: int | None = None) -> str | None:
    """Say what a value must be if it is no whole number in range; None if it is one."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        number = int(value)
        if number >= least and (most is None or number <= most):
            return None
    shown = repr(value)
    bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
    return f"must be a whole number {bounds}; got {shown if len(shown) <= 40 else shown[:37] + '...'}."


@dataclass(frozen=True)
class Whole:
    """For annotations: `Annotated[int, Whole(1)]` takes no `2.0`, `true` or `"3"`, which pydantic by itself does.

    Parameters
    ----------
    least, most : the ends of the range, both of it
    """

    least: int
    most: int | None = None

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Ask first; pydantic's own check and the range in a JSON schema follow."""
        bounded = core_schema.int_schema(ge=self.least, le=self.most)
        return core_schema.no_info_before_validator_function(self._checked, bounded)

    def _checked(self, value: object) -> object:
        if wrong := not_whole(value, self.least, self.most):
            raise ValueError(wrong)
        return value
