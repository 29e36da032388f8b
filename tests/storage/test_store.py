"""The store's folders, whole writes and keys."""

import errno
import json
import os
import stat
import time
from pathlib import Path

import pytest

from ksdp.audit.errors import StoreError
from ksdp.flows.upkeep import damage
from ksdp.storage.store import FORMAT, Store, append_synced, sweep_parts, write_json, write_whole


def test_a_store_is_private_and_found_again(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s")
    assert (tmp_path / "s").stat().st_mode & 0o777 == 0o700
    assert Store.open(tmp_path / "s", create=False) == store


def test_other_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is not a ksdp store"):
        Store.open(tmp_path / "none", create=False)
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="name an empty or a new folder"):
        Store.open(tmp_path)
    with pytest.raises(StoreError, match="cannot be made"):
        Store.open(tmp_path / "file" / "below")
    for content in ({"store": 99}, {}):
        (Store.open(tmp_path / "s").root / "ksdp-store.json").write_text(json.dumps(content))
        with pytest.raises(StoreError, match="is not that of a store"):
            Store.open(tmp_path / "s", create=False)
        (tmp_path / "s" / "ksdp-store.json").unlink()


@pytest.mark.parametrize("marker", ['{"storf": %d}', '{"store": %d, "blockr": "s3://b/k"}', '{"store": %d'])
def test_a_marker_with_a_flipped_bit_is_refused_and_named(marker: str, tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s")
    (store.root / "ksdp-store.json").write_text(marker % FORMAT)
    with pytest.raises(StoreError, match="is not that of a store"):
        Store.open(store.root)
    assert "ksdp-store.json" in {one.where for one in damage(store)}


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (RuntimeError("the disk is full"), RuntimeError),
        (OSError(errno.EIO, "Input/output error"), StoreError),
        (OSError(errno.ENOENT, "No such file or directory"), StoreError),
    ],
)
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, fault: Exception, said: type[Exception]
) -> None:
    target = tmp_path / "a.json"
    write_json(target, {"a": 1})

    def fail(part: Path) -> None:
        part.write_text("half")
        raise fault

    with pytest.raises(said):
        write_whole(target, fail)
    assert target.read_text() == '{\n  "a": 1\n}\n'
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_a_store_that_was_killed_before_its_first_rename_is_opened(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / ".ksdp-store.json.abc123.part").write_text("{")
    assert Store.open(tmp_path / "store").root == tmp_path / "store"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.part").write_text("mine")
    with pytest.raises(StoreError, match="is not a ksdp store"):
        Store.open(tmp_path / "other")


def test_what_killed_processes_left_is_swept_and_nothing_else(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store")
    folder = store.audit("a")
    folder.mkdir(parents=True)
    old, new, mine = (folder / name for name in (".x.json.abc.part", ".y.json.abc.part", "z.part"))
    for path in (old, new, mine):
        path.write_text("half")
    os.utime(old, (1.0, 1.0))
    os.utime(mine, (1.0, 1.0))
    assert sweep_parts(store.root, time.time()) == 1
    assert not old.exists()
    assert new.exists()
    assert mine.exists()


def test_a_clock_that_jumps_sweeps_nothing_that_is_being_written(tmp_path: Path) -> None:
    """An hour ahead, a year ahead, or back: whoever holds the file lives."""
    store = Store.open(tmp_path / "store")
    target = store.audit("a") / "x.json"

    def write(part: Path) -> None:
        part.write_text("half")
        for ahead in (3601.0, 3.2e7, -3.2e7):
            assert sweep_parts(store.root, time.time() + ahead) == 0
        os.utime(part, (1.0, 1.0))
        assert sweep_parts(store.root, time.time()) == 0
        assert part.is_file()
        part.write_text("whole")

    write_whole(target, write)
    assert target.read_text() == "whole"
    assert not list(store.root.rglob("*.part"))


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
