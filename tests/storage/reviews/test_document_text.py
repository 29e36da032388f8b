"""Looks at texts: all are there, in order, and none can be taken out unnoticed."""

import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ksdp.audit.errors import StoreError
from ksdp.storage.reviews.document_text import TextCommand, read_accesses, record_access
from ksdp.storage.store import Store

NOW = datetime(2026, 11, 12, 9, 0, tzinfo=UTC)


@pytest.fixture
def looked(store: Store) -> Store:
    for name in ("a", "b", "c"):
        record_access(store, "audit", name, "Ada", NOW)
    return store


def test_looks_are_kept_in_order(looked: Store) -> None:
    looks, broken = read_accesses(looked)
    assert [(look.number, look.document) for look in looks] == [(1, "a"), (2, "b"), (3, "c")]
    assert broken is None
    assert (looked.root / "reviews" / "looks.jsonl").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("line", [0, 1])
def test_what_is_taken_out_or_changed_is_noticed(looked: Store, line: int) -> None:
    file = looked.root / "reviews" / "looks.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:line] + lines[line + 1 :]))
    assert read_accesses(looked)[1] == line + 1
    lines[line] = lines[line].replace(b"Ada", b"Eve")
    file.write_bytes(b"".join(lines))
    assert read_accesses(looked)[1] == line + 1


def test_half_a_line_from_a_crash_was_never_counted(looked: Store) -> None:
    file = looked.root / "reviews" / "looks.jsonl"
    file.write_bytes(file.read_bytes() + b'{"at": "2026')
    record_access(looked, "audit", "d", "Ada", NOW)
    looks, broken = read_accesses(looked)
    assert [look.document for look in looks] == ["a", "b", "c", "d"]
    assert broken is None


def test_who_cannot_be_logged_cannot_look(store: Store) -> None:
    (store.root / "reviews").mkdir()
    (store.root / "reviews" / "looks.jsonl").mkdir()
    with pytest.raises(StoreError, match="the text is not shown"):
        record_access(store, "audit", "a", "Ada", NOW)


def script(folder: Path, body: str) -> TextCommand:
    file = folder / "resolver.py"
    file.write_text(body)
    return TextCommand((sys.executable, str(file)), seconds=5.0, most=50)


def test_a_resolver_reads_the_id_and_writes_the_text(tmp_path: Path) -> None:
    command = script(tmp_path, "import sys; print(repr(sys.stdin.buffer.read()), sys.argv[1:], end='')")
    assert command("audit", "-rf $(x) ü\n") == repr("-rf $(x) ü\n".encode()) + " []"
    assert script(tmp_path, "print('x' * 99)")("audit", "a") == "x" * 50 + "\n[cut]"


def test_a_resolver_that_fails_shows_nothing_it_said(tmp_path: Path) -> None:
    body = "import sys; print('secret'); print('secret', file=sys.stderr); sys.exit(4)"
    with pytest.raises(StoreError, match=r"exit code 4") as caught:
        script(tmp_path, body)("audit", "a")
    assert "secret" not in str(caught.value)
    with pytest.raises(StoreError, match="cannot be run"):
        TextCommand(("/nowhere/at-all",))("audit", "a")
    slow = script(tmp_path, "import time; time.sleep(60)")
    with pytest.raises(StoreError, match="did not answer"):
        TextCommand(slow.command, seconds=0.3)("audit", "a")
