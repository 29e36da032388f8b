from pathlib import Path

import numpy as np
import pytest

from ksdp.audit.errors import DamagedBlock, StoreError
from ksdp.audit.verdicts.looks import Stage
from ksdp.storage.audits.stages import PairsPart, read_pairs, read_stage, stage_names, write_pairs, write_stage


def test_a_stage_comes_back(tmp_path: Path) -> None:
    write_stage(tmp_path, Stage("look-2", 5, 640, np.array([3, 8, 9]), ("a", "b"), ""))
    write_stage(tmp_path, Stage("fresh", 77, 100, np.array([8]), ("b",)))
    assert stage_names(tmp_path) == ["fresh", "look-2"]
    stage = read_stage(tmp_path, "look-2")
    assert (stage.seed, stage.runs, stage.statistics, stage.before) == (5, 640, ("a", "b"), "")
    assert stage.rows.tolist() == [3, 8, 9]
    assert (read_stage(tmp_path, "fresh").before, read_stage(tmp_path, "fresh").strongest) == (None, None)
    strongest = np.array([1, 0, 1])
    write_stage(tmp_path, Stage("fresh", 5, 640, np.array([3, 8, 9]), ("a", "b"), strongest=strongest))
    found = read_stage(tmp_path, "fresh").strongest
    assert found.tolist() == [1, 0, 1]
    with pytest.raises(StoreError, match="has no look-9"):
        read_stage(tmp_path, "look-9")


def test_pairs_come_back_to_the_last_bit_under_their_key_alone(tmp_path: Path) -> None:
    found = np.random.default_rng(1).random((7, 3))
    part = PairsPart(6, 9)
    assert read_pairs(tmp_path, part, "key") is None
    write_pairs(tmp_path, part, "key", found)
    np.testing.assert_array_equal(read_pairs(tmp_path, part, "key"), found)
    assert read_pairs(tmp_path, PairsPart(6, 10), "key") is None
    with pytest.raises(DamagedBlock, match="0000006-0000009"):
        read_pairs(tmp_path, part, "other")


@pytest.mark.parametrize("keep", [0, 40, -30])
def test_what_is_damaged_is_named(tmp_path: Path, keep: int) -> None:
    part = PairsPart(0, 2)
    write_pairs(tmp_path, part, "key", np.zeros((4, 2)))
    path = tmp_path / part.name
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DamagedBlock, match=part.name):
        read_pairs(tmp_path, part, "key")
