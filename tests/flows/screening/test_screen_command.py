"""`ksdp screen` as typed: options that reach the flow, a key that has a passphrase, words at the end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ksdp.audit.errors import InputError
from ksdp.cli import app
from ksdp.storage.keys import make_identity


@pytest.fixture
def asked(tmp_path: Path) -> list[str]:
    """A spec whose corpus is not there: what comes before the corpus has passed if that is the refusal."""
    spec = tmp_path / "spec.toml"
    spec.write_text('[corpus]\npath = "nothing.npz"\n[mechanism]\nname = "pd-svd"\n')
    make_identity(tmp_path, "ana", passphrase=b"correct horse")
    return [
        "screen", str(spec), "--clearance", str(tmp_path / "c.json"), "--key", str(tmp_path / "ana.key"),
        "--who", "Ana", "--store", str(tmp_path / "store"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("typed", "message"), [("wrong\n", "the passphrase is wrong"), ("correct horse\n", "nothing.npz")]
)
@pytest.mark.parametrize("command", ["screen", "approve"])
def test_an_encrypted_key_asks_for_its_passphrase(
    asked: list[str], tmp_path: Path, command: str, typed: str, message: str
) -> None:
    done = CliRunner().invoke(app, [command, *asked[1:]], input=typed)
    assert isinstance(done.exception, InputError)
    assert message in str(done.exception)
    assert "Passphrase of ana.key" in done.stderr
    assert done.stdout.strip() == ""  # the prompt is on standard error
    assert "horse" not in done.output
    assert not (tmp_path / "store").exists()


def test_options_reach_the_flow(asked: list[str]) -> None:
    done = CliRunner().invoke(app, [*asked, "--most", "0"], input="correct horse\n")
    assert "`most` must be in" in str(done.exception)


def test_where_exclusion_does_not_help_advice_is_offered(
    tmp_path: Path, spec: Callable[..., Path], ksdp: Callable[..., Any]
) -> None:
    make_identity(tmp_path, "ana")
    common = [
        "screen", spec(), "--clearance", tmp_path / "c.json", "--key", tmp_path / "ana.key", "--who", "Ana",
        "--store", tmp_path / "store", "--workers", "1", "--most", "0.01", "--list-excluded",
    ]  # fmt: skip
    told = ksdp(*common, check=3)
    assert "hopeless: " in told.err
    assert "`ksdp advise` searches the levers for a run that gives less away." in told.err
    again = ksdp(*common, "--json", check=3)
    assert (again.out["most"], again.out["outcome"]) == (0.01, "hopeless")
    assert again.out["rounds"][0]["cached_runs"] == again.out["rounds"][0]["runs"]
    page = Path(again.out["report"])
    assert page.name in told.err
    assert page.read_text().startswith("<!doctype html>")
    assert json.loads(page.with_suffix(".json").read_text()) == again.out
