"""All noises but one are removed, nobody knows whose, and it fits the secure aggregation that came before."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from gmpy2 import powmod

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.mechanisms.privacy.noise import draw, on_grid
from ksdp.protocols.channel.keys import Envelope
from ksdp.protocols.one_noise.noise_removal import RemovalDevice, RemovalServer
from ksdp.protocols.one_noise.paillier import generate
from ksdp.protocols.one_noise.removal_terms import RemovalTerms
from ksdp.protocols.sums.aggregation_client import AggregationClient
from ksdp.protocols.sums.aggregation_server import AggregationServer
from ksdp.protocols.sums.fixed_point import FixedPoint
from ksdp.protocols.sums.secure_aggregation import AggregationTerms

from ..conftest import identity, participant

KEY = generate(512)
NAMES = ("ada", "bob", "cyd", "dan")
BITS = 10


def terms_of(entries: int = 12, bound: int = 1 << 14) -> RemovalTerms:
    people = tuple(participant(name) for name in NAMES)
    return RemovalTerms(people, participant("server"), KEY.public, bound, entries, b"1 May")


def started(terms: RemovalTerms) -> tuple[RemovalServer, dict[str, RemovalDevice]]:
    devices = {name: RemovalDevice(terms, name, identity(name)) for name in NAMES}
    hellos = [device.hello() for device in devices.values()]
    for name, device in devices.items():
        device.begin(h for h in hellos if h.sender != name)
    return RemovalServer(terms, identity("server"), KEY), devices


def removed(terms: RemovalTerms, noises: dict[str, np.ndarray]) -> np.ndarray:
    server, devices = started(terms)
    bits = devices["ada"].mix(server.choices())
    running = devices["ada"].add(noises["ada"])
    for name in NAMES[1:]:
        running = devices[name].add(noises[name], bits[name], Envelope.from_bytes(running.to_bytes()))
    return server.total(running)


def test_the_sum_of_all_noises_but_one_comes_out_and_any_may_be_left() -> None:
    terms = terms_of()
    rng = np.random.default_rng(0)
    kept: Counter[str] = Counter()
    for _ in range(40):
        noises = {name: rng.integers(-(1 << 14), 1 << 14, 12) for name in NAMES}
        missing = sum(noises.values()) - removed(terms, noises)
        (whose,) = (name for name in NAMES if np.array_equal(noises[name], missing))
        kept[whose] += 1
    assert set(kept) == set(NAMES)  # else 4 (3/4)^40 = 4e-5


def test_after_secure_aggregation_one_noise_is_left_exactly() -> None:
    """Algorithm 2, steps 6 to 13, end to end: aggregation of Y + N, then the noises without one."""
    rng = np.random.default_rng(1)
    shape = (2, 6)
    values = {name: rng.normal(size=shape) for name in NAMES}
    steps = {name: on_grid(draw("fast", shape, 0.5, rng), BITS) for name in NAMES}
    people = tuple(participant(name) for name in NAMES)
    coding = FixedPoint(BITS, 100.0, 4)
    agreed = AggregationTerms(people, participant("server"), 3, coding, shape, b"1 May")
    clients = {name: AggregationClient(agreed, name, identity(name)) for name in NAMES}
    server = AggregationServer(agreed, identity("server"))
    listed = server.keys([c.advertise() for c in clients.values()])
    each = server.shares([c.share_keys(listed) for c in clients.values()])
    survivors = server.masked([c.mask(each[n], values[n] + steps[n] / 2**BITS) for n, c in clients.items()])
    agreements = server.agreed([c.agree(survivors) for c in clients.values()])
    noisy = server.unmask([c.unmask(agreements) for c in clients.values()]).values

    found = noisy - removed(terms_of(), steps).reshape(shape) / 2**BITS
    exact = sum(values.values())
    left = [np.abs(found - exact - steps[name] / 2**BITS).max() for name in NAMES]
    assert min(left) <= 4 * 2.0 ** -(BITS + 1) + 1e-12  # rounding of the four values, and nothing else
    assert sorted(left)[1] > 0.1


def test_what_is_prepared_is_used_once_and_changes_no_result() -> None:
    terms = terms_of(entries=60)
    server, devices = started(terms)
    for device in devices.values():
        device.prepare()
    noise = np.arange(60)
    bits = devices["ada"].mix(server.choices())
    running = devices["ada"].add(noise)
    for name in NAMES[1:]:
        running = devices[name].add(noise, bits[name], running)
    assert np.array_equal(server.total(running), 3 * noise)


def test_large_vectors_take_the_table() -> None:
    terms = terms_of(entries=800)
    assert terms.slots.plaintexts(800) > 20
    rng = np.random.default_rng(0)
    noises = {name: rng.integers(-100, 100, 800) for name in NAMES}
    missing = sum(noises.values()) - removed(terms, noises)
    assert any(np.array_equal(missing, noise) for noise in noises.values())


def test_the_server_sees_one_product_and_no_choice_of_its_own_again() -> None:
    """What devices send to each other is encrypted: none of it is a number of the server's."""
    terms = terms_of()
    server, devices = started(terms)
    choices = server.choices()
    bits = devices["ada"].mix(choices)
    width = terms.width
    sent = {choices.body[i : i + width] for i in range(0, len(choices.body), width)}
    assert len(sent) == 4
    for envelope in bits.values():
        assert not any(number in envelope.body for number in sent)
        assert len(envelope.body) > width
    running = devices["ada"].add(np.zeros(12, dtype=np.int64))
    assert not any(number in running.body for number in sent)


