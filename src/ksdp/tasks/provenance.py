"""Which code a number came from."""

from __future__ import annotations

import hashlib
import platform
from functools import lru_cache
from importlib.metadata import distributions, version
from pathlib import Path

from ksdp.audit import errors

_LIBRARIES = ("ksdp", "numpy", "scipy", "numba", "pyarrow", "dask", "prefect", "scikit-learn")


@lru_cache(maxsize=1)
def code_hash() -> str:
    """Hash of every numerical source file: findings of other code are never passed off as new."""
    root = Path(errors.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@lru_cache(maxsize=1)
def packages() -> dict[str, str]:
    """Every package that is installed, by name, with its version."""
    versions: dict[str, str] = {}
    for distribution in distributions():
        metadata = distribution.metadata  # read once: `name` and `version` read the file again
        if metadata["Name"]:  # the first is the one that is imported; what was half removed has no name
            versions.setdefault(metadata["Name"], metadata["Version"])
    return dict(sorted(versions.items()))


def versions() -> dict[str, str]:
    """Versions of ksdp, Python and the libraries that compute."""
    libraries = {name: version(name) for name in _LIBRARIES}
    return {"python": platform.python_version()} | libraries | {"code": code_hash()}
