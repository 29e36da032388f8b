"""Audits as a person types them."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest


def assert_same(first: Path, second: Path) -> None:
    """Tables of two audits, bit for bit."""
    for name in ("verdicts.parquet", "statistics.parquet"):
        pd.testing.assert_frame_equal(*(pd.read_parquet(at / name) for at in (first, second)), check_exact=True)


def test_audit_then_the_cache_then_a_new_statistic(ksdp: Callable, spec: Callable, tmp_path: Path) -> None:
    store = tmp_path / "store"
    asked = spec(families=["geometry"], with_runs=10)
    first = ksdp("audit", asked, "--store", store, "--json", check=3).out
    assert first["valid"]
    assert first["documents"] == 120
    assert first["runs"] == 50
    assert first["cached_runs"] == 0
    assert sum(first["verdicts"].values()) == 120
    assert first["corpus"].startswith("sha256:")
    assert Path(first["report"]).read_text(encoding="utf-8").startswith("<!doctype html>")

    again = ksdp("audit", asked, "--store", store, "--json", check=3).out
    assert again["audit"] == first["audit"]
    assert again["cached_runs"] == again["runs"]
    assert again["statistics"] == first["statistics"]

    new = ksdp("test", first["audit"], "--statistics", "w-max,d-sum", "--store", store, "--json", check=4).out
    assert new["cached_runs"] == new["runs"] == 50
    assert set(new["statistics"]) == {"w-max", "d-sum"}
    assert new["audit"] != first["audit"]
    listed = ksdp("list", "--store", store, check=0).text
    assert first["audit"] in listed
    assert new["audit"] in listed


def test_topping_up_samples_the_new_runs_only(ksdp: Callable, spec: Callable, tmp_path: Path) -> None:
    store = tmp_path / "store"
    ksdp("audit", spec(with_runs=4, families=["paper"]), "--store", store, "--json")
    more = ksdp("audit", spec(with_runs=8, families=["paper"]), "--store", store, "--json").out
    # 20 runs were one block cut short, which is sampled again whole.
    assert more["runs"] == 40
    fresh = ksdp("audit", spec(with_runs=8, families=["paper"]), "--store", tmp_path / "fresh", "--json").out
    assert_same(store / "audits" / more["audit"], tmp_path / "fresh" / "audits" / fresh["audit"])


def test_a_mechanism_that_ignores_the_data_flags_nothing(ksdp: Callable, spec: Callable, tmp_path: Path) -> None:
    asked = spec("null", mechanism="null", families=["geometry"], with_runs=10)
    out = ksdp("audit", asked, "--store", tmp_path / "store", "--json", check=4).out
    assert out["verdicts"]["sensitive"] == 0
    assert out["valid"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mechanism": "pd-sdv"}, "`mechanism.name` must be one of"),
        ({"families": ["papers"]}, "`statistics.families` must be among"),
        ({"with_runs": 1}, "design.with_runs"),
    ],
)
def test_a_bad_spec_is_refused_before_anything_is_written(
    ksdp: Callable, spec: Callable, tmp_path: Path, change: dict, message: str
) -> None:
    ran = ksdp("audit", spec("bad", **change), "--store", tmp_path / "store", "--json", check=2)
    assert message in ran.err
    assert not (tmp_path / "store").exists()


def test_a_folder_that_is_something_else_is_left_alone(ksdp: Callable, spec: Callable, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    ran = ksdp("audit", spec(), "--store", tmp_path, "--json", check=1)
    assert "is not a ksdp store" in ran.err
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]
