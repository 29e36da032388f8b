"""Clients, servers and aggregator: they announce what the ideal run announces, and survive what may happen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.mechanisms.pem.algorithm import PemAlgorithm, contribution, run_ideal
from ksdp.audit.mechanisms.pem.functions import PemApriori, PemKMeans, PemLogistic
from ksdp.audit.mechanisms.pem.noise import Budget, Simulated, Sparse
from ksdp.extras.pem.messages import PemTerms, pack_state
from ksdp.extras.pem.parties import PemAggregator, PemClient
from ksdp.protocols.channel.wire import pack, pack_names

from ...protocols.conftest import seeded
from .parties_here import Parties, ScriptedSampler, one_hot, parties_of, terms_of

KMEANS = PemKMeans(3, 9, bound=3.0, fraction_bits=4)
PARTS = [one_hot(20, seed) for seed in range(4)]


class SummedSamplers:
    """Gives the sums of what several samplers gave, in order."""

    label = "replay"

    def __init__(self, samplers: list[ScriptedSampler]) -> None:
        self._sums = [sum(drawn) for drawn in zip(*(s.given for s in samplers), strict=True)]

    def draw(self, scale: float, entries: int, parties: int = 1) -> NDArray[np.int64]:
        if parties == 0:
            return np.zeros(entries, dtype=np.int64)
        return self._sums.pop(0)


def samplers(count: int) -> list[ScriptedSampler]:
    return [ScriptedSampler(np.random.default_rng(10 + j)) for j in range(count)]


def labelled(part: sp.csr_array) -> sp.csr_array:
    labels = (part[:, [0]] + part[:, [4]]).toarray() > 0.5
    return sp.csr_array(sp.hstack((part, labels.astype(float)), format="csr"))


@pytest.mark.parametrize(
    ("algorithm", "parts", "iterations", "servers", "bits"),
    [
        (KMEANS, PARTS, 3, 2, 64),
        (replace(KMEANS, fraction_bits=0), PARTS, 3, 3, 32),
        (PemLogistic(10, bound=3.0, cap=1.0), [labelled(p) for p in PARTS], 4, 3, 64),
        (PemApriori(9, 3, 0.1, length=3), PARTS, 3, 2, 64),
    ],
    ids=["k-means", "k-means, 32 bits, 3 servers", "logistic", "Apriori"],
)
def test_a_run_announces_what_the_ideal_run_announces_to_the_bit(
    algorithm: PemAlgorithm, parts: list[sp.csr_array], iterations: int, servers: int, bits: int
) -> None:
    budget = Budget(40.0, iterations)
    noisy = samplers(servers)
    run = parties_of(terms_of(algorithm, 4, servers, budget, bits=bits), algorithm, parts, noisy)
    while run.step():
        pass
    ideal = run_ideal(algorithm, parts, budget, SummedSamplers(noisy), noises=servers)
    assert len(run.aggregator.totals) == len(ideal.totals) >= 2
    for ours, theirs in zip(run.aggregator.totals, ideal.totals, strict=True):
        assert ours.rows == theirs.rows == 80
        assert np.concatenate(ours.values).tolist() == np.concatenate(theirs.values).tolist()
    assert pack_state(run.aggregator.state) == pack_state(ideal.final)
    assert run.aggregator.epsilon == pytest.approx(ideal.epsilon)
    assert run.aggregator.over


def ready(budget: Budget | None = None, least: int = 1, clients: int = 4) -> Parties:
    terms = terms_of(KMEANS, clients, 2, budget or Budget(5.0, 3), least=least)
    run = parties_of(terms, KMEANS, PARTS[:clients], samplers(2))
    return run


@pytest.mark.deviation("PEM: as all servers: put their shares together")
def test_what_a_server_holds_says_nothing_without_the_others() -> None:
    """A server's shares of two different vectors, under the same coins, are the same but for the last server."""
    first, second = [], []
    for parts, kept in ((PARTS, first), (list(reversed(PARTS)), second)):
        terms = terms_of(KMEANS, 4, 3, Budget(5.0, 3))
        run = parties_of(terms, KMEANS, parts, samplers(3), random=seeded("coins"))
        state = run.aggregator.begin()
        for server in run.servers.values():
            server.open(state)
        for client in run.clients.values():
            for server, upload in client.answer(state).items():
                run.servers[server].take(upload)
        kept += [{name: words.tolist() for name, (_, words) in s._taken.items()} for s in run.servers.values()]
    assert first[:2] == second[:2]
    assert first[2] != second[2]


