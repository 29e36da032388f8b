"""Commands whose paths are of this machine: a URL in place of one is refused before any work."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from ksdp.audit.errors import InputError
from ksdp.audit.spec.urls import was_url


def with_paths_here(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same command; without this a store at `s3://bucket/store` would be made in a folder called `s3:`."""

    @wraps(command)
    def checked(**given: Any) -> Any:
        for name, value in given.items():
            paths = value if isinstance(value, list | tuple) else (value,)
            if any(isinstance(one, Path) and was_url(one) for one in paths):
                raise InputError(
                    f"`{name.replace('_', '-')}` must be a path, and no URL. What may be at URLs is named in a "
                    "spec: the files of `[corpus]`, and the blocks of a store (`cluster.blocks`)."
                )
        return command(**given)

    return checked
