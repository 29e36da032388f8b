"""The sum with one noise, over the rounds of a run: what comes out, what the server sees, what ends it."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from gmpy2 import mpz, powmod
from scipy.stats import chisquare

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.mechanisms.party_side import OneNoiseSum, Sizes
from ksdp.audit.mechanisms.privacy.fedpower import UtilityFedPower
from ksdp.extras.fedpower import paillier
from ksdp.extras.fedpower.one_noise import RemovalDevice, _Ciphertexts
from ksdp.extras.fedpower.paillier import PublicKey, Slots, generate
from ksdp.protocols.channel.rounds import Round, run_together
from ksdp.protocols.channel.wire import unpack
from ksdp.protocols.programs.programs import party_program, sum_entries
from ksdp.protocols.programs.rounds import NoiseSource, largest_message, noised

from ...protocols.conftest import Mail, body_of, ended_by, instead
from ...protocols.programs.noisy_parties import ONE_NOISE, SERVER, ideal, scripted, sides, terms_of
from ...protocols.programs.test_party_rounds import NAMES, parts

KEY = generate(512)


@pytest.fixture(autouse=True)
def short_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paillier, "KEY_BITS", 512)
    monkeypatch.setattr(paillier, "generate", lambda bits: KEY)


def test_a_run_announces_what_the_audit_simulates_with_one_of_the_same_noises() -> None:
    m = 3
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
    assert "can take all noise away, and nothing shows it" in outcomes["ada"].reveals


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
            masked.append(body)
        if spoken.kind == "product" and body:
            assert sender == "cyd", "only the last device's product reaches the server"
    whole = np.frombuffer(b"".join(masked), dtype=np.uint8)
    assert len(whole) == 3 * 8 * 24
    # One share without its masks gives 1e-19; what is random falls below 1e-4 in one of 10,000 tests.
    assert chisquare(np.bincount(whole // 16, minlength=16)).pvalue > 1e-9


def test_devices_tell_each_other_bits_and_products_alone() -> None:
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
        *("greeting", "statement", "hello", "ask", "sizes", "mask keys", "result")
    }


def test_the_paillier_key_is_made_once_and_ends_a_run_if_it_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    monkeypatch.setattr(paillier, "generate", lambda bits: made.append(bits) or KEY)
    run_together(sides(3, ONE_NOISE))
    assert made == [512], "two sums, one key"
    short = generate(256)
    monkeypatch.setattr(paillier, "generate", lambda bits: short)
    with pytest.raises(ProtocolError, match="does not have 512 bits"):
        run_together(sides(3, ONE_NOISE))


def test_keys_of_real_runs_have_128_bits_of_security(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert paillier.KEY_BITS == 3072


@pytest.mark.deviation("fedpower-utility's server: show devices different keys")
def test_a_server_that_shows_devices_different_keys_ends_the_run() -> None:
    other = generate(512).public.n.to_bytes(64, "big")
    said = ended_by(sides(3, ONE_NOISE), instead("paillier key", SERVER, "bob", other))
    assert "hub showed" in said
    assert "another Paillier key" in said


@pytest.mark.deviation("fedpower-utility's server: take all noise away")
def test_a_server_that_deviates_takes_all_noise_away_and_nothing_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It encrypts 1 for everybody: what the guarantee excepts, and the run says."""
    encrypt = PublicKey.encrypt
    monkeypatch.setattr(PublicKey, "encrypt", lambda key, message: encrypt(key, 1))
    once = replace(ONE_NOISE, iterations=1)
    V = run_together(sides(3, once))[0]["ada"].result.public["V"]
    bare = ideal(3, replace(once, noise=2.0**-20), (0,))["V"]
    np.testing.assert_allclose(V, bare, atol=1e-4)


@pytest.mark.parametrize(
    ("kind", "sender", "receiver"),
    [
        ("mask keys", "bob", "ada"),
        ("masked", "bob", SERVER),
        ("choices", SERVER, "ada"),
        ("bits", "ada", "cyd"),
        ("product", "ada", "bob"),
        ("product", "cyd", SERVER),
    ],
)
def test_a_message_that_is_cut_short_ends_the_run(kind: str, sender: str, receiver: str) -> None:
    def change(spoken: dict[str, Round], mail: Mail) -> None:
        body = unpack("round", mail[receiver][sender], 3)[2]
        if spoken[sender].kind == kind and body:
            mail[receiver][sender] = body_of(mail[receiver][sender], body[:-1])

    assert ended_by(sides(3, ONE_NOISE), change)


def test_noise_beyond_its_bound_ends_the_run() -> None:
    """12 deviations; a source that gives more is no Gaussian."""

    def wild(name: str) -> NoiseSource:
        return lambda shape, deviation: np.full(shape, 16 * deviation)

    with pytest.raises(InputError, match="every number must be at most"):
        run_together(sides(3, replace(ONE_NOISE, noise=0.375), sources=wild))


def test_large_vectors_take_the_table_and_leave_one_noise() -> None:
    slots = Slots(512, 100, 3)
    public, entries = KEY.public, 1200
    assert slots.plaintexts(entries) > 20
    noise = np.random.default_rng(0).integers(-100, 100, entries)
    node = RemovalDevice.__new__(RemovalDevice)
    form = _Ciphertexts(public, slots, entries)
    for bit in (0, 1):
        ones, zeros = [mpz(1)] * form.count, [public.zero() for _ in range(form.count)]
        added = node._added(form, public.encrypt(bit), slots.pack(noise), ones, zeros)
        assert np.array_equal(slots.unpack([KEY.decrypt(c) for c in added], entries), bit * noise)


def test_as_printed_the_server_finds_the_noise_that_is_left() -> None:
    """Without re-randomising at the device: C = r^n with an r that the server drew, and C^N for a small N."""
    public, noise = KEY.public, 4711
    zero = powmod(123456789, public.n, public.square)
    answer = powmod(zero, noise, public.square)  # step 10 of the paper
    assert KEY.decrypt(answer) == 0
    ours = public.rerandomise(answer)
    found, power, seen = 0, 1, set()
    while power != answer:
        power, found = power * zero % public.square, found + 1
        seen.add(power)
    assert found == noise
    assert ours not in seen
