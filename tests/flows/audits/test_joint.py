"""Statistics tested together by permutation, in a whole audit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

JOINT = """
over_statistics = "max-t"
"""


def test_max_t_finds_at_least_what_exact_laws_do_and_says_how_many_it_can_take(
    ksdp: Callable, spec: Callable, tmp_path: Path
) -> None:
    path = spec("joint", families=["paper", "geometry", "learned"])
    path.write_text(path.read_text() + JOINT)
    out = ksdp("audit", path, "--store", tmp_path / "store", "--json", check=3).out
    assert out["valid"]
    verdicts = pd.read_parquet(tmp_path / "store" / "audits" / out["audit"] / "verdicts.parquet")
    tests = pd.read_parquet(tmp_path / "store" / "audits" / out["audit"] / "statistics.parquet")
    smallest = tests.groupby("document").log10_p.min()[verdicts.document].to_numpy()
    # One p a document: at best the smallest itself, at worst that times the columns and the shares of the level.
    assert (verdicts.log10_p >= smallest - 1e-9).all()
    assert (verdicts.log10_p <= smallest + 2.6).all()
    path.write_text(path.read_text().replace('"max-t"', '"max-t"\nlevel = 0.0001'))
    refused = ksdp("audit", path, "--store", tmp_path / "other", "--json", check=2)
    assert "at most" in refused.err
    assert not (tmp_path / "other").exists()