def announced(run: Parties) -> NDArray[np.float64]:
    """The first sum, in steps."""
    blocks = zip(run.aggregator.totals[0].values, KMEANS.init().blocks, strict=True)
    return np.concatenate([values * 2.0**block.fraction_bits for values, block in blocks])


def test_a_client_that_fails_is_left_out_and_the_run_goes_on() -> None:
    run = ready()
    assert run.step(lost=lambda u, server: u.sender == "client 1")
    assert run.aggregator.present == ("client 0", "client 2", "client 3")
    assert run.aggregator.totals[0].rows == 60
    exact = sum(contribution(KMEANS, p, KMEANS.init()) for i, p in enumerate(PARTS) if i != 1)
    noise = sum(np.concatenate(s.sampler.given) for s in run.servers.values())
    assert (announced(run) - noise).tolist() == exact.tolist()
    assert run.step()  # client 1 comes back too late: it stays out
    assert run.aggregator.totals[1].rows == 60
    assert run.step(lost=lambda u, server: u.sender == "client 3")
    assert run.aggregator.totals[2].rows == 40
    assert not run.step()


def test_a_client_that_reached_only_some_servers_is_left_out() -> None:
    """Half a vector is a uniform one: with it the sum would be noise."""
    run = ready()
    assert run.step(lost=lambda u, server: (u.sender, server) == ("client 2", "server 1"))
    assert run.aggregator.present == ("client 0", "client 1", "client 3")
    assert np.abs(run.aggregator.totals[0].values[1]).max() < 1e4


def test_too_few_clients_end_the_run() -> None:
    run = ready(least=3)
    with pytest.raises(ProtocolError, match="2 clients are left; the terms ask for 3"):
        run.step(lost=lambda u, server: u.sender in ("client 0", "client 1"))


def test_the_noise_follows_the_state_of_every_iteration() -> None:
    """Dynamic L: Apriori's scale at each server is T L_k / epsilon, L_k = min(2 C(l, k), candidates)."""
    algorithm = PemApriori(9, 3, 0.02, length=3)
    asked: list[tuple[float, int]] = []

    class Watching(ScriptedSampler):
        def draw(self, scale: float, entries: int, parties: int = 1) -> NDArray[np.int64]:
            asked.append((scale, entries))
            return np.zeros(entries, dtype=np.int64)

    run = parties_of(
        terms_of(algorithm, 4, 2, Budget(6.0, 3)), algorithm, PARTS,
        [Watching(np.random.default_rng(0)), ScriptedSampler(np.random.default_rng(1))],
    )  # fmt: skip
    run.servers["server 1"].sampler = Watching(np.random.default_rng(0))
    while run.step():
        pass
    sizes = [entries for _, entries in asked[::2]]
    assert len(sizes) == 3
    expected = [3 * min(2 * c, n) / 6.0 for c, n in zip((3, 3, 1), sizes, strict=True)]
    assert [scale for scale, _ in asked[::2]] == pytest.approx(expected)
    assert [scale for scale, _ in asked[1::2]] == pytest.approx(expected)


def test_sparse_uploads_name_a_few_places_and_say_nothing_else() -> None:
    sparse = Sparse(threshold=2.25, most=9)
    algorithm = PemLogistic(10, bound=3.0, cap=1.0)
    terms = terms_of(algorithm, 4, 2, Budget(1e6, 2, sparse=sparse))
    run = parties_of(terms, algorithm, [labelled(p) for p in PARTS], samplers(2))
    while run.step():
        pass
    dense = ready()
    dense.step()
    assert len(run.wire[0].to_bytes()) < len(dense.wire[0].to_bytes())
    exact = np.zeros(10)
    for part in PARTS:
        own = contribution(algorithm, labelled(part), algorithm.init())
        exact += np.where(np.abs(own) >= 2.25 * 2**16, own, 0)
    off = run.aggregator.totals[0].values[0] * 2**16 - exact
    assert np.abs(off).max() < 300  # epsilon is huge: what is left is the noise of two servers
    assert np.count_nonzero(exact) >= 2


