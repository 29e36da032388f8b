"""PD-SVD and PD-PCA by normed sums, in one process."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.errors import InputError, ProtocolError
from ksdp.audit.mechanisms.contract import Database
from ksdp.audit.mechanisms.factorisation.pd_pca import PDPCA
from ksdp.audit.mechanisms.factorisation.pd_svd import PDSVD
from ksdp.protocols.channel.rounds import run_together
from ksdp.protocols.runs.normed_rounds import check_normed
from ksdp.protocols.runs.party_rounds import largest_message
from ksdp.protocols.runs.programs import Precision, party_program, sum_entries
from ksdp.protocols.runs.trust import who_must_be_trusted

from .test_party_rounds import NAMES, UNCLEARED, parts, run, side, terms_of


@pytest.mark.parametrize("m", [2, 3])
@pytest.mark.parametrize("kind", [PDSVD, PDPCA])
def test_the_run_announces_what_was_audited(kind: type[PDSVD], m: int) -> None:
    mechanism = kind(rank=2, solver="power", iterations=2, tolerance=0.0)
    outcomes, said = run(m, mechanism, Precision(fraction_bits=31, bound=2.0**12))
    ideal = mechanism.run(Database(tuple(parts(m))), np.random.default_rng(0))
    assert len({outcome.digest for outcome in outcomes.values()}) == 1
    public = outcomes["ada"].result.public
    assert "sigma" not in public
    assert set(ideal) - set(public) == {"span", "span_sigma", "first_blocks", "block_sums"}, (
        "what follows from the blocks of all rounds"
    )
    for name, array in public.items():
        np.testing.assert_allclose(array, ideal[name], rtol=0, atol=1e-7, err_msg=name)
    assert outcomes["ada"].normed_sums == 4
    assert outcomes["ada"].sums == (kind is PDPCA), "plain sums are taken of the mean only"
    assert "not its length" in outcomes["ada"].reveals
    limit = largest_message(terms_of(m, mechanism), sum_entries(mechanism, 12))
    assert all(len(message) <= limit for _, spoken in said for message in spoken.messages.values())


def test_sums_prepared_by_lattices_announce_the_same_and_say_so() -> None:
    mechanism = PDSVD(rank=2, solver="power", iterations=2, tolerance=0.0)
    terms = terms_of(2, mechanism, Precision(bound=2.0**12), offline="lattice")
    matrices = dict(zip(NAMES, parts(2), strict=False))
    outcomes, said = run_together({n: side(n, terms, party_program(mechanism, x)) for n, x in matrices.items()})
    by_transfers, _ = run(2, mechanism, Precision(bound=2.0**12))
    ideal = mechanism.run(Database(tuple(parts(2))), np.random.default_rng(0))
    for name, array in outcomes["ada"].result.public.items():
        np.testing.assert_allclose(array, ideal[name], rtol=0, atol=1e-7, err_msg=name)
        np.testing.assert_allclose(array, by_transfers["ada"].result.public[name], rtol=0, atol=1e-7, err_msg=name)
    assert "prepared by lattices" in outcomes["bob"].reveals
    assert "prepared by lattices" not in by_transfers["bob"].reveals
    assert "prepared by lattices" in who_must_be_trusted(terms)
    assert "lattices" not in who_must_be_trusted(terms_of(2, mechanism))
    limit = largest_message(terms, sum_entries(mechanism, 12))
    assert all(len(message) <= limit for _, spoken in said for message in spoken.messages.values())


def test_all_parties_prepare_sums_in_the_same_way() -> None:
    mechanism = PDSVD(rank=2, solver="power")
    one, other = terms_of(2, mechanism), terms_of(2, mechanism, offline="lattice")
    assert (one.offline, other.offline) == ("transfers", "lattice")
    assert one == terms_of(2, mechanism, offline="transfers")
    programs = {n: party_program(mechanism, x) for n, x in zip(NAMES, parts(2), strict=False)}
    nodes = {n: side(n, terms, programs[n], UNCLEARED) for n, terms in (("ada", one), ("bob", other))}
    with pytest.raises(ProtocolError, match=r'`norms.offline` \("transfers" here\)'):
        run_together(nodes)
    with pytest.raises(InputError, match="takes no normed sums"):
        terms_of(2, offline="lattice")
    with pytest.raises(InputError, match="transfers or lattice; got 'dealer'"):
        terms_of(2, mechanism, offline="dealer")


def test_a_direction_that_nobody_has_ends_the_run() -> None:
    """Rank-one data and two vectors: the second is mapped to zero, and that is not opened."""
    mechanism = PDSVD(rank=2, solver="power", iterations=30, tolerance=0.0)
    terms = terms_of(2, mechanism, Precision(bound=2.0**12))
    row = np.zeros((3, 12))
    row[:, 2] = 1.0
    with pytest.raises(ProtocolError, match="no direction"):
        run_together({n: side(n, terms, party_program(mechanism, sp.csr_array(row))) for n in NAMES[:2]})


def test_precision_must_fit() -> None:
    mechanism = PDSVD(rank=2, solver="power")
    check_normed(terms_of(2, mechanism))
    with pytest.raises(InputError, match="does not fit normed sums"):
        check_normed(terms_of(2, mechanism, Precision(fraction_bits=4)))
