"""Audits as a person runs them: real processes, a real Prefect server, a real Dask cluster."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pandas as pd
import pytest


def tables(store: Path, audit: str) -> list[pd.DataFrame]:
    folder = store / "audits" / audit
    return [pd.read_parquet(folder / name) for name in ("verdicts.parquet", "statistics.parquet")]


def assert_same(first: list[pd.DataFrame], second: list[pd.DataFrame]) -> None:
    """Bit for bit."""
    for one, other in zip(first, second, strict=True):
        pd.testing.assert_frame_equal(one, other, check_exact=True)


def test_audit_then_the_cache_then_a_new_statistic(ksdp: Callable, spec: Callable, tmp_path: Path) -> None:
    store, measured = tmp_path / "store", tmp_path / "dask.html"
    measure = ("--performance-report", measured)
    first = ksdp("audit", spec(families=["geometry"]), "--store", store, *measure, "--json", check=3).out
    assert first["valid"]
    told = measured.read_text(encoding="utf-8")
    assert "_block" in told  # a task of ours
    assert re.findall("<(?:script|link)[^>]* (?:src|href)=.http", told) == []
    assert first["documents"] == 120
    assert first["runs"] == 200
    assert first["cached_runs"] == 0
    assert sum(first["verdicts"].values()) == 120
    assert first["corpus"].startswith("sha256:")
    assert Path(first["report"]).read_text(encoding="utf-8").startswith("<!doctype html>")

    again = ksdp("audit", spec(families=["geometry"]), "--store", store, "--json", check=3).out
    assert again["audit"] == first["audit"]
    assert again["cached_runs"] == again["runs"]
    assert again["statistics"] == first["statistics"]

    new = ksdp("test", first["audit"], "--statistics", "w-max,d-sum", "--store", store, "--json", check=4).out
    assert new["cached_runs"] == new["runs"] == 200
    assert set(new["statistics"]) == {"w-max", "d-sum"}
    assert new["audit"] != first["audit"]
    listed = ksdp("list", "--store", store, check=0).text
    assert first["audit"] in listed
    assert new["audit"] in listed


def test_the_same_table_whatever_the_number_of_workers(ksdp: Callable, spec: Callable, tmp_path: Path) -> None:
    audits = []
    for how in (("--workers", 1), ()):  # or the two of all tests
        store = tmp_path / f"store-{len(audits)}"
        audits.append(tables(store, ksdp("audit", spec(), "--store", store, *how, "--json", check=3).out["audit"]))
    assert_same(*audits)


def test_topping_up_samples_the_new_runs_only(ksdp: Callable, spec: Callable, tmp_path: Path) -> None:
    store = tmp_path / "store"
    ksdp("audit", spec(with_runs=256 // 5), "--store", store, "--json", check=3)
    more = ksdp("audit", spec(with_runs=400 // 5), "--store", store, "--json", check=3).out
    # 255 runs were one block cut short, which is sampled again whole; the rest of 400 is new.
    assert more["runs"] == 400
    fresh = ksdp("audit", spec(with_runs=400 // 5), "--store", tmp_path / "fresh", "--json", check=3).out
    assert_same(tables(store, more["audit"]), tables(tmp_path / "fresh", fresh["audit"]))


def test_looks_stop_where_nothing_is_open_and_fresh_runs_confirm(
    ksdp: Callable, spec: Callable, tmp_path: Path
) -> None:
    path = spec("looks", with_runs=1700, families=["paper", "geometry"])
    text = path.read_text().replace("margin = 0", "margin = 0.55")
    path.write_text(text)
    store = tmp_path / "store"
    out = ksdp("audit", path, "--store", store, "--json", check=3).out
    summary = json.loads((store / "audits" / out["audit"] / "audit.json").read_text())
    assert summary["guarantee"]["kind"] == "KSDP"
    looks = summary["looks"]
    assert [look["runs"] for look in looks] == [1024, 1536, 2560, 8500]
    assert looks[0]["tested"] == 120
    assert 0 < looks[1]["tested"] < 120
    assert sum(look["verdicts"]["sensitive"] for look in looks) == out["verdicts"]["sensitive"]
    assert summary["runs"] == summary["sampled_runs"] == looks[len([n for n in looks if n["tested"]]) - 1]["runs"]
    # What a later look reads of earlier runs is what measuring it anew would give.
    verdicts, statistics = tables(store, out["audit"])
    late = verdicts[verdicts.n_with + verdicts.n_without > 1024].document
    other = path.with_name("straight.toml")
    other.write_text(text.replace("with_runs = 1700", 'with_runs = 1700\nlooks = "end"'))
    straight = ksdp("audit", other, "--store", tmp_path / "straight", "--json").out
    plain = tables(tmp_path / "straight", straight["audit"])[1]
    final = verdicts[verdicts.n_with + verdicts.n_without == 8500].document
    if len(final):
        columns = ["document", "statistic", "distance", "log10_p"]
        one = statistics[statistics.document.isin(final)][columns].reset_index(drop=True)
        two = plain[plain.document.isin(final)][columns].reset_index(drop=True)
        pd.testing.assert_frame_equal(one, two, check_exact=True)
    assert len(late)
    # Who is content with half of the verdicts gets those of the first look, and pays for no other.
    half = path.with_name("half.toml")
    half.write_text(text.replace("with_runs = 1700", "with_runs = 1700\nstop_when_open = 0.9"))
    done = ksdp("audit", half, "--store", store, "--json").out
    stopped = json.loads((store / "audits" / done["audit"] / "audit.json").read_text())
    assert [look["tested"] for look in stopped["looks"]] == [120, 0, 0, 0]
    assert (stopped["runs"], stopped["sampled_runs"]) == (1024, 0)
    first = verdicts[verdicts.n_with + verdicts.n_without == 1024]
    early = tables(store, done["audit"])[0].set_index("document").verdict
    assert (early[first.document].to_numpy() == first.verdict.to_numpy()).all()
    assert done["verdicts"]["undecided"] == stopped["looks"][0]["verdicts"]["undecided"] > 0
    # Fresh runs: every flagged document, with an advantage that nothing selected.
    effects = pd.read_parquet(store / "audits" / out["audit"] / "effects.parquet")
    assert len(effects) == out["detected"] == summary["fresh"]["documents"]
    assert summary["controls"]["canaries"] == sum(look["tested"] for look in looks) + len(effects)
    assert (effects.advantage_low <= effects.advantage).all()
    assert summary["fresh"]["confirmed"] > 0.8 * len(effects)
    shown = ksdp("show", out["audit"], effects.document[0], "--store", store, "--json").out
    assert shown["fresh"]["n_with"] == effects.n_with[0]
    # From the seed alone: a document of the last look and one of the first.
    for document in (late.iloc[0], verdicts.document[verdicts.n_with + verdicts.n_without == 1024].iloc[0]):
        again = ksdp("replay", out["audit"], document, "w-max", "--store", store, "--json", check=0).out
        assert again["equal"]
    refused = ksdp("replay", out["audit"], late.iloc[0], "learnt", "--store", store, check=2)
    assert "must be among" in refused.err


def test_a_damaged_block_is_named_and_computed_again(ksdp: Callable, spec: Callable, tmp_path: Path) -> None:
    store = tmp_path / "store"
    first = ksdp("audit", spec(), "--store", store, "--json", check=3).out
    before = tables(store, first["audit"])
    block = min(
        store.glob("runs/*/values/*/*.parquet"), key=lambda path: path.stat().st_mtime
    )  # not the fresh one
    content = bytearray(block.read_bytes())
    content[len(content) // 3] ^= 8
    block.write_bytes(content)
    # A bit flipped inside a page is met when the page is read: by the next audit that shares the block.
    (store / "audits" / first["audit"] / "audit.json").unlink()
    again = ksdp("audit", spec(), "--store", store, "--json", check=3)
    assert block.name in again.err
    assert_same(tables(store, first["audit"]), before)
    # A block that is cut short is met at once, although the audit is finished.
    block.write_bytes(block.read_bytes()[:-100])
    once_more = ksdp("audit", spec(), "--store", store, "--json", check=3).out
    assert once_more["runs"] == 200  # made again: the store keeps the last round alone, and all are looked at
    assert_same(tables(store, first["audit"]), before)


def test_on_a_cluster_that_somebody_else_runs(
    ksdp: Callable, spec: Callable, server: dict, tmp_path: Path
) -> None:
    out = ksdp("audit", spec("dask", seed=99), "--store", tmp_path / "store", "--json", check=3).out
    assert out["runs"] == 200
    # The story is in Prefect too: a finished flow run, and an artifact with the counts.
    user, password = server["PREFECT_API_AUTH_STRING"].split(":")
    with httpx.Client(base_url=server["PREFECT_API_URL"], auth=(user, password)) as client:
        key = {"artifacts": {"key": {"any_": [f"audit-{out['audit']}"]}}}
        (artifact,) = client.post("/artifacts/filter", json=key).json()
        assert f"**{out['verdicts']['sensitive']} sensitive, " in artifact["data"]
        mine = {"artifacts": {"flow_run_id": {"any_": [artifact["flow_run_id"]]}}}
        shown = {one["key"]: one for one in client.post("/artifacts/filter", json=mine).json()}
        assert shown[f"audit-{out['audit']}-runs"]["data"] == 100.0
        table = json.loads(shown[f"audit-{out['audit']}-statistics"]["data"])
        assert {line["statistic"]: line["sensitive by it alone"] for line in table} == {
            name: about["sensitive"] for name, about in out["statistics"].items()
        }
        assert Path(out["report"]).as_uri() in shown[f"audit-{out['audit']}-report"]["data"]
        (run,) = client.post(
            "/flow_runs/filter", json={"flow_runs": {"id": {"any_": [artifact["flow_run_id"]]}}}
        ).json()
        assert (run["name"], run["state_type"]) == (f"audit {out['audit']}", "COMPLETED")


def test_stopped_by_the_keyboard_it_says_so(ksdp: Callable, spec: Callable, server: dict, tmp_path: Path) -> None:
    path, store = spec("stopped", with_runs=2000), tmp_path / "store"
    command = [sys.executable, "-m", "ksdp", "audit", str(path), "--store", str(store), "--workers", "1"]
    running = subprocess.Popen(command, env=os.environ | server, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 120
    while not list(store.glob("runs/*/values/*/*.parquet")):
        assert time.monotonic() < end
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert "the same command resumes" in err
    assert not list(store.glob("audits/*/audit.json"))


def test_a_mechanism_that_ignores_the_data_flags_nothing(ksdp: Callable, spec: Callable, tmp_path: Path) -> None:
    out = ksdp("audit", spec("null", mechanism="null"), "--store", tmp_path / "store", "--json", check=4).out
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
    typed: Callable, spec: Callable, tmp_path: Path, change: dict, message: str
) -> None:
    ran = typed("audit", spec("bad", **change), "--store", tmp_path / "store", "--json", check=2)
    assert message in ran.err
    assert not (tmp_path / "store").exists()


def test_a_folder_that_is_something_else_is_left_alone(typed: Callable, spec: Callable, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    ran = typed("audit", spec(), "--store", tmp_path, "--json", check=1)
    assert "is not a ksdp store" in ran.err
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]
