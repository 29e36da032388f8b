"""What only `python -m benchmarks` imports is imported here too."""

import importlib
from pathlib import Path

import numpy as np
import pytest
from benchmarks import plain_loop, signed, signed_lists

from ksdp.audit.verdicts.laws import ks_tables
from ksdp.storage.readers.spec_files import read_spec_file

ROOT = Path(__file__).resolve().parents[1]
NAMES = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py") if path.stem != "__init__")


@pytest.mark.parametrize("name", NAMES)
def test_every_benchmark_finds_what_it_measures(name: str) -> None:
    importlib.import_module(f"benchmarks.{name}")


def test_documents_with_arms_of_one_size_are_tested_together_and_stay_in_their_places() -> None:
    rng = np.random.default_rng(1)
    inclusion = rng.random((40, 60)) < 0.3
    values = (rng.normal(size=(2, 40, 60)) + inclusion).astype(np.float32)
    distance, p = plain_loop.vectorised(values, inclusion, "exact")
    tables = ks_tables(list(values), inclusion)
    assert np.array_equal(distance, [table.distance for table in tables])
    assert np.allclose(np.log10(p), [table.log10_p for table in tables], rtol=0, atol=1e-9)


def test_the_attack_on_a_list_proves_the_one_that_stands_out_and_nobody_of_those_that_do_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = np.random.default_rng(2).normal(size=(40, 4))
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    rows[7] *= 4.0
    lines = [",".join([f"p{place}", *map(str, row)]) for place, row in enumerate(rows)]
    (tmp_path / "table.csv").write_text("\n".join(["id,a,b,c,d", *lines]))
    (tmp_path / "spec.toml").write_text(
        'seed = 1\n[corpus]\npath = "table.csv"\nid = "id"\ncolumns = ["a", "b", "c", "d"]\n'
        'weighting = "standardised"\n[mechanism]\nname = "pd-svd"\nrank = 1\nopens = "final"\n'
        "[design]\nparty_size = 0.5\nwith_runs = 50\n[decision]\nmargin = 0.5\n"
    )
    (tmp_path / "list.txt").write_text("\n".join(f"p{place}" for place in range(30)))
    plan = signed.plan_of(tmp_path / "spec.toml")
    units, size = signed.listed_units(tmp_path / "list.txt", plan)
    assert (units.tolist(), size) == (list(range(30)), None)
    found = signed.attack(plan, units, units, 15, 1500, seed=3)
    assert np.flatnonzero(found.lower > 0.5).tolist() == [7]
    signed.run([str(tmp_path / "list.txt"), str(tmp_path / "spec.toml")], size=15, runs=400)
    assert capsys.readouterr().out.splitlines()[0].startswith("30 listed, margin 0.5, 15 in a run")


@pytest.mark.parametrize("name", ["patients", "digits", "ada", "demo"])
def test_a_setting_whose_list_is_signed_is_a_table_and_a_spec(tmp_path: Path, name: str) -> None:
    one = signed_lists.SETTINGS[name]
    read, base = read_spec_file(one.write(tmp_path))
    assert (base, read.decision.margin, read.design.with_runs) == (tmp_path, one.margin, one.runs)
    assert (base / "table.csv").exists() == (one.table is not None)
