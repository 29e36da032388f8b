from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ksdp.audit.errors import DamagedBlock
from ksdp.storage.audits.stages import PairsPart, read_pairs, write_pairs


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
