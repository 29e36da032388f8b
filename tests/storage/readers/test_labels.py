from __future__ import annotations

import numpy as np
import pytest

from ksdp.audit.errors import CorpusError
from ksdp.audit.specs.models import CorpusSpec
from ksdp.storage.readers.columns import open_columns
from ksdp.storage.readers.tables import read_labels


@pytest.fixture
def columns(tmp_path):
    (tmp_path / "a.csv").write_text("id,who,team\nx,ann,1\ny,bob,1\nz,ann,2\n", encoding="utf-8")
    return open_columns(tmp_path / "a.csv", "utf-8")


def test_columns_that_the_spec_names(columns):
    labels = read_labels(CorpusSpec(path="a.csv", id="id", party="team", group="who"), columns, 3)
    assert labels.ids.tolist() == ["x", "y", "z"]
    assert labels.party.tolist() == ["1", "1", "2"]
    assert labels.group.tolist() == ["ann", "bob", "ann"]
    some = labels.take(np.array([2, 0]))
    assert some.ids.tolist() == ["z", "x"]
    assert some.party.tolist() == ["2", "1"]
    assert some.group.tolist() == ["ann", "ann"]


@pytest.mark.parametrize("given", [True, False])
def test_row_numbers_begin_with_1(columns, given):
    labels = read_labels(CorpusSpec(path="a.csv"), columns if given else None, 3)
    assert labels.ids.tolist() == ["1", "2", "3"]
    assert labels.party is None
    assert labels.group is None
    assert labels.take(np.array([1])).ids.tolist() == ["2"]


def test_ids_occur_once(columns):
    with pytest.raises(CorpusError, match=r"row 3, column `who`: repeats that of row 1"):
        read_labels(CorpusSpec(path="a.csv", id="who"), columns, 3)
