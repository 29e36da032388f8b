"""The rounds of PEM announce what the ideal run announces, and survive what may happen."""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.stats import chisquare

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.mechanisms.pem.algorithm import PemAlgorithm, PemTotal, contribution, run_ideal
from ksdp.audit.mechanisms.pem.functions import PemApriori, PemKMeans, PemLogistic
from ksdp.audit.mechanisms.pem.noise import Budget, Simulated, Sparse
from ksdp.extras.pem.local import run_pem
from ksdp.extras.pem.rounds import PemTerms, pem_rounds, read_upload, split
from ksdp.extras.pem.spec import PemRunSpec
from ksdp.extras.pem.states import pack_state, unpack_state
from ksdp.protocols.channel.wire import pack, unpack

from ...protocols.conftest import seeded
from .parties_here import Change, ScriptedSampler, one_hot, play, sides_of, terms_of

KMEANS = PemKMeans(3, 9, bound=3.0, fraction_bits=4)
PARTS = [one_hot(20, seed) for seed in range(4)]
ENTRIES = KMEANS.init().entries


class SummedSamplers:
    """Gives the sums of what several samplers gave, in order."""

    label = "replay"

    def __init__(self, samplers: list[ScriptedSampler]) -> None:
        self._sums = [sum(drawn) for drawn in zip(*(s.given for s in samplers), strict=True)]

    def draw(self, scale: float, entries: int, parties: int = 1) -> NDArray[np.int64]:
        if parties == 0:
            return np.zeros(entries, dtype=np.int64)
        return self._sums.pop(0)


class Constant(ScriptedSampler):
    """The same number everywhere."""

    number = 0

    def draw(self, scale: float, entries: int, parties: int = 1) -> NDArray[np.int64]:
        return np.full(entries, self.number)


def samplers(count: int) -> list[ScriptedSampler]:
    return [ScriptedSampler(np.random.default_rng(10 + j)) for j in range(count)]


def labelled(part: sp.csr_array) -> sp.csr_array:
    labels = (part[:, [0]] + part[:, [4]]).toarray() > 0.5
    return sp.csr_array(sp.hstack((part, labels.astype(float)), format="csr"))


def played(terms: PemTerms, change: Change | None = None, noisy: list[Any] | None = None) -> dict[str, Any]:
    """What came of k-means among the terms' hosts."""
    sides = sides_of(terms, KMEANS, PARTS[: len(terms.holders)], noisy or samplers(len(terms.servers)))
    return play(sides, change) if change else play(sides)


def noise_of(noisy: list[ScriptedSampler], iteration: int) -> NDArray[np.int64]:
    """Of all servers, in one iteration of k-means, whose vectors have two blocks."""
    return sum(np.concatenate(s.given[2 * iteration : 2 * iteration + 2]) for s in noisy)  # type: ignore[return-value]


def one_iteration(**more: Any) -> PemTerms:
    return terms_of(KMEANS, 4, 2, Budget(5.0, 1), **more)


@pytest.mark.parametrize(
    ("algorithm", "parts", "iterations", "servers"),
    [
        (KMEANS, PARTS, 3, 2),
        (replace(KMEANS, fraction_bits=0), PARTS, 3, 3),
        (PemLogistic(10, bound=3.0, cap=1.0), [labelled(p) for p in PARTS], 4, 3),
        (PemApriori(9, 3, 0.1, length=3), PARTS, 3, 2),
    ],
    ids=["k-means", "k-means, 3 servers", "logistic", "Apriori"],
)
def test_a_run_announces_what_the_ideal_run_announces_to_the_bit(
    algorithm: PemAlgorithm, parts: list[sp.csr_array], iterations: int, servers: int
) -> None:
    budget, noisy = Budget(40.0, iterations), samplers(servers)
    ends = play(sides_of(terms_of(algorithm, 4, servers, budget), algorithm, parts, noisy))
    ideal = run_ideal(algorithm, parts, budget, SummedSamplers(noisy), noises=servers)
    assert len(ends["hub"].rows) == len(ideal.totals) >= 2
    assert set(ends["hub"].rows) == {80}
    assert (ends["hub"].clients, ends["hub"].present) == (4, 4)
    for end in ends.values():
        assert pack_state(end.state) == pack_state(ideal.final)
        assert (end.digest, end.session, end.lost) == (ends["hub"].digest, ends["hub"].session, ())


