"""Specs, protocol files and notices: TOML that a person wrote, and values as they write them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ksdp.audit.errors import SpecError
from ksdp.audit.urls import was_url
from ksdp.storage.readers.limits import LARGEST_TOML, is_regular


def read_toml(path: Path, what: str = "") -> dict[str, Any]:
    """The tables of a TOML file.

    Parameters
    ----------
    what : str
        Said before the file's name in a refusal, "the spec" for instance.
    """
    subject = f"{what} " if what else ""
    if was_url(path):
        raise SpecError(f"{subject}must be a file of this machine, and no URL.")
    try:
        if not path.is_dir() and not is_regular(path):
            raise SpecError(f"{subject}{path} is no regular file.")
        with path.open("rb") as file:
            content = file.read(LARGEST_TOML + 1)
        if len(content) > LARGEST_TOML:
            raise SpecError(f"{subject}{path.name} has more than {LARGEST_TOML} bytes.")
        return tomllib.loads(content.decode("utf-8"))
    except SpecError:
        raise
    except OSError as error:
        raise SpecError(f"{subject}{path} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"{subject}{path.name} is not TOML: {error}.") from error
    except (RecursionError, ValueError) as error:  # a path with a zero byte; tables in tables without end
        raise SpecError(f"{subject}{path.name} cannot be read: {type(error).__name__}.") from error


def toml_value(value: Any) -> str:
    """A value as TOML writes it after its key; in tables, keys whose value is None are left out.

    Examples
    --------
    >>> toml_value({"rank": 2, "at": ["last", 3], "scale": None, "reveal_sigma": True})
    '{ "rank" = 2, "at" = ["last", 3], "reveal_sigma" = true }'
    """
    if isinstance(value, Mapping):
        inside = (f"{json.dumps(str(key))} = {toml_value(one)}" for key, one in value.items() if one is not None)
        return f"{{ {', '.join(inside)} }}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(toml_value, value))}]"
    return json.dumps(value)
