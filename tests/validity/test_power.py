"""What the linear attack tells, on real data: no pinned case loses more than 2 % of its D."""

import pytest
from benchmarks import data_folder
from benchmarks.power import CASES, EXPECTED, TOLERANCE, Case, measured

pytestmark = pytest.mark.skipif(not data_folder().is_dir(), reason="the data sets are not there")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_tells_as_much_as_is_pinned(case: Case) -> None:
    for column, (distance, _) in measured(case).items():
        assert distance > (1.0 - TOLERANCE) * EXPECTED[case.name][column]
