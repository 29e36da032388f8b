"""Marks that `ksdp serve` and others leave for each other in a schedule's folder."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from ksdp.storage.checksums import read_checked_json

_Mark = TypeVar("_Mark", bound=BaseModel)


def read_mark(path: Path, kind: type[_Mark], damaged: Callable[[datetime], _Mark]) -> _Mark | None:
    """A mark that was left in a file; None where there is none.

    Parameters
    ----------
    kind : type
        What stands in the file.
    damaged : callable
        What a file means that cannot be read, from when it was last written.
    """
    try:
        return kind.model_validate(read_checked_json(path))
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return damaged(_written(path))


def _written(path: Path) -> datetime:
    """When a file was last written; the first moment there is where nobody can tell."""
    with contextlib.suppress(OSError):
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)
    return datetime.fromtimestamp(0, UTC)
