"""Secure aggregation: honest runs with every drop-out, servers that lie, changed bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chisquare

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.randomness import os_random
from ksdp.protocols.channel.keys import AgreementKey, Envelope, seal
from ksdp.protocols.channel.wire import pack, pack_names, unpack
from ksdp.protocols.sums.aggregation_client import AggregationClient
from ksdp.protocols.sums.aggregation_server import AggregationServer
from ksdp.protocols.sums.fixed_point import FixedPoint
from ksdp.protocols.sums.masks import Keystream
from ksdp.protocols.sums.secure_aggregation import Aggregate, AggregationTerms, mask_key_of_seed, seed_commitment
from ksdp.protocols.sums.shamir import SHARE_BYTES, recover

from ..conftest import identity, participant, seeded

STAYS = 5
"""A client with this number of steps answers in every round."""


def terms_of(n: int, threshold: int, shape: tuple[int, ...] = (3,), colluders: int = 0) -> AggregationTerms:
    people = tuple(participant(f"c{i:03}") for i in range(n))
    coding = FixedPoint(20, 100.0, n)
    return AggregationTerms(people, participant("server"), threshold, coding, shape, b"agreed", colluders)


Change = Callable[[int, str, str, Envelope], Envelope]
"""Round, sender, receiver ("" everybody), message: what arrives instead."""


def unchanged(_round: int, _sender: str, _receiver: str, message: Envelope) -> Envelope:
    return Envelope.from_bytes(message.to_bytes())


@dataclass
class AggregationRun:
    """All rounds in one process; `steps` says after how many answers a client is gone."""

    terms: AggregationTerms
    steps: dict[str, int] = field(default_factory=dict)
    change: Change = unchanged
    seed: str | None = None
    values: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    clients: dict[str, AggregationClient] = field(default_factory=dict)
    server: AggregationServer = field(init=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(0)
        for name in self.terms.clients:
            source = seeded(self.seed + name) if self.seed else os_random
            self.values.setdefault(name, rng.integers(-99, 99, size=self.terms.shape).astype(float))
            self.clients[name] = AggregationClient(self.terms, name, identity(name), random_bytes=source)
        self.server = AggregationServer(self.terms, identity("server"))

    def here(self, round_number: int, among: dict[str, Envelope]) -> Iterator[str]:
        return (name for name in among if self.steps.get(name, STAYS) > round_number)

    def up(self, round_number: int, messages: dict[str, Envelope]) -> list[Envelope]:
        return [self.change(round_number, name, "server", message) for name, message in messages.items()]

    def down(self, round_number: int, message: Envelope, name: str) -> Envelope:
        return self.change(round_number, "server", name, message)

    def keys(self) -> dict[str, Envelope]:
        return {n: self.clients[n].advertise() for n in self.clients if self.steps.get(n, STAYS) > 0}

    def shares(self, sent: dict[str, Envelope]) -> dict[str, Envelope]:
        listed = self.server.keys(self.up(0, sent))
        return {n: self.clients[n].share_keys(self.down(1, listed, n)) for n in self.here(1, sent)}

    def masked(self, sent: dict[str, Envelope]) -> dict[str, Envelope]:
        each = self.server.shares(self.up(1, sent))
        return {n: self.clients[n].mask(self.down(2, each[n], n), self.values[n]) for n in self.here(2, sent)}

    def agreed(self, sent: dict[str, Envelope]) -> dict[str, Envelope]:
        listed = self.server.masked(self.up(2, sent))
        return {n: self.clients[n].agree(self.down(3, listed, n)) for n in self.here(3, sent)}

    def unmasked(self, sent: dict[str, Envelope]) -> dict[str, Envelope]:
        listed = self.server.agreed(self.up(3, sent))
        return {n: self.clients[n].unmask(self.down(4, listed, n)) for n in self.here(4, sent)}

    def whole(self) -> Aggregate:
        sent = self.unmasked(self.agreed(self.masked(self.shares(self.keys()))))
        return self.server.unmask(self.up(4, sent))


def check(run: AggregationRun, result: Aggregate) -> None:
    survivors = tuple(n for n in run.clients if run.steps.get(n, STAYS) >= 3)
    assert result.survivors == survivors
    assert set(result.dropped) == set(run.clients) - set(survivors)
    np.testing.assert_array_equal(result.values, sum(run.values[n] for n in survivors))
    assert result.values.shape == run.terms.shape


@given(st.integers(2, 6), st.data())
@settings(deadline=None, max_examples=25)
def test_the_sum_is_the_plain_sum(n: int, data: st.DataObject) -> None:
    threshold = data.draw(st.integers(n // 2 + 1, n))
    run = AggregationRun(terms_of(n, threshold, data.draw(st.sampled_from([(), (1,), (5,), (2, 3)]))))
    for name in run.values:
        drawn = data.draw(st.lists(st.floats(-100, 100), min_size=run.terms.entries, max_size=run.terms.entries))
        run.values[name] = np.array(drawn).reshape(run.terms.shape)
    result = run.whole()
    assert np.abs(result.values - sum(run.values.values())).max() <= n * 2.0**-21 + 1e-12
    assert f"over {n} clients" in result.reveals


@pytest.mark.parametrize("threshold", [2, 3])
def test_every_pattern_of_drop_outs_among_three(threshold: int) -> None:
    """Each client gone before any round, or never: 216 patterns; the sum if enough are left, else an end."""
    terms = terms_of(3, threshold)
    for steps in product(range(STAYS + 1), repeat=3):
        run = AggregationRun(terms, dict(zip(terms.clients, steps, strict=True)))
        if sum(s == STAYS for s in steps) >= threshold:
            check(run, run.whole())
        else:
            with pytest.raises(ProtocolError, match=f"the threshold is {threshold}"):
                run.whole()


@pytest.mark.parametrize(
    ("n", "gone"), [(4, ("c000",)), (4, ("c002",)), (5, ("c000", "c004")), (5, ("c001", "c002"))]
)
def test_as_many_as_may_leave_in_every_combination_of_rounds(n: int, gone: tuple[str, ...]) -> None:
    terms = terms_of(n, n - len(gone))
    for steps in product(range(STAYS), repeat=len(gone)):
        run = AggregationRun(terms, dict(zip(gone, steps, strict=True)))
        check(run, run.whole())


def test_masked_vectors_of_a_fixed_input_are_uniform() -> None:
    terms = terms_of(3, 2, shape=(40_000,))
    run = AggregationRun(terms, seed="uniform", values={name: np.full(40_000, 0.5) for name in terms.clients})
    sent = run.masked(run.shares(run.keys()))
    for envelope in sent.values():
        counts = np.bincount(np.frombuffer(envelope.body, dtype=np.uint8), minlength=256)
        assert chisquare(counts).pvalue > 1e-7
    # Without the pairs' masks (which the server may rebuild for one that left) the own mask still hides it.
    seed = next(iter(run.clients))
    own = mask_key_of_seed(terms.session, seed, b"s" * 32)
    assert own != mask_key_of_seed(terms.session, seed, b"t" * 32)
    assert seed_commitment(terms.session, seed, b"s" * 32) != seed_commitment(terms.session, "c001", b"s" * 32)


@pytest.mark.parametrize(
    ("n", "threshold", "colluders", "safe"),
    [
        *[(2, 1, 0, False), (2, 2, 0, True), (3, 2, 0, True), (4, 2, 0, False), (4, 3, 0, True), (4, 3, 1, True)],
        *[(4, 3, 2, False), (4, 4, 3, True), (10, 5, 0, False), (10, 6, 0, True), (10, 6, 2, False)],
        *[(10, 7, 3, True), (10, 7, 4, False), (3, 4, 0, False), (3, 3, 3, False), (3, 3, -1, False)],
    ],
)
def test_thresholds_are_refused_exactly_where_two_lists_could_be_signed(
    n: int, threshold: int, colluders: int, safe: bool
) -> None:
    assert safe == (2 * threshold > n + colluders and threshold <= n and 0 <= colluders < n)
    if safe:
        terms_of(n, threshold, colluders=colluders)
    else:
        with pytest.raises(InputError, match="`threshold` must be|`colluders` must be"):
            terms_of(n, threshold, colluders=colluders)


def test_terms_that_do_not_fit_are_refused() -> None:
    good = terms_of(3, 2)
    people, server = good.participants, good.server
    with pytest.raises(InputError, match="`coding` is for sums of 2; there are 3"):
        AggregationTerms(people, server, 2, FixedPoint(20, 1.0, 2), (3,), b"")
    with pytest.raises(InputError, match="`shape`"):
        AggregationTerms(people, server, 2, good.coding, (0,), b"")
    with pytest.raises(InputError, match="`server` must not be one of the clients"):
        AggregationTerms(people, people[0], 2, good.coding, (3,), b"")
    with pytest.raises(InputError, match="sorted"):
        AggregationTerms(people[::-1], server, 2, good.coding, (3,), b"")
    with pytest.raises(InputError, match="not among"):
        AggregationClient(good, "c000", identity("c001"))
    with pytest.raises(InputError, match="not the key of the server"):
        AggregationServer(good, identity("c001"))


def test_values_that_do_not_fit_send_nothing() -> None:
    run = AggregationRun(terms_of(3, 2))
    each = run.server.shares(run.shares(run.keys()).values())
    client = run.clients["c000"]
    for bad in ([1.0, 2.0], [np.nan] * 3, [101.0] * 3):
        with pytest.raises(InputError):
            client.mask(each["c000"], bad)
    assert client.mask(each["c000"], [1.0, 2.0, 3.0]).sender == "c000"


# A server that lies. It holds its own key, so every message below carries its true signature.


def by_server(terms: AggregationTerms, kind: str, body: bytes, receiver: str = "") -> Envelope:
    return seal(identity("server"), terms.session, kind, "server", body, receiver=receiver)


def survivors_message(terms: AggregationTerms, *names: str) -> Envelope:
    return by_server(terms, "aggregation-survivors", pack_names(names))


def agreements_message(terms: AggregationTerms, *signed: Envelope) -> Envelope:
    return by_server(terms, "aggregation-agreements", pack("agreements", *(e.to_bytes() for e in signed)))


def test_different_survivors_to_different_clients_are_caught() -> None:
    """It tells half of them that c000 left, to get c000's mask key from these and its seed from the others."""
    terms = terms_of(4, 3)
    run = AggregationRun(terms)
    run.masked(run.shares(run.keys()))
    names = list(terms.clients)
    signed = {n: run.clients[n].agree(survivors_message(terms, *names)) for n in names[:2]}
    signed |= {n: run.clients[n].agree(survivors_message(terms, *names[1:])) for n in names[2:]}
    for name in names:
        with pytest.raises(ProtocolError, match="not expected to send one|the server lies"):
            run.clients[name].unmask(agreements_message(terms, *signed.values()))


