"""What a gate lets through: listed documents as they were audited, under a clearance in force by a trusted key."""

import os
import shutil
import sys
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ksdp
from ksdp.audit.errors import ClearanceError

from ...scripts import script
from ...specs import spec_text
from ...typed import typed

SPEC = {
    "corpus": {"path": "rows.csv", "id": "row", "columns": ["a", "b", "c"], "weighting": "counts", "rows": "l2"},
    "mechanism": {"name": "moments", "rank": 1, "advantage": 0.5},
    "design": {"party_size": 0.5, "with_runs": 15},
    "decision": {"margin": 0.5},
}


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
    pd.concat([rows, rows[:1].rename({"r00": "new"}).assign(b=None)]).to_csv(folder / "gap.csv", index_label="row")
    rows.assign(who=[f"p{n // 2}" for n in range(40)]).to_csv(folder / "people.csv", index_label="row")
    rows[::2].assign(who=[f"p{n}" for n in range(20)]).to_csv(folder / "halves.csv", index_label="row")
    (folder / "spec.toml").write_text(spec_text(SPEC))
    (folder / "other.toml").write_text(spec_text(SPEC, mechanism={"rank": 2}))
    for name in ("ada", "mal"):
        typed("keys", name, "--folder", folder)
    signing = ("--clearance", folder / "list", "--key", folder / "ada.key", "--who", "ada")
    typed("clear", folder / "spec.toml", "--store", folder / "store", *signing)
    return folder


@pytest.fixture(scope="module")
def accepted(desk: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A list of all but one document of a run without noise, whose risk somebody accepted: its sizes count."""
    folder = tmp_path_factory.mktemp("accepted")
    for name in ("rows.csv", "ada.key", "ada.pub"):
        shutil.copy(desk / name, folder)
    rows = pd.read_csv(folder / "rows.csv", index_col="row")
    rows[1:].to_csv(folder / "rest.csv")
    rows[1:7].to_csv(folder / "few.csv")
    rows[1:].assign(d=1.0).to_csv(folder / "wide.csv")
    spec = folder / "spec.toml"
    exact = {"name": "pd-svd", "advantage": None}
    spec.write_text(spec_text(SPEC, corpus={"columns": None}, mechanism=exact))
    by, store = ("--reason", "small", "--who", "ada"), ("--store", folder / "store")
    typed("audit", spec, *store)
    typed("decide", "latest", *rows.index[1:], "--decision", "accept", *by, *store)
    typed("decide", "latest", rows.index[0], "--decision", "exclude", *by, *store)
    typed("clear", spec, *store, "--clearance", folder / "list", "--key", folder / "ada.key", "--who", "ada")
    return folder


@pytest.mark.parametrize(
    ("keys", "data", "said"),
    [
        ({"missing": "drop"}, "gap.csv", "does not list 1 documents of gap.csv that lack a number, 'new' first"),
        ({"group": "who"}, "halves.csv", "lists whole groups, and 'r01' is left out of one"),
    ],
)
def test_neither_rows_with_gaps_nor_halves_of_groups_go_through(
    desk: Path, tmp_path: Path, keys: dict[str, str], data: str, said: str
) -> None:
    folder, store = tmp_path / "desk", ("--store", tmp_path / "store")
    shutil.copytree(desk, folder)
    (folder / "list").unlink()
    groups = "group" in keys
    changes = (
        {"corpus": {"path": "people.csv"} | keys, "design": {"unit": "group"}} if groups else {"corpus": keys}
    )
    (folder / "spec.toml").write_text(spec_text(SPEC, **changes))
    signing = ("--clearance", folder / "list", "--key", folder / "ada.key", "--who", "ada", *store)
    if groups:  # nothing is proved of them
        typed("audit", folder / "spec.toml", *store)
        names = [f"p{n}" for n in range(20)]
        typed("decide", "latest", *names, "--decision", "accept", "--reason", "small", "--who", "ada", *store)
    typed("clear", folder / "spec.toml", *signing)
    assert len(gate(folder, "people.csv" if groups else "rows.csv")) == 40
    with pytest.raises(ClearanceError, match=said):
        gate(folder, data)


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


@pytest.mark.parametrize(
    ("data", "failed", "said"),
    [
        ("rows.csv", "documents", "does not list 1 of the 40 documents of rows.csv, 'r00' among them"),
        ("few.csv", "sizes", "6 documents enter, and the audited databases had 20"),
        ("wide.csv", "documents", "wide.csv has other columns"),
    ],
)
def test_the_list_and_its_sizes_bind(accepted: Path, data: str, failed: str, said: str) -> None:
    assert len(gate(accepted, "rest.csv")) == 39
    with pytest.raises(ClearanceError, match=said) as refused:
        gate(accepted, data)
    assert refused.value.failed == failed


@pytest.mark.parametrize("changed", ["spec", "corpus", "drawn"])
def test_another_spec_or_corpus_and_a_draw_are_refused(desk: Path, tmp_path: Path, changed: str) -> None:
    folder = tmp_path / "desk"
    shutil.copytree(desk, folder)
    spec = folder / "spec.toml"
    if changed == "corpus":
        pd.read_csv(folder / "rows.csv", index_col="row")[1:].to_csv(folder / "rows.csv")
    elif changed == "spec":
        spec.write_text(spec_text(SPEC, decision={"margin": 0.6}))
    else:
        spec.write_text(spec_text(SPEC, corpus={"levers": {"drawn": 0.5}}))
        (folder / "list").unlink()
        signing = ("--clearance", folder / "list", "--key", folder / "ada.key", "--who", "ada")
        typed("clear", spec, "--store", folder / "store", *signing)
    with pytest.raises(ClearanceError) as refused:
        gate(folder)
    assert refused.value.failed == changed


def test_nothing_goes_through_when_it_is_no_longer_in_force(desk: Path) -> None:
    later = datetime.now(UTC) + timedelta(days=91)
    with pytest.raises(ClearanceError, match="expired"):
        ksdp.require_clearance(
            desk / "list", desk / "spec.toml", desk / "rows.csv", keys=[desk / "ada.pub"], now=later
        )


@pytest.mark.parametrize(("data", "code"), [("some.csv", 0), ("changed.csv", 2)])
def test_the_example_starts_a_command_or_refuses(
    desk: Path, monkeypatch: pytest.MonkeyPatch, data: str, code: int
) -> None:
    site, started = desk / "site.toml", list[tuple[str, list[str]]]()
    site.write_text(f'clearance = "list"\nspec = "spec.toml"\ndata = "{data}"\nkeys = ["ada.pub"]\n')
    monkeypatch.setattr(sys, "argv", ["gate.py", str(site), "echo", "started"])
    monkeypatch.setattr(os, "execvp", lambda *command: started.append(command))
    with pytest.raises(SystemExit) if code else nullcontext() as ended:
        script("gate", "examples/gate").main()
    assert started == ([] if code else [("echo", ["echo", "started"])])
    assert code == (ended.value.code if ended else 0)
