"""Specs, protocol files and notices: TOML that a person wrote."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from ksdp.audit.errors import SpecError

__all__ = ["read_toml"]


def read_toml(path: Path, what: str = "") -> dict[str, Any]:
    """The tables of a TOML file.

    Parameters
    ----------
    what : str
        Said before the file's name in a refusal, "the spec" for instance.

    Raises
    ------
    SpecError
        If the file is not there, or is not TOML.
    """
    said = f"{what} " if what else ""
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise SpecError(f"{said}{path} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"{said}{path.name} is not TOML: {error}.") from error
