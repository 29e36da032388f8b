"""Mechanisms and statistics by name, ours and a user's."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.contract import Database, Mechanism
from ksdp.audit.registry import make_mechanism, mechanism_names, select_statistics, statistics
from ksdp.audit.statistics.contract import Statistic


def test_every_installed_mechanism_and_statistic_keeps_its_contract() -> None:
    for name in mechanism_names():
        mechanism = make_mechanism(name, {})
        assert isinstance(mechanism, Mechanism)
        assert mechanism.name == name
        assert all(a.name and all(side > 0 for side in a.shape) for a in mechanism.observables(30))
    for name, statistic in statistics().items():
        assert isinstance(statistic, Statistic)
        assert (statistic.name, statistic.version) == (name, statistic.version)
        assert statistic.version >= 1


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("pd-sdv", {}, "must be one of .*pd-nmf.*got 'pd-sdv'; did you mean `pd-svd`"),
        ("pd-svd", {"ranks": 3}, "`mechanism.ranks` is not a parameter .* did you mean `rank`. it has .*rank"),
        ("pd-svd", {"rank": 0}, "`rank` must be"),
        ("counted", {"rank": 3}, "`mechanism.rank` is not .* go into `.mechanism.parameters.`"),
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
    "pd-nmf": ("rank", "sweeps", "start_seed"),
    "counted": ("at_least",),
    "hardt-roth": ("rank", "iterations", "colluders", "start_seed"),
    "dp-nmf": ("rank", "sweeps", "colluders", "start_seed"),
    "moments": ("rank",),
    "fedpower": ("rank", "iterations", "period", "start_seed"),
    "fedpower-private": ("rank", "iterations", "period", "colluders", "start_seed"),
    "fedpower-utility": ("rank", "iterations", "period", "start_seed"),
    "dpdispca": ("rank", "intermediate"),
    "null": ("rank",),
}


@pytest.mark.parametrize(("name", "parameter"), [(name, one) for name, many in _WHOLE.items() for one in many])
def test_refuses_what_is_no_whole_number_before_anything_runs(name: str, parameter: str) -> None:
    for wrong in (2.5, 2.0, True, "3", -1):
        with pytest.raises(SpecError, match=rf"`{parameter}` must be a whole number of at least [01]; got"):
            make_mechanism(name, {parameter: wrong})


def test_lists_in_a_spec_become_tuples() -> None:
    mechanism = make_mechanism("noisy", {"plain": ["sweeps"]})
    assert mechanism.plain == ("sweeps",)
    hash(mechanism)


def test_a_mechanism_written_in_ten_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_for_registry.py").write_text(
        "import numpy as np\n"
        "from ksdp.audit.mechanisms.contract import Announced, Observables\n"
        "class Sums:\n"
        "    name, version = 'sums', 1\n"
        "    def observables(self, features):\n"
        "        return (Announced('mean', (features,)),)\n"
        "    def run(self, database, rng):\n"
        "        return Observables({'mean': database.parties[0].sum(axis=0)})\n"
        "mechanism = Sums()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    mechanism = make_mechanism("mine_for_registry:mechanism", {})
    import scipy.sparse as sp

    database = Database((sp.csr_array(np.eye(4)),))
    assert mechanism.run(database, np.random.default_rng(0))["mean"].tolist() == [1, 1, 1, 1]
    with pytest.raises(SpecError, match="takes no parameters"):
        make_mechanism("mine_for_registry:mechanism", {"rank": 3})
    sys.modules.pop("mine_for_registry")


def test_statistics_follow_what_is_announced() -> None:
    background = ("adversary_sigma", "adversary_rows", "victim_rows")
    chosen, skipped = select_statistics(("paper", "geometry"), (), ("V",), background)
    names = {s.name for s in chosen}
    assert {"row-space-energy", "w-max", "d-square-sum"} <= names
    assert "sigma" not in names
    assert skipped["sigma"] == "needs T, denominators"
    assert skipped["mean-alignment"] == "needs mean"
    assert select_statistics(("geometry",), (), ("mean",))[1]["best-cosine"] == "needs T or V"
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