def test_the_clients_of_one_host_add_up() -> None:
    """On one machine a host holds all clients: the sums are the same."""
    budget = Budget(1e5, 3)  # noise is 0 but with probability 1e-20
    result = run_pem(KMEANS, {str(at): part for at, part in enumerate(PARTS)}, budget, PemRunSpec(servers=3))
    ideal = run_ideal(KMEANS, PARTS, budget, Simulated(np.random.default_rng(0)))
    assert pack_state(result.state) == pack_state(ideal.final)
    assert result.rows == (80, 80, 80)
    assert "OpenDP" in result.sampler
    assert set(result.sent) == {"clients", "servers", "aggregator"}


def said(kind: str, at: str, said: list[bytes]) -> Change:
    """Keep what of one kind arrives at a host."""

    def change(sender: str, receiver: str, what: str, number: int, body: bytes) -> bytes:
        if (what, receiver) == (kind, at) and body:
            said.append(body)
        return body

    return change


@pytest.mark.deviation("PEM: as all servers: put their shares together")
def test_what_a_server_holds_says_nothing_without_the_others() -> None:
    """A server's shares of two different vectors, under the same coins, are the same but for the last server."""
    held: dict[str, list[list[bytes]]] = {}
    for server in ("server 0", "server 1", "server 2"):
        for parts in (PARTS, list(reversed(PARTS))):
            uploads: list[bytes] = []
            terms = terms_of(KMEANS, 4, 3, Budget(5.0, 1))
            play(sides_of(terms, KMEANS, parts, samplers(3)), said("uploads", server, uploads))
            held.setdefault(server, []).append(uploads)
    for server, (first, second) in held.items():
        assert len(first) == 4
        assert (first == second) == (server != "server 2")


def test_shares_add_up_and_fewer_of_them_are_uniform() -> None:
    rng = np.random.default_rng(1)
    values = np.array([3, -(2**62), 2**62, -1] * 5000)
    shares = split(values, 3, rng.bytes)
    assert shares.sum(axis=0, dtype=np.uint64).view(np.int64).tolist() == values.tolist()
    for share in (*shares, shares[0] + shares[2]):
        assert chisquare(np.bincount(share >> np.uint64(58), minlength=64)).pvalue > 1e-4
        assert chisquare(np.bincount(share % np.uint64(16), minlength=16)).pvalue > 1e-4


def lost(*which: tuple[str, str, int]) -> Change:
    """A host's uploads for a receiver do not arrive from an iteration on; `*`: for anybody."""

    def change(sender: str, receiver: str, kind: str, number: int, body: bytes) -> bytes | None:
        at = (number - 2) // 5  # after the greeting and the counts, five rounds an iteration
        late = kind == "uploads" or at > 0
        gone = any(
            sender == who and whom in (receiver, "*") and (at > since or (at == since and late))
            for who, whom, since in which
        )
        return None if gone and number > 2 else body

    return change


def test_a_host_that_fails_is_left_out_and_the_run_goes_on() -> None:
    noisy = samplers(2)
    ends = played(terms_of(KMEANS, 4, 2, Budget(5.0, 3)), lost(("host 1", "*", 0), ("host 3", "*", 2)), noisy)
    assert ends["hub"].rows == (60, 60, 40)
    assert ends["hub"].lost == ends["host 0"].lost == ("host 1", "host 3")
    assert (ends["hub"].clients, ends["hub"].present) == (4, 2)
    one = played(one_iteration(), lost(("host 1", "*", 0)), noisy := samplers(2))
    exact = sum(contribution(KMEANS, p, KMEANS.init()) for i, p in enumerate(PARTS) if i != 1)
    steps = (exact + noise_of(noisy, 0)).astype(np.int64)
    after = KMEANS.reduce_in_aggregator(KMEANS.init(), total_of(steps, 60))
    assert pack_state(one["hub"].state) == pack_state(after)


