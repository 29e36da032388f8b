"""What a report says of a mechanism's own claim."""

from __future__ import annotations

from ksdp.audit.mechanisms.fedpower import FedPower
from ksdp.audit.mechanisms.fedpower_private import PrivateFedPower
from ksdp.audit.mechanisms.hardt_roth import HardtRoth
from ksdp.audit.mechanisms.pd_svd import PDSVD
from ksdp.dashboards.sentences import promised


def test_a_claim_stands_beside_what_was_proved() -> None:
    summary = {"guarantee": HardtRoth(epsilon=0.5).guarantee.as_json(), "fresh": {"largest_epsilon_low": 1.25}}
    told = promised(summary)
    assert told is not None
    assert "claims epsilon 0.5 at delta 1e-05" in told
    assert "at least 1.25" in told
    assert "fast sampler" in told


def test_unsound_claims_are_said_to_be() -> None:
    told = promised({"guarantee": FedPower().guarantee.as_json()})
    assert told is not None
    assert "does not hold" in told
    assert "different observers" in told


def test_an_epsilon_that_follows_from_the_sizes() -> None:
    told = promised({"guarantee": PrivateFedPower(noise=0.1).guarantee.as_json()})
    assert told is not None
    assert "follows from the sizes" in told


def test_where_nothing_is_claimed_nothing_is_said() -> None:
    assert promised({"guarantee": PDSVD().guarantee.as_json()}) is None
    assert promised({}) is None
