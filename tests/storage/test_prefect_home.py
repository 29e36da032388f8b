"""The password of the server is whole, and for its owner alone."""

import contextlib
import sqlite3
from pathlib import Path

import pytest

from ksdp.storage.prefect_home import (
    copy_template,
    keep_template,
    open_log,
    server_address,
    server_password,
    sharing_address,
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


def test_the_address_of_a_server_that_was_killed_is_stale_and_one_that_ended_leaves_none(tmp_path: Path) -> None:
    def addresses() -> tuple[str | None, str | None]:
        return server_address(tmp_path), server_address(tmp_path, stale=True)

    assert addresses() == (None, None)
    with sharing_address(tmp_path, "http://127.0.0.1:4200"):
        assert addresses() == ("http://127.0.0.1:4200", None)
    assert addresses() == (None, None)
    (tmp_path / "serving").write_text("http://127.0.0.1:4200")  # nobody holds its lock
    assert addresses() == (None, "http://127.0.0.1:4200")


def made_at(path: Path, *more: str) -> None:
    """A database as migrations leave it, in Prefect's journal mode; then `more`."""
    statements = (
        "CREATE TABLE alembic_version (v)",
        "INSERT INTO alembic_version VALUES ('a3')",
        "CREATE TABLE log (id)",
    )
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        for statement in (*statements, *more):
            database.execute(statement)
        database.commit()


@pytest.fixture
def template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One that was kept."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made_at(tmp_path / "made.db")
    kept = template_of("3.1")
    assert kept is not None
    keep_template(tmp_path / "made.db", kept)
    return kept


def test_a_new_home_starts_from_the_database_that_was_made_first(tmp_path: Path, template: Path) -> None:
    assert template.parent.stat().st_mode & 0o077 == template.stat().st_mode & 0o077 == 0
    assert copy_template(tmp_path / "new.db", template)
    with contextlib.closing(sqlite3.connect(tmp_path / "new.db")) as copied:
        assert copied.execute("SELECT v FROM alembic_version").fetchall() == [("a3",)]
        assert copied.execute("SELECT count(*) FROM log").fetchone() == (0,)
    assert sorted(file.name for file in template.parent.iterdir()) == [template.name]  # no log beside it
    assert not copy_template(tmp_path / "other.db", template.with_name("prefect-3.2.db"))


@pytest.mark.parametrize(
    "more",
    [
        ("INSERT INTO log VALUES (1)",),  # something has happened in it
        ("DELETE FROM alembic_version",),  # migrations did not come to their end
        ("DROP TABLE log",),
    ],
)
def test_what_is_not_new_is_no_template(tmp_path: Path, more: tuple[str, ...]) -> None:
    made_at(tmp_path / "made.db", *more)
    keep_template(tmp_path / "made.db", tmp_path / "cache" / "kept.db")
    assert not (tmp_path / "cache" / "kept.db").exists()
    (tmp_path / "made.db").chmod(0o600)
    assert not copy_template(tmp_path / "new.db", tmp_path / "made.db")


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0 and no more", b"something else"])
def test_a_damaged_template_is_not_used(tmp_path: Path, template: Path, content: bytes) -> None:
    template.write_bytes(content)
    assert not copy_template(tmp_path / "new.db", template)
    assert not (tmp_path / "new.db").exists()


def test_a_template_that_others_may_write_is_not_used(tmp_path: Path, template: Path) -> None:
    template.chmod(0o620)
    assert not copy_template(tmp_path / "new.db", template)
    template.chmod(0o600)
    template.parent.chmod(0o777)
    assert not copy_template(tmp_path / "new.db", template)
    template.parent.chmod(0o700)
    link = template.parent / "link.db"
    link.symlink_to(template)
    assert not copy_template(tmp_path / "new.db", link)
    assert copy_template(tmp_path / "new.db", template)