def test_a_stream_uses_every_record_once() -> None:
    terms = terms_of(KMEANS, 2, 2, Budget(3.0, 3, stream=True), rows=8)
    run = parties_of(terms, KMEANS, [PARTS[0][:15], PARTS[1][:10]], samplers(2))
    while run.step():
        pass
    assert [t.rows for t in run.aggregator.totals] == [16, 9, 0]
    assert run.aggregator.epsilon == 3.0


def test_sampling_halves_the_records_and_the_servers_do_not_learn_which() -> None:
    budget = Budget(1e5, 3, sampling=0.5)
    run = ready(budget)
    run.step()
    total = run.aggregator.totals[0]
    assert total.rows == 80  # public: how many there are, not how many were drawn
    assert 25 < total.values[1].sum() < 55
    drawn = run_ideal(
        KMEANS, PARTS, budget, Simulated(np.random.default_rng(0)), random=np.random.default_rng(1).bytes
    )
    assert 25 < drawn.totals[0].values[1].sum() < 55


def test_a_foreign_or_repeated_upload_is_not_taken() -> None:
    run = ready()
    state = run.aggregator.begin()
    server = run.servers["server 0"]
    server.open(state)
    upload = run.clients["client 0"].answer(state)["server 0"]
    for bad, message in [
        (replace(upload, share=upload.share[1:]), "entries has"),
        (replace(upload, state=bytes(32)), "shown another state"),
        (replace(upload, rows=101), "more records"),
        (replace(upload, places=pack("places", b"")), "another form of upload"),
        (replace(upload, sender="stranger"), "not expected to send one"),
    ]:
        with pytest.raises(ProtocolError, match=message):
            server.take(bad)
    server.take(upload)
    with pytest.raises(ProtocolError, match="twice"):
        server.take(upload)
    assert server.waits_for == {"client 1", "client 2", "client 3"}


@pytest.mark.deviation("PEM: as aggregator: show servers another state, or ask more often than agreed")
def test_an_aggregator_that_shows_the_servers_less_sensitivity_gets_nothing() -> None:
    run = ready()
    honest = run.aggregator.begin()
    server = run.servers["server 0"]
    server.open(pack_state(replace(KMEANS, bound=1.0).init()))
    upload = run.clients["client 0"].answer(honest)["server 0"]
    with pytest.raises(ProtocolError, match="shown another state"):
        server.take(upload)


def begun() -> tuple[Parties, bytes]:
    """A run whose first state every server has opened."""
    run = ready()
    state = run.aggregator.begin()
    for server in run.servers.values():
        server.open(state)
    return run, state


def test_a_server_gives_one_sum_an_iteration() -> None:
    """Two sums over lists that differ by one client would be two releases for the price of one."""
    run, state = begun()
    for client in run.clients.values():
        for name, upload in client.answer(state).items():
            run.servers[name].take(upload)
    roster = run.aggregator.roster(run.present())
    server = run.servers["server 0"]
    server.total(roster)
    with pytest.raises(ProtocolError, match="`open` is due"):
        server.total(roster)


def test_a_missing_server_ends_the_run() -> None:
    run, _ = begun()
    with pytest.raises(ProtocolError, match="server 1 is missing"):
        run.aggregator.roster({"server 0": run.servers["server 0"].present()})


