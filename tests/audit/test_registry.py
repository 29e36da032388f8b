"""Mechanisms and statistics by name, ours and a user's."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit import registry as module
from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.errors import SpecError
from ksdp.audit.registry import make_mechanism, own_code, own_modules, select_statistics, source_digest, statistics
from ksdp.audit.specs.own_names import names_own_code
from ksdp.audit.statistic import Statistic

from ..plans import planned


def test_every_installed_statistic_keeps_its_contract() -> None:
    for name, statistic in statistics().items():
        assert isinstance(statistic, Statistic)
        assert (statistic.name, statistic.version) == (name, statistic.version)
        assert statistic.version >= 1


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("noisy_mean#1272195f", {}, "only such a call can use them again"),
        ("pd-sdv", {}, "must be one of .*pd-nmf.*got 'pd-sdv'; did you mean `pd-svd`"),
        ("pd-svd", {"ranks": 3}, "`mechanism.ranks` is not a parameter .* did you mean `rank`. it has .*rank"),
        ("pd-svd", {"rank": 0}, "`rank` must be"),
        ("noisy", {"rank": 3}, "`mechanism.rank` is not .* go into `.mechanism.parameters.`"),
        ("nowhere:thing", {}, "cannot be imported"),
    ],
)
def test_refuses_what_is_not_there(name: str, parameters: dict, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        make_mechanism(name, parameters)


_WHOLE = {
    "pd-svd": ("rank", "iterations", "start_seed"),
    "sigma-svd": ("rank", "iterations", "start_seed"),
    "pd-pca": ("rank",),
    "counted-svd": ("rank", "iterations", "start_seed"),
    "pd-nmf": ("rank", "sweeps", "start_seed"),
    "hardt-roth": ("rank", "iterations", "colluders", "start_seed"),
    "dp-nmf": ("rank", "sweeps", "colluders", "start_seed"),
    "moments": ("rank",),
    "fedpower": ("rank", "iterations", "period", "start_seed"),
    "fedpower-private": ("rank", "iterations", "period", "colluders", "start_seed"),
    "fedpower-utility": ("rank", "iterations", "period", "start_seed"),
    "dpdispca": ("rank", "intermediate"),
    "null": ("rank",),
    "pem-kmeans": ("clusters", "iterations", "servers", "colluding", "start_seed", "fraction_bits"),
    "pem-logistic": ("iterations", "label"),
    "pem-apriori": ("longest",),
}


@pytest.mark.parametrize(("name", "parameter"), [(name, one) for name, many in _WHOLE.items() for one in many])
def test_refuses_what_is_no_whole_number_before_anything_runs(name: str, parameter: str) -> None:
    for wrong in (2.5, 2.0, True, "3", -(2**31) - 1 if parameter == "label" else -1):
        with pytest.raises(SpecError, match=rf"`{parameter}` must be a whole number of at least -?\d+; got"):
            make_mechanism(name, {parameter: wrong})


def test_lists_in_a_spec_become_tuples() -> None:
    mechanism = make_mechanism("noisy", {"plain": ["sweeps"]})
    assert mechanism.plain == ("sweeps",)
    hash(mechanism)


def test_statistics_follow_what_is_announced() -> None:
    background = ("adversary_sigma", "adversary_rows", "victim_rows")
    chosen, skipped = select_statistics(("paper", "geometry"), (), ("V",), background)
    names = {s.name for s in chosen}
    assert {"row-space-energy", "w-max", "d-square-sum"} <= names
    assert "sigma" not in names
    assert skipped["sigma"] == "needs T, denominators"
    assert skipped["first-order-mean"] == "needs mean"
    assert select_statistics(("geometry",), (), ("mean",))[1]["row-space-energy"] == "needs T or V"
    assert "adversary_sigma" in select_statistics(("paper", "geometry"), (), ("V",))[1]["w-max"]
    assert [s.name for s in chosen] == sorted(names)


def test_refuses_unknown_families_names_and_empty_choices() -> None:
    with pytest.raises(SpecError, match="`statistics.families` must be among"):
        select_statistics(("papers",), (), ("V",))
    with pytest.raises(SpecError, match="`statistics.names` must be among"):
        select_statistics((), ("row-energy",), ("V",))
    with pytest.raises(SpecError, match="no statistic can be computed"):
        select_statistics((), ("sigma",), ("V",))


@pytest.mark.parametrize(
    "name",
    [":", "a:", ":b", "..:x", ".os:path", "os.:path", "a b:c", "a\0b:c", "os:path", "os:getcwd",
     "json:JSONDecodeError", "builtins:int", "no_such_module:x", "os:no_such_thing", "1a:b"],
)  # fmt: skip
def test_names_of_modules_that_are_none_are_refused_with_one_line(name: str) -> None:
    with pytest.raises(SpecError) as caught:
        make_mechanism(name, {})
    assert "\n" not in str(caught.value)


def test_a_module_that_fails_when_it_is_imported_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    for number, body in enumerate(("1 / 0", "raise SystemExit(3)", "def", "import no_such_module_either")):
        (tmp_path / f"failing_{number}.py").write_text(body)
        with pytest.raises(SpecError, match="cannot be imported"):
            make_mechanism(f"failing_{number}:x", {})


def test_files_of_strangers_name_installed_mechanisms_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "neighbour.py").write_text("raise AssertionError('imported')")
    with pytest.raises(SpecError, match="must be one of"):
        make_mechanism("neighbour:x", {}, installed=True)
    assert make_mechanism("pd-svd", {"rank": 2}, installed=True).name == "pd-svd"


OWN = """
from dataclasses import dataclass

import numpy as np

import beside_it
from package_beside.inner import scale
from ksdp.audit.contract import Observables, Release


@dataclass(frozen=True)
class Sum:
    name = "own-sum"
    version = 1
    factor: float = 1.0

    def releases(self, features):
        return (Release("T", (1, features)),)

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
    return planned(corpus, mechanism, seed=0, design={"party_size": 0.3, "with_runs": 8})


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


def test_noise_is_a_parameter_of_every_mechanism_that_has_none_of_its_own() -> None:
    """The standard deviation per entry: what the mechanism around another one calls noise in units of 1."""
    made = make_mechanism("pd-svd", {"rank": 3, "opens": "final", "noise": 0.02})
    around = {"mechanism": "pd-svd", "noise": 0.02, "scale": 1.0, "parameters": {"rank": 3, "opens": "final"}}
    assert made == make_mechanism("noisy", around)
    assert made.guarantee.sound
    assert make_mechanism("moments", {"noise": 0.5}).name == "moments"
    with pytest.raises(SpecError, match="`noise` must be a number of at least 0"):
        make_mechanism("pd-svd", {"rank": 3, "noise": -1.0})
