"""A flipped bit anywhere is a refusal: in a file, and in the line that says what it should be."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from ksdp.audit.errors import DamagedFile, StoreError
from ksdp.storage.codec import (
    SUMS,
    check_checksum,
    checksums_hold,
    read_object,
    write_checked_json,
    write_text_with_checksum,
)

from ..flips import flip, flipped

CONTENT = "clear\n" * 20


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write_text_with_checksum(tmp_path / "a.json", CONTENT)
    write_text_with_checksum(tmp_path / "b.json", "other")
    return tmp_path / "a.json"


def test_what_was_written_is_read(file: Path) -> None:
    assert check_checksum(file, "this") == file
    assert checksums_hold([file, file.with_name("b.json")])


@pytest.mark.parametrize("bit", np.random.default_rng(1).choice(8 * len(CONTENT), 40, replace=False).tolist())
def test_a_flipped_bit_is_refused(file: Path, bit: int) -> None:
    flip(file, bit)
    with pytest.raises(DamagedFile, match="a.json of this is damaged .*; run it again"):
        check_checksum(file, "this", "run it again")
    assert not checksums_hold([file])
    assert checksums_hold([file.with_name("b.json")])


def test_any_flipped_bit_of_the_sums_takes_at_least_one_file_away_and_blesses_none(file: Path) -> None:
    sums = file.parent / SUMS
    whole = sums.read_bytes()
    for bit in flipped(sums, range(0, 8 * len(whole), 7)):
        held = [name for name in ("a.json", "b.json") if checksums_hold([file.with_name(name)])]
        # A flip from one line end to another that means the same may leave both; none may be taken for another.
        assert len(held) < 2 or sums.read_text(encoding="latin-1").split() == whole.decode().split(), bit


def test_a_file_that_was_never_sealed_or_is_gone_is_refused(file: Path) -> None:
    stranger = file.with_name("c.json")
    stranger.write_text("mine")
    with pytest.raises(StoreError, match=r"c\.json"):
        check_checksum(stranger, "this")
    file.unlink()
    with pytest.raises(DamagedFile, match="no such file"):
        check_checksum(file, "this")
    with pytest.raises(StoreError, match=r"this has no d\.json") as absent:
        check_checksum(file.with_name("d.json"), "this")
    assert not isinstance(absent.value, DamagedFile)


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="no sha256sum here")
def test_the_usual_tool_reads_the_sums(file: Path) -> None:
    assert subprocess.run(["sha256sum", "-c", SUMS], cwd=file.parent, check=False).returncode == 0
    flip(file, 3)
    assert subprocess.run(["sha256sum", "-c", SUMS], cwd=file.parent, check=False).returncode == 1


STATE = {"name": "nightly", "level": 0.05, "list": [1, "é", None], "paused": False}


def test_state_carries_its_checksum(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_checked_json(path, STATE)
    assert read_object(path, dict, "this") == STATE
    for bit in flipped(path, range(0, 8 * path.stat().st_size, 5)):
        try:
            found = read_object(path, dict, "this")
        except DamagedFile:
            continue
        # White space, or the name of the checksum itself: what it says is there.
        assert {name: found[name] for name in STATE} == STATE, bit
