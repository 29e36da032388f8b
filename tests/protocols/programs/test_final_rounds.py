"""A run that opens its final output alone, in one process: what everybody learns, and what ends it."""

from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import Database
from ksdp.audit.errors import InputError, ProtocolError, SpecError
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.factorisation.pd_svd import PDPCA, PDSVD, SigmaSVD
from ksdp.audit.mechanisms.factorisation.power_iteration import subspace_sine
from ksdp.protocols.channel.rounds import Round, Rounds, run_together
from ksdp.protocols.channel.wire import pack_arrays, unpack, unpack_arrays
from ksdp.protocols.programs import final_rounds as module
from ksdp.protocols.programs.final_rounds import final_rounds, largest_final_message
from ksdp.protocols.programs.programs import Precision
from ksdp.protocols.programs.rounds import RunOutcome
from ksdp.protocols.programs.run_terms import RunTerms, Statement
from ksdp.protocols.programs.share_terms import ShareTerms
from ksdp.protocols.shares.field import PRIME, added, integers_of

from ..conftest import Mail, body_of, ended_by, participant, seeded

NAMES = ("ada", "bob", "cyd", "dan", "eve")
UNCLEARED = Statement(cleared=False)
FEATURES = 12


def parts(m: int, rows: int = 20) -> list[sp.csr_array]:
    rng = np.random.default_rng(5)
    scales = 0.7 ** np.arange(FEATURES)
    matrix = rng.standard_normal((m * rows, FEATURES)) * scales + 0.2
    return [sp.csr_array(matrix[i * rows : (i + 1) * rows]) for i in range(m)]


def terms_of(m: int, mechanism: PDSVD, rounds: int = 8, **other: object) -> RunTerms:
    names = NAMES[:3] if "computing" not in other else other["computing"]
    final = ShareTerms(names, 7 if rounds else 0, rounds)  # type: ignore[arg-type]
    participants = tuple(map(participant, NAMES[:m]))
    return RunTerms(mechanism, FEATURES, "sha256:0", Precision(bound=2.0**12), participants, shares=final)


def sides_of(terms: RunTerms, rows: list[sp.csr_array]) -> dict[str, Rounds[RunOutcome]]:
    names = [p.name for p in terms.participants]
    return {
        name: final_rounds(terms, name, part, UNCLEARED, random_bytes=seeded(name))
        for name, part in zip(names, rows, strict=True)
    }


def played(terms: RunTerms, rows: list[sp.csr_array]) -> tuple[dict[str, RunOutcome], list[tuple[str, Round]]]:
    return run_together(sides_of(terms, rows))


def meddled(kind: str, told: Callable[[bytes], bytes]) -> str:
    """The fault that ends a run in which bob tells ada something else in a round of a kind."""

    def meddle(spoken: dict[str, Round], mail: Mail) -> None:
        if spoken["bob"].kind == kind:
            mail["ada"]["bob"] = body_of(mail["ada"]["bob"], told(unpack("round", mail["ada"]["bob"], 3)[2]))

    return ended_by(sides_of(terms_of(3, PDSVD(rank=1, opens="final")), parts(3)), meddle)


@pytest.mark.parametrize(
    ("mechanism", "m", "computing"),
    [
        (PDSVD(rank=2, opens="final"), 3, NAMES[:3]),
        (SigmaSVD(rank=3, opens="final"), 4, ("ada", "cyd", "dan")),
        (PDPCA(rank=1, opens="final"), 3, NAMES[:3]),
        (PDPCA(rank=1, opens="final", centre="own"), 3, NAMES[:3]),
    ],
)
def test_everybody_learns_the_result_of_the_ideal_functionality(
    mechanism: PDSVD, m: int, computing: tuple[str, ...]
) -> None:
    rows, terms = parts(m), terms_of(m, mechanism, computing=computing)
    results, sent = played(terms, rows)
    ideal = mechanism.run(Database(tuple(rows)), np.random.default_rng(0))
    digests = {outcome.digest for outcome in results.values()}
    public = results["ada"].result.public
    assert len(digests) == 1
    assert public.keys() == set(ideal)
    assert subspace_sine(public["V"], ideal["V"]) < 1e-4
    np.testing.assert_allclose(public["V"], ideal["V"], atol=1e-4)
    np.testing.assert_allclose(public["V"] @ public["V"].T, np.eye(mechanism.rank), atol=1e-12)
    for name in set(ideal) - {"V"}:
        np.testing.assert_allclose(public[name], ideal[name], rtol=1e-7, atol=1e-9)
    assert "Any two of " + ", ".join(computing) in results["ada"].reveals
    idle = set(NAMES[:m]) - set(computing)
    spoken = {n for n, r in sent if r.kind == "computation" and max(map(len, r.messages.values())) > 200}
    assert spoken == set(computing)
    assert not idle & spoken
    assert max(len(body) for _, r in sent for body in r.messages.values()) <= largest_final_message(terms)


