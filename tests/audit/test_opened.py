"""An audit as one named party: whose documents are drawn, and what stands beside them."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.errors import SpecError
from ksdp.audit.opened import Opened, size_base
from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.runs import database_of
from ksdp.audit.specs.models import Spec, parse_spec


@pytest.fixture
def named(corpus: Corpus) -> Corpus:
    party = np.array(["ada", "bob", "cy"])[np.arange(len(corpus)) % 3]
    return dataclasses.replace(corpus, party=party)


def spec(**parties: str) -> Spec:
    tables = {"corpus": {"path": "x"}, "mechanism": {"name": "pd-svd", "rank": 2}, "parties": parties}
    return parse_spec(tables | {"design": {"party_size": 0.5, "with_runs": 10}})


def plan(named: Corpus, **parties: str) -> Plan:
    return make_plan(Opened.of(spec(**parties), named))


def test_databases_are_drawn_from_the_party_and_the_others_stand_beside_them(named: Corpus) -> None:
    mine = np.flatnonzero(named.party == "ada")
    found = plan(named, me="ada")
    assert found.audited.tolist() == mine.tolist()
    assert found.holdings.size == size_base(spec(me="ada"), named) // 2
    database = database_of(found, 0, 3)
    assert set(database.held) <= set(mine)
    others = named.matrix[np.flatnonzero(named.party != "ada")]
    assert (database.parties[1] != others).nnz == 0
    assert database.coalition == frozenset()


def test_others_may_collude_or_be_unknown(named: Corpus) -> None:
    assert database_of(plan(named, me="ada", others="colluding"), 0, 0).coalition == {1}
    drawn = plan(named, me="ada", others="drawn")
    first, again, second = (database_of(drawn, 0, run) for run in (0, 0, 1))
    assert first.parties[1].shape[0] == (len(drawn.holdings.honest) + 1) // 2
    assert (first.parties[1] != again.parties[1]).nnz == 0
    assert (first.parties[1] != second.parties[1]).nnz > 0
    for holdings, entering in ((drawn.holdings, first.parties[1].shape[0]), (plan(named, me="ada").holdings, 0)):
        assert holdings.share == (holdings.size + entering) / holdings.unknown


def test_refuses(named: Corpus, corpus: Corpus) -> None:
    with pytest.raises(SpecError, match="must be a party of the corpus"):
        plan(named, me="dan")
    with pytest.raises(SpecError, match="set `corpus.party`"):
        plan(dataclasses.replace(corpus, party=None), me="ada")
    with pytest.raises(SpecError, match="excludes"):
        parse_spec({"corpus": {"path": "x"}, "mechanism": {"name": "pd-svd"}, "parties": {"me": "a", "honest": 3}})
    groups = dataclasses.replace(named, group=np.array(["g", "h"])[np.arange(len(named)) % 2])
    tables = spec(me="ada").model_dump(mode="json")
    tables["design"]["unit"] = "group"
    with pytest.raises(SpecError, match="two parties"):
        make_plan(Opened.of(Spec.model_validate(tables), groups))


def test_of_the_others_those_stand_beside_whom_their_draws_let_in(named: Corpus) -> None:
    tables = spec(me="ada").model_dump(mode="json")
    tables["corpus"]["levers"]["drawn"] = 0.25
    found = make_plan(Opened.of(parse_spec(tables), named))
    others = np.flatnonzero(named.party != "ada")
    assert len(found.holdings.honest) == len(others) // 4
    assert set(found.holdings.honest) < set(others)
    assert len(found.audited) == (named.party == "ada").sum(), "all of one's own are audited"
    # What filters expect of databases is made of the party's documents and of the others' that enter.
    mine = np.flatnonzero(named.party == "ada")
    assert found.holdings.victim.tolist() == mine.tolist()
    assert (found.pool.drawn != named.matrix[mine]).nnz == 0
    assert found.pool.share == found.holdings.size / len(mine)
    assert (found.pool.fixed != named.matrix[found.holdings.honest]).nnz == 0


def test_runs_with_fewer_others_are_not_those_with_all(named: Corpus) -> None:
    whole, drawn = spec(me="ada").model_dump(mode="json"), spec(me="ada").model_dump(mode="json")
    drawn["corpus"]["levers"]["drawn"] = 0.25
    for parties, differ in (({"me": "ada"}, True), ({}, False)):  # without a name sizes say who is in
        specs = (parse_spec(tables | {"parties": parties}) for tables in (whole, drawn))
        keys = [make_plan(Opened.of(each, named)).runs_identity for each in specs]
        assert (keys[0] != keys[1]) is differ


def pooled(corpus: Corpus, size: float | int | None, design: dict[str, Any], **parties: Any) -> Plan:
    tables = {"corpus": {"path": "x"}, "mechanism": {"name": "pd-svd", "rank": 2}, "parties": parties}
    return make_plan(
        Opened.of(parse_spec(tables | {"design": design | ({} if size is None else {"pool": size})}), corpus)
    )


def test_a_pool_is_a_part_that_databases_are_drawn_from_and_whose_documents_are_audited(named: Corpus) -> None:
    design = {"party_size": 10, "with_runs": 30}
    found, whole = pooled(named, 20, design, honest=15), pooled(named, None, design, honest=15)
    pool = found.audited
    assert len(pool) == 20
    assert set(pool) < set(whole.audited)
    assert (found.holdings.honest == whole.holdings.honest).all(), "others are who they were"
    assert {row for run in range(found.runs) for row in database_of(found, 0, run).held} == set(pool)
    assert found.design.share == 0.5
    assert found.holdings.unknown == found.pool.drawn.shape[0] == 20, "what attacks solve for"
    assert found.runs_identity != whole.runs_identity
    assert found.design.seed != pooled(named, 21, design, honest=15).design.seed, "as of a number of documents"
    assert set(pooled(named, 0.5, design, me="ada").audited) < set(np.flatnonzero(named.party == "ada"))
    out = str(named.ids[np.setdiff1d(whole.audited, pool)[0]])
    for size, more, message in (
        (76, {}, "`design.pool` must be at most 75"),
        (20, {"documents": [out]}, "leaves out"),
    ):
        with pytest.raises(SpecError, match=message):
            pooled(named, size, design | more, honest=15)