def test_an_honest_server_refuses_clients_that_signed_different_lists() -> None:
    terms = terms_of(3, 2)
    run = AggregationRun(terms)
    signed = run.agreed(run.masked(run.shares(run.keys())))
    view = unpack("agreed", signed["c000"].body, 2)[0]
    body = pack("agreed", view, pack_names(("c000", "c001")))
    signed["c000"] = seal(identity("c000"), terms.session, "aggregation-agreed", "c000", body, receiver="server")
    with pytest.raises(ProtocolError, match="signed different lists"):
        run.server.agreed(signed.values())


def test_only_those_who_signed_the_same_list_count() -> None:
    terms = terms_of(4, 3)
    run = AggregationRun(terms)
    run.masked(run.shares(run.keys()))
    names = list(terms.clients)
    same = [run.clients[n].agree(survivors_message(terms, *names)) for n in names[:2]]
    with pytest.raises(ProtocolError, match="shows 2 signed lists; the threshold is 3"):
        run.clients["c000"].unmask(agreements_message(terms, *same))
    with pytest.raises(ProtocolError, match="sent its signed list twice"):
        run.clients["c001"].unmask(agreements_message(terms, *same, same[0]))


@pytest.mark.parametrize(("colluders", "succeeds"), [(1, False), (2, True)])
def test_the_bound_on_colluders_is_exact(colluders: int, succeeds: bool) -> None:
    """n = 4, t = 3. Where 2 t = n + c, colluders that sign two lists get one client's vector; with fewer, not."""
    terms = terms_of(4, 3)
    run = AggregationRun(terms)
    sent = run.masked(run.shares(run.keys()))
    names = list(terms.clients)
    honest, false = names[: 4 - colluders], names[4 - colluders :]
    target = honest[0]  # told that all are here; the other honest ones, that it left
    lists = (tuple(names), tuple(n for n in names if n != target))
    groups = ([target], honest[1:])
    known: list[dict[int, int]] = []  # shares of the target's seed, then of its mask key
    for which, (listed, group) in enumerate(zip(lists, groups, strict=True)):
        held = {n: run.clients[n]._held[target][1 - which] for n in false}
        signed = {n: run.clients[n].agree(survivors_message(terms, *listed)) for n in group}
        view = unpack("agreed", next(iter(signed.values())).body, 2)[0]
        body = pack("agreed", view, pack_names(listed))
        for name in false:
            signed[name] = seal(identity(name), terms.session, "aggregation-agreed", name, body, receiver="server")
        for name in group:
            with suppress(ProtocolError):  # too few signatures
                answer = run.clients[name].unmask(agreements_message(terms, *signed.values()))
                held[name] = unpack("unmask", answer.body)[names.index(target)]
        known.append({terms.points[n]: int.from_bytes(share, "big") for n, share in held.items()})
    assert all(len(shares) >= terms.threshold for shares in known) == succeeds
    if succeeds:
        seed, secret = (recover(shares, 32) for shares in known)
        vector = np.frombuffer(sent[target].body, dtype="<u8").copy()
        Keystream(mask_key_of_seed(terms.session, target, seed)).add_to(vector, 0, -1)
        for other in names[1:]:
            public = unpack("keys", keys_of(run)[other], 2)[1]
            pair = AgreementKey(secret).derive("aggregation-mask", terms.session, target, other, public)
            Keystream(pair).add_to(vector, 0, -1)  # the target's name comes first
        np.testing.assert_array_equal(terms.coding.decode(vector), run.values[target])