def total_of(steps: NDArray[np.int64], rows: int) -> Any:
    return PemTotal.of(steps, KMEANS.init().blocks, rows, 1.0)


@pytest.mark.parametrize("receiver", ["server 1", "hub"])
def test_a_host_that_reached_only_some_is_left_out(receiver: str) -> None:
    """Half a vector is a uniform one: with it the sum would be noise."""
    ends = played(terms_of(KMEANS, 4, 2, Budget(50.0, 2)), lost(("host 2", receiver, 0)))
    assert ends["hub"].lost == ("host 2",)
    assert ends["hub"].rows == (60, 60)
    assert np.abs(ends["hub"].state.arrays["centres"]).max() < 1e3
    assert f"{receiver} disappeared" in str(ends["host 2"])


def test_too_few_clients_end_the_run() -> None:
    ends = played(one_iteration(least=3), lost(("host 0", "*", 0), ("host 1", "*", 0)))
    assert "2 clients are there; the terms ask for 3" in str(ends["hub"])


def test_the_noise_follows_the_state_of_every_iteration() -> None:
    """Dynamic L: Apriori's scale at each server is T L_k / epsilon, L_k = min(2 C(l, k), candidates)."""
    algorithm = PemApriori(9, 3, 0.02, length=3)
    asked: list[tuple[float, int]] = []

    class Watching(Constant):
        def draw(self, scale: float, entries: int, parties: int = 1) -> NDArray[np.int64]:
            asked.append((scale, entries))
            return super().draw(scale, entries, parties)

    watching = [Watching(np.random.default_rng(0)) for _ in range(2)]
    play(sides_of(terms_of(algorithm, 4, 2, Budget(6.0, 3)), algorithm, PARTS, watching))
    sizes = [entries for _, entries in asked[::2]]
    assert len(sizes) == 3
    expected = [3 * min(2 * c, n) / 6.0 for c, n in zip((3, 3, 1), sizes, strict=True)]
    assert [scale for scale, _ in asked[::2]] == pytest.approx(expected)
    assert [scale for scale, _ in asked[1::2]] == pytest.approx(expected)


def test_sparse_uploads_name_a_few_places_and_say_nothing_else() -> None:
    sparse, algorithm = Sparse(threshold=2.25, most=9), PemLogistic(10, bound=3.0, cap=1.0)
    terms, uploads = terms_of(algorithm, 4, 2, Budget(1e6, 1, sparse=sparse)), list[bytes]()
    parts = [labelled(p) for p in PARTS]
    noisy = [Constant(np.random.default_rng(0)) for _ in range(2)]
    end = play(sides_of(terms, algorithm, parts, noisy), said("uploads", "server 0", uploads))["hub"]
    exact = np.zeros(10)
    for part in parts:
        own = contribution(algorithm, part, algorithm.init())
        exact += np.where(np.abs(own) >= 2.25 * 2**16, own, 0)
    assert 2 <= np.count_nonzero(exact) < 10
    total = PemTotal.of(exact.astype(np.int64), algorithm.init().blocks, 80, 1.0)
    after = algorithm.reduce_in_aggregator(algorithm.init(), total)
    np.testing.assert_allclose(end.state.arrays["w"], after.arrays["w"])
    whole = list[bytes]()
    plain = terms_of(algorithm, 4, 2, Budget(1e6, 1))
    play(sides_of(plain, algorithm, parts, samplers(2)), said("uploads", "server 0", whole))
    assert sum(map(len, uploads)) < 2 * sum(map(len, whole))
    _, places, numbers = unpack("pem-upload", uploads[0], 3)
    assert len(places) == len(numbers)


