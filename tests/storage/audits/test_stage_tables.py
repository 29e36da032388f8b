from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ksdp.audit.errors import StoreError
from ksdp.audit.interim_looks import Stage
from ksdp.storage.audits.stages import read_stage, stage_names, write_stage


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
    assert found is not None
    assert found.tolist() == [1, 0, 1]
    with pytest.raises(StoreError, match="no stage 'look-9'"):
        read_stage(tmp_path, "look-9")
