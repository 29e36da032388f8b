"""A whole run in one process: what everybody learns, and what ends it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.stats import chisquare

from ksdp.audit.contract import Database, Mechanism
from ksdp.audit.errors import ProtocolError
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.factorisation.pd_svd import PDPCA, SigmaSVD
from ksdp.audit.mechanisms.party_side import PartyProgram, SecSum
from ksdp.audit.mechanisms.schema import final_output
from ksdp.protocols.channel.rounds import Round, Rounds, run_together
from ksdp.protocols.channel.wire import pack, pack_number, unpack
from ksdp.protocols.programs.programs import Precision, party_program
from ksdp.protocols.programs.rounds import RunOutcome, party_rounds
from ksdp.protocols.programs.run_terms import RunTerms, Statement
from ksdp.protocols.sums.secure_sum import Contribution

from ..conftest import Mail, Meddle, body_of, ended_by, identity, instead, participant

NAMES = ("ada", "bob", "cyd", "dan", "eve")
UNCLEARED = Statement(cleared=False)
NMF = PDNMF(rank=3, sweeps=15)
MECHANISMS = [
    NMF,
    PDNMF(rank=3, sweeps=10, start="pd-nmf-init"),
    PDNMF(rank=3, sweeps=10, start="nnsvd"),
    PDNMF(rank=2, sweeps=10, weighted=True, beta=0.1, delta=0.1, start="nnsvd"),
    PDNMF(rank=2, sweeps=10, beta=0.1, gamma=0.05),
    PDNMF(rank=2, sweeps=10, weighted=True, alpha=0.01, beta=0.1, delta=0.1),
    PDNMF(rank=2, sweeps=10, weighted=True, beta=0.1, delta=0.1, start="pd-nmf-init"),
    SigmaSVD(rank=3, solver="power", iterations=60, tolerance=1e-6),
    PDPCA(rank=2, solver="power", iterations=60, tolerance=1e-6, reveal_sigma=True),
    PDPCA(rank=2, solver="power", iterations=60, tolerance=1e-6, reveal_sigma=True, centre="own"),
]


def parts(m: int, features: int = 12, rows: int = 9) -> list[sp.csr_array]:
    """Rows of three kinds, so that the leading directions are well apart; no column is empty."""
    rng = np.random.default_rng(5)
    kinds = rng.random((3, features)) ** 4 + 0.01
    weights = rng.random((m * rows, 3)) * np.array([3.0, 1.5, 0.8])
    matrix = np.where(rng.random((m * rows, features)) < 0.8, weights @ kinds, 0.0)
    return [sp.csr_array(matrix[i * rows : (i + 1) * rows]) for i in range(m)]


def terms_of(m: int, mechanism: Mechanism = NMF, precision: Precision | None = None, **other: Any) -> RunTerms:
    said = {"features": 12, "vocabulary": "sha256:0", "participants": tuple(map(participant, NAMES[:m]))}
    return RunTerms(mechanism, precision=precision or Precision(), **(said | other))


def side(name: str, terms: RunTerms, steps: PartyProgram, statement: Statement = UNCLEARED) -> Rounds[RunOutcome]:
    return party_rounds(terms, name, identity(name), steps, statement)


def run(m: int, mechanism: Mechanism = NMF, precision: Precision | None = None) -> tuple[Any, Any]:
    terms = terms_of(m, mechanism, precision)
    matrices = dict(zip(NAMES, parts(m), strict=False))
    return run_together({n: side(n, terms, party_program(mechanism, x)) for n, x in matrices.items()})


@pytest.mark.parametrize(("m", "mechanism"), [(2, NMF), (5, NMF), *((3, mechanism) for mechanism in MECHANISMS)])
def test_a_run_announces_what_the_ideal_functionality_does(m: int, mechanism: Mechanism) -> None:
    outcomes, _ = run(m, mechanism, Precision(fraction_bits=40, bound=2.0**16))
    ideal = mechanism.run(Database(tuple(parts(m))), np.random.default_rng(0))
    assert len({outcome.digest for outcome in outcomes.values()}) == 1
    public = outcomes["ada"].result.public
    assert set(final_output(mechanism, parts(m)[0].shape[1])) <= set(public)
    for name in set(public) & set(ideal):
        np.testing.assert_allclose(public[name], ideal[name], rtol=0, atol=2e-8, err_msg=name)


@pytest.mark.parametrize("bits", [20, 31])
def test_every_sum_is_within_its_bound(bits: int) -> None:
    """From the same state each sum of the run is within M 2^-(f+1) of the plain one, as promised."""
    m, precision = 3, Precision(bits, 2.0**16)
    shares: list[list[NDArray[np.float64]]] = [[] for _ in range(m)]
    totals: list[NDArray[np.float64]] = []

    def watched(index: int, steps: PartyProgram) -> PartyProgram:
        wanted: SecSum = next(steps)
        while True:
            shares[index].append(wanted.share.copy())
            total = yield wanted
            if index == 0:
                totals.append(total)
            try:
                wanted = steps.send(total)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]

    terms = terms_of(m, NMF, precision)
    matrices = enumerate(parts(m))
    run_together({NAMES[i]: side(NAMES[i], terms, watched(i, party_program(NMF, x))) for i, x in matrices})
    exact = [np.sum(np.array(each, dtype=np.longdouble), axis=0) for each in zip(*shares, strict=True)]
    off = max(float(np.abs(total - plain).max()) for total, plain in zip(totals, exact, strict=True))
    assert 0 < off <= precision.coding(m).error * (1 + 1e-6)
    assert len(totals) == len(shares[0]) > 3


def test_all_that_travels_in_sums_is_uniform() -> None:
    """Somebody who reads everything sees each party's masked vectors: bytes without a pattern."""
    _, said = run(3)
    seen: dict[str, list[bytes]] = {}
    for sender, spoken in said:
        if spoken.kind == "sum":
            body = unpack("round", next(iter(spoken.messages.values())), 3)[2]
            share = unpack("summed", body, 2)[1]
            seen.setdefault(sender, []).append(bytes(Contribution.from_bytes(share).payload))
    for payloads in seen.values():
        whole = np.frombuffer(b"".join(payloads), dtype=np.uint8)
        assert len(whole) > 2000
        assert chisquare(np.bincount(whole, minlength=256)).pvalue > 1e-4


