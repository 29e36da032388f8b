"""An audit does without what only parties, pages, schedules, noise and advice need."""

import sys
import tomllib
from pathlib import Path

import pytest

import ksdp.cli

ROOT = Path(__file__).resolve().parents[2]


def test_a_command_that_misses_one_names_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    for name in ("ksdp.flows.schedules.serve", "ksdp.flows.metrics_port"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(sys, "argv", ["ksdp", "serve", "--store", str(tmp_path)])
    with pytest.raises(SystemExit) as left:
        ksdp.cli.main()
    assert left.value.code == 2
    assert "pip install 'ksdp[schedules]'" in capsys.readouterr().err


def test_every_extra_is_one_of_the_package() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(ksdp.cli.EXTRAS.values()) == set(extras) - {"all", "dev", "docs", "plot"}
    listed = {name.partition(">")[0].replace("-", "_") for extra in extras for name in extras[extra]}
    assert set(ksdp.cli.EXTRAS) <= listed
