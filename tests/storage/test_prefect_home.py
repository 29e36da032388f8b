"""The password of the server is whole, and for its owner alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from ksdp.storage.prefect_home import open_log, server_password


@pytest.mark.parametrize("left", ["", "ksdp:", "ksdp:short", "\n"])
def test_half_a_password_is_made_anew(tmp_path: Path, left: str) -> None:
    (tmp_path / "password").write_text(left)
    made = server_password(tmp_path)
    assert len(made) == len("ksdp:") + 24
    assert server_password(tmp_path) == made
    assert (tmp_path / "password").stat().st_mode & 0o077 == 0


def test_the_log_is_for_its_owner_alone(tmp_path: Path) -> None:
    path, output = open_log(tmp_path)
    with output:
        output.write(b"one\n")
    _, output = open_log(tmp_path)
    with output:
        output.write(b"two\n")
    assert path.read_bytes() == b"one\ntwo\n"
    assert path.stat().st_mode & 0o077 == 0
