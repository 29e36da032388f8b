"""The sum with one noise, over the rounds of a run: what comes out, what the server sees, what ends it."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.mechanisms.party_side import OneNoiseSum, Sizes
from ksdp.audit.mechanisms.privacy.fedpower import UtilityFedPower
from ksdp.protocols.channel.arrays import pack_array
from ksdp.protocols.channel.keys import Envelope
from ksdp.protocols.channel.rounds import run_together
from ksdp.protocols.channel.wire import pack, unpack
from ksdp.protocols.one_noise.modulus_proof import prove_modulus
from ksdp.protocols.one_noise.paillier import generate
from ksdp.protocols.runs.party_noise import NoiseSource, noised
from ksdp.protocols.runs.party_rounds import largest_message
from ksdp.protocols.runs.programs import party_program, sum_entries
from ksdp.protocols.runs.server_rounds import server_rounds

from ..conftest import identity
from .noisy_parties import KEY, KEY_BITS, ONE_NOISE, SERVER, ideal, scripted, sides, terms_of
from .test_party_rounds import NAMES, parts
from .test_server_rounds import body_of, instead, played


@pytest.mark.parametrize("m", [3, 5])
def test_a_run_announces_what_the_audit_simulates_with_one_of_the_same_noises(m: int) -> None:
    outcomes, said = run_together(sides(m, ONE_NOISE))
    assert len({outcome.digest for outcome in outcomes.values()}) == 1
    V = outcomes["ada"].result.public["V"]
    off = {kept: np.abs(ideal(m, ONE_NOISE, kept)["V"] - V).max() for kept in product(range(m), repeat=2)}
    near = [kept for kept, distance in off.items() if distance < 1e-9]
    assert len(near) == 1
    assert min(distance for kept, distance in off.items() if kept != near[0]) > 1e-4
    limit = largest_message(terms_of(m, ONE_NOISE), sum_entries(ONE_NOISE, 12))
    assert all(len(message) <= limit for _, spoken in said for message in spoken.messages.values())
    assert outcomes[SERVER].asked == {"sizes": 1, "one-noise": 2}
    assert "the noise of one device" in outcomes["ada"].reveals


def test_any_noise_may_be_left() -> None:
    once = replace(ONE_NOISE, iterations=1)
    one_of_three = [ideal(3, once, (kept,))["V"] for kept in range(3)]
    found = set()
    for _ in range(40):
        V = run_together(sides(3, once))[0]["ada"].result.public["V"]
        found.add(int(np.argmin([np.abs(V - other).max() for other in one_of_three])))
        if len(found) == 3:
            break
    assert found == {0, 1, 2}  # else 3 (2/3)^40 = 3e-7


def shares_of(m: int, mechanism: UtilityFedPower, source: NoiseSource, index: int) -> np.ndarray[Any, Any]:
    asks = party_program(mechanism, parts(m)[index], m)
    assert isinstance(next(asks), Sizes)
    ask = asks.send((9,) * m)
    assert isinstance(ask, OneNoiseSum)
    return noised(ask.share, ask.deviation, 2.0**16, source).values


def test_the_server_sees_no_single_share() -> None:
    """Of all that is said to it: no device's noisy share, and vectors without a pattern."""
    once = replace(ONE_NOISE, iterations=1)
    secret = {name: shares_of(3, once, scripted(name), i) for i, name in enumerate(NAMES[:3])}
    masked: list[bytes] = []
    _, said = run_together(sides(3, once))
    for sender, spoken in said:
        if sender == SERVER:
            continue
        body = unpack("round", spoken.messages[SERVER], 3)[2]
        share = secret[sender]
        assert share.tobytes() not in body
        assert np.rint(share * 2.0**31).astype("<i8").tobytes() not in body
        if spoken.kind == "masked":
            masked.append(Envelope.from_bytes(body).body)
        if spoken.kind == "product" and body:
            assert sender == "cyd", "only the last device's product reaches the server"
    whole = np.frombuffer(b"".join(masked), dtype=np.uint8)
    assert len(whole) == 3 * 8 * 24
    assert chisquare(np.bincount(whole // 16, minlength=16)).pvalue > 1e-4


def test_devices_hear_nothing_of_each_other_but_what_is_encrypted() -> None:
    _, said = run_together(sides(3, replace(ONE_NOISE, iterations=1)))
    full = {
        (spoken.kind, sender, peer)
        for sender, spoken in said
        for peer, message in spoken.messages.items()
        if unpack("round", message, 3)[2] and SERVER not in (sender, peer)
    }
    apart = {(kind, sender, peer) for kind, sender, peer in full if kind in ("bits", "product")}
    assert apart == {
        ("bits", "ada", "bob"), ("bits", "ada", "cyd"), ("product", "ada", "bob"), ("product", "bob", "cyd")
    }  # fmt: skip
    assert {kind for kind, _, _ in full - apart} == {
        *("greeting", "statement", "hello", "ask", "sizes", "keys", "result")
    }


def test_the_paillier_key_is_made_once_and_ends_a_run_if_it_is_short() -> None:
    made: list[int] = []

    def counted(bits: int) -> Any:
        made.append(bits)
        return KEY

    nodes = sides(3, ONE_NOISE)
    nodes[SERVER] = server_rounds(terms_of(3, ONE_NOISE), identity(SERVER), make_key=counted)
    run_together(nodes)
    assert made == [KEY_BITS], "two sums, one key"
    nodes = sides(3, ONE_NOISE)
    short = generate(256)
    nodes[SERVER] = server_rounds(terms_of(3, ONE_NOISE), identity(SERVER), make_key=lambda _: short)
    with pytest.raises(ProtocolError, match="does not have 512 bits"):
        run_together(nodes)


def test_devices_that_mean_a_key_of_another_length_do_not_begin() -> None:
    assert "server.key_bits" in terms_of(3, ONE_NOISE).terms
    assert terms_of(3, ONE_NOISE).digest != terms_of(3, ONE_NOISE, key_bits=3072).digest


def test_a_server_that_shows_devices_different_keys_ends_the_run() -> None:
    key = generate(KEY_BITS)
    n = key.public.n
    other = pack("paillier", n.to_bytes(-(-n.bit_length() // 8), "big"), prove_modulus(key))
    assert "another session" in played(sides(3, ONE_NOISE), instead("paillier key", SERVER, "bob", other))


@pytest.mark.parametrize(
    ("kind", "sender", "receiver"),
    [
        ("keys", "bob", SERVER),
        ("keys", "bob", "ada"),
        ("key list", SERVER, "bob"),
        ("shares", "bob", SERVER),
        ("masked", "bob", SERVER),
        ("survivors", SERVER, "cyd"),
        ("agreed", "ada", SERVER),
        ("unmask", "cyd", SERVER),
        ("choices", SERVER, "ada"),
        ("bits", "ada", "cyd"),
        ("product", "ada", "bob"),
        ("product", "cyd", SERVER),
    ],
)
def test_a_message_that_is_changed_ends_the_run(kind: str, sender: str, receiver: str) -> None:
    def change(spoken: Any, mail: dict[str, dict[str, bytes]]) -> None:
        body = unpack("round", mail[receiver][sender], 3)[2]
        if spoken[sender].kind == kind and body:
            mail[receiver][sender] = body_of(mail[receiver][sender], body[:-70] + b"x" + body[-69:])

    assert played(sides(3, ONE_NOISE), change)


def test_a_device_that_disappears_from_the_survivors_ends_the_run() -> None:
    silent = instead("masked", "bob", SERVER, b"")
    assert "bob said nothing where something is due" in played(sides(3, ONE_NOISE), silent)


def test_a_server_that_tells_different_sums_voids_the_run() -> None:
    lie = instead("told", SERVER, "bob", pack_array(np.eye(2, 12)))
    assert "different results" in played(sides(3, replace(ONE_NOISE, iterations=1)), lie)


def test_noise_beyond_its_bound_ends_the_run() -> None:
    """12 deviations; a source that gives more is no Gaussian."""

    def wild(name: str) -> NoiseSource:
        return lambda shape, deviation: np.full(shape, 16 * deviation)

    with pytest.raises(InputError, match="every number must be at most"):
        run_together(sides(3, replace(ONE_NOISE, noise=0.375), sources=wild))
