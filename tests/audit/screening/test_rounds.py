"""A round has the fewest runs that narrow its bands."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from ksdp.audit.screening.rounds import proof_runs
from ksdp.audit.verdicts.margins import band_width


@example(smaller=164, share=0.01, later=0.4, level=0.009765625)
@example(smaller=345, share=0.4, later=0.25, level=1e-9)
@given(
    smaller=st.integers(20, 2000),
    share=st.floats(0.01, 0.99),
    later=st.floats(0.01, 0.99),
    level=st.floats(1e-9, 1e-2),
)
def test_a_proof_has_the_fewest_runs_that_narrow_its_bands(
    smaller: int, share: float, later: float, level: float
) -> None:
    def width(runs: int, held: float, each: float) -> float:
        ratio = max(held, 1 - held) / min(held, 1 - held)  # first: half a run is rounded like there
        other = round(runs * ratio)
        return float(band_width(np.array([runs]), np.array([other]), each)[0])

    other = round(smaller * max(share, 1 - share) / min(share, 1 - share))
    found = proof_runs((smaller, other, level), later, level / 2)
    before = float(band_width(np.array([smaller]), np.array([other]), level)[0])
    assert width(found, later, level / 2) <= 0.9 * before
    assert width(found - 1, later, level / 2) > 0.9 * before
