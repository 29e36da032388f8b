"""What comes of a PEM run, in a folder that is there whole or not at all.

::

    DIR/
      result.json   what was run, what it cost a record, who drew the noise
      model.npz     the arrays of the last state, by their names
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ksdp.audit.errors import InputError
from ksdp.storage.store import write_arrays, write_json


def require_new_folder(folder: Path) -> None:
    """Refuse a folder that has something in it, or that cannot be made."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is not a folder.")
    if folder.is_dir() and any(folder.iterdir()):
        raise InputError(f"{folder} is not empty; name a new folder.")
    above = next(parent for parent in folder.absolute().parents if parent.exists())
    if not os.access(above, os.W_OK | os.X_OK):
        raise InputError(f"{folder} cannot be made: {above} cannot be written to.")


def write_pem_result(folder: Path, arrays: Mapping[str, NDArray[Any]], about: Mapping[str, Any]) -> None:
    """Write both files beside the folder, and put them in its place at once."""
    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.", suffix=".part"))
    try:
        write_arrays(part / "model.npz", arrays)
        write_json(part / "result.json", dict(about))
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
