"""Secure sums: what comes out, what a message says, what ends them."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy.stats import chisquare

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.randomness import os_random
from ksdp.protocols.channel.keys import Envelope, sign_envelope
from ksdp.protocols.channel.rounds import Bodies, RoundEngine, Rounds
from ksdp.protocols.channel.wire import unpack
from ksdp.protocols.sums.fixed_point import FixedPoint
from ksdp.protocols.sums.secure_sum import Contribution, SumParty, SumRounds, SumTerms, tag

from ..conftest import identity, participant, seeded
from ..written_out import aes_gcm

NAMES = ("ada", "bob", "cyd", "dan", "eve")


def terms_of(m: int, agreement: bytes = b"agreed") -> SumTerms:
    return SumTerms(tuple(participant(name) for name in NAMES[:m]), agreement)


def started(m: int, agreement: bytes = b"agreed", seed: str | None = None) -> list[SumParty]:
    terms = terms_of(m, agreement)
    parties = [
        SumParty(terms, n, identity(n), random_bytes=seeded(seed + n) if seed else os_random) for n in NAMES[:m]
    ]
    hellos = [party.hello() for party in parties]
    for party in parties:
        party.begin(h for h in hellos if h.sender != party.name)
    return parties


def summed(
    parties: list[SumParty], vectors: list[NDArray[np.float64]], coding: FixedPoint
) -> list[NDArray[np.float64]]:
    sent = [party.contribute(v, coding) for party, v in zip(parties, vectors, strict=True)]
    arrived = [Contribution.from_bytes(message.to_bytes()) for message in sent]
    return [party.combine(a for a in arrived if a.sender != party.name) for party in parties]


@given(st.integers(2, 5), st.integers(0, 45), arrays(np.float64, (3, 5, 4), elements=st.floats(-100, 100)))
@settings(deadline=None, max_examples=40)
def test_all_get_the_plain_sum(m: int, bits: int, values: NDArray[np.float64]) -> None:
    """Three sums on one key agreement; equal at all parties, bit by bit, and to the plain sum as promised."""
    parties, coding = started(m), FixedPoint(bits, 100.0, m)
    for number, vectors in enumerate(values):
        totals = summed(parties, list(vectors[:m]), coding)
        assert len({total.tobytes() for total in totals}) == 1
        np.testing.assert_allclose(totals[0], vectors[:m].sum(axis=0), rtol=1e-14, atol=coding.error + 1e-12)
        assert parties[0].next_number == number + 1


def test_what_is_sent_is_the_input_plus_a_mask_that_does_not_depend_on_it() -> None:
    """The same keys on two inputs: the messages differ by the inputs, exactly. So all inputs look alike."""
    coding = FixedPoint(20, 10.0, 3)
    first, second = ([np.array([1.0, -2.0]), np.zeros(2)], [np.array([-9.0, 3.5]), np.zeros(2)])
    sent = []
    for vectors in (first, second):
        parties = started(3, seed="fixed")
        messages = [p.contribute(vectors[i == 1], coding) for i, p in enumerate(parties)]
        sent.append([np.frombuffer(message.payload, "<u8") for message in messages])
    for i, (a, b) in enumerate(zip(*sent, strict=True)):
        difference = coding.encode(first[i == 1]) - coding.encode(second[i == 1])
        np.testing.assert_array_equal(a - b, difference)


def test_masked_vectors_of_a_fixed_input_are_uniform() -> None:
    """Every byte of a message; and of two of three messages the low four bits, jointly."""
    parties, coding = started(3, seed="uniform"), FixedPoint(31, 1.0, 3)
    sent = [np.frombuffer(p.contribute(np.full(60_000, 0.25), coding).payload, "<u8") for p in parties]
    for message in sent:
        for byte in range(8):
            counts = np.bincount(message >> np.uint64(8 * byte) & np.uint64(255), minlength=256)
            assert chisquare(counts).pvalue > 1e-7
    for a, b in ((0, 1), (0, 2), (1, 2)):
        joint = (sent[a] & np.uint64(15)) * np.uint64(16) + (sent[b] & np.uint64(15))
        assert chisquare(np.bincount(joint, minlength=256)).pvalue > 1e-7


def test_masks_of_different_sums_and_sessions_differ() -> None:
    coding, seen = FixedPoint(31, 1.0, 2), set()
    for agreement in (b"first", b"second"):
        parties = started(2, agreement, seed="same secrets")
        for _ in range(3):
            sent = [p.contribute(np.zeros(4), coding) for p in parties]
            seen |= {bytes(message.payload) for message in sent}
            parties[0].combine(sent[1:])
            parties[1].combine(sent[:1])
    assert len(seen) == 12


def test_refused_input_sends_nothing_and_ends_nothing() -> None:
    parties = started(2)
    good = FixedPoint(31, 1.0, 2)
    for values, coding in [([2.0], good), ([np.nan], good), ([], good), ([0.5], FixedPoint(31, 1.0, 3))]:
        with pytest.raises(InputError):
            parties[0].contribute(values, coding)
    assert parties[0].next_number == 0
    assert summed(parties, [np.array([0.25]), np.array([0.5])], good)[0] == [0.75]


def test_a_stranger_or_another_key_is_refused() -> None:
    for name, key in (("zoe", "zoe"), ("ada", "bob")):
        with pytest.raises(InputError, match="not among the participants"):
            SumParty(terms_of(2), name, identity(key))


Hellos = dict[str, Envelope]


@pytest.fixture
def hellos() -> Hellos:
    return {n: SumParty(terms_of(3), n, identity(n)).hello() for n in NAMES[:3]}


def hello_of_cyd(key: bytes) -> Envelope:
    """Signed, with any agreement key."""
    return sign_envelope(identity("cyd"), terms_of(3).session, "sum-hello", "cyd", key)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda h: [h["bob"]], "first message of cyd is missing"),
        (lambda h: [h["bob"], h["bob"], h["cyd"]], "bob sent its first message twice"),
        (lambda h: [h["ada"], h["bob"], h["cyd"]], "not expected to send one"),
        (lambda h: [h["bob"], SumParty(terms_of(4), "dan", identity("dan")).hello()], "not expected to send one"),
        (lambda h: [h["bob"], SumParty(terms_of(3, b"x"), "cyd", identity("cyd")).hello()], "another session"),
        (lambda h: [h["bob"], replace(h["bob"], sender="cyd")], "signature of cyd"),
        (lambda h: [h["bob"], replace(h["cyd"], body=bytes(32))], "signature of cyd"),
        (lambda h: [h["bob"], hello_of_cyd(h["bob"].body)], "same agreement key"),
        (lambda h: [h["bob"], hello_of_cyd(bytes(32))], "no usable X25519 key"),
    ],
)
def test_false_first_messages_end_the_run(
    hellos: Hellos, spoil: Callable[[Hellos], list[Envelope]], said: str
) -> None:
    party = SumParty(terms_of(3), "ada", identity("ada"))
    party.hello()
    with pytest.raises(ProtocolError, match=said):
        party.begin(spoil(hellos))
    with pytest.raises(ProtocolError, match="has ended"):
        party.begin([hellos["bob"], hellos["cyd"]])


Contributions = list[Contribution]
CODING = FixedPoint(31, 1.0, 3)


def with_another(values: np.ndarray, coding: FixedPoint = CODING) -> Callable[[Contributions], Contributions]:
    return lambda sent: [sent[1], started(3, seed="s")[2].contribute(values, coding)]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda s: [s[1]], "contribution of cyd is missing"),
        (lambda s: [], "contribution of bob, cyd is missing"),
        (lambda s: [s[1], s[1], s[2]], "bob sent its contribution twice"),
        (lambda s: s, "not expected to send one"),
        (lambda s: [s[1], replace(s[1], sender="cyd")], "was changed on the way"),
        (lambda s: [s[1], replace(s[2], number=1)], "for sum 1; sum 0 is being taken"),
        (lambda s: [s[1], replace(s[2], session=bytes(32))], "another session"),
        (lambda s: [s[1], replace(s[2], tags=s[2].tags[1:])], "was changed on the way"),
        (lambda s: [s[1], replace(s[2], payload=bytes(s[2].payload)[:-8])], "another shape"),
        (with_another(np.ones(4), FixedPoint(30, 1.0, 3)), "codes its values otherwise"),
        (with_another(np.ones((2, 2))), "another shape"),
        (with_another(np.ones(5)), "another shape"),
    ],
)
def test_false_contributions_end_the_run(spoil: Callable[[Contributions], Contributions], said: str) -> None:
    parties = started(3, seed="s")
    sent = [p.contribute(np.ones(4), CODING) for p in parties]
    with pytest.raises(ProtocolError, match=said):
        parties[0].combine(spoil(sent))
    with pytest.raises(ProtocolError, match="has ended"):
        parties[0].combine(sent[1:])


def each_byte_changed(packed: bytes) -> list[bytes]:
    return [packed[:at] + bytes([byte ^ 0x21]) + packed[at + 1 :] for at, byte in enumerate(packed)]


def test_any_changed_byte_is_refused() -> None:
    """Of a contribution by its receiver (the other receivers' tags: by them); of a first message by everybody."""
    parties = started(2, seed="bytes")
    for changed in each_byte_changed(parties[1].contribute([0.5, -0.25], FixedPoint(31, 1.0, 2)).to_bytes()):
        receiver = started(2, seed="bytes")[0]
        receiver.contribute([0.5, -0.25], FixedPoint(31, 1.0, 2))
        with pytest.raises(ProtocolError):
            receiver.combine([Contribution.from_bytes(changed)])
    for changed in each_byte_changed(SumParty(terms_of(2), "bob", identity("bob")).hello().to_bytes()):
        receiver = SumParty(terms_of(2), "ada", identity("ada"))
        receiver.hello()
        with pytest.raises(ProtocolError):
            receiver.begin([Envelope.from_bytes(changed)])


@pytest.mark.deviation("secure sums: enter a share beyond `precision.bound`")
def test_a_value_beyond_the_bound_is_noticed_where_the_sum_shows_it() -> None:
    """A party that changes its own code keeps its tag, but not the bound."""

    class Cheat(FixedPoint):
        def encode(self, values: object) -> NDArray[np.uint64]:
            return np.array([2**40], dtype="<u8")

    parties = started(2)
    sent = [p.contribute([0.5], c(31, 1.0, 2)) for p, c in zip(parties, (FixedPoint, Cheat), strict=True)]
    with pytest.raises(ProtocolError, match="the run is void"):
        parties[0].combine(sent[1:])


@given(
    st.binary(max_size=40),
    st.text(max_size=5),
    st.integers(0, 2**64 - 1),
    st.lists(st.integers(0, 2**64 - 1), max_size=3).map(tuple),
    st.binary(max_size=40),
    st.lists(st.tuples(st.text(max_size=4), st.binary(max_size=16)), max_size=3).map(tuple),
)
def test_contributions_travel_unchanged(
    session: bytes,
    sender: str,
    number: int,
    shape: tuple[int, ...],
    payload: bytes,
    tags: tuple[tuple[str, bytes], ...],
) -> None:
    message = Contribution(session, sender, number, shape, b"coding", payload, tags)
    assert Contribution.from_bytes(message.to_bytes()) == message


@given(st.binary(min_size=16, max_size=16), st.integers(0, 2**96 - 1), st.binary(max_size=70), st.integers(0, 70))
def test_a_tag_is_that_of_gcm_written_out(key: bytes, number: int, text: bytes, at: int) -> None:
    assert tag(key, number, text[:at], text[at:]) == aes_gcm(key, number.to_bytes(12, "big"), b"", text)


def test_tags_of_two_directions_have_two_keys_whatever_the_parties_are_called() -> None:
    """One key and one number for two messages would let whoever carries them forge a tag."""
    names = ("x", "x to x")
    terms = SumTerms(tuple(map(participant, names)), b"agreed")
    one, other = (SumParty(terms, name, identity(name)) for name in names)
    hellos = one.hello(), other.hello()
    one.begin([hellos[1]])
    other.begin([hellos[0]])
    assert one._send_keys["x to x"] == other._receive_keys["x"] != other._send_keys["x"]


def test_a_session_is_all_that_was_agreed() -> None:
    ada, bob, cyd = (participant(name) for name in ("ada", "bob", "cyd"))
    sessions = {
        SumTerms((ada, bob), b"agreed").session,
        SumTerms((ada, bob), b"agreed otherwise").session,
        SumTerms((ada, cyd), b"agreed").session,
        SumTerms((ada, bob, cyd), b"agreed").session,
        SumTerms((ada, replace(bob, identity=cyd.identity)), b"agreed").session,
    }
    assert len(sessions) == 5
    with pytest.raises(InputError, match="at least 2; got 1"):
        SumTerms((ada,), b"agreed")


THREE = NAMES[:3]
Array = NDArray[np.float64]


def two_sums(name: str, first: float) -> Rounds[list[Array]]:
    """One party's side of two sums of two numbers."""
    everybody = tuple(map(participant, THREE))
    engine = RoundEngine(name, [other for other in THREE if other != name])
    coding = FixedPoint(31, 2.0**12, len(THREE))
    sums = SumRounds(SumTerms(everybody, b"a session"), coding, engine, identity(name), seeded(name))
    yield from sums.begin()
    one = yield from sums.total(np.array([first, 1.0]))
    return [one, (yield from sums.total(one + 1.0))]


@pytest.mark.deviation("secure sums: tell two parties different shares")
def test_a_party_that_tells_two_others_different_numbers_ends_the_run_with_the_next_sum() -> None:
    """Bob is there twice, with the same keys: one of him speaks with ada, the other with cyd."""
    sides = {"ada": two_sums("ada", 0.0), "bob": two_sums("bob", 1.0), "cyd": two_sums("cyd", 2.0)}
    sides["bob to cyd"] = two_sums("bob", 5.0)
    spoken = {name: next(side) for name, side in sides.items()}

    def step() -> None:
        heard: dict[str, Bodies] = {
            "ada": {n: spoken[n].messages["ada"] for n in ("bob", "cyd")},
            "cyd": {"ada": spoken["ada"].messages["cyd"], "bob": spoken["bob to cyd"].messages["cyd"]},
            "bob": {n: spoken[n].messages["bob"] for n in ("ada", "cyd")},
            "bob to cyd": {n: spoken[n].messages["bob"] for n in ("ada", "cyd")},
        }
        for name, side in sides.items():
            spoken[name] = side.send(heard[name])

    step()
    step()
    with pytest.raises(ProtocolError, match="received another sum.*different values to different parties"):
        step()
    assert spoken["ada"].number == 2, "the first sum went through, the second did not"
    added = np.zeros(2, dtype="<u8")
    for name, to in (("ada", "bob"), ("cyd", "bob"), ("bob", "ada")):
        _, contribution = unpack("summed", unpack("round", spoken[name].messages[to], 3)[2], 2)
        added += np.frombuffer(Contribution.from_bytes(contribution).payload, "<u8")
    assert FixedPoint(31, 2.0**12, 3).decode(added).tolist() == [16.0, 12.0], "the second sum, which the liar sees"