def keys_of(run: AggregationRun) -> dict[str, bytes]:
    """What every client advertised, as the server saw it."""
    listed = unpack("key-list", run.clients["c000"]._key_list)
    return {e.sender: e.body for e in map(Envelope.from_bytes, listed)}


def test_nobody_is_asked_twice() -> None:
    terms = terms_of(3, 2)
    run = AggregationRun(terms)
    signed = run.agreed(run.masked(run.shares(run.keys())))
    listed = agreements_message(terms, *signed.values())
    client = run.clients["c000"]
    client.unmask(listed)
    for again in (lambda: client.unmask(listed), lambda: client.agree(survivors_message(terms, *terms.clients))):
        with pytest.raises(ProtocolError, match="nobody may be asked twice"):
            again()
    assert client.due == "done"


def test_a_second_list_of_survivors_is_not_signed() -> None:
    terms = terms_of(3, 2)
    run = AggregationRun(terms)
    run.masked(run.shares(run.keys()))
    run.clients["c000"].agree(survivors_message(terms, "c000", "c001", "c002"))
    with pytest.raises(ProtocolError, match="`unmask` is due, not `agree`"):
        run.clients["c000"].agree(survivors_message(terms, "c000", "c001"))


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("c001", "c002"), "says that we dropped out"),
        (("c000",), "shows 1 survivors; the threshold is 2"),
        (("c000", "c001", "zoe"), "never shared"),
        (("c001", "c000"), "not sorted"),
    ],
)
def test_false_lists_of_survivors_are_refused(names: tuple[str, ...], said: str) -> None:
    terms = terms_of(3, 2)
    run = AggregationRun(terms)
    run.masked(run.shares(run.keys()))
    with pytest.raises(ProtocolError, match=said):
        run.clients["c000"].agree(survivors_message(terms, *names))
    with pytest.raises(ProtocolError, match="has ended"):
        run.clients["c000"].agree(survivors_message(terms, "c000", "c001", "c002"))