def test_as_printed_the_server_finds_the_noise_that_is_left() -> None:
    """Without re-randomising at the device: C = r^n with an r that the server drew, and C^N for a small N."""
    public, noise = KEY.public, 4711
    r = 123456789
    zero = powmod(r, public.n, public.square)
    answer = powmod(zero, noise, public.square)  # step 10 of the paper
    assert KEY.decrypt(answer) == 0
    found, power = 0, 1
    while power != answer:
        power, found = power * zero % public.square, found + 1
    assert found == noise
    ours = public.rerandomise(answer)
    power = 1
    for _ in range(10_000):
        assert power != ours
        power = power * zero % public.square


def test_each_step_once_and_in_order() -> None:
    terms = terms_of()
    server, devices = started(terms)
    with pytest.raises(ProtocolError, match="`choices` is due"):
        server.total(devices_hello())
    choices = server.choices()
    devices["ada"].mix(choices)
    with pytest.raises(ProtocolError, match="`add` is due"):
        devices["ada"].mix(choices)
    with pytest.raises(ProtocolError, match="`add` is due"):
        devices["bob"].mix(choices)


def devices_hello() -> Envelope:
    return RemovalDevice(terms_of(), "dan", identity("dan")).hello()


def test_noise_out_of_bounds_is_refused_and_may_be_given_again() -> None:
    server, devices = started(terms_of())
    devices["ada"].mix(server.choices())
    for noise in (np.full(12, 1 << 15), np.zeros(11, dtype=np.int64), np.zeros(12)):
        with pytest.raises(InputError):
            devices["ada"].add(noise)
    devices["ada"].add(np.zeros(12, dtype=np.int64))


def test_a_changed_message_ends_the_run() -> None:
    server, devices = started(terms_of())
    bits = devices["ada"].mix(server.choices())
    running = devices["ada"].add(np.zeros(12, dtype=np.int64))
    broken = replace(running, body=running.body[:-1] + bytes([running.body[-1] ^ 1]))
    with pytest.raises(ProtocolError, match="signature"):
        devices["bob"].add(np.zeros(12, dtype=np.int64), bits["bob"], broken)
    with pytest.raises(ProtocolError, match="ended"):
        devices["bob"].add(np.zeros(12, dtype=np.int64), bits["bob"], running)
    with pytest.raises(ProtocolError, match="another party"):
        devices["cyd"].add(np.zeros(12, dtype=np.int64), bits["bob"], running)


def test_terms_are_checked() -> None:
    people = tuple(participant(name) for name in NAMES)
    good = terms_of()
    with pytest.raises(InputError, match="at least 3"):
        replace(good, participants=people[:2])
    with pytest.raises(InputError, match="server"):
        replace(good, server=people[0])
    with pytest.raises(InputError, match="entries"):
        replace(good, entries=0)
    with pytest.raises(InputError, match="does not fit"):
        replace(good, bound=1 << 520)
    with pytest.raises(InputError, match="not the key"):
        RemovalServer(good, identity("ada"), KEY)
    with pytest.raises(InputError, match="not the one of the terms"):
        RemovalServer(good, identity("server"), generate(512))
    with pytest.raises(InputError, match="not among"):
        RemovalDevice(good, "eve", identity("eve"))
