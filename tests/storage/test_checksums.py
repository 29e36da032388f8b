"""A flipped bit anywhere is a refusal: in a file, and in the line that says what it should be."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from ksdp.audit.errors import StoreError
from ksdp.storage.checksums import SUMS, check_sealed, is_sealed, read_sealed, seal, unseal, write_sealed_text

CONTENT = "clear\n" * 20


@pytest.fixture
def file(tmp_path: Path) -> Path:
    write_sealed_text(tmp_path / "a.json", CONTENT)
    write_sealed_text(tmp_path / "b.json", "other")
    return tmp_path / "a.json"


def flip(path: Path, bit: int) -> None:
    content = bytearray(path.read_bytes())
    content[bit // 8] ^= 1 << bit % 8
    path.write_bytes(bytes(content))


def test_what_was_written_is_read(file: Path) -> None:
    assert check_sealed(file, "this") == file
    assert read_sealed(file, "this") == CONTENT.encode()
    assert is_sealed([file, file.with_name("b.json")])


@pytest.mark.parametrize("bit", np.random.default_rng(1).choice(8 * len(CONTENT), 40, replace=False).tolist())
def test_a_flipped_bit_is_refused(file: Path, bit: int) -> None:
    flip(file, bit)
    for read in (check_sealed, read_sealed):
        with pytest.raises(StoreError, match="a.json of this is damaged .*; run it again"):
            read(file, "this")
    assert not is_sealed([file])
    assert is_sealed([file.with_name("b.json")])


def test_any_flipped_bit_of_the_sums_takes_at_least_one_file_away_and_blesses_none(file: Path) -> None:
    sums = file.parent / SUMS
    whole = sums.read_bytes()
    for bit in range(8 * len(whole)):
        flip(sums, bit)
        held = [name for name in ("a.json", "b.json") if is_sealed([file.with_name(name)])]
        # A flip from one line end to another that means the same may leave both; none may be taken for another.
        assert len(held) < 2 or sums.read_text(encoding="latin-1").split() == whole.decode().split(), bit
        sums.write_bytes(whole)


def test_a_file_that_was_never_sealed_or_is_gone_is_refused(file: Path) -> None:
    stranger = file.with_name("c.json")
    stranger.write_text("mine")
    with pytest.raises(StoreError, match=r"c\.json"):
        check_sealed(stranger, "this")
    file.unlink()
    with pytest.raises(StoreError, match="no such file"):
        check_sealed(file, "this")


def test_a_seal_can_be_dropped_and_put_again(file: Path) -> None:
    unseal(file)
    assert not is_sealed([file])
    seal(file)
    assert is_sealed([file])


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="no sha256sum here")
def test_the_usual_tool_reads_the_sums(file: Path) -> None:
    assert subprocess.run(["sha256sum", "-c", SUMS], cwd=file.parent, check=False).returncode == 0
    flip(file, 3)
    assert subprocess.run(["sha256sum", "-c", SUMS], cwd=file.parent, check=False).returncode == 1
