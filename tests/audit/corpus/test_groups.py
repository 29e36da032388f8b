"""Groups: a person's documents are in or out together, in every design, and are known as one."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from ksdp.audit.corpus.groups import make_units, unit_count, unit_names
from ksdp.audit.corpus.matrix import Corpus, canonical, restrict, unit_rows
from ksdp.audit.errors import SpecError
from ksdp.audit.plan import Plan
from ksdp.audit.runs import database_of, lane_documents, measure, sample
from ksdp.audit.specs.design import Block

from ...plans import planned


@pytest.fixture(scope="module")
def grouped(corpus: Corpus) -> Corpus:
    rng = np.random.default_rng(5)
    group = np.concatenate([np.arange(30), rng.integers(0, 30, 60) ** 2 // 30])
    names = np.array([f"person {g}" for g in rng.permutation(group)])
    return Corpus(unit_rows(corpus.matrix), corpus.ids, group=names)


def plan_of(corpus: Corpus, **sections) -> Plan:
    design = {"party_size": 6, "with_runs": 40, "unit": "group"} | sections.pop("design", {})
    return planned(corpus, design=design, **sections)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=40), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_units_hold_every_document_once_and_vectors_are_sums(labels: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    dense = rng.integers(0, 3, (len(labels), 5)) + np.eye(len(labels), 5)
    group = np.array([f"g{label}" for label in labels])
    corpus = Corpus(canonical(sp.csr_array(dense)), np.arange(len(labels)).astype(str), group=group)
    units = make_units(corpus, "group")
    assert units.ids.tolist() == sorted(set(group.tolist()))
    assert len(units) == unit_count(corpus, "group")
    for at, name in enumerate(units.ids):
        assert units.rows(np.array([at])).tolist() == np.flatnonzero(group == name).tolist()
        assert units.matrix[[at]].toarray()[0] == pytest.approx(dense[group == name].sum(axis=0))
    some = rng.permutation(len(units))[: rng.integers(1, len(units) + 1)]
    assert units.rows(some).tolist() == np.flatnonzero(np.isin(group, units.ids[some])).tolist()
    members, starts = units.members(some)
    for at, unit in enumerate(some):
        assert members[starts[at] : starts[at + 1]].tolist() == np.flatnonzero(group == units.ids[unit]).tolist()


@pytest.mark.parametrize("kind", ["shared", "balanced", "literal"])
@pytest.mark.parametrize("parties", [{}, {"honest": 5, "coalition": 0.2}])
def test_a_group_is_in_or_out_as_a_whole(grouped: Corpus, kind: str, parties: dict) -> None:
    design = {"kind": kind} | ({} if kind == "shared" else {"documents": 4})
    plan = plan_of(grouped, design=design, parties=parties)
    dense = grouped.matrix.toarray()
    sizes = []
    for lane in range(min(plan.design.lanes, 2)):
        bits = plan.design.inclusion(Block(lane, 0, 12))
        for run in range(12):
            held = database_of(plan, lane, run).parties[0].toarray()
            sizes.append(len(held))
            drawn = plan.design.rows(lane, run)
            assert len(drawn) == 6  # groups: their number is fixed, that of documents is not
            expected = dense[np.isin(grouped.group, plan.units.ids[drawn])]
            assert (held == expected).all()
            assert (bits[:, run] == np.isin(plan.design.targets(lane), drawn)).all()
    assert len(set(sizes)) > 1
    if parties:
        others = database_of(plan, 0, 0).parties[1:]
        assert len(plan.holdings.honest) == 5
        assert len(plan.holdings.coalition) == 6
        for part, units in zip(others, (plan.holdings.honest, plan.holdings.coalition), strict=True):
            assert (part.toarray() == dense[np.isin(grouped.group, plan.units.ids[units])]).all()


def test_statistics_see_the_group_and_the_mean_of_its_documents(grouped: Corpus) -> None:
    plan = plan_of(grouped)
    block = Block(0, 0, 3)
    kept: list = []
    measured = measure(plan, block, sample(plan, block), plan.statistics, kept.append)
    assert {s.name for s in plan.statistics} >= {"row-space-energy", "row-space-energy-of-rows"}
    dense = grouped.matrix.toarray()
    for at, stored in enumerate(kept):
        basis = stored["V"].astype(float)
        for row, name in enumerate(plan.units.ids):
            mine = dense[grouped.group == name]
            total = mine.sum(axis=0) / np.linalg.norm(mine.sum(axis=0))
            assert measured.values["row-space-energy"][row, at] == pytest.approx(
                ((basis @ total) ** 2).sum(), abs=1e-6
            )
            assert measured.values["row-space-energy-of-rows"][row, at] == pytest.approx(
                ((mine @ basis.T) ** 2).sum(axis=1).mean(), abs=1e-6
            )


def test_a_lane_of_the_literal_design_knows_its_own_group_only(grouped: Corpus) -> None:
    plan = plan_of(grouped, design={"kind": "literal", "documents": ("person 3", "person 0")})
    for lane in range(2):
        documents = lane_documents(plan, lane)
        name = plan.units.ids[plan.design.targets(lane)[0]]
        assert (documents.rows.matrix.toarray() == grouped.matrix.toarray()[grouped.group == name]).all()


def test_the_unit_is_part_of_what_runs_depend_on(grouped: Corpus) -> None:
    assert plan_of(grouped).runs_identity != plan_of(grouped, design={"unit": "document"}).runs_identity


def test_single_documents_as_groups_are_the_audit_of_documents(corpus: Corpus) -> None:
    """A group of one is a document: the same databases, and the same values under the same names."""
    alone = Corpus(corpus.matrix, corpus.ids, group=np.array([f"{i:03}" for i in range(len(corpus))]))
    groups, documents = plan_of(alone), plan_of(alone, design={"unit": "document"})
    block = Block(0, 0, 5)
    one, other = (measure(p, block, sample(p, block), p.statistics) for p in (groups, documents))
    for name, values in other.values.items():
        assert one.values[name] == pytest.approx(values, rel=1e-6, abs=1e-9)
        assert one.values[f"{name}-of-rows"] == pytest.approx(values, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"design": {"party_size": 30}}, "at least 2 groups and leave some out of 30"),
        ({"design": {"documents": ["nobody"], "kind": "balanced"}}, "'nobody', which the corpus does not hold"),
        ({"mechanism": {"name": "pd-svd", "rank": 12}, "design": {"party_size": 2}}, "below the party's rows"),
    ],
)
def test_refuses(grouped: Corpus, sections: dict, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        plan_of(grouped, **sections)


def test_a_corpus_without_groups_is_refused(corpus: Corpus) -> None:
    with pytest.raises(SpecError, match=r"set `corpus\.group`"):
        plan_of(corpus)


def test_names_of_units(grouped: Corpus) -> None:
    assert (unit_names(grouped, "group") == grouped.group).all()
    assert (unit_names(grouped, "document") == grouped.ids).all()
    rest = restrict(grouped, np.flatnonzero(grouped.group != "person 0"))
    assert unit_count(rest, "group") == unit_count(grouped, "group") - 1
