"""Sums that parties may leave: who is in the sum, what is opened of whom, what ends them."""

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.protocols.channel.keys import sign_envelope
from ksdp.protocols.channel.rounds import Round, RoundEngine, Rounds
from ksdp.protocols.channel.wire import pack, pack_names, pack_number, unpack
from ksdp.protocols.shares.engine import join, split
from ksdp.protocols.shares.leaving import LeavingRounds, check_threshold, who_can_open
from ksdp.protocols.sums.fixed_point import FixedPoint
from ksdp.protocols.sums.masks import counter_mode, keystream

from ..conftest import body_of, identity, instead, participant, seeded
from ..sums.test_secure_sum import NAMES, terms_of

CODING = FixedPoint(31, 100.0, 5)
SHARES = {name: np.array([[1.5, -2.0 - at, 3.25], [at, 0.0, -(2.0**-31)]]) for at, name in enumerate(NAMES)}
STAGES = ("keys", "key shares", "shared", "sum", "arrived", "signed", "opened")
Losses = Mapping[str, tuple[int, Collection[str]]]
"""By party: the round of its last words, and who hears them."""
Meddle = Callable[[dict[str, Round], dict[str, dict[str, bytes]]], None]


def sides(threshold: int, sums: int = 1, parties: tuple[str, ...] = NAMES) -> tuple[dict[str, Rounds[Any]], Any]:
    made, terms = {}, replace(terms_of(5), participants=tuple(map(participant, parties)))

    def played(name: str) -> Rounds[list[NDArray[np.float64]]]:
        engine = RoundEngine(name, [other for other in parties if other != name])
        own = CODING, engine, identity(name), seeded(name)
        made[name] = LeavingRounds(terms, *own, threshold)
        yield from made[name].begin()
        totals = []
        for number in range(sums):
            totals.append((yield from made[name].total(SHARES.get(name, SHARES["ada"]) * (number + 1))))
        return totals

    return {name: played(name) for name in parties}, made


def carried(nodes: dict[str, Rounds[Any]], lost: Losses, meddle: Meddle = lambda spoken, mail: None) -> Any:
    """Results, errors, and all that was said; the first error ends all, as an abort does."""
    said: list[tuple[str, Round]] = []
    results, errors = {}, {}
    spoken = {name: next(node) for name, node in nodes.items()}
    while spoken and not errors:
        said += spoken.items()
        gone = {name for name in spoken if name in lost and lost[name][0] == spoken[name].number}
        mail: dict[str, dict[str, bytes]] = {name: {} for name in spoken}
        for sender, each in spoken.items():
            for receiver in each.messages.keys() & mail.keys():
                if sender not in gone or receiver in lost[sender][1]:
                    mail[receiver][sender] = each.messages[receiver]
        meddle(spoken, mail)
        assert not gone or all(each.may_leave for each in spoken.values())
        following = {}
        for name in spoken.keys() - gone:
            try:
                following[name] = nodes[name].send(mail[name])
            except StopIteration as stop:
                results[name] = stop.value
            except ProtocolError as error:
                errors[name] = str(error)
        spoken = following
    return results, errors, said


@pytest.mark.parametrize("threshold", [3, 4])
def test_whoever_leaves_at_any_stage_the_sum_is_of_those_whose_vectors_all_have(threshold: int) -> None:
    """Each party, at each message of a sum, heard by nobody, some or all."""
    for name, stage, heard in product(NAMES[::2], range(len(STAGES)), (0, 2, 4)):
        hear = [other for other in NAMES if other != name][:heard]
        nodes, made = sides(threshold, sums=2)
        results, errors, _ = carried(nodes, {name: (stage, hear)})
        assert not errors, (name, stage, heard, errors)
        assert results.keys() == {*NAMES} - {name}
        inside = stage > STAGES.index("sum") or (stage == STAGES.index("sum") and heard == 4)
        rest = sum(SHARES[other] for other in NAMES if other != name)
        for who, (first, second) in results.items():
            np.testing.assert_array_equal(first, rest + inside * SHARES[name])
            np.testing.assert_array_equal(second, 2 * rest)
            assert made[who].departed == {name: int(inside)}


