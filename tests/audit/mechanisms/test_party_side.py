"""Parties that are driven in step by a trusted party."""

import numpy as np
import pytest

from ksdp.audit.errors import ProtocolError
from ksdp.audit.mechanisms.party_side import (
    NoisySum,
    NormedSecSum,
    PartyProgram,
    PartyResult,
    Request,
    SecSum,
    Sizes,
    drive,
)


def asks(*requests: Request, end: int = 0) -> PartyProgram:
    """Makes these requests; what it was told is its own."""
    told = []
    for request in requests:
        told.append((yield request))
    return PartyResult({"end": np.array([float(end)])}, {str(i): np.asarray(each) for i, each in enumerate(told)})


def test_everybody_is_told_the_sum_and_its_direction() -> None:
    shares = [np.array([[1.0, 4.0]]), np.array([[2.0, 0.0]])]
    results = drive([asks(SecSum(share), NormedSecSum(share), end=i) for i, share in enumerate(shares)])
    for number, result in enumerate(results):
        assert result.public["end"] == [number], "results come in the parties' order"
        np.testing.assert_array_equal(result.own["0"], [[3.0, 4.0]])
        np.testing.assert_allclose(result.own["1"], [[0.6, 0.8]], rtol=1e-15)


ONE = SecSum(np.zeros(2))


@pytest.mark.parametrize(
    ("other", "fault"),
    [
        ((), "others are not"),
        ((ONE, ONE), "others are not"),
        ((SecSum(np.zeros(3)),), "different things"),
        ((NormedSecSum(np.zeros(2)),), "different things"),
        ((NoisySum(np.zeros(2), 1.0),), "different things"),
        ((Sizes(2),), "different things"),
    ],
)
def test_parties_that_drift_apart_are_refused(other: tuple[Request, ...], fault: str) -> None:
    for parties in ([asks(ONE), asks(*other)], [asks(*other), asks(ONE)]):
        with pytest.raises(ProtocolError, match=fault):
            drive(parties)


@pytest.mark.parametrize("request_", [NoisySum(np.zeros(2), 1.0), NoisySum(np.zeros(2), 0.0), Sizes(3)])
def test_what_has_noise_is_not_answered_exactly(request_: Request) -> None:
    with pytest.raises(ProtocolError, match="all answers are exact"):
        drive([asks(request_), asks(request_)])
