"""Which runs a test reads: decided by seed and bits, as strong as all of them, and the same values."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ksdp.audit.contract import Observables, Release
from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.errors import KsdpError
from ksdp.audit.run_subsampling import (
    EVERY_RUN,
    RunSubsampling,
    best_every,
    kept_without,
    levelled,
    more_runs,
    read_runs,
)
from ksdp.audit.runs import STRONGEST, lane_documents, measure, sample
from ksdp.audit.specs.design import Block
from ksdp.audit.statistics.plain import statistics_of_arrays
from ksdp.audit.testing import compare_arms
from ksdp.audit.verdicts.looks import FRESH, Stage

from ..plans import planned

plan_of = partial(planned, design={"party_size": 4, "with_runs": 100})


def obvious(held: list[bool], kept: list[bool], width: int) -> list[int]:
    """Numbers of the runs that are read, one document."""
    without = [run for run in range(len(held)) if kept[run] and not held[run]]
    return sorted([run for run in range(len(held)) if held[run]] + without[: width - sum(held)])


@given(st.integers(0, 2**32), st.integers(1, 5))
def test_read_runs_are_every_with_run_and_the_first_kept_others(seed: int, documents: int) -> None:
    rng = np.random.default_rng(seed)
    inclusion = rng.random((documents, 40)) < 0.1
    kept = inclusion | (rng.random((documents, 40)) < 0.6)
    width = int(kept.sum(axis=1).min())
    if width < inclusion.sum(axis=1).max():
        return
    read = read_runs(inclusion, kept, width)
    for row in range(documents):
        assert np.flatnonzero(read[row]).tolist() == obvious(list(inclusion[row]), list(kept[row]), width)
    values = rng.normal(size=inclusion.shape)
    bits, (found,) = levelled(inclusion, kept, [values], width)
    assert (bits.sum(axis=1) == inclusion.sum(axis=1)).all()
    assert (found[0] == values[0][read[0]]).all()


def test_too_few_runs_are_said() -> None:
    inclusion = np.array([[True, False, False]])
    with pytest.raises(KsdpError, match="cannot be tested in 3 runs"):
        read_runs(inclusion, np.array([[True, True, False]]), 3)
    with pytest.raises(KsdpError, match="cannot be tested in 0 runs"):
        read_runs(inclusion, np.array([[True, True, False]]), 0)


def test_each_document_keeps_one_block_of_each_stratum_whoever_else_is_audited() -> None:
    sizes = {"block_runs": 16, "reading": RunSubsampling(4)}
    rows = np.arange(500)
    blocks = [Block(0, start, start + 16) for start in range(0, 16 * 12, 16)]
    whole = np.stack([kept_without(7, block, rows, 600, **sizes) for block in blocks])
    assert (whole.reshape(3, 4, 500).sum(axis=1) == 1).all()
    assert (np.abs(whole.mean(axis=1) - 0.25) < 0.08).all()
    some = np.array([3, 77, 499])
    few = np.stack([kept_without(7, block, some, 600, **sizes) for block in blocks])
    assert (few == whole[:, some]).all()
    assert (np.stack([kept_without(8, block, rows, 600, **sizes) for block in blocks]) != whole).any()
    early = {"block_runs": 16, "reading": RunSubsampling(4, 64)}
    both = np.stack([kept_without(7, block, rows, 600, **early) for block in blocks])
    assert both[:4].all()
    assert (both[4:] == whole[4:]).all()  # the draw of a stratum does not hang on what was before
    strata = whole.reshape(3, 4, 500).argmax(axis=1)
    assert abs((strata[0] == strata[1]).mean() - 0.25) < 0.08  # strata are drawn apart


@pytest.mark.parametrize("share", [0.003, 0.01, 0.03, 0.1])
def test_more_runs_make_up_for_what_is_not_read(share: float) -> None:
    every, runs = best_every(share), 10**7
    assert every > 1
    m, n = RunSubsampling(every).arms(round(runs * more_runs(share, every)), share)
    assert m * n / (m + n) == pytest.approx(runs * share * (1 - share), rel=1e-4)


def test_the_plan_reads_a_part_where_that_is_cheaper(corpus: Corpus) -> None:
    plan = plan_of(corpus)
    everything = plan_of(corpus, design={"party_size": 4, "with_runs": 100, "without_runs": "all"})
    assert (plan.reading, everything.reading) == (RunSubsampling(2), EVERY_RUN)
    assert plan.runs % (plan.reading.every * plan.block_runs) == 0
    assert plan.runs_identity == everything.runs_identity  # observables are shared
    (m, n), (a, b) = plan.arms, everything.arms
    assert m * n / (m + n) >= a * b / (a + b)
    assert plan.read_runs == m + n < everything.read_runs
    fresh = plan.narrowed(Stage(FRESH, 5, plan.fresh_runs, plan.audited, ("w-max",)))
    assert fresh.reading.all  # too few to leave any out
    assert plan.narrowed(Stage("", 1, plan.runs, plan.audited, ("w-max",))).reading == RunSubsampling(2)


@pytest.mark.parametrize(
    "sections",
    [
        {"design": {"party_size": 30, "with_runs": 2000}},
        {"design": {"party_size": 4, "with_runs": 20}},
        {"statistics": {"families": ["paper-blocks"]}},
        {"design": {"kind": "balanced", "party_size": 30, "with_runs": 3000, "documents": 5}},
    ],
)
def test_all_runs_are_read_where_they_are_needed(corpus: Corpus, sections: dict) -> None:
    assert plan_of(corpus, **sections).reading == EVERY_RUN


@pytest.mark.parametrize("mechanism", ["pd-svd", "pd-nmf", "pd-pca"])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_what_is_measured_is_what_all_runs_would_give(corpus: Corpus, mechanism: str, precision: str) -> None:
    about = {"mechanism": {"name": mechanism, "rank": 2}, "store": {"precision": precision}}
    plan = plan_of(corpus, **about)
    everything = plan_of(corpus, design={"party_size": 4, "with_runs": 100, "without_runs": "all"}, **about)
    block = Block(0, 256, 262)
    runs = list(sample(plan, block))
    some, whole = (measure(p, block, runs, p.statistics) for p in (plan, everything))
    assert whole.kept is None
    assert some.kept[some.inclusion].all()
    assert 0.3 < some.kept.mean() < 0.7
    for name, values in whole.values.items():
        assert (some.values[name][some.kept] == values[some.kept]).all(), name
        assert np.isnan(some.values[name][~some.kept]).all()
    assert (some.canary[some.kept] == whole.canary[some.kept]).all()


@pytest.mark.parametrize("mechanism", ["pd-svd", "pd-nmf"])
@pytest.mark.parametrize("size", [4, 30])
def test_of_a_document_its_strongest_alone_is_what_all_would_give(
    corpus: Corpus, mechanism: str, size: int
) -> None:
    """Bit for bit, where a part of the runs is read (a party of 4) and where all are."""
    plan = plan_of(corpus, mechanism={"name": mechanism, "rank": 2}, design={"party_size": size, "with_runs": 100})
    names = tuple(statistic.name for statistic in plan.statistics)
    strongest = np.random.default_rng(2).integers(len(names), size=len(plan.audited))
    strongest[strongest == 1] = 0  # nobody's
    every, alone = (
        plan.narrowed(Stage("", plan.design.seed, plan.runs, plan.audited, names, strongest=which))
        for which in (None, strongest)
    )
    block = plan.blocks[1]
    block = Block(0, block.start, block.start + 4)
    runs = list(sample(plan, block))
    whole, some = (measure(p, block, runs, p.statistics) for p in (every, alone))
    documents = np.arange(len(plan.audited))
    wanted = np.stack([whole.values[name] for name in names])[strongest, documents]
    assert list(some.values) == [STRONGEST]
    np.testing.assert_array_equal(some.values[STRONGEST][: len(documents)], wanted)
    np.testing.assert_array_equal(
        some.values[STRONGEST][len(documents) :], whole.values[names[0]][len(documents) :]
    )
    np.testing.assert_array_equal(some.canary, whole.canary)
    assert (whole.kept is None) == (size == 30)


RATED = {"weighted": True, "beta": 1.0, "delta": 1.0}


@pytest.mark.parametrize(
    ("mechanism", "more"),
    [
        *((name, {}) for name in ("pd-svd", "sigma-svd", "pd-pca", "pd-nmf", "moments")),
        ("pd-nmf", RATED),
        ("pd-nmf", RATED | {"opens": "final"}),
    ],
)
def test_a_value_hangs_on_its_document_and_its_run_alone(
    corpus: Corpus, mechanism: str, more: dict[str, Any]
) -> None:
    """Bit for bit: else a document's last bit would tell the runs that held it from those that did not."""
    design = {"party_size": 30, "with_runs": 20}
    plan = plan_of(corpus, mechanism={"name": mechanism, "rank": 5, **more}, design=design)
    whole, part = (Block(0, start, 4) for start in (0, 2))
    runs, later = (list(sample(plan, block)) for block in (whole, part))
    assert all((runs[2 + at][name] == run[name]).all() for at, run in enumerate(later) for name in run)
    found = measure(plan, whole, runs, plan.statistics).values
    backwards = measure(plan, part, later, plan.statistics[::-1]).values
    documents, rng = lane_documents(plan, 0), np.random.default_rng(0)
    seen = Observables({name: later[0][name].astype(np.float64) for name in plan.releases.seen})
    for statistic in plan.statistics:
        name = statistic.name
        assert (backwards[name] == found[name][:, 2:])[: len(plan.audited)].all(), name
        assert (measure(plan, part, later, [statistic]).values[name] == backwards[name]).all(), name
        every = statistic.evaluate(seen, documents)
        for size in (1, 2, 3, 5, 17, 64):
            places = np.sort(rng.choice(len(documents), size, replace=False))
            assert (statistic.evaluate(seen, documents.at(places)) == every[places]).all(), name


