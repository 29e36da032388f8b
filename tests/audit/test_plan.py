"""Plans: what is refused before work, what identifies runs, and who is in a database."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import Database, Observables, Release
from ksdp.audit.corpus.matrix import Corpus, canonical
from ksdp.audit.coverage import coverage_of
from ksdp.audit.errors import SpecError
from ksdp.audit.plan import Plan
from ksdp.audit.runs import database_of
from ksdp.audit.statistics.simulated import SimulatedStatistic

from ..plans import planned


@dataclass(frozen=True)
class Counted:
    """Somebody's own: how many documents there are."""

    name: str = "counted-rows"
    version: int = 1

    def releases(self, features: int) -> tuple[Release, ...]:
        return (Release("rows", (1,)),)

    def run(self, database: Database, rng: np.random.Generator) -> Observables:
        return Observables({"rows": np.array([float(database.rows)])})


plan_of = partial(planned, design={"party_size": 20, "with_runs": 30})


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"mechanism": {"name": "pd-svd", "rank": 20}}, r"below the party's rows \(20\).*got 20"),
        ({"design": {"party_size": 90}}, "leave some out of 90"),
        ({"design": {"kind": "balanced", "party_size": 20, "documents": ["nobody"]}}, "does not hold"),
        ({"parties": {"honest": 50, "coalition": 40}}, "must leave documents to audit"),
        ({"statistics": {"families": []}}, "no statistic can be computed"),
    ],
)
def test_refuses(corpus: Corpus, sections: dict, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        plan_of(corpus, **sections)


@pytest.mark.parametrize(
    "mechanism",
    [
        {"name": "pd-nmf", "rank": 2, "opens": "final"},
        {"name": "noisy", "mechanism": "pd-nmf", "noise": 0.5, "parameters": {"rank": 2, "opens": "final"}},
        {"name": "pd-pca", "rank": 2},
        {"name": "fedpower-private", "rank": 2},
        {"name": "dpdispca", "rank": 2, "intermediate": 4},
        {"name": "term-counts"},
        {"name": "counted-svd", "rank": 2},
    ],
)
def test_groups_of_unequal_sizes_are_refused_where_a_run_says_how_many_documents_enter(
    mechanism: dict[str, Any],
) -> None:
    """No statistic reads that number, which tells whether a large group is in."""
    rows = canonical(sp.csr_array(np.random.default_rng(0).poisson(1.0, (60, 8)) + np.eye(60, 8)))

    def planned(sizes: tuple[int, ...], **sections: Any) -> Plan:
        names = np.repeat([f"g{n}" for n in range(len(sizes))], sizes)
        corpus = Corpus(rows, np.arange(60).astype(str), group=names)
        design = {"unit": "group", "party_size": 10, "with_runs": 30}
        return plan_of(corpus, **{"mechanism": mechanism, "design": design} | sections)

    with pytest.raises(SpecError, match=r"says how many documents enter, and groups have 2 to 5 of them"):
        planned((5, *(3,) * 17, 2, 2))
    planned((3,) * 20)
    planned((5, *(3,) * 17, 2, 2), mechanism={"name": "pd-svd", "rank": 2})


def test_the_learnt_statistic_is_tested_where_it_costs_little_and_nobody_solves(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def learnt(**sections: Any) -> bool:
        return "simulated" in {statistic.name for statistic in plan_of(corpus, **sections).statistics}

    final, own = {"name": "pd-svd", "rank": 2, "opens": "final"}, {"name": f"{__name__}:Counted"}
    assert learnt(mechanism=final)
    assert learnt(mechanism=own)
    assert not learnt(), "every round is opened: equations say who was in"
    for limit in ("MOST_LEARNT_FROM", "MOST_LEARNT_OF", "_MOST_PRODUCT"):
        monkeypatch.setattr(f"ksdp.audit.planning.{limit}", 0)
        assert not learnt(mechanism=final)
        assert learnt(mechanism=final, statistics={"names": ["simulated"]})
        assert learnt(mechanism=own)
        monkeypatch.undo()


def test_of_many_documents_it_learns_of_the_arrays_that_no_other_statistic_weighs(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def learnt(**mechanism: Any) -> tuple[tuple[str, ...], list[str]]:
        plan = plan_of(corpus, mechanism=mechanism | {"rank": 2})
        found = [s.reads for s in plan.statistics if isinstance(s, SimulatedStatistic)]
        return (found[0] if found else ()), [
            one.split()[0] for one in coverage_of(plan).unread if "number by" in one
        ]

    final, fed = {"name": "sigma-svd", "opens": "final"}, {"name": "fedpower", "period": 1}
    assert learnt(**final) == (("V", "sigma"), [])
    assert "V" in learnt(**fed)[0]
    monkeypatch.setattr("ksdp.audit.planning.MOST_LEARNT_OF", 0)
    assert learnt(**final) == (("sigma",), [])
    arrays, unread = learnt(**fed)
    assert "V" not in arrays
    assert "scales" in arrays
    assert unread == []
    monkeypatch.setattr("ksdp.audit.statistics.simulated.MOST_NUMBERS", 2)  # of sigma alone, V aside
    assert learnt(**final) == (("sigma",), [])
    monkeypatch.setattr("ksdp.audit.statistics.simulated.MOST_NUMBERS", 0)
    with pytest.raises(SpecError, match="simulated needs at most 0 numbers"):
        plan_of(corpus, mechanism={"name": f"{__name__}:Counted"})
    monkeypatch.setattr("ksdp.audit.statistics.simulated.MOST_NUMBERS", 2**17)
    for limit in ("MOST_LEARNT_IN_PART", "MOST_LEARNT_FROM"):
        monkeypatch.setattr(f"ksdp.audit.planning.{limit}", 0)
        assert learnt(**final) == ((), ["sigma"])
        assert learnt(**fed) == ((), list(arrays))
        monkeypatch.undo()
        monkeypatch.setattr("ksdp.audit.planning.MOST_LEARNT_OF", 0)
    monkeypatch.setattr("ksdp.audit.planning.MOST_LEARNT_FROM", 0)
    assert learnt(name="hardt-roth", epsilon=1.0) == ((), []), "its sums are weighed"
    assert learnt(name="pd-pca", opens="final") == ((), []), "and so is its mean"
    assert learnt(name="dp-nmf", epsilon=1.0) == ((), []), "denominators are made of weights"


def test_a_document_that_another_party_holds_cannot_be_audited(corpus: Corpus) -> None:
    held = plan_of(corpus, parties={"coalition": 30}).holdings.coalition
    design = {"kind": "balanced", "party_size": 20, "documents": [str(corpus.ids[held[0]])]}
    with pytest.raises(SpecError, match="which another party holds"):
        plan_of(corpus, parties={"coalition": 30}, design=design)


def test_blocks_cover_every_run_once(corpus: Corpus) -> None:
    for design in (
        {"party_size": 20, "with_runs": 130},
        {"kind": "literal", "party_size": 20, "with_runs": 20, "documents": 3},
    ):
        plan = plan_of(corpus, design=design)
        for lane in range(plan.design.lanes):
            runs = [r for b in plan.blocks if b.lane == lane for r in range(b.start, b.stop)]
            assert runs == list(range(plan.design.runs))


def test_the_database_is_the_victim_s_and_the_others_are_fixed(corpus: Corpus) -> None:
    plan = plan_of(corpus, parties={"honest": 10, "coalition": 15})
    first, second = database_of(plan, 0, 0), database_of(plan, 0, 1)
    assert [p.shape[0] for p in first.parties] == [20, 10, 15]
    assert first.coalition == {2}
    assert (first.parties[1] != second.parties[1]).nnz == 0
    rows = plan.design.rows(0, 0)
    assert (first.parties[0].toarray() == corpus.matrix.toarray()[rows]).all()
    assert not np.isin(rows, np.concatenate([plan.holdings.honest, plan.holdings.coalition])).any()
    assert len(plan.audited) == 65


def test_runs_are_shared_by_what_does_not_change_them_only(corpus: Corpus) -> None:
    base = plan_of(corpus).runs_identity
    same = [
        {"decision": {"level": 0.01}},
        {"statistics": {"families": ["geometry"]}},
        {"design": {"party_size": 20, "with_runs": 99}},
    ]
    other = [
        {"mechanism": {"name": "pd-svd", "rank": 3}},
        {"mechanism": {"name": "sigma-svd", "rank": 2}},
        {"design": {"party_size": 21, "with_runs": 30}},
        {"parties": {"honest": 5}},
        {"seed": 2},
        {"store": {"precision": "float64"}},
    ]
    assert all(plan_of(corpus, **s).runs_identity == base for s in same)
    assert all(plan_of(corpus, **o).runs_identity != base for o in other)


def test_the_adversary_knows_singular_values_of_its_own(corpus: Corpus) -> None:
    plan = plan_of(corpus, parties={"coalition": 30})
    exact = np.linalg.svd(corpus.matrix.toarray()[plan.holdings.coalition], compute_uv=False)[:2]
    assert plan.background["adversary_sigma"] == pytest.approx(exact, rel=1e-9)
    assert int(plan.background["adversary_rows"]) == 30


def test_named_documents_count_the_whole_pool_where_the_runs_could_test_everybody(corpus: Corpus) -> None:
    names = [str(name) for name in corpus.ids[:3]]

    def counted(**design: object) -> int:
        return plan_of(corpus, design={"party_size": 20, "with_runs": 20} | design).counted

    assert counted() == len(corpus)
    assert counted(documents=names) == counted(documents=names, kind="literal") == len(corpus)
    assert counted(documents=3) == counted(documents=names, kind="balanced") == 3


def test_who_counts_those_alone_that_it_audits_looks_at_runs_of_its_own(corpus: Corpus) -> None:
    """In runs that others were tested in, how many are drawn could be chosen by what was seen there."""
    names = [str(name) for name in corpus.ids]

    def seed(**design: object) -> int:
        return plan_of(corpus, design={"party_size": 20, "with_runs": 20} | design).design.seed

    whole = {
        seed(),
        seed(documents=names[:3]),
        seed(documents=len(corpus)),
        seed(kind="literal", documents=names[:3]),
    }
    assert len(whole) == 1
    drawn = [seed(documents=n, kind=kind) for n in (3, 4) for kind in ("shared", "literal")]
    assert drawn == [seed(documents=n, kind=kind) for n in (3, 4) for kind in ("shared", "literal")]
    assert len({*drawn, *whole}) == 3
    balanced = {seed(documents=names[:n], kind="balanced") for n in (1, 2, 3)}
    assert len(balanced | whole) == 4


def test_what_is_dear_is_left_out_of_large_audits_unless_it_is_named(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    final = {"name": "pd-svd", "rank": 2, "opens": "final"}
    assert "linear-basis" not in plan_of(corpus, mechanism=final).tested.skipped
    monkeypatch.setattr("ksdp.audit.statistics.linear.releases.fits_dense_solver", lambda documents: False)
    plan = plan_of(corpus, mechanism=final)
    assert plan.tested.skipped["linear-basis"].startswith("needs 2,048 documents or fewer, or to be named")
    assert "linear-basis" not in [statistic.name for statistic in plan.statistics]
    named = plan_of(corpus, mechanism=final, statistics={"names": ["linear-basis"]})
    assert "linear-basis" in [statistic.name for statistic in named.statistics]
    assert "linear-basis" not in named.tested.skipped


COUNT, WIDE = 60, 30


def measured_plan(mechanism: dict[str, Any], **parties: int) -> Plan:
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.full(4, 0.3), COUNT) @ rng.random((4, WIDE)) + 0.3 * rng.random((COUNT, WIDE))
    rows *= rng.random(rows.shape) < 0.7
    corpus = Corpus(canonical(sp.csr_array(rows)), np.array([f"d{i}" for i in range(COUNT)]))
    return planned(corpus, mechanism, design={"party_size": 15, "with_runs": 10}, parties=parties)


@pytest.mark.parametrize(
    ("parties", "beside", "subtracted", "others"),
    [
        ({}, None, None, ()),
        ({"honest": 16}, 16, None, (16,)),
        ({"coalition": 14}, None, 14, (14,)),
        ({"honest": 16, "coalition": 14}, 16, 14, (16, 14)),
    ],
)
def test_a_coalition_subtracts_its_own_and_honest_parties_stay_in_sums(
    parties: dict[str, int], beside: int | None, subtracted: int | None, others: tuple[int, ...]
) -> None:
    plan = measured_plan({"name": "pd-nmf", "rank": 2}, **parties)
    pool, database = plan.pool, database_of(plan, 0, 0)
    assert (None if pool.remaining is None else pool.remaining.shape[0]) == beside
    assert (None if pool.subtracted is None else pool.subtracted.shape[0]) == subtracted
    assert tuple(rows.shape[0] for rows in pool.others) == others
    assert pool.sizes == tuple(part.shape[0] for part in database.parties) == (15, *others)
    drawn = pool.one_draw(np.random.default_rng(0))
    for mine, theirs in zip(drawn[1:], database.parties[1:], strict=True):
        assert (mine != theirs).nnz == 0
