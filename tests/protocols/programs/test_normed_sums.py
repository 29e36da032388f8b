"""PD-SVD and PD-PCA with hidden norms, in one process: what is announced, by whom it is computed, what ends it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import Database
from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.mechanisms.factorisation.pd_svd import PDPCA, PDSVD, SigmaSVD
from ksdp.protocols.channel.rounds import run_together
from ksdp.protocols.programs.programs import Precision, party_program, sum_entries
from ksdp.protocols.programs.rounds import largest_message
from ksdp.protocols.programs.run_terms import RunTerms, who_must_be_trusted
from ksdp.protocols.programs.share_terms import ShareTerms

from .test_party_rounds import NAMES, parts, side, terms_of

MECHANISM = PDSVD(rank=2, solver="power", iterations=3, tolerance=0.0)


def played(terms: RunTerms, matrices: list[sp.csr_array]) -> Any:
    rows = dict(zip(NAMES, matrices, strict=False))
    return run_together({n: side(n, terms, party_program(terms.mechanism, x)) for n, x in rows.items()})


@pytest.mark.parametrize(("kind", "m", "computing"), [(PDPCA, 3, None), (PDSVD, 5, ("ada", "cyd", "eve"))])
def test_the_run_announces_what_was_audited(kind: type[PDSVD], m: int, computing: tuple[str, ...] | None) -> None:
    mechanism = kind(rank=2, solver="power", iterations=3, tolerance=0.0)
    shares = None if computing is None else ShareTerms(computing, 0, 0)
    terms = terms_of(m, mechanism, Precision(bound=2.0**12), shares=shares)
    outcomes, said = played(terms, parts(m))
    ideal = mechanism.run(Database(tuple(parts(m))), np.random.default_rng(0))
    assert len({outcome.digest for outcome in outcomes.values()}) == 1
    public = outcomes["ada"].result.public
    assert "sigma" not in public
    assert set(ideal) - set(public) == {"span", "span_sigma", "first_blocks", "block_sums"}, (
        "what follows from all"
    )
    for name, array in public.items():
        np.testing.assert_allclose(array, ideal[name], rtol=0, atol=1e-8, err_msg=name)
    assert outcomes["ada"].normed_sums == 6
    assert outcomes["ada"].sums == (kind is PDPCA), "plain sums are taken of the mean only"
    spoken = {n for n, r in said if r.kind == "computation" and max(map(len, r.messages.values())) > 200}
    assert spoken == set(computing or NAMES[:3])
    limit = largest_message(terms, sum_entries(mechanism, 12))
    assert all(len(message) <= limit for _, turn in said for message in turn.messages.values())
    for words in (outcomes["ada"].reveals, who_must_be_trusted(terms)):
        assert "Any two of " + ", ".join(computing or NAMES[:3]) in words
        assert "Hidden is one number" in words


@pytest.mark.deviation("normed sums: enter a row so short or long that nothing has a direction")
@pytest.mark.parametrize("fraction", [0.0, 1e-7])
def test_a_direction_that_nobody_has_ends_the_run(fraction: float) -> None:
    """Rank-one data and two vectors: the second is mapped to nothing, or to nearly nothing, and is not opened."""
    row = np.zeros((3, 12))
    row[:, 2], row[0, 3] = 1.0, fraction
    with pytest.raises(ProtocolError, match=r"zero, or too short .* \(4096\): agree on a smaller bound"):
        played(terms_of(3, MECHANISM, Precision(bound=2.0**12)), [sp.csr_array(row)] * 3)


def test_a_share_that_is_too_long_is_refused_before_it_is_sent() -> None:
    with pytest.raises(InputError, match=r"longer than `precision.bound` \(0.5\)"):
        played(terms_of(3, MECHANISM, Precision(bound=0.5)), parts(3))


@pytest.mark.parametrize("kind", [PDSVD, PDPCA])
def test_two_parties_open_sigma_or_take_a_third(kind: type[PDSVD]) -> None:
    mechanism = kind(rank=2, solver="power")
    with pytest.raises(InputError, match="needs a third organisation .* or Sigma must be open .*; got 2 parties"):
        terms_of(2, mechanism)
    assert terms_of(2, replace(mechanism, reveal_sigma=True)).shares is None


def test_the_terms_say_who_computes() -> None:
    said = terms_of(3, MECHANISM).terms
    assert said["sums"] == "secsum+normedsecsum"
    assert said["shares.computing"] == NAMES[:3]
    with pytest.raises(InputError, match="`shares.computing` must name the three of 4"):
        terms_of(4, MECHANISM)
    with pytest.raises(InputError, match="must be left out of a run of pd-svd: `iterations` says it"):
        terms_of(3, MECHANISM, shares=ShareTerms(NAMES[:3], 7, 8))
    with pytest.raises(InputError, match="`shares` must be left out"):
        terms_of(3, SigmaSVD(rank=2, solver="power"), shares=ShareTerms(NAMES[:3], 0, 0))