@pytest.mark.deviation("PEM: as client: send shares that do not cancel")
def test_a_sum_larger_than_it_can_be_is_void() -> None:
    """What a share that does not cancel looks like: a number of any size."""
    run = ready()

    class Wild(ScriptedSampler):
        def draw(self, scale: float, entries: int, parties: int = 1) -> NDArray[np.int64]:
            return np.full(entries, 2**50)

    run.servers["server 1"].sampler = Wild(np.random.default_rng(0))
    with pytest.raises(ProtocolError, match="the run is void"):
        run.step()
    assert run.aggregator.due == "ended"


@pytest.mark.deviation("PEM: as server: add no noise")
def test_a_server_that_adds_no_noise_leaves_that_of_the_others() -> None:
    class Silent(ScriptedSampler):
        def draw(self, scale: float, entries: int, parties: int = 1) -> NDArray[np.int64]:
            return np.zeros(entries, dtype=np.int64)

    run = ready()
    honest = samplers(1)[0]
    run.servers["server 0"].sampler, run.servers["server 1"].sampler = honest, Silent(np.random.default_rng(0))
    assert run.step()
    exact = sum(contribution(KMEANS, part, KMEANS.init()) for part in PARTS)
    assert (announced(run) - np.concatenate(honest.given)).tolist() == exact.tolist()
    assert np.abs(np.concatenate(honest.given)).max() > 0


def test_a_sum_that_could_wrap_is_not_taken() -> None:
    terms = terms_of(KMEANS, 4, 2, Budget(1e-7, 3), bits=32)
    run = parties_of(terms, KMEANS, PARTS, samplers(2))
    with pytest.raises(ProtocolError, match="field has 32"):
        run.servers["server 0"].open(run.aggregator.begin())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: PemClient(t, "client 0", replace(KMEANS, bound=2.0), PARTS[0]), "another"),
        (lambda t: PemClient(t, "client 0", KMEANS, one_hot(101, 1)), "101 records"),
        (lambda t: PemAggregator(t, replace(KMEANS, bound=2.0)), "another"),
        (lambda t: replace(t.nodes, servers=t.nodes.servers[:1]), "at least 2"),
        (lambda t: replace(t.nodes, servers=(t.nodes.holders[0], *t.nodes.servers)), "each once"),
    ],
)
def test_refused_before_the_start(call: Callable[[PemTerms], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call(terms_of(KMEANS, 4, 2, Budget(1.0, 3)))


@pytest.mark.deviation("PEM: as aggregator: show servers another state, or ask more often than agreed")
@pytest.mark.parametrize(
    ("says", "served", "refusal"),
    [
        (lambda asked: 0, 1, "of iteration 0; iteration 1 is due: the aggregator is not to be trusted"),
        (lambda asked: min(asked, 4), 5, "of iteration 4; iteration 5 is due"),
        (lambda asked: 2 * asked, 1, "of iteration 2; iteration 1 is due"),
        (lambda asked: asked, 5, "nobody may be asked twice"),
    ],
    ids=["the first for ever", "the last again", "every other one", "more than agreed"],
)
def test_an_aggregator_that_asks_fifty_times_gets_what_was_agreed(
    says: Callable[[int], int], served: int, refusal: str
) -> None:
    """Each client and each server counts five iterations: no share and no sum is extra."""
    terms = terms_of(KMEANS, 4, 2, Budget(40.0, 5))
    run = parties_of(terms, KMEANS, PARTS, samplers(2))
    first, shares, sums = run.aggregator.state, 0, 0
    refusals: list[str] = []

    def told(step: Callable[[bytes], Any], message: bytes) -> Any:
        try:
            return step(message)
        except ProtocolError as error:
            refusals.append(str(error))
            return None

    for asked in range(50):
        message = pack_state(replace(first, iteration=says(asked)))
        uploads = [u for c in run.clients.values() for u in (told(c.answer, message) or {}).items()]
        for name, server in run.servers.items():
            if told(server.open, message):
                for receiver, upload in uploads:
                    if receiver == name:
                        server.take(upload)
                server.present()
                server.total(pack_names(sorted(run.clients)))
                sums += 1
        shares += len(uploads)
    assert shares == 4 * 2 * served
    assert sums == 2 * served
    assert all(refusal in one for one in refusals[:6])
    assert len(refusals) >= 44 * 6