def test_as_many_may_leave_as_the_threshold_says_and_no_more() -> None:
    for (a, b), first, second in product(combinations(NAMES[::2], 2), (0, 3, 5), (1, 4, 6)):
        lost = {a: (first, ()), b: (second, ())}
        results, errors, _ = carried(sides(3)[0], lost)
        gone = {name for name, at in ((a, first), (b, second)) if at <= STAGES.index("sum")}
        assert not errors, errors
        for (total,) in results.values():
            np.testing.assert_array_equal(total, sum(SHARES[name] for name in NAMES if name not in gone))
        results, errors, said = carried(sides(4)[0], lost)
        assert not results
        assert all("of 5 parties" in error and "begin again" in error for error in errors.values()), errors
        opened = [name for name, each in said if each.kind == "opened"]
        assert not opened or second == 6, "too few to sign: no share is told"


@pytest.mark.parametrize(
    ("threshold", "parties"), [(1, 2), (2, 2), (1, 3), (3, 3), (2, 4), (2, 5), (5, 5), (0, 5)]
)
def test_thresholds_of_half_or_of_all_are_refused(threshold: int, parties: int) -> None:
    with pytest.raises(InputError, match="`leave.threshold` must be from"):
        check_threshold(threshold, parties)


def test_two_sets_need_more_than_the_parties_that_deviate() -> None:
    """2 t > n + c, counted out: c sign both sets, the others one each."""
    for parties in range(3, 9):
        for threshold in range(parties // 2 + 1, parties):
            deviating = next(c for c in range(parties) if 2 * (threshold - c) <= parties - c)
            who = "One party that deviates" if deviating == 1 else f"{deviating} parties that deviate"
            assert f"{who} and can cut the connections" in who_can_open(threshold, parties)


def test_any_threshold_shares_give_a_secret_back_and_fewer_say_nothing() -> None:
    """Against Lagrange's formula, written out; and with a share fewer every secret is possible."""
    prime, secret = 2**521 - 1, bytes(range(32))
    shares = split(secret, 3, 5)
    for chosen in combinations(range(5), 3):
        assert join({at: shares[at] for at in chosen}) == secret
        value = 0
        for at in chosen:
            weight = 1
            for other in chosen:
                if other != at:
                    weight = weight * (other + 1) * pow(other - at, -1, prime) % prime
            value += int.from_bytes(shares[at], "big") * weight
        assert value % prime == int.from_bytes(secret, "big")
    assert join({0: shares[0], 1: shares[1]}) != secret
    assert join({0: shares[0], 1: shares[1], 2: bytes(66)}) != secret


def session_of(threshold: int, parties: int = 5) -> bytes:
    numbers = pack_number(0), pack_number(threshold)
    return hashlib.sha256(pack("leaving-sum", terms_of(parties).session, *numbers)).digest()


def stream(key: bytes, entries: int) -> list[int]:
    return [int(word) for word in keystream(counter_mode(key), 8 * entries).view("<u8")]


def pair_key(purpose: bytes, name: str, peer: str, which: int, session: bytes) -> bytes:
    """By the primitives themselves, from a secret that each draws: 0 that of its masks, 2 of its letters."""
    drawn = {who: seeded(who) for who in sorted([name, peer])}
    keys = {
        who: X25519PrivateKey.from_private_bytes([draw(32) for _ in range(3)][which])
        for who, draw in drawn.items()
    }
    publics = (key.public_key().public_bytes_raw() for key in keys.values())
    salt = hashlib.sha256(pack("salt", session, *publics)).digest()
    info = pack("key", b"ksdp-protocols-1", purpose, *(who.encode() for who in keys))
    return HKDF(SHA256(), 16, salt, info).derive(keys[name].exchange(keys[peer].public_key()))


def letters_of(sender: str, receiver: str, session: bytes) -> AESGCM:
    purpose = pack("leave-letter", sender.encode(), receiver.encode()).hex().encode()
    return AESGCM(pair_key(purpose, sender, receiver, 2, session))


def body_in(step: Round, label: str, count: int) -> tuple[bytes, ...]:
    """Fields of what somebody says to all."""
    return unpack(label, unpack("round", next(iter(step.messages.values())), 3)[2], count)


def test_a_masked_vector_is_the_slow_reference() -> None:
    """Sums by Python's integers."""
    session = session_of(3)
    for name, each in carried(sides(3)[0], {})[2]:
        if each.kind != "sum":
            continue
        codes = [round(float(value) * 2**31) for value in SHARES[name].ravel()]
        draw = seeded(name)
        seed = HKDF(SHA256(), 16, session, b"leave-seed").derive([draw(32) for _ in range(2)][1])
        expected = [a + b for a, b in zip(codes, stream(seed, 6), strict=True)]
        for peer in set(NAMES) - {name}:
            mask = stream(pair_key(b"leave-mask", name, peer, 0, session), 6)
            expected = [a + (b if name < peer else -b) for a, b in zip(expected, mask, strict=True)]
        vector = body_in(each, "leave-input", 2)[0]
        assert np.frombuffer(vector, "<u8").tolist() == [value % 2**64 for value in expected]


def opened_with(name: str, session: bytes, said: list[tuple[str, Round]]) -> dict[str, tuple[bytes, bytes]]:
    """Of each party the two shares that `name` has been sent, from what was said in a sum."""
    shares = {}
    for sender, each in said:
        if each.kind == "key shares" and sender != name:
            letter = unpack("round", each.messages[name], 3)[2]
            both = letters_of(sender, name, session).decrypt(bytes(12), letter, None)
            shares[sender] = both[:66], both[66:]
    return shares


@pytest.mark.deviation(
    "sums that parties may leave: as `leave.threshold` parties: put their shares of keys together"
)
@pytest.mark.parametrize("together", [2, 3])
def test_both_keys_of_a_party_are_its_share_and_fewer_parties_have_neither(together: int) -> None:
    _, _, said = carried(sides(3)[0], {})
    have = [opened_with(name, session_of(3), said)["eve"] for name in NAMES[:together]]
    secret, seed = (join({at: pair[which] for at, pair in enumerate(have)}) for which in (0, 1))
    source = seeded("eve")
    assert ((secret, seed) == (source(32), source(32))) is (together == 3)


@pytest.mark.parametrize("out", ["", "cyd"])
def test_an_honest_party_tells_one_share_of_each_and_of_nobody_both(out: str) -> None:
    """The seed's of who is in, the mask key's of who is not."""
    _, errors, said = carried(sides(3)[0], {out: (STAGES.index("sum"), ())} if out else {})
    assert not errors
    shares = opened_with("ada", session_of(3), said)
    told = next(body_in(each, "leave-opened", 5) for name, each in said if (name, each.kind) == ("ada", "opened"))
    for at, name in enumerate(NAMES):
        if name != "ada":
            secret, seed = shares[name]
            assert told[at] == (secret if name == out else seed)
            assert secret != seed


def test_a_letter_has_a_key_that_no_other_letter_has_whatever_the_parties_are_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All nonces are zero: two letters with one key would give away what is in both."""
    keys: list[bytes] = []

    def noted(key: bytes) -> AESGCM:
        keys.append(key)
        return AESGCM(key)

    monkeypatch.setattr("ksdp.protocols.shares.leaving.AESGCM", noted)
    names = ("x", "x to x", "x to x to x")
    _, errors, _ = carried(sides(2, parties=names)[0], {})
    assert not errors
    assert len(keys) == 12, "each is made at both ends"
    assert len(set(keys)) == 6


@pytest.mark.deviation("sums that parties may leave: tell parties different keys or shares")
def test_whoever_tells_two_things_is_noticed_before_anything_is_opened() -> None:
    def two_vectors(spoken: dict[str, Round], mail: dict[str, dict[str, bytes]]) -> None:
        if spoken["eve"].kind == "sum":
            body = unpack("round", mail["bob"]["eve"], 3)[2]
            vector, head = unpack("leave-input", body, 2)
            other = bytes([vector[0] ^ 1]) + vector[1:]
            mail["bob"]["eve"] = body_of(mail["bob"]["eve"], pack("leave-input", other, head))

    def two_seeds(spoken: dict[str, Round], mail: dict[str, dict[str, bytes]]) -> None:
        if spoken["eve"].kind == "keys":
            fields = unpack("leave-keys", unpack("envelope", unpack("round", mail["bob"]["eve"], 3)[2], 5)[3], 3)
            body = pack("leave-keys", *fields[:2], bytes(32))
            signed = sign_envelope(identity("eve"), session_of(3), "keys", "eve", body)
            mail["bob"]["eve"] = body_of(mail["bob"]["eve"], signed.to_bytes())

    for meddle in (two_vectors, two_seeds):
        results, errors, said = carried(sides(3)[0], {}, meddle)
        assert not results
        assert "signed other keys, vectors or parties than bob" in errors["bob"]
        assert all("bob signed other" in error for name, error in errors.items() if name != "bob")
        assert all(each.kind != "opened" for _, each in said)


@pytest.mark.deviation(
    "sums that parties may leave: leave out parties that are there, or tell one that it is gone"
)
@pytest.mark.parametrize("kind", ["shared", "arrived"])
def test_who_is_still_there_cannot_be_left_out(kind: str) -> None:
    """Else t - 1 parties could choose the one whose share they want, and subtract theirs from the sum of t."""

    def leave_out(spoken: dict[str, Round], mail: dict[str, dict[str, bytes]]) -> None:
        for receiver in mail:
            for liar in {"ada", "bob"} - {receiver}:
                instead(kind, liar, receiver, pack_names(("ada", "bob", "cyd")))(spoken, mail)

    _, errors, said = carried(sides(3)[0], {}, leave_out)
    assert {"cyd", "dan", "eve"} <= errors.keys(), "each of them by itself, though nobody says so to it"
    assert all(
        "dan, eve would be out of the sum, and still here" in errors[name] for name in ("cyd", "dan", "eve")
    )
    assert all(each.kind != "opened" for _, each in said)


@pytest.mark.deviation(
    "sums that parties may leave: as all but one of those who stay, `leave.threshold` - 1 or more: subtract their "
    "own shares"
)
def test_once_no_more_than_the_threshold_are_left_all_but_one_have_the_last_share() -> None:
    for lost in (("dan", "eve"), ("ada", "dan")):
        stay = [name for name in NAMES if name not in lost]
        results, errors, _ = carried(sides(3)[0], dict.fromkeys(lost, (3, ())))
        assert not errors
        np.testing.assert_array_equal(
            results["cyd"][0] - sum(SHARES[name] for name in stay[:-1]), SHARES[stay[-1]]
        )
        assert "once 3 are left, any 2 of them learn the last one's" in who_can_open(3, 5)


@pytest.mark.deviation(
    "sums that parties may leave: as 2 `leave.threshold` - n of n parties (one of 5 with 3, or of 3 with 2): sign "
    "two sets, and cut the others' connections"
)
def test_of_three_parties_one_that_cuts_the_connection_of_the_others_has_their_shares() -> None:
    """2 of 3 hold nobody off: ada and bob each take the other to be gone, and cyd goes on with both."""
    nodes, _ = sides(2, parties=NAMES[:3])
    spoken, said = {name: next(node) for name, node in nodes.items()}, list[tuple[str, Round]]()
    while spoken["cyd"].kind != "arrived":
        said += spoken.items()
        mail = {name: {peer: spoken[peer].messages[name] for peer in spoken if peer != name} for name in spoken}
        spoken = {name: node.send(mail[name]) for name, node in nodes.items()}
    session, told = session_of(2, 3), list[tuple[bytes, ...]]()
    for victim in NAMES[:2]:
        arrived = body_of(spoken["cyd"].messages[victim], pack_names((victim, "cyd")))
        step = nodes[victim].send({"cyd": arrived})
        copied = body_in(step, "envelope", 5)[3]
        signed = sign_envelope(identity("cyd"), session, "signed", "cyd", copied).to_bytes()
        step = nodes[victim].send({"cyd": body_of(step.messages["cyd"], signed)})
        told.append(body_in(step, "leave-opened", 3))
    have = opened_with("cyd", session, said)
    for at, victim in enumerate(NAMES[:2]):
        secret = join({1 - at: told[1 - at][at], 2: have[victim][0]})
        seed = join({at: told[at][at], 2: have[victim][1]})
        source = seeded(victim)
        assert (secret, seed) == (source(32), source(32))


def test_whose_shares_not_all_have_is_not_masked_with_and_who_is_cut_off_opens_nothing() -> None:
    """Eve alone is heard by bob, and bob by eve: two signatures are no sum."""

    def cut(spoken: dict[str, Round], mail: dict[str, dict[str, bytes]]) -> None:
        if spoken["bob"].kind == "signed":
            mail["bob"] = {"eve": mail["bob"]["eve"]}

    _, errors, said = carried(sides(3)[0], {}, cut)
    assert "2 of 5 parties signed the sum (bob, eve)" in errors["bob"]
    assert not any(name == "bob" and each.kind == "opened" for name, each in said)


@pytest.mark.deviation("sums that parties may leave: hand out or tell shares of keys that do not fit")
def test_shares_that_do_not_fit_end_the_sum() -> None:
    for lost in ({}, {"dan": (3, ())}):

        def lie(spoken: dict[str, Round], mail: dict[str, dict[str, bytes]]) -> None:
            if spoken["ada"].kind == "opened":
                for arrived in (mail[name] for name in spoken if name != "ada"):
                    shares = unpack("leave-opened", unpack("round", arrived["ada"], 3)[2])
                    arrived["ada"] = body_of(
                        arrived["ada"], pack("leave-opened", *shares[:3], bytes(66), shares[4])
                    )

        results, errors, _ = carried(sides(3)[0], lost, lie)
        assert results.keys() == {"ada"}, "who lies knows what it is"
        assert all("shares of dan's key do not fit: dan, or one of ada, bob, cyd" in e for e in errors.values())


def test_messages_of_another_length_sum_or_hand_are_refused() -> None:
    other = sign_envelope(identity("bob"), bytes(32), "keys", "bob", b"").to_bytes()
    sealed = {
        n: letters_of("bob", "ada", session_of(3)).encrypt(bytes(12), bytes(n), None) for n in (130, 132, 1 << 16)
    }
    _, errors, _ = carried(sides(3)[0], {}, instead("key shares", "bob", "ada", sealed[132]))
    assert not any("cannot be read" in error for error in errors.values())
    for kind, body, why in [
        ("keys", b"?", "bob: A envelope message"),
        ("keys", other, "another session"),
        ("key shares", b"?", "The shares of bob cannot be read"),
        ("key shares", sealed[130], "The shares of bob cannot be read"),
        ("key shares", sealed[1 << 16], "The shares of bob cannot be read"),
        ("sum", pack("leave-input", bytes(8), b""), "bob sent a vector of another"),
    ]:
        results, errors, said = carried(sides(3)[0], {}, instead(kind, "bob", "ada", body))
        assert not results
        assert errors.keys() == {"ada"}, kind
        assert why in errors["ada"]
        assert not any(each.kind == "opened" for _, each in said)
