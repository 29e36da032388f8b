"""The commands `mechanisms` and `claim`, as a person runs them."""

import json
import tomllib
from pathlib import Path

import pytest

from ksdp.audit.errors import InputError

from ..typed import typed

ROOT = Path(__file__).resolve().parents[2]
SPEC = """
seed = 3
[corpus]
path = "not-read.npz"
[mechanism]
name = "ksdp.audit.mechanisms.privacy.hardt_roth:{what}"
rank = 2
iterations = 2
epsilon = 1.0
"""


def run(*arguments: str) -> tuple[int, str]:
    done = typed(*arguments)
    return done.exit_code, done.stdout


def test_every_entry_point_is_listed_with_its_guarantee() -> None:
    code, out = run("mechanisms", "--json")
    listed = {entry["name"]: entry for entry in json.loads(out)}
    named = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["ksdp.mechanisms"]
    assert code == 0
    assert set(named) <= set(listed)
    kinds = {name: listed[name]["guarantee"]["kind"] for name in named}
    assert {kinds[name] for name in ("dp-nmf", "dpdispca", "hardt-roth", "fedpower")} == {"(epsilon, delta)"}
    pem = [listed[name]["guarantee"] for name in ("pem-kmeans", "pem-logistic", "pem-apriori")]
    assert [(p["kind"], p["epsilon"], p["delta"]) for p in pem] == [("(epsilon, delta)", 1.0, 0.0)] * 3
    assert kinds["pd-nmf"] == kinds["pd-svd"] == kinds["pd-pca"] == kinds["sigma-svd"] == kinds["noisy"] == "KSDP"
    assert kinds["null"] == kinds["planted-leak"] == "none"
    for name in named:
        entry = listed[name]
        assert entry["parameters"]
        assert entry["guarantee"]["kind"] == "none" or entry["guarantee"]["source"]
        assert entry["guarantee"]["kind"] == "none" or entry["guarantee"]["trust"]
        assert not entry["guarantee"]["protects"]  # a simulation's noise by default


def test_the_list_reads_as_text() -> None:
    code, out = run("mechanisms")
    assert code == 0
    assert "fedpower  (epsilon, delta)  epsilon 2, delta 2e-05  UNSOUND" in out
    assert "pem-apriori  (epsilon, delta)  epsilon 1, delta 0\n" in out
    assert "all but one of the 2 servers together" in out
    assert "NumPy's noise" in out
    code, out = run("mechanisms", "moments")
    assert (code, out.splitlines()[0].split()[0], "fedpower" in out) == (0, "moments", False)
    with pytest.raises(InputError, match="there is no mechanism 'momentz'; there are "):
        run("mechanisms", "momentz")


def test_people_read_both_numbers_and_where_they_are_from(tmp_path: Path) -> None:
    spec = tmp_path / "spec.toml"
    spec.write_text(SPEC.format(what="HardtRoth"))
    asked = ("claim", str(spec), "--runs", "30", "--store", str(tmp_path / "store"))
    _, first = run(*asked)
    assert "claims epsilon 1 at delta 1e-05" in first
    assert "1 PLD (delta 1e-05)" in first
    assert "  stored 20" in first
    _, second = run(*asked)
    assert "read from the store: the same inputs and code, run 20" in second
    assert second.splitlines()[:-1] == first.splitlines()[:-1]


def test_pem_is_run_on_its_worst_case_and_what_claims_nothing_leaves_no_store(tmp_path: Path) -> None:
    spec, store = tmp_path / "spec.toml", tmp_path / "store"
    asked = 'seed = 1\n[corpus]\npath = "x.npz"\n[mechanism]\nname = "{}"\n'
    spec.write_text(asked.format("null"))
    with pytest.raises(InputError, match="claims no epsilon"):
        run("claim", str(spec), "--runs", "20", "--store", str(store))
    assert not store.exists()
    spec.write_text(asked.format("pem-apriori"))
    code, out = run("claim", str(spec), "--runs", "20", "--store", str(store))
    assert code == 0
    assert "pem-apriori claims epsilon 1 at delta 0; 20 runs an arm prove at least" in out
    assert "1 added up (delta 0)" in out
