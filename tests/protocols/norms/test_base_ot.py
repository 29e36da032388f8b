"""One key of two, and nothing to tell which."""

from __future__ import annotations

import os

import numpy as np
import pytest
from scipy.stats import chisquare

from ksdp.audit.errors import ProtocolError
from ksdp.protocols.norms.base_ot import BaseReceiver, BaseSender
from ksdp.protocols.norms.edwards import encode


@pytest.fixture(scope="module")
def choices() -> list[int]:
    return np.random.default_rng(3).integers(0, 2, 64).tolist()


def test_the_receiver_gets_the_key_it_chose_and_only_that(choices: list[int]) -> None:
    sender = BaseSender(b"label", os.urandom)
    receiver = BaseReceiver(b"label", sender.announcement, choices, os.urandom)
    pairs = sender.keys(receiver.answer)
    assert [pair[choice] for pair, choice in zip(pairs, choices, strict=True)] == receiver.keys
    everything = [key for pair in pairs for key in pair]
    assert len(set(everything)) == 2 * len(choices)


def test_another_label_gives_other_keys(choices: list[int]) -> None:
    sender = BaseSender(b"label", os.urandom)
    receiver = BaseReceiver(b"another", sender.announcement, choices[:4], os.urandom)
    assert not {key for pair in sender.keys(receiver.answer) for key in pair} & set(receiver.keys)


def test_answers_look_the_same_for_both_choices() -> None:
    """R is uniform in the group whatever the choice: here, its lowest six bits."""
    random_bytes = np.random.default_rng(4).bytes
    sender = BaseSender(b"label", random_bytes)
    for choice in (0, 1):
        answer = BaseReceiver(b"label", sender.announcement, [choice] * 300, random_bytes).answer
        low = np.frombuffer(answer, dtype=np.uint8).reshape(-1, 32)[:, 0] & 7
        assert chisquare(np.bincount(low, minlength=8)).pvalue > 1e-4


def test_bad_points_are_refused() -> None:
    sender = BaseSender(b"label", os.urandom)
    with pytest.raises(ProtocolError, match="point"):
        BaseReceiver(b"label", bytes(32), [0], os.urandom)
    with pytest.raises(ProtocolError, match="point"):
        sender.keys((2).to_bytes(32, "little"))
    with pytest.raises(ProtocolError, match="gives no key"):
        sender.keys(sender.announcement)  # R = A: the second key would be known to everybody
    assert encode((0, 1, 1, 0)) == (1).to_bytes(32, "little")
    with pytest.raises(ProtocolError, match="point"):
        sender.keys((1).to_bytes(32, "little"))
