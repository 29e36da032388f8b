"""What a gate lets through: listed documents as they were audited, under a clearance in force by a trusted key."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ksdp
from ksdp.audit.errors import ClearanceError

from ...typed import typed

SPEC = """[corpus]
path = "rows.csv"
id = "row"
columns = ["a", "b", "c"]
weighting = "counts"
rows = "l2"
[mechanism]
name = "moments"
rank = 1
advantage = 0.5
[design]
party_size = 0.5
with_runs = 15
[decision]
margin = 0.5
"""


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gate")
    rows = pd.DataFrame(np.random.default_rng(3).normal(size=(40, 3)), columns=list("abc"))
    rows.index = [f"r{n:02}" for n in rows.index]
    rows.to_csv(folder / "rows.csv", index_label="row")
    rows[5:].to_csv(folder / "some.csv", index_label="row")
    rows[5:].sample(frac=1, random_state=1).assign(note="x").to_csv(folder / "shuffled.csv", index_label="row")
    rows.assign(a=rows.a + (rows.index == "r07")).to_csv(folder / "changed.csv", index_label="row")
    pd.concat([rows, rows[:1].rename({"r00": "new"})]).to_csv(folder / "more.csv", index_label="row")
    (folder / "spec.toml").write_text(SPEC)
    (folder / "other.toml").write_text(SPEC.replace("rank = 1", "rank = 2"))
    for name in ("ada", "mal"):
        typed("keys", name, "--folder", folder)
    signing = ("--clearance", folder / "list", "--key", folder / "ada.key", "--who", "ada")
    typed("clear", folder / "spec.toml", "--store", folder / "store", *signing)
    return folder


def gate(desk: Path, data: str = "rows.csv", spec: str = "spec.toml", key: str = "ada.pub") -> tuple[str, ...]:
    return ksdp.require_clearance(desk / "list", desk / spec, desk / data, keys=[desk / key])


@pytest.mark.parametrize("data", ["rows.csv", "some.csv", "shuffled.csv"])
def test_what_was_audited_and_listed_goes_through(desk: Path, data: str) -> None:
    assert list(gate(desk, data)) == pd.read_csv(desk / data).row.tolist()


@pytest.mark.parametrize(
    ("change", "failed", "said"),
    [
        ({"data": "changed.csv"}, "documents", "'r07' in changed.csv is not the document that was audited"),
        ({"data": "more.csv"}, "documents", "does not list 1 of the 41 documents of more.csv, 'new' among them"),
        ({"spec": "other.toml"}, "mechanism", "parameter rank differs"),
        ({"key": "mal.pub"}, "signer", "none of the trusted keys"),
    ],
)
def test_what_differs_is_named(desk: Path, change: dict[str, str], failed: str, said: str) -> None:
    with pytest.raises(ClearanceError, match=said) as refused:
        gate(desk, **change)
    assert refused.value.failed == failed


def test_nothing_goes_through_when_it_is_no_longer_in_force(desk: Path) -> None:
    later = datetime.now(UTC) + timedelta(days=91)
    with pytest.raises(ClearanceError, match="expired"):
        ksdp.require_clearance(
            desk / "list", desk / "spec.toml", desk / "rows.csv", keys=[desk / "ada.pub"], now=later
        )


@pytest.mark.parametrize(("data", "code", "said"), [("some.csv", 0, "started"), ("changed.csv", 2, "")])
def test_the_example_starts_a_command_or_refuses(desk: Path, data: str, code: int, said: str) -> None:
    site = desk / "site.toml"
    site.write_text(f'clearance = "list"\nspec = "spec.toml"\ndata = "{data}"\nkeys = ["ada.pub"]\n')
    script = Path(__file__).resolve().parents[3] / "examples" / "gate" / "gate.py"
    done = subprocess.run([sys.executable, script, site, "echo", "started"], capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (code, said), done.stderr
