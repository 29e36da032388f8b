"""`ksdp test RELEASE --data IN --against OUT`: files of documents, of one release, and of scores."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import ksdp
from ksdp.audit.errors import InputError

from ...typed import typed

DOCUMENTS = 60
COLUMNS = [f"c{at}" for at in range(30)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents that were in, others, and the directions of the first in several formats."""
    made = tmp_path_factory.mktemp("released")
    rows = np.random.default_rng(0).normal(size=(2 * DOCUMENTS, len(COLUMNS)))
    table = pd.DataFrame(rows, columns=COLUMNS)
    table.insert(0, "id", [f"mail-{at}" for at in range(len(table))])
    table[:DOCUMENTS].to_csv(made / "in.csv", index=False)
    table[DOCUMENTS:].to_parquet(made / "out.parquet")
    directions = np.linalg.svd(rows[:DOCUMENTS], full_matrices=False)[2][:12]
    np.save(made / "V.npy", directions)
    np.savez(made / "V.npz", V=directions, sigma=np.arange(12.0))
    pd.DataFrame(directions[:, ::-1], columns=COLUMNS[::-1]).to_csv(made / "V.csv", index=False)
    return made


def bound(folder: Path, what: str, data: str = "in.csv", against: str = "out.parquet") -> dict[str, object]:
    given = ("--data", folder / data, "--against", folder / against, "--json")
    return json.loads(typed("test", what, *given, code=0).stdout)


def test_every_format_of_a_release_gives_the_same_bound(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = [bound(folder, str(folder / name)) for name in ("V.npy", "V.csv")]
    assert found[0] == found[1]
    assert found[0]["bound"]["epsilon_low"] > 0.5
    assert found[0]["scope"] == "one release, pooled over documents; no verdict about a document"
    named = bound(folder, str(folder / "V.npz"))
    assert {one["score"] for one in named["scores"]} > {one["score"] for one in found[0]["scores"]}
    assert [*tmp_path.iterdir()] == [], "nothing is stored that a clearance could rest on"
    members, held_out = pd.read_csv(folder / "in.csv"), pd.read_parquet(folder / "out.parquet")
    rows = [one[COLUMNS].to_numpy() for one in (members, held_out)]
    for name, some in zip(("in", "out"), rows, strict=True):
        sp.save_npz(folder / f"{name}.npz", sp.csr_array(some))
    assert bound(folder, str(folder / "V.npy"), "in.npz", "out.npz")["bound"] == found[0]["bound"]
    assert ksdp.bound_release(np.load(folder / "V.npy"), *rows).as_json()["bound"] == found[0]["bound"]


def test_scores_of_a_model_are_a_column(folder: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name, shift, first in (("in", 2.0, 0), ("out", 0.0, 100)):
        table = pd.DataFrame({"id": np.arange(first, first + 100), "loss": rng.normal(size=100) - shift})
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    found = bound(tmp_path, "loss", "in.csv", "out.csv")
    assert found["guessed_by"].startswith("loss")
    assert found["scores"][0]["auc"][0] < 0.2
    columns = [pd.read_csv(tmp_path / f"{name}.csv")["loss"] for name in ("in", "out")]
    assert ksdp.bound_release(None, *columns).as_json()["bound"] == found["bound"]
    drift = pd.DataFrame({"id": np.arange(100, 200), "loss": np.repeat([0.0, 9.0], 50)})
    drift.to_csv(tmp_path / "drift.csv", index=False)
    void = typed("test", "loss", "--data", tmp_path / "in.csv", "--against", tmp_path / "drift.csv", code=5)
    assert "NO BOUND" in void.output


def test_files_that_cannot_be_compared_are_refused(folder: Path, tmp_path: Path) -> None:
    members, held_out = pd.read_csv(folder / "in.csv"), pd.read_parquet(folder / "out.parquet")
    both = pd.concat([held_out[:3], members[4:5], held_out[3:]])
    changes = {
        "both": (both, r"both.csv, row 4: names 'mail-4', which is in in.csv too"),
        "other": (held_out.drop(columns="c5"), "other.csv has other columns than in.csv: `c5` is in one of them"),
        "turned": (
            held_out[["id", *COLUMNS[::-1]]],
            "turned.csv has other columns .* they stand in another order",
        ),
        "few": (held_out[:20], "20 documents held out; at least 40"),
    }
    for name, (table, words) in changes.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
        with pytest.raises(InputError, match=words):
            bound(folder, str(folder / "V.npy"), against=str(tmp_path / f"{name}.csv"))
    pd.DataFrame(np.ones((2, 1)), columns=["c1"]).to_csv(tmp_path / "narrow.csv", index=False)
    with pytest.raises(InputError, match="narrow.csv has other columns than in.csv"):
        bound(folder, str(tmp_path / "narrow.csv"))
    with pytest.raises(InputError, match="there is no column `los`"):
        bound(folder, "los")
    with pytest.raises(InputError, match="goes with `--data`"):
        typed("test", folder / "V.npy", "--against", folder / "in.csv")
