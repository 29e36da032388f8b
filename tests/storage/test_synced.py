"""What is added is on the disk, whole, and its name too."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from ksdp.storage.store import append_synced


def test_bytes_are_added_whole_even_where_little_is_taken_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, content: write(descriptor, content[:3]))
    path = tmp_path / "log"
    append_synced(path, b"first line\n")
    append_synced(path, b"second line\n")
    assert path.read_bytes() == b"first line\nsecond line\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_new_file_is_synced_and_then_its_folder_and_an_old_one_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    name = lambda descriptor: str(Path(f"/proc/self/fd/{descriptor}").readlink())  # noqa: E731
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(name(descriptor)))
    path = tmp_path / "log"
    append_synced(path, b"x")
    assert synced == [str(path), str(tmp_path)]
    append_synced(path, b"y")
    assert synced[2:] == [str(path)]
