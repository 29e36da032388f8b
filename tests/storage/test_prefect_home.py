"""The password of the server is whole, and for its owner alone."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from ksdp.storage.prefect_home import (
    keep_template,
    open_log,
    server_password,
    start_from_template,
    template_of,
)


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


def test_a_new_home_starts_from_a_database_that_was_made_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    template, made, new = template_of("3.1"), tmp_path / "made.db", tmp_path / "new.db"
    assert not start_from_template(made, template)
    with contextlib.closing(sqlite3.connect(made)) as open_database:
        open_database.execute("PRAGMA journal_mode = WAL")
        open_database.execute("CREATE TABLE runs (id)")
        open_database.commit()
        keep_template(made, template)  # what stands in the log beside it is part of it
    assert template.parent.stat().st_mode & 0o077 == 0
    assert start_from_template(new, template)
    with contextlib.closing(sqlite3.connect(new)) as copied:
        assert copied.execute("SELECT count(*) FROM runs").fetchone() == (0,)
    new.write_bytes(b"somebody's own")
    assert start_from_template(new, template)
    assert new.read_bytes() == b"somebody's own"


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0 and no more", b"something else"])
def test_a_damaged_template_is_not_used(tmp_path: Path, content: bytes) -> None:
    template = tmp_path / "template.db"
    template.write_bytes(content)
    started = start_from_template(tmp_path / "new.db", template)
    assert started == (tmp_path / "new.db").exists() == (content == b"")


def test_no_room_for_a_template_is_no_fault(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "made.db").close()
    (tmp_path / "cache").write_text("a file where a folder should be")
    keep_template(tmp_path / "made.db", tmp_path / "cache" / "ksdp" / "template.db")
