"""PD-NMF that opens its topics alone, in one process: those of the ideal functionality, and what is refused."""

from collections.abc import Iterator

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from ksdp.audit.contract import Database
from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.mechanisms.factorisation.pd_nmf import PDNMF
from ksdp.audit.mechanisms.factorisation.rri_nmf import fit_coefficients
from ksdp.audit.mechanisms.factorisation.weighted_nmf import fit_observed_coefficients
from ksdp.protocols.channel.rounds import Round, run_together
from ksdp.protocols.programs import final_rounds as module
from ksdp.protocols.programs.final_rounds import final_rounds, largest_final_message
from ksdp.protocols.programs.programs import Precision
from ksdp.protocols.programs.rounds import RunOutcome
from ksdp.protocols.programs.run_terms import RunTerms, Statement
from ksdp.protocols.programs.share_terms import ShareTerms, covers_final
from ksdp.protocols.shares.sizes import sizes_of

from ..conftest import participant, seeded

NAMES = ("ada", "bob", "cyd", "dan")
FEATURES = 7
TOPICS = PDNMF(rank=2, sweeps=3, beta=0.05, delta=0.1, alpha=0.01, opens="final")


def parts(*rows: int) -> list[sp.csr_array]:
    rng = np.random.default_rng(5)
    made = []
    for count in rows:
        whole = rng.random((count, 3)) @ rng.random((3, FEATURES)) * (rng.random((count, FEATURES)) < 0.6)
        made.append(sp.csr_array(whole))
    return made


def terms_of(
    mechanism: PDNMF, m: int = 3, bound: float = 64.0, computing: tuple[str, ...] = NAMES[:3]
) -> RunTerms:
    participants = tuple(map(participant, NAMES[:m]))
    final = ShareTerms(computing, 0, 0)
    return RunTerms(mechanism, FEATURES, "sha256:0", Precision(bound=bound), participants, shares=final)


def played(terms: RunTerms, rows: list[sp.csr_array]) -> tuple[dict[str, RunOutcome], list[tuple[str, Round]]]:
    return run_together(
        {
            p.name: final_rounds(terms, p.name, part, Statement(cleared=False), random_bytes=seeded(p.name))
            for p, part in zip(terms.participants, rows, strict=True)
        }
    )


