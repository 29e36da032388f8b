"""One key of two, and nothing to tell which."""

from __future__ import annotations

import hashlib
import os

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from nacl import bindings as sodium
from scipy.stats import chisquare

from ksdp.audit.errors import ProtocolError
from ksdp.protocols.norms.base_ot import BaseReceiver, BaseSender


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


P = 2**255 - 19
ORDER_4, NEUTRAL = bytes(32), (1).to_bytes(32, "little")  # y = 0, y = 1
GENERATOR = (4 * pow(5, -1, P) % P).to_bytes(32, "little")


def mixed() -> bytes:
    """The generator plus a point of order 4: on the curve, outside the subgroup of prime order."""
    return sodium.crypto_core_ed25519_add(GENERATOR, ORDER_4)


NO_POINTS = {
    "order 4": ORDER_4,
    "neutral": NEUTRAL,
    "order 2": (P - 1).to_bytes(32, "little"),
    "y not reduced": (P + 3).to_bytes(32, "little"),
    "not on the curve": (2).to_bytes(32, "little"),
    "part of small order": mixed(),
    "too short": GENERATOR[:31],
    "nothing": b"",
}


@pytest.mark.parametrize("name", NO_POINTS)
def test_what_is_no_point_of_the_subgroup_is_refused_as_announcement(name: str) -> None:
    with pytest.raises(ProtocolError, match="point of the curve"):
        BaseReceiver(b"label", NO_POINTS[name], [0], os.urandom)


@pytest.mark.parametrize("name", sorted(NO_POINTS.keys() - {"nothing"}))
def test_what_is_no_point_of_the_subgroup_is_refused_as_answer(name: str) -> None:
    with pytest.raises(ProtocolError, match="point of the curve"):
        BaseSender(b"label", os.urandom).keys(NO_POINTS[name])


def test_an_answer_whose_second_key_everybody_would_know_is_refused() -> None:
    sender = BaseSender(b"label", os.urandom)
    with pytest.raises(ProtocolError, match="gives no key"):
        sender.keys(sender.announcement)  # R = A


def test_points_are_those_of_ed25519() -> None:
    """The group is the one of the `cryptography` package's keys: the same seed gives the same announcement."""
    seed = os.urandom(32)
    public = Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()
    scalar = int.from_bytes(hashlib.sha512(seed).digest()[:32], "little") & ~7 & ((1 << 255) - 1) | (1 << 254)
    order = 2**252 + 27742317777372353535851937790883648493
    sender = BaseSender(b"label", lambda size: (scalar % order).to_bytes(size, "little"))
    assert sender.announcement == public
    assert (
        BaseReceiver(b"label", GENERATOR, [0], lambda size: (scalar % order).to_bytes(size, "little")).answer
        == public
    )
