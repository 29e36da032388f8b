"""What a person types, on files in a bucket and on the same files here: the same results, and nothing stays."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from ksdp.storage.readers import spec_files

from ...buckets import bucket
from ...typed import typed

ROWS, TERMS = 300, 12
SPEC = """
seed = 5
[corpus]
path = "{counts}"
vocabulary = "{words}"
labels = "{labels}"
party = "office"
weighting = "counts"
rows = "l2"
[corpus.levers]
terms = "{terms}"
[mechanism]
name = "moments"
rank = 4
advantage = 0.2
[design]
party_size = 0.5
with_runs = 40
[decision]
margin = 0.6
[statistics]
families = ["geometry"]
[gain]
splits = 2
"""
SECRET = "a-secret-of-forty-characters"


@dataclass(frozen=True)
class Both:
    """Two folders that each have a spec, one of files in it, one of files in a bucket."""

    made: Any
    near: Path
    far: Path
    url: str
    """Of a file in the bucket, its name left open."""

    def send(self, file: Path) -> None:
        with self.made.open_output_stream(f"ksdp/in/{file.name}", compression=None) as stream:
            stream.write(file.read_bytes())

    def told(self, folder: Path, command: str, *arguments: object, code: int = 0) -> dict[str, Any]:
        """What a command of the folder's spec prints."""
        store = () if command == "plan" else ("--store", folder / "store")
        done = typed(command, folder / "spec.toml", *arguments, *store, "--json", code=code)
        assert SECRET not in done.output
        return dict(json.loads(done.stdout))


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    """Two parties that write about different things, in counts; one server for all tests."""
    near, far, copies = (tmp_path_factory.mktemp(name) for name in ("near", "far", "copies"))
    rng = np.random.default_rng(0)
    party = np.arange(ROWS) % 2
    weights = np.full((2, TERMS), 0.02)
    weights[0, :4], weights[1, 4:8] = 1.0, 1.0
    counts = np.array([rng.multinomial(12, weights[p] / weights[p].sum()) for p in party])
    words = [f"word{letter}" for letter in "abcdefghijkl"]
    sp.save_npz(near / "counts.npz", sp.csr_array(counts))
    pd.DataFrame({"office": np.array(["north", "south"])[party]}).to_csv(near / "labels.csv", index=False)
    (near / "words.txt").write_text("\n".join(words) + "\n")
    (near / "terms.txt").write_text("\n".join(words[:11]) + "\n")
    table = pd.DataFrame(counts[:80], columns=words)
    table.insert(0, "patient_id", [f"p{row}" for row in range(80)])
    table.to_csv(near / "patients.csv", index=False)
    with pytest.MonkeyPatch.context() as patched, bucket() as (made, options):
        patched.setattr(tempfile, "tempdir", str(copies))
        patched.setenv("AWS_ACCESS_KEY_ID", "any")
        patched.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        patched.setenv("AWS_EC2_METADATA_DISABLED", "true")
        out = Both(made, near, far, "s3://ksdp/in/{}?" + options)
        for file in near.iterdir():
            out.send(file)
        names = {key: f"{key}.{end}" for key, end in (("words", "txt"), ("labels", "csv"), ("terms", "txt"))}
        names["counts"] = "counts.npz"
        (near / "spec.toml").write_text(SPEC.format(**names))
        (far / "spec.toml").write_text(SPEC.format(**{key: out.url.format(name) for key, name in names.items()}))
        yield out
        assert not list(copies.glob("ksdp-corpus-*"))


def without(told: Any, keys: frozenset[str]) -> Any:
    """What was told but for keys that say where, when, and by which spec."""
    if isinstance(told, dict):
        return {key: without(value, keys) for key, value in told.items() if key not in keys}
    return [without(value, keys) for value in told] if isinstance(told, list) else told


def test_gain_and_columns(both: Both) -> None:
    for command in (("gain",), ("plan", "--columns", both.near / "columns.txt")):
        assert both.told(both.near, *command) == both.told(both.far, *command)


@pytest.mark.validity
def test_advice_and_what_to_type_next(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    copied, make = [], spec_files.Copy
    monkeypatch.setattr(spec_files, "Copy", lambda url: copied.append(url) or make(url))
    near, far = (both.told(folder, "advise") for folder in (both.near, both.far))
    assert near["best"] is not None
    assert len(copied) == len(set(copied)) == 4  # the search and the audit of what it found are of one version
    where = frozenset({"asked", "audit", "name", "report", "spec", "advised", "commands"})
    assert without(near, where) == without(far, where)
    steps = [step["command"].split()[:2] for step in near["commands"]]
    assert steps == [step["command"].split()[:2] for step in far["commands"]]
    assert "HERE.toml" in far["commands"][-1]["command"]
    assert "HERE.toml" not in near["commands"][-1]["command"]
    advised = (typed("plan", folder / "spec.advised.toml", "--json").stdout for folder in (both.near, both.far))
    assert len({json.loads(one)["runs"] for one in advised}) == 1


def test_a_first_spec_names_the_url(both: Both, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    url = both.url.format("patients.csv")
    typed("init", url, code=0)
    typed("init", both.near / "patients.csv", "--out", "near.toml", code=0)
    far, near = (Path(name).read_text().splitlines() for name in ("patients.toml", "near.toml"))
    assert [line for line, other in zip(far, near, strict=True) if line != other] == [f'path = "{url}"']
    typed("plan", "patients.toml", code=0)


@pytest.mark.e2e
def test_a_schedule_audits_what_changed_in_the_bucket(both: Both) -> None:
    typed(
        "schedule", both.far / "spec.toml", "--cron", "0 3 * * *", "--name", "nightly", "--store", both.far / "s"
    )

    def now() -> dict[str, Any]:
        done = typed("now", "nightly", "--store", both.far / "s", "--json")
        return dict(json.loads(done.stdout.strip().splitlines()[-1]))

    assert now()["documents"]["audited"] == ROWS
    counts = sp.load_npz(both.near / "counts.npz").tolil()
    counts[7, 0] += 3
    sp.save_npz(both.near / "counts.npz", sp.csr_array(counts))
    both.send(both.near / "counts.npz")
    again = now()
    assert (again["documents"]["changed"], again["documents"]["audited"]) == (1, 1)
