"""Files at a URL: what is written is read again, in parts too; a server's silence is not a damaged file."""

import os
from pathlib import Path

import numpy as np
import pytest

from ksdp.audit.errors import DamagedBlock, InputError, StoreError, Unreachable
from ksdp.audit.runs import BlockValues
from ksdp.audit.specs.design import Block
from ksdp.storage.audits.stages import PairsPart, read_pairs, write_pairs
from ksdp.storage.blocks import (
    ObservablesWriter,
    check_block,
    has_block,
    read_observables,
    read_values,
    write_values,
)
from ksdp.storage.remote import RemotePlace, place_at, remove_folder
from ksdp.storage.store import write_whole

BLOCK = Block(0, 8, 21)


@pytest.fixture
def there() -> RemotePlace:
    """A folder that no other test has; fsspec keeps it in this process."""
    place = place_at(f"memory://places-{os.urandom(6).hex()}")
    assert isinstance(place, RemotePlace)
    return place


def test_blocks_and_pairs_are_the_same_there_as_here(there: RemotePlace, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    held = rng.random((2100, len(BLOCK))) < 0.4
    values = {"energy": rng.normal(size=held.shape).astype("float32")}
    runs = [{"sums": rng.normal(size=(3, 4)).astype("float32")} for _ in range(len(BLOCK))]
    advantages = rng.random((7, 5))
    for folder in (there, tmp_path):
        write_values(folder, BlockValues(BLOCK, held, values), "k/v", "float32")
        writer = ObservablesWriter(BLOCK, "k")
        for run in runs:
            writer.add(run)
        writer.write(folder / "observables")
        write_pairs(folder / "pairs", PairsPart(0, 5), "k", advantages)
    assert has_block(there, BLOCK, "k/v")
    check_block(there, BLOCK, "k/v")
    far, near = (read_values(folder, BLOCK, "k/v", 1, ["energy"], "float32") for folder in (there, tmp_path))
    assert np.array_equal(far.inclusion, near.inclusion)
    assert np.array_equal(far.values[0], values["energy"][1024:2048])
    for folder in (there, tmp_path):
        read = list(read_observables(folder / "observables", BLOCK, "k"))
        assert all(np.array_equal(a["sums"], b["sums"]) for a, b in zip(read, runs, strict=True))
        found = read_pairs(folder / "pairs", PairsPart(0, 5), "k")
        assert np.array_equal(found, advantages)


def test_what_was_cut_off_on_its_way_is_damaged(there: RemotePlace) -> None:
    held = np.zeros((3, len(BLOCK)), dtype=bool)
    write_values(there, BlockValues(BLOCK, held, {"energy": held.astype("float32")}), "k/v", "float32")
    file = there / "000000-0000008-0000021.parquet"
    content = file.read_bytes()
    file.write_whole(lambda part: part.write_bytes(content[:-40]) and None)
    with pytest.raises(DamagedBlock, match="000000-0000008-0000021"):
        has_block(there, BLOCK, "k/v")


def test_a_server_that_does_not_answer_is_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block would be dropped and made again for it."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    nobody = "s3://b/folder?endpoint_override=127.0.0.1:1&scheme=http&region=us-east-1"
    place = place_at(nobody)
    with pytest.raises(
        Unreachable, match="s3://b/folder/000000-0000008-0000021.parquet cannot be reached"
    ) as said:
        has_block(place, BLOCK, "k")
    assert isinstance(said.value, StoreError)
    assert not isinstance(said.value, DamagedBlock)


def test_a_folder_goes_with_all_that_is_in_it(there: RemotePlace, tmp_path: Path) -> None:
    for folder in (there, tmp_path):
        (tmp_path / "gone" / "deep").mkdir(parents=True, exist_ok=True)
        for name in ("gone", "stays"):
            write_whole(folder / name / "deep" / "file", lambda part: part.write_bytes(b"x") and None)
        remove_folder(folder / "gone")
        remove_folder(folder / "gone")
        assert not (folder / "gone" / "deep" / "file").is_file()
        assert (folder / "stays" / "deep" / "file").is_file()


def test_a_file_url_is_a_path_and_others_need_their_package(tmp_path: Path) -> None:
    assert place_at(f"file://{tmp_path}") == tmp_path
    with pytest.raises(InputError, match="must be absolute"):
        place_at("file://here")
    with pytest.raises(InputError, match="ksdp cannot read or write nowhere:// URLs"):
        place_at("nowhere://host/folder")
