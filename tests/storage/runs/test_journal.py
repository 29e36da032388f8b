"""What a party keeps of a run: whole after a kill, refused after any change, readable by its owner alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ksdp.audit.errors import InputError, StoreError
from ksdp.storage.runs.journal import open_journal
from ksdp.storage.runs.results import require_no_result

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
AGREEMENT = b"a" * 32
ENTRIES = [(1, b"the secret half of a key"), (3, b""), (4, bytes(100))]


def written(folder: Path) -> Path:
    with open_journal(folder, KEY, AGREEMENT) as journal:
        for kind, body in ENTRIES:
            journal.add(kind, body)
        journal.sync()
    return folder / "journal"


def read(folder: Path) -> list[tuple[int, bytes]]:
    with open_journal(folder, KEY, AGREEMENT) as journal:
        return list(journal.entries())


def test_what_was_added_is_there_and_more_can_be(tmp_path: Path) -> None:
    path = written(tmp_path)
    assert read(tmp_path) == ENTRIES
    assert path.stat().st_mode & 0o777 == 0o600
    assert b"secret half" not in path.read_bytes()
    with open_journal(tmp_path, KEY, AGREEMENT) as journal:
        journal.add(9, b"more")
        assert list(journal.entries()) == [*ENTRIES, (9, b"more")]
    assert read(tmp_path) == [*ENTRIES, (9, b"more")]


def test_an_entry_cut_short_is_dropped_and_written_anew(tmp_path: Path) -> None:
    path = written(tmp_path)
    whole = path.read_bytes()
    last = len(whole) - (8 + 12 + 1 + 100 + 16)
    for end in range(last, len(whole)):
        path.write_bytes(whole[:end])
        assert read(tmp_path) == ENTRIES[:2]
    with open_journal(tmp_path, KEY, AGREEMENT) as journal:
        journal.add(5, b"another")
    assert read(tmp_path) == [*ENTRIES[:2], (5, b"another")]


def test_a_file_cut_within_its_head_begins_anew(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_bytes(path.read_bytes()[:50])
    assert read(tmp_path) == []


def test_no_changed_byte_goes_unnoticed(tmp_path: Path) -> None:
    """But in a length, which may make an entry longer than the file: then it is cut short, or refused."""
    path = written(tmp_path)
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        try:
            found = read(tmp_path)
        except InputError:
            continue
        assert found != ENTRIES
        assert found == ENTRIES[: len(found)], "what is dropped is the end"


def test_entries_that_change_places_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    whole = path.read_bytes()
    head, first, second = 72, 8 + 12 + 1 + 24 + 16, 8 + 12 + 1 + 16
    a, b = whole[head : head + first], whole[head + first : head + first + second]
    path.write_bytes(whole[:head] + b + a + whole[head + first + second :])
    with pytest.raises(InputError, match="damaged"):
        read(tmp_path)


def test_another_key_or_another_run_has_nothing_of_it(tmp_path: Path) -> None:
    written(tmp_path)
    other = Ed25519PrivateKey.from_private_bytes(bytes(32))
    with pytest.raises(InputError, match="another key"), open_journal(tmp_path, other, AGREEMENT):
        pass
    with pytest.raises(InputError, match="another protocol file"), open_journal(tmp_path, KEY, b"b" * 32):
        pass
    assert read(tmp_path) == ENTRIES


def test_one_process_has_it(tmp_path: Path) -> None:
    written(tmp_path)
    with (
        open_journal(tmp_path, KEY, AGREEMENT),
        pytest.raises(StoreError, match="another process takes part"),
        open_journal(tmp_path, KEY, AGREEMENT),
    ):
        pass


def test_removed_it_is_gone(tmp_path: Path) -> None:
    path = written(tmp_path)
    with open_journal(tmp_path, KEY, AGREEMENT) as journal:
        journal.remove()
        journal.remove()
    assert not path.exists()
    assert read(tmp_path) == []


def test_a_result_that_was_not_written_whole_can_be_written_again(tmp_path: Path) -> None:
    path = written(tmp_path)
    (tmp_path / "own.npz").write_bytes(b"half")
    require_no_result(tmp_path)
    path.unlink()
    with pytest.raises(InputError, match="holds the result"):
        require_no_result(tmp_path)