def test_values_of_arrays_do_not_hang_on_it_either(corpus: Corpus) -> None:
    rng = np.random.default_rng(1)
    features = corpus.features
    seen = Observables({"weights": rng.normal(size=(3, features)), "counts": rng.random((3, 4))})
    documents = lane_documents(plan_of(corpus), 0)
    shapes = [Release("weights", (3, features)), Release("counts", (3, 4))]
    for statistic in statistics_of_arrays(shapes, features):
        whole = statistic.evaluate(seen, documents)
        for size in (1, 3, 50):
            places = np.sort(rng.choice(len(documents), size, replace=False))
            assert (statistic.evaluate(seen, documents.at(places)) == whole[places]).all(), statistic.name


@pytest.mark.parametrize("early", [0, 128])
def test_p_is_uniform_where_nothing_leaks_and_small_where_it_does(early: int) -> None:
    """The runs that are read: their number follows the bits, and p does not; nor where an early look reads all."""
    rng = np.random.default_rng(3)
    documents, runs, every = 4000, 640, 4
    inclusion = rng.random((documents, runs)) < 0.06
    whole = rng.integers(every, size=(documents, runs // (every * 16)))
    place = np.arange(runs) // 16
    kept = inclusion | (whole[:, place // every] == place % every) | (np.arange(runs) < early)
    width = RunSubsampling(every, early).runs(runs)
    for values in (rng.normal(size=inclusion.shape), rng.integers(5, size=inclusion.shape).astype(float)):
        bits, (read,) = levelled(inclusion, kept, [values], width)
        p = 10 ** compare_arms({"s": read}, bits).log10_p[:, 0]
        for level in (0.01, 0.05, 0.2):
            assert (p <= level).mean() <= level + 3.5 * np.sqrt(level * (1 - level) / documents)
    leaks = rng.normal(size=inclusion.shape) + 1.5 * inclusion
    bits, (read,) = levelled(inclusion, kept, [leaks], width)
    assert (compare_arms({"s": read}, bits).log10_p[:, 0] < -3).mean() > 0.9


@given(st.sampled_from([1, 2, 4, 8]), st.integers(0, 3), st.integers(1, 6), st.sampled_from([1, 16]))
def test_read_runs_are_those_that_are_counted(every: int, early: int, strata: int, block: int) -> None:
    whole = every * block
    reading, done = RunSubsampling(every, early * whole), strata * whole
    # One block of each stratum after the early runs, and all of those.
    counted = [run < reading.early or (run // block) % every == 0 for run in range(done)]
    assert reading.runs(done) == sum(counted)
    assert reading.total(np.array([float(reading.runs(done))])).tolist() == [done]


def test_no_number_of_runs_stays_none() -> None:
    for reading in (EVERY_RUN, RunSubsampling(4), RunSubsampling(4, 64)):
        assert reading.total(np.array([np.inf])).tolist() == [np.inf]
        assert np.isnan(reading.total(np.array([np.nan]))).all()


def test_arms_and_what_is_measured() -> None:
    reading = RunSubsampling(every=4, early=1000)
    assert reading.arms(5000, 0.1) == (500, 1500)
    assert reading.measured(5000, 0.1) == pytest.approx((1000 + 4000 * (0.1 + 0.9 / 4)) / 5000)
    assert EVERY_RUN.all
    assert not reading.all
