"""Designs: sizes, balance, independence, and the same table in any order."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from ksdp.audit.errors import SpecError
from ksdp.audit.opened import split_parties
from ksdp.audit.specs.design import Block, as_rows, drawn_controls, make_design
from ksdp.audit.specs.models import DesignSpec, PartiesSpec

POOL = np.arange(0, 400, 2)


def design(kind: str = "shared", size: int = 40, with_runs: int = 30, seed: int = 1, **more):
    spec = DesignSpec(kind=kind, party_size=size, with_runs=with_runs, **more)
    return make_design(spec, POOL, seed, documents=400)


@pytest.mark.parametrize("kind", ["shared", "balanced", "literal"])
def test_databases_have_the_same_size_with_and_without(kind: str) -> None:
    made = design(kind, documents=None if kind == "shared" else 12)
    for lane in range(made.lanes):
        for run in range(20):
            rows = made.rows(lane, run)
            assert len(rows) == 40
            assert len(np.unique(rows)) == 40
            assert np.isin(rows, POOL).all()


@pytest.mark.parametrize("kind", ["shared", "balanced", "literal"])
def test_inclusion_says_who_is_in_the_database(kind: str) -> None:
    made = design(kind, documents=None if kind == "shared" else 12)
    for lane in range(min(made.lanes, 3)):
        bits = made.inclusion(Block(lane, 3, 17))
        assert bits.shape == (len(made.targets(lane)), 14)
        for at, run in enumerate(range(3, 17)):
            assert (bits[:, at] == np.isin(made.targets(lane), made.rows(lane, run))).all()


@given(st.integers(0, 2**40), st.integers(0, 60), st.integers(1, 30))
@settings(max_examples=25, deadline=None)
def test_any_block_is_a_piece_of_the_same_table(seed: int, start: int, length: int) -> None:
    made = design(seed=seed)
    whole = made.inclusion(Block(0, 0, 90))
    assert (made.inclusion(Block(0, start, start + length)) == whole[:, start : start + length]).all()


def test_topping_up_continues_the_sequence() -> None:
    for kind in ("shared", "balanced", "literal"):
        more = {} if kind == "shared" else {"documents": 9}
        short, long = design(kind, with_runs=10, **more), design(kind, with_runs=40, **more)
        assert long.runs > short.runs
        for lane in range(short.lanes):
            block = Block(lane, 0, short.runs)
            assert (short.inclusion(block) == long.inclusion(block)).all()


def test_auditing_other_documents_redraws_nothing_in_the_literal_design() -> None:
    few = make_design(DesignSpec(kind="literal", party_size=40, documents=("a",)), POOL, 1, documents=400,
                      targets=np.array([6]))  # fmt: skip
    more = make_design(DesignSpec(kind="literal", party_size=40, documents=("a", "b")), POOL, 1, documents=400,
                       targets=np.array([2, 6]))  # fmt: skip
    assert (few.rows(0, 5) == more.rows(1, 5)).all()


def test_arms_have_the_wanted_size() -> None:
    made = design(with_runs=200, size=40)
    bits = made.inclusion(Block(0, 0, made.runs))
    assert made.runs == 1000
    assert bits.sum(axis=1).mean() == pytest.approx(200, rel=1e-12)
    assert bits.sum(axis=1).std() == pytest.approx(np.sqrt(1000 * 0.2 * 0.8), rel=0.2)


def test_a_majority_party_counts_the_without_arm() -> None:
    made = design(with_runs=50, size=150)
    assert (~made.inclusion(Block(0, 0, made.runs))).sum(axis=1).mean() == pytest.approx(50)


def test_shared_inclusion_is_uniform_over_documents_and_pairs() -> None:
    made = design(size=40, with_runs=400)
    bits = made.inclusion(Block(0, 0, made.runs)).astype(float)
    assert chisquare(bits.sum(axis=1)).pvalue > 1e-3
    # Any two documents are in together with probability m (m - 1) / (n (n - 1)).
    together = (bits @ bits.T)[np.triu_indices(len(POOL), 1)] / made.runs
    assert together.mean() == pytest.approx(40 * 39 / (200 * 199), rel=1e-9)


def test_a_document_s_bits_are_independent_from_run_to_run() -> None:
    bits = design(size=100, with_runs=500).inclusion(Block(0, 0, 1000)).astype(float)
    centred = bits - 0.5
    lag_one = (centred[:, 1:] * centred[:, :-1]).mean(axis=1) * 4
    assert abs(lag_one.mean()) < 4 / np.sqrt(lag_one.size * 999)
    assert lag_one.std() == pytest.approx(1 / np.sqrt(999), rel=0.2)


def test_balanced_targets_are_in_half_of_the_runs() -> None:
    made = design("balanced", documents=20, with_runs=300)
    share = made.inclusion(Block(0, 0, made.runs)).mean(axis=1)
    assert share == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(made.runs))


def test_poisson_lets_the_size_vary() -> None:
    made = design(sampling="poisson")
    sizes = [len(made.rows(0, run)) for run in range(200)]
    assert np.std(sizes) == pytest.approx(np.sqrt(200 * 0.2 * 0.8), rel=0.3)
    bits = made.inclusion(Block(0, 0, 200))
    assert (bits.sum(axis=0) == sizes).all()


def test_control_bits_ignore_the_documents_and_repeat() -> None:
    made = design()
    block = Block(0, 0, 100)
    bits, noise = drawn_controls(made, block, 16)
    again = drawn_controls(made, block, 16)
    assert (again[0] == bits).all()
    assert (again[1] == noise).all()
    assert bits.mean() == pytest.approx(made.share, abs=0.06)


def test_parties_are_disjoint_and_fixed() -> None:
    pool, honest, coalition = split_parties(PartiesSpec(honest=0.1, coalition=30), 400, np.random.default_rng(5))
    assert (len(pool), len(honest), len(coalition)) == (330, 40, 30)
    assert len(np.unique(np.concatenate([pool, honest, coalition]))) == 400
    again = split_parties(PartiesSpec(honest=0.1, coalition=30), 400, np.random.default_rng(5))
    assert all((a == b).all() for a, b in zip((pool, honest, coalition), again, strict=True))


def test_sizes() -> None:
    assert as_rows(0.03, 17_706) == 531
    assert as_rows(12, 50) == 12


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (DesignSpec(party_size=200), "leave some out of 200; got 200"),
        (DesignSpec(party_size=1), "at least 2 documents"),
        (DesignSpec(kind="balanced", party_size=40, documents=41), "at most the party size"),
        (DesignSpec(kind="literal", party_size=40, documents=5, sampling="poisson"), "shared design only"),
        (DesignSpec(party_size=40, documents=500), "at most 200; got 500"),
    ],
)
def test_refuses_designs_that_do_not_fit(spec: DesignSpec, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        make_design(spec, POOL, 1, documents=400)
