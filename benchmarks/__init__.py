"""Ratios, side by side in one run: `make bench`."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def data_folder() -> Path:
    """Where the data sets are: what KSDP_DATA names, or the folder beside the repository."""
    return Path(os.environ.get("KSDP_DATA", ROOT.parent / "shared" / "data"))