def test_too_few_iterations_open_nothing() -> None:
    terms = terms_of(3, PDSVD(rank=3, opens="final"), rounds=1)
    with pytest.raises(ProtocolError, match="has not converged, and nothing but this was opened"):
        played(terms, parts(3))


def test_two_parties_need_a_third() -> None:
    with pytest.raises(InputError, match='needs a third organisation.*or `opens` must be "every round"; got 2'):
        RunTerms(
            PDSVD(rank=3, opens="final"), FEATURES, "sha256:0", Precision(), tuple(map(participant, NAMES[:2]))
        )


def test_of_more_than_three_it_is_said_who_computes() -> None:
    four = tuple(map(participant, NAMES[:4]))
    with pytest.raises(InputError, match="`shares.computing` must name the three of 4 parties"):
        RunTerms(PDSVD(rank=3, opens="final"), FEATURES, "sha256:0", Precision(), four)


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        (PDNMF(rank=3, opens="final", beta=0.1), "`beta` and `delta` must be above 0"),
        (PDNMF(rank=3, opens="final", weighted=True), "`beta` and `delta` must be above 0"),
        (
            PDNMF(rank=3, opens="final", beta=0.1, delta=0.1, start="nnsvd"),
            "`start` must be one of random, random-2x",
        ),
        (PDSVD(rank=3, opens="final", solver="power"), '`solver` must be "limit"'),
    ],
)
def test_what_cannot_be_computed_on_shares_is_refused(mechanism: PDSVD | PDNMF, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        RunTerms(mechanism, FEATURES, "sha256:0", Precision(), tuple(map(participant, NAMES[:3])))


def test_a_party_whose_numbers_do_not_fit_enters_nothing() -> None:
    rows = parts(3)
    rows[1] = rows[1] * 100.0
    with pytest.raises(InputError, match="squares of all entries add up to more than `precision.bound`"):
        played(terms_of(3, PDSVD(rank=3, opens="final")), rows)


@pytest.mark.deviation("final output, vectors: enter moments beyond what all may enter together")
@pytest.mark.parametrize(
    ("first", "second", "noticed"), [(2**62 // 3 * 2, 2**40, False), (2**62 - 1, 2**61, True)]
)
def test_moments_that_no_rows_have_are_noticed_beyond_what_all_may_enter(
    first: int, second: int, noticed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bob enters a diagonal that adds up to twice his bound, and to more than that of three parties, 2^62."""
    rows, whole = parts(3), module._moments
    false = np.zeros(FEATURES * (FEATURES + 1) // 2, dtype=np.int64)
    false[[0, FEATURES]] = first, second
    monkeypatch.setattr(
        module, "_moments", lambda matrix, *how: false if matrix is rows[1] else whole(matrix, *how)
    )
    terms = terms_of(3, PDSVD(rank=1, opens="final"))
    with pytest.raises(ProtocolError, match="larger than any can be: .* deviates") if noticed else nullcontext():
        assert len({outcome.digest for outcome in played(terms, rows)[0].values()}) == 1


@pytest.mark.deviation("shares: as two computing parties: put their shares together")
def test_two_computing_parties_learn_what_the_third_entered_and_one_of_them_nothing() -> None:
    """Bob and cyd read the shares that ada sent them as a line through places 2 and 3."""
    rows = parts(3)
    said = [each for name, each in played(terms_of(3, PDSVD(rank=1, opens="final")), rows)[1] if name == "ada"]
    sent = next(each.messages for each in said if each.kind == "shares")
    bob, cyd = (integers_of(added([unpack("round", sent[n], 3)[2]]), (78,)) for n in NAMES[1:3])
    entered = module._moments(rows[0], None, 2.0**12, 3)
    assert ((3 * bob - 2 * cyd - entered) % PRIME == 0).all()
    assert min(int(share).bit_length() for share in bob) > 200, "nothing of numbers below 2^62"


@pytest.mark.deviation("shares: as computing party: compute something else")
def test_computing_parties_that_open_different_things_void_the_run() -> None:
    """Bob's copy of what was opened says something else, in a message of the right form."""

    def other(body: bytes) -> bytes:
        return pack_arrays({name: array + 1.0 for name, array in unpack_arrays(body).items()})

    assert "opened different things, and the run is void: bob against " in meddled("opened", other)


@pytest.mark.deviation("every run: tell nodes different grounds")
def test_grounds_told_differently_void_the_run_at_its_end() -> None:
    lie = Statement(True, "ab" * 32).to_bytes()
    assert meddled("statement", lambda body: lie) == "bob has another result: the run is void."