def test_a_reader_sees_kinds_lengths_and_order_only() -> None:
    outcomes, said = run(3)
    sums = outcomes["ada"].sums
    kinds = [spoken.kind for sender, spoken in said if sender == "bob"]
    assert kinds == ["greeting", "statement", "hello"] + ["sum"] * sums + ["result"]
    lengths = {len(m) for _, spoken in said if spoken.kind == "sum" for m in spoken.messages.values()}
    assert len(lengths) == 1, "lengths say nothing about the data"


@pytest.mark.deviation("every run: have another protocol file or version")
@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"mechanism": replace(NMF, rank=2)}, "mechanism.rank"),
        ({"mechanism": replace(NMF, start_seed=1)}, "mechanism.start_seed"),
        ({"vocabulary": "sha256:1"}, "vocabulary"),
        ({"precision": Precision(30)}, "precision.fraction_bits"),
        ({"precision": Precision(bound=2.0**10)}, "precision.bound"),
        ({"features": 11}, "features"),
    ],
)
def test_who_means_something_else_is_told_what_differs(changed: dict[str, Any], name: str) -> None:
    """Before anything of the data has been said: the steps have not begun."""
    terms = terms_of(2)

    def untouched() -> PartyProgram:
        pytest.fail("the data were used before the terms were agreed")
        yield

    ada, bob = side("ada", terms, untouched()), side("bob", replace(terms, **changed), untouched())
    with pytest.raises(ProtocolError, match=rf"bob agreed to something else: .*`{name}`"):
        run_together({"ada": ada, "bob": bob})


def ended(meddle: Meddle) -> str:
    terms, matrices = terms_of(3), dict(zip(NAMES, parts(3), strict=False))
    return ended_by({n: side(n, terms, party_program(NMF, x)) for n, x in matrices.items()}, meddle)


@pytest.mark.deviation("every run: send a repeated, foreign or early message")
@pytest.mark.parametrize("early", [False, True])
def test_a_repeated_or_early_message_ends_the_run(early: bool) -> None:
    before: dict[str, bytes] = {}

    def other(spoken: dict[str, Round], mail: Mail) -> None:
        if spoken["bob"].number == 6:
            kind, _, body = unpack("round", mail["ada"]["bob"], 3)
            mail["ada"]["bob"] = pack("round", kind, pack_number(7), body) if early else before["bob"]
        before.update(mail["ada"])

    assert ended(other).startswith("bob is at another step")


@pytest.mark.parametrize("number", range(7))
@pytest.mark.parametrize("what", ["frame", "body", "short", "empty"])
def test_what_cannot_be_read_names_who_sent_it(number: int, what: str) -> None:
    def damage(spoken: dict[str, Round], mail: Mail) -> None:
        if spoken["bob"].number != number:
            return
        said = mail["ada"]["bob"]
        inside = {"body": bytes(range(200)), "short": unpack("round", said)[2][:-1], "empty": b""}
        mail["ada"]["bob"] = body_of(said, inside[what]) if what in inside else bytes(range(200))

    assert ended(damage).startswith("bob")


@pytest.mark.deviation("secure sums: change a share on the way")
def test_a_changed_vector_ends_the_run() -> None:
    def change(spoken: dict[str, Round], mail: Mail) -> None:
        if spoken["bob"].number == 5:
            data = bytearray(mail["ada"]["bob"])
            data[-100] ^= 1  # among the entries; the tags come last
            mail["ada"]["bob"] = bytes(data)

    assert "contribution of bob was changed on the way" in ended(change)


@pytest.mark.deviation("every run: send a repeated, foreign or early message")
def test_a_message_of_another_party_ends_the_run() -> None:
    def swap(spoken: dict[str, Round], mail: Mail) -> None:
        if spoken["bob"].number == 2:
            mail["ada"] = {"bob": mail["ada"]["cyd"], "cyd": mail["ada"]["bob"]}

    assert ended(swap) == "bob sent a message of another party."


@pytest.mark.deviation("every run: tell nodes different grounds")
def test_grounds_told_differently_to_different_parties_end_the_run_before_the_first_sum() -> None:
    kinds: list[str] = []
    lie = instead("statement", "bob", "ada", Statement(True, "ab" * 32).to_bytes())

    def noted(spoken: dict[str, Round], mail: Mail) -> None:
        kinds.append(spoken["bob"].kind)
        lie(spoken, mail)

    assert "message of bob belongs to another session, or to other terms" in ended(noted)
    assert kinds == ["greeting", "statement", "hello"]


@pytest.mark.deviation("every run: tell of another result")
def test_another_result_voids_the_run() -> None:
    assert ended(instead("result", "bob", "ada", bytes(32))) == "bob has another result: the run is void."
