"""A user's own code is known by its source: what an earlier form of it computed is not read as its own."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit import own_code as module
from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.own_code import own_code, own_modules, source_digest
from ksdp.audit.planning import make_plan
from ksdp.audit.smoke_run import names_own_code
from ksdp.audit.spec.models import parse_spec

OWN = """
from dataclasses import dataclass

import numpy as np

import beside_it
from package_beside.inner import scale
from ksdp.audit.mechanisms.contract import Announced, Observables


@dataclass(frozen=True)
class Sum:
    name = "own-sum"
    version = 1
    factor: float = 1.0

    def observables(self, features):
        return (Announced("T", (1, features)),)

    def run(self, database, rng):
        whole = sum(np.asarray(part.sum(axis=0)).ravel() for part in database.parties)
        return Observables({"T": self.factor * scale(beside_it.noised(whole, rng))[None]})
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module of one's own, another beside it, a package, and one that nobody imports."""
    (tmp_path / "my_own_sum.py").write_text(OWN)
    (tmp_path / "beside_it.py").write_text(
        "def noised(total, rng):\n    return total + rng.normal(size=total.shape)\n"
    )
    (tmp_path / "package_beside").mkdir()
    (tmp_path / "package_beside" / "__init__.py").write_text("")
    (tmp_path / "package_beside" / "inner.py").write_text("from . import deeper\n\nscale = deeper.scale\n")
    (tmp_path / "package_beside" / "deeper.py").write_text("def scale(total):\n    return 2.0 * total\n")
    (tmp_path / "unrelated.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    forget()
    return tmp_path


def forget() -> None:
    """As if nothing of this had been imported."""
    mine = ("my_own_sum", "beside_it", "package_beside")
    for name in [name for name in sys.modules if name.partition(".")[0] in mine]:
        del sys.modules[name]


def again(module: str = "my_own_sum") -> str:
    """As another process would say it."""
    forget()
    return source_digest(module)


def test_whatever_it_is_made_of_counts_and_nothing_else(folder: Path) -> None:
    first = again()
    assert again() == first
    (folder / "unrelated.py").write_text("x = 2\n")
    assert again() == first
    said = {first}
    for name in ("my_own_sum.py", "beside_it.py", "package_beside/inner.py", "package_beside/deeper.py"):
        file = folder / name
        file.write_text(file.read_text() + "# edited\n")
        said.add(again())
    assert len(said) == 5
    (folder / "beside_it.py").write_text("from ... import nothing\nimport (\n")
    assert again() not in said, "what cannot be read is looked at no further"


def test_a_process_goes_on_with_what_it_has_imported(folder: Path) -> None:
    mine = importlib.import_module("my_own_sum")
    first = source_digest("my_own_sum")
    (folder / "my_own_sum.py").write_text(OWN.replace("self.factor *", "3.0 *"))
    assert source_digest("my_own_sum") == first
    importlib.reload(mine)  # as notebooks do
    second = source_digest("my_own_sum")
    assert second != first
    assert again() == second


def test_what_is_installed_is_not_looked_into() -> None:
    """Of a module that stands in the folder of all packages, itself alone; the rest has versions."""
    assert own_modules("six:PY3") == ("six",)
    assert len({source_digest(name) for name in ("six", "typing_extensions")}) == 2
    assert source_digest("there_is_no_such_module") == source_digest("nor_this")


def test_an_environment_within_the_folder_is_not_looked_into(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lies in the folder of the code, and what it holds is installed all the same."""
    inside = folder / ".venv" / "site-packages"
    inside.mkdir(parents=True)
    (inside / "installed_inside.py").write_text("x = 1\n")
    monkeypatch.syspath_prepend(inside)
    (folder / "my_own_sum.py").write_text(OWN + "import installed_inside\n")
    said = set()
    for installed in (frozenset(), frozenset({inside})):
        monkeypatch.setattr(module, "_installed", lambda found=installed: found)
        for x in (1, 2):
            (inside / "installed_inside.py").write_text(f"x = {x}\n")
            said.add((bool(installed), again()))
    assert len(said) == 3, "only where nobody knows that it is installed it counts"


def plan_of(**mechanism):
    rng = np.random.default_rng(0)
    corpus = Corpus(sp.csr_array(rng.poisson(0.4, (40, 6)).astype(float)), np.arange(40).astype(str))
    tables = {"corpus": {"path": "x.npz"}, "mechanism": mechanism, "design": {"party_size": 0.3, "with_runs": 8}}
    return make_plan(parse_spec(tables), corpus)


@pytest.mark.parametrize(
    "mechanism", [{"name": "my_own_sum:Sum"}, {"name": "noisy", "mechanism": "my_own_sum:Sum", "noise": 0.1}]
)
def test_runs_of_edited_code_are_other_runs(folder: Path, mechanism: dict[str, object]) -> None:
    again()
    before = plan_of(**mechanism)
    assert names_own_code(before.spec)
    assert plan_of(**mechanism).runs_identity == before.runs_identity
    (folder / "beside_it.py").write_text("def noised(total, rng):\n    return total\n")
    again()
    after = plan_of(**mechanism)
    assert after.spec.hash == before.spec.hash
    assert after.runs_identity != before.runs_identity
    assert {**after.runs_identity, "code": 0} == {**before.runs_identity, "code": 0}


def test_ours_have_versions() -> None:
    plan = plan_of(name="pd-svd", rank=2)
    assert "code" not in plan.runs_identity
    assert own_code(plan.spec.statistics.names, plan.statistics) == {}
    assert not names_own_code(plan.spec)


def test_a_class_of_a_script_is_known_by_itself() -> None:
    class Mine:
        """Stands in a script."""

    Mine.__module__ = "__main__"
    said = own_code((), [Mine(), Mine()])
    assert list(said) == [f"__main__.{Mine.__qualname__}"]
