"""`ksdp clear SPEC` as typed: a key that has a passphrase, words at the end."""

from pathlib import Path

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
        "clear", str(spec), "--clearance", str(tmp_path / "c.json"), "--key", str(tmp_path / "ana.key"),
        "--who", "Ana", "--store", str(tmp_path / "store"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("typed", "message"), [("wrong\n", "the passphrase is wrong"), ("correct horse\n", "nothing.npz")]
)
def test_an_encrypted_key_asks_for_its_passphrase(
    asked: list[str], tmp_path: Path, typed: str, message: str
) -> None:
    done = CliRunner().invoke(app, asked, input=typed)
    assert isinstance(done.exception, InputError)
    assert message in str(done.exception)
    assert "Passphrase of ana.key" in done.stderr
    assert done.stdout.strip() == ""  # the prompt is on standard error
    assert "horse" not in done.output
    assert not (tmp_path / "store").exists()