def test_a_stream_uses_every_record_once() -> None:
    terms = terms_of(KMEANS, 2, 2, Budget(3.0, 3, stream=True), rows=8)
    ends = play(sides_of(terms, KMEANS, [PARTS[0][:15], PARTS[1][:10]], samplers(2)))
    assert ends["hub"].rows == (16, 9, 0)


def test_sampling_halves_the_records_and_nobody_learns_which() -> None:
    budget = Budget(1e5, 1, sampling=0.5)
    totals: list[Any] = []

    class Watched(PemKMeans):
        def reduce_in_aggregator(self, state: Any, total: Any) -> Any:
            totals.append(total)
            return super().reduce_in_aggregator(state, total)

    algorithm = Watched(3, 9, bound=3.0, fraction_bits=4)
    ends = play(sides_of(terms_of(algorithm, 4, 2, budget), algorithm, PARTS, samplers(2)))
    assert ends["hub"].rows == (80,)  # public: how many there are, not how many were drawn
    assert 25 < totals[0].values[1].sum() < 55


SHOWN = hashlib.sha256(b"state").digest()
SHARE = bytes(8 * ENTRIES)


@pytest.mark.parametrize(
    ("fields", "most", "message"),
    [
        ((SHOWN, b"", SHARE[1:]), None, "entries has"),
        ((bytes(32), b"", SHARE), None, "shown another state"),
        ((SHOWN, bytes(8), bytes(8)), None, "where a whole vector is due"),
        ((SHOWN, bytes(24), bytes(24)), 2, "more places"),
        ((SHOWN, bytes(7), bytes(8)), 2, "more places"),
        ((SHOWN, bytes(16), bytes(16)), 2, "not in order"),
        ((SHOWN, b"\xff" * 8, bytes(8)), 2, "not there"),
    ],
)
def test_an_upload_that_does_not_fit_is_refused(fields: tuple[bytes, ...], most: int | None, message: str) -> None:
    with pytest.raises(ProtocolError, match=message):
        read_upload(pack("pem-upload", *fields), SHOWN, ENTRIES, most)


def changed(kind: str, sender: str, how: Callable[[bytes], bytes], receiver: str = "") -> Change:
    def change(who: str, whom: str, what: str, number: int, body: bytes) -> bytes:
        meant = (what, who) == (kind, sender) and receiver in ("", whom)
        return how(body) if meant and body else body

    return change


def shrunk(message: bytes) -> bytes:
    """A state that asks for less noise."""
    state = unpack_state(message)
    return pack_state(replace(state, blocks=replace(KMEANS, bound=1.0).init().blocks)) if state.blocks else message


@pytest.mark.deviation("PEM: as aggregator: show servers another state, or ask more often than agreed")
def test_an_aggregator_that_shows_a_server_less_sensitivity_gets_nothing() -> None:
    ends = played(one_iteration(), changed("state", "hub", shrunk, "server 0"))
    assert "host 0: shown another state: the aggregator is not to be trusted" in str(ends["server 0"])
    assert isinstance(ends["hub"], ProtocolError)


@pytest.mark.deviation("PEM: as aggregator: show servers another state, or ask more often than agreed")
@pytest.mark.parametrize("iteration", [0, 2])
def test_an_aggregator_that_repeats_or_skips_an_iteration_gets_nothing(iteration: int) -> None:
    """Each host counts the iterations: no share and no sum is extra."""

    def other(message: bytes) -> bytes:
        state = unpack_state(message)
        return pack_state(replace(state, iteration=iteration)) if state.iteration == 1 else message

    ends = played(terms_of(KMEANS, 4, 2, Budget(40.0, 5)), changed("state", "hub", other))
    for name, end in ends.items():
        assert isinstance(end, ProtocolError)
        if name != "hub":
            assert f"a state of iteration {iteration}; iteration 1 is due: the aggregator" in str(end)


