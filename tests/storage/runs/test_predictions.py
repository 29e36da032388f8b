from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from ksdp.audit.learning.learners import Suggested
from ksdp.storage.runs.results import predictions_path, write_predictions


def test_they_are_read_as_they_were_suggested(tmp_path: Path) -> None:
    suggested = [
        Suggested(0, np.array([2, 0]), np.array([4.5, 4.0])),
        Suggested(1, np.array([], dtype=np.intp), np.array([])),
        Suggested(2, np.array([1]), np.array([1.0])),
    ]
    assert write_predictions(tmp_path, np.array(["9", "10", "ü"]), ["a", "b", "c"], suggested) == 3
    found = pq.read_table(predictions_path(tmp_path)).to_pylist()
    assert [tuple(row.values()) for row in found] == [("9", "c", 4.5), ("9", "a", 4.0), ("ü", "b", 1.0)]