@pytest.mark.deviation("final output, topics: enter rows beyond the bound, or negative ones")
@pytest.mark.parametrize(
    "mechanism", [TOPICS, PDNMF(rank=2, sweeps=1, opens="final")], ids=["penalties", "simplex"]
)
def test_rows_far_beyond_the_bound_give_no_result(mechanism: PDNMF, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bob does not check his own: numbers on shares leave their range, and no topic is of anything."""
    rows, whole, times = parts(9, 8, 7), module._blocks, 1.0

    def blocks(matrix: sp.csr_array, most: int, scale: float) -> Iterator[NDArray[np.int64]]:
        return whole(matrix, most, scale * (times if matrix is rows[1] else 1.0))

    monkeypatch.setattr(module, "_blocks", blocks)
    found = []
    for sign in (1.0, -1.0):  # negative rows within the bound: nobody notices
        times = sign
        outcomes = played(terms_of(mechanism), rows)[0]
        assert len({outcome.digest for outcome in outcomes.values()}) == 1
        found.append(outcomes["ada"].result.public["T"])
    assert np.isfinite(found[0]).all()
    assert np.abs(found[0] - found[1]).max() > 0.01
    times = 10.0
    with pytest.raises(ProtocolError, match="larger than any can be: .* deviates|projected on the simplex"):
        played(terms_of(mechanism), rows)


def test_topics_as_long_as_any_can_be_are_a_result() -> None:
    sizes = sizes_of(2, FEATURES, TOPICS.penalties, 64.0)
    longest = np.zeros((2, FEATURES))
    longest[0, 3] = sizes.tau * sizes.reach
    module._check_within(longest, sizes.longest, terms_of(TOPICS))
    for wrong in (longest * 1.01, np.full_like(longest, np.nan)):
        with pytest.raises(ProtocolError, match="entered others"):
            module._check_within(wrong, sizes.longest, terms_of(TOPICS))


@pytest.mark.parametrize(
    ("mechanism", "computing"),
    [(TOPICS, ("ada", "cyd", "dan")), (PDNMF(rank=2, sweeps=2, opens="final"), ("bob", "cyd", "dan"))],
)
def test_everybody_learns_the_topics_of_the_ideal_functionality(
    mechanism: PDNMF, computing: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_BLOCK", 3 * FEATURES)  # parties of different numbers of blocks
    rows, terms = parts(4, 9, 2, 5), terms_of(mechanism, 4, computing=computing)
    results, sent = played(terms, rows)
    ideal = mechanism.run(Database(tuple(rows)), np.random.default_rng(0))
    assert len({outcome.digest for outcome in results.values()}) == 1
    found = results["dan"].result
    assert found.public.keys() == set(ideal) == {"T"}
    np.testing.assert_allclose(found.public["T"], ideal["T"], atol=1e-7 * ideal["T"].max())
    assert ((found.public["T"] == 0) == (ideal["T"] == 0)).all()
    own = fit_coefficients(rows[3], ideal["T"], delta=mechanism.delta)
    np.testing.assert_allclose(found.own["W"], own, atol=1e-5)
    assert results["ada"].sizes == (4, 9, 2, 5)
    assert f"Any two of {', '.join(computing)}" in results["ada"].reveals
    assert "rows, its documents entry by entry" in results["ada"].reveals
    spoken = {n for n, r in sent if r.kind == "computation" and max(map(len, r.messages.values())) > 200}
    assert spoken == set(computing)
    assert max(len(body) for _, r in sent for body in r.messages.values()) <= largest_final_message(terms)


def test_everybody_learns_the_topics_of_ratings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries that are stored are known, zeros too."""
    monkeypatch.setattr(module, "_BLOCK", 3 * FEATURES)
    mechanism = PDNMF(rank=2, sweeps=3, beta=0.3, delta=0.2, weighted=True, start="pd-nmf-init", opens="final")
    rows = [
        sp.csr_array((np.ceil(5 * part.data), part.indices, part.indptr), part.shape) for part in parts(4, 6, 3)
    ]
    rows[1].data[2] = 0.0
    results, _ = played(terms_of(mechanism, bound=1024.0), rows)
    ideal = mechanism.run(Database(tuple(rows)), np.random.default_rng(0))
    found = results["bob"].result
    np.testing.assert_allclose(found.public["T"], ideal["T"], atol=1e-7 * ideal["T"].max())
    own = fit_observed_coefficients(rows[1], ideal["T"], delta=mechanism.delta)
    np.testing.assert_allclose(found.own["W"], own, atol=1e-5)
    monkeypatch.setattr(module, "MOST_ENTRIES", 2 * 12 * FEATURES)
    with pytest.raises(InputError, match="may have 12 rows of 7 features .*; they have 13"):
        played(terms_of(mechanism, bound=1024.0), rows)


@pytest.mark.parametrize("weighted", [False, True])
def test_messages_of_many_short_rows_are_allowed(weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest is not a block of rows, but what is rounded of all rows at once."""
    monkeypatch.setattr(module, "_BLOCK", 1)
    monkeypatch.setattr(module, "MOST_ENTRIES", (2 if weighted else 1) * 120 * FEATURES)
    mechanism = PDNMF(rank=4, sweeps=1, beta=0.3, delta=0.2, weighted=weighted, opens="final")
    terms = terms_of(mechanism, bound=2048.0)
    _, sent = played(terms, parts(40, 40, 40))
    largest = max(len(body) for _, r in sent for body in r.messages.values())
    assert 28 * 120 * 4 < largest <= largest_final_message(terms) - (1 << 20), "without what is to spare"


def test_topics_far_below_the_bound_cannot_be_projected() -> None:
    with pytest.raises(ProtocolError, match="could not be projected on the simplex"):
        played(terms_of(PDNMF(rank=2, sweeps=1, opens="final"), bound=2.0**30), parts(3, 3, 3))


def test_what_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="`beta` times `delta` must be at least .* or `precision.bound` smaller"):
        terms_of(TOPICS, bound=2.0**20)
    with pytest.raises(InputError, match="must be left out of a run of pd-nmf"):
        RunTerms(
            TOPICS, FEATURES, "", Precision(bound=64.0), tuple(map(participant, NAMES[:3])),
            shares=ShareTerms(NAMES[:3], 0, 9),
        )  # fmt: skip
    rows = parts(3, 3, 3)
    with pytest.raises(InputError, match="squares add up to at most `precision.bound`"):
        played(terms_of(TOPICS), [rows[0], rows[1] * 100.0, rows[2]])
    with pytest.raises(InputError, match="must not be negative"):
        played(terms_of(TOPICS), [rows[0], -rows[1], rows[2]])
    with pytest.raises(ProtocolError, match="bob: no rows"):
        played(terms_of(TOPICS), [rows[0], rows[1][:0], rows[2]])
    monkeypatch.setattr(module, "MOST_ENTRIES", 8 * FEATURES)
    with pytest.raises(InputError, match="may have 8 rows of 7 features .*; they have 9"):
        played(terms_of(TOPICS), rows)


def test_a_run_that_may_stop_early_is_not_the_same_result() -> None:
    assert not covers_final(TOPICS)
    assert covers_final(PDNMF(rank=2, tolerance=0.0, beta=0.1, delta=0.1, opens="final"))