@pytest.mark.deviation("PEM: as aggregator: tell of two results")
def test_an_aggregator_that_tells_of_two_results_is_named() -> None:
    def twice(message: bytes) -> bytes:
        state = unpack_state(message)
        arrays = {name: 2.0 * array for name, array in state.arrays.items()}
        return pack_state(replace(state, arrays=arrays)) if state.iteration == 1 else message

    ends = played(one_iteration(), changed("state", "hub", twice, "host 0"))
    assert all("was shown another result: hub is not to be trusted" in str(end) for end in ends.values())


@pytest.mark.deviation("PEM: as client: send shares that do not cancel")
def test_a_sum_larger_than_it_can_be_is_void() -> None:
    """What a share that does not cancel looks like: a number of any size."""
    wild = Constant(np.random.default_rng(0))
    wild.number = 2**50
    ends = played(one_iteration(), noisy=[samplers(1)[0], wild])
    assert "the run is void" in str(ends["hub"])


@pytest.mark.deviation("PEM: as server: add no noise")
def test_a_server_that_adds_no_noise_leaves_that_of_the_others() -> None:
    honest = samplers(1)
    ends = played(one_iteration(), noisy=[honest[0], Constant(np.random.default_rng(0))])
    exact = sum(contribution(KMEANS, part, KMEANS.init()) for part in PARTS)
    steps = (exact + noise_of(honest, 0)).astype(np.int64)
    after = KMEANS.reduce_in_aggregator(KMEANS.init(), total_of(steps, 80))
    assert pack_state(ends["hub"].state) == pack_state(after)
    assert np.abs(noise_of(honest, 0)).max() > 0


@pytest.mark.parametrize(
    ("change", "at", "message"),
    [
        (changed("clients", "server 0", lambda body: (5).to_bytes(8, "big")), "hub", "without clients"),
        (changed("clients", "host 0", lambda body: bytes(8)), "hub", "without clients"),
        (changed("uploads", "host 0", lambda body: (10**6).to_bytes(8, "big"), "hub"), "hub", "more|puts in"),
        (changed("roster", "hub", lambda body: pack("names", b"stranger")), "server 0", "terms ask for"),
        (changed("partial", "server 0", lambda body: body[1:]), "hub", "server 0: A vector"),
        (changed("state", "hub", lambda body: body[:-1], "host 0"), "host 0", "hub: "),
    ],
)
def test_whoever_says_what_cannot_be_is_named(change: Change, at: str, message: str) -> None:
    end = played(one_iteration(), change)[at]
    assert isinstance(end, ProtocolError)
    assert any(part in str(end) for part in message.split("|"))


def test_other_terms_end_the_run_with_what_differs() -> None:
    terms = one_iteration()
    sides = sides_of(terms, KMEANS, PARTS, samplers(2))
    other = replace(terms, terms={**terms.terms, "budget": "another"})
    sides["host 0"] = pem_rounds(other, "host 0", KMEANS, {"one": PARTS[0]}, random_bytes=seeded("host 0"))
    ends = play(sides)
    assert "host 0 agreed to something else: `budget` is " in str(ends["hub"])


def test_a_sum_that_could_wrap_is_not_taken() -> None:
    ends = played(terms_of(KMEANS, 4, 2, Budget(1e-17, 1)))
    assert all("bits; there are 64" in str(end) for name, end in ends.items() if name != "hub")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: next(pem_rounds(t, "host 0", replace(KMEANS, bound=2.0), {})), "another"),
        (lambda t: next(pem_rounds(t, "host 0", KMEANS, {"one": one_hot(101, 1)})), "101 records"),
        (lambda t: next(pem_rounds(t, "hub", replace(KMEANS, bound=2.0))), "another"),
        (lambda t: replace(t, servers=t.servers[:1]), "two servers or more"),
        (lambda t: replace(t, servers=(t.holders[0], *t.servers)), "each once"),
        (lambda t: run_pem(KMEANS, {}, t.budget), "at least one client"),
        (lambda t: run_pem(KMEANS, {"a": PARTS[0]}, t.budget, PemRunSpec(least_clients=7)), "asks for 7"),
    ],
)
def test_refused_before_the_start(call: Callable[[PemTerms], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call(one_iteration())