def test_different_keys_or_sharers_to_different_clients_are_caught() -> None:
    """c000 is shown three keys, the others four; later all are told the same survivors."""
    terms = terms_of(4, 3)
    run = AggregationRun(terms)
    keys = run.keys()
    three = [keys[n].to_bytes() for n in ("c000", "c001", "c002")]
    four = [e.to_bytes() for e in keys.values()]
    shared = {
        n: run.clients[n].share_keys(
            by_server(terms, "aggregation-key-list", pack("key-list", *(three if n == "c000" else four)))
        )
        for n in keys
    }
    parts = {}
    for name, envelope in shared.items():
        _, targets, *encrypted = unpack("shares", envelope.body)
        parts[name] = dict(zip(unpack("names", targets), encrypted, strict=True))
    sharers = ("c000", "c001", "c002")
    signed = []
    for name in sharers:
        got = [parts[other][name.encode()] for other in sharers if other != name]
        body = pack("share-list", pack_names(sharers), *got)
        run.clients[name].mask(by_server(terms, "aggregation-share-list", body, name), np.zeros(3))
        signed.append(run.clients[name].agree(survivors_message(terms, *sharers)))
    for name in sharers:
        with pytest.raises(ProtocolError, match="other keys or other survivors than we: the server lies"):
            run.clients[name].unmask(agreements_message(terms, *signed))


