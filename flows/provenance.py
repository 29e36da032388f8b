"""Which code a number came from."""

from __future__ import annotations

import platform
from importlib.metadata import version

__all__ = ["versions"]

_LIBRARIES = ("ksdp", "numpy", "scipy", "numba", "pyarrow", "dask", "prefect", "scikit-learn")


def versions() -> dict[str, str]:
    """Versions of ksdp, Python and the libraries that compute."""
    return {"python": platform.python_version()} | {name: version(name) for name in _LIBRARIES}
