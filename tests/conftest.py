"""Shared fixtures."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The real data sets; on CI their absence is a failure, not a skip."""
    folder = Path(os.environ.get("KSDP_DATA", ROOT.parent / "shared" / "data"))
    if not (folder / "README.md").is_file():
        reason = f"the real data sets are not in {folder.name!r} (set KSDP_DATA)"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return folder