def key_list(terms: AggregationTerms, keys: dict[str, Envelope]) -> Envelope:
    return by_server(terms, "aggregation-key-list", pack("key-list", *(e.to_bytes() for e in keys.values())))


def test_false_lists_of_keys_are_refused() -> None:
    terms = terms_of(3, 2)

    def refused(said: str, change: Callable[[dict[str, Envelope]], dict[str, Envelope]]) -> None:
        run = AggregationRun(terms)
        with pytest.raises(ProtocolError, match=said):
            run.clients["c000"].share_keys(key_list(terms, change(run.keys())))

    def signed_again(keys: dict[str, Envelope], body: bytes, name: str = "c001") -> dict[str, Envelope]:
        sealed = seal(identity(name), terms.session, "aggregation-keys", name, body, receiver="server")
        return {**keys, name: sealed}

    refused("shows 1 advertised keys", lambda k: {"c000": k["c000"]})
    refused("does not hold our own keys", lambda k: {"c001": k["c001"], "c002": k["c002"]})
    refused("does not hold our own keys", lambda k: signed_again(k, pack("keys", b"a" * 32, b"b" * 32), "c000"))
    refused("appears twice", lambda k: signed_again(k, k["c002"].body))
    refused("no usable X25519", lambda k: signed_again(k, pack("keys", bytes(32), b"b" * 32)))
    refused("sent its key twice", lambda k: {**k, "again": k["c001"]})
    forged = seal(identity("server"), terms.session, "aggregation-keys", "c001", b"", receiver="server")
    refused("signature of c001", lambda k: {**k, "c001": forged})


def test_shares_handed_to_the_wrong_client_are_refused() -> None:
    terms = terms_of(3, 2)
    run = AggregationRun(terms)
    each = run.server.shares(run.shares(run.keys()).values())
    names, first, second = unpack("share-list", each["c000"].body)
    swapped = by_server(terms, "aggregation-share-list", pack("share-list", names, second, first), "c000")
    with pytest.raises(ProtocolError, match="shares of c001 were changed"):
        run.clients["c000"].mask(swapped, np.zeros(3))
    with pytest.raises(ProtocolError, match="from or for another party"):
        run.clients["c001"].mask(each["c002"], np.zeros(3))


@pytest.mark.parametrize("gone", [{}, {"c001": 2}])
def test_false_shares_never_give_a_false_sum(gone: dict[str, int]) -> None:
    """c000 answers the last round with other numbers, in either share's place; small and large changes."""
    terms = terms_of(3, 2)
    for at, change in product(range(3), (1, 1 << 300)):
        run = AggregationRun(terms, gone)
        sent = run.unmasked(run.agreed(run.masked(run.shares(run.keys()))))
        shares = list(unpack("unmask", sent["c000"].body))
        shares[at] = (int.from_bytes(shares[at], "big") ^ change).to_bytes(SHARE_BYTES, "big")
        body = pack("unmask", *shares)
        sent["c000"] = seal(identity("c000"), terms.session, "aggregation-unmask", "c000", body, receiver="server")
        with pytest.raises(ProtocolError, match="one is false"):
            run.server.unmask(sent.values())
    body = pack("unmask", *[b"\xff" * SHARE_BYTES] * 3)
    run = AggregationRun(terms)
    sent = run.unmasked(run.agreed(run.masked(run.shares(run.keys()))))
    sent["c000"] = seal(identity("c000"), terms.session, "aggregation-unmask", "c000", body, receiver="server")
    with pytest.raises(ProtocolError, match="no share"):
        run.server.unmask(sent.values())


@pytest.mark.parametrize(
    ("sender", "round_number"), [*(("c001", i) for i in range(5)), *(("server", i) for i in range(1, 5))]
)
def test_any_changed_byte_is_refused(sender: str, round_number: int) -> None:
    """Of one client's message in every round and of the server's to it, at 40 places (`test_keys`: at all)."""
    terms = terms_of(2, 2, shape=(1,))
    position, size = 0, 1

    def flip(at_round: int, source: str, target: str, message: Envelope) -> Envelope:
        nonlocal size
        packed = message.to_bytes()
        if at_round == round_number and source == sender and target in ("server", "c001"):
            size = len(packed)
            packed = packed[:position] + bytes([packed[position] ^ 0x15]) + packed[position + 1 :]
        return Envelope.from_bytes(packed)

    while position < size:
        with pytest.raises(ProtocolError):
            AggregationRun(terms, change=flip, seed="bytes").whole()
        position += max(1, size // 40)
    assert size > 200


def test_a_message_of_another_round_session_or_sender_is_refused() -> None:
    run = AggregationRun(terms_of(3, 2))
    keys = run.keys()
    other = AggregationClient(terms_of(3, 3), "c002", identity("c002")).advertise()
    for messages, said in [
        ([keys["c000"], other], "another session"),
        ([keys["c000"], keys["c000"], keys["c001"]], "sent its message twice"),
        ([keys["c000"], by_server(run.terms, "aggregation-keys", b"")], "not expected to send one"),
    ]:
        server = AggregationServer(run.terms, identity("server"))
        with pytest.raises(ProtocolError, match=said):
            server.keys(messages)
        with pytest.raises(ProtocolError, match="has ended"):
            server.keys(keys.values())
    server = AggregationServer(run.terms, identity("server"))
    server.keys(keys.values())
    with pytest.raises(ProtocolError, match="sent another message where aggregation-shares was due"):
        server.shares(keys.values())
