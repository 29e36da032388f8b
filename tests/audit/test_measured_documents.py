"""What the adversary knows of databases: whose documents are drawn, and which of others' are the coalition's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.corpus.matrix import Corpus, canonical
from ksdp.audit.plan import Plan
from ksdp.audit.planning import make_plan
from ksdp.audit.spec.models import parse_spec
from ksdp.audit.statistics.contract import Documents

COUNT, WIDE, HONEST, COALITION = 60, 30, 16, 14


def plan_of(mechanism: dict[str, Any], **parties: int) -> Plan:
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.full(4, 0.3), COUNT) @ rng.random((4, WIDE)) + 0.3 * rng.random((COUNT, WIDE))
    rows *= rng.random(rows.shape) < 0.7
    corpus = Corpus(canonical(sp.csr_array(rows)), np.array([f"d{i}" for i in range(COUNT)]))
    tables: dict[str, Any] = {"seed": 1, "corpus": {"path": "x"}, "design": {"party_size": 15, "with_runs": 10}}
    return make_plan(parse_spec(tables | {"mechanism": mechanism, "parties": parties}), corpus)


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
    plan = plan_of({"name": "pd-nmf", "rank": 2}, **parties)
    pool, database = plan.pool, plan.database(0, 0)
    assert (None if pool.remaining is None else pool.remaining.shape[0]) == beside
    assert (None if pool.subtracted is None else pool.subtracted.shape[0]) == subtracted
    assert tuple(rows.shape[0] for rows in pool.others) == others
    assert pool.sizes == tuple(part.shape[0] for part in database.parties) == (15, *others)
    drawn = pool.one_draw(np.random.default_rng(0))
    for mine, theirs in zip(drawn[1:], database.parties[1:], strict=True):
        assert (mine != theirs).nnz == 0


NOISE = 1e-6
EXACT = [
    ("linear-sums", {"name": "pd-nmf", "rank": 3}),
    ("linear-basis", {"name": "pd-pca", "rank": 3, "opens": "final"}),
    ("linear-releases", {"name": "hardt-roth", "rank": 3, "epsilon": 1e9}),
    ("linear-releases", {"name": "dp-nmf", "rank": 3, "epsilon": 1e9}),
    ("linear-releases", {"name": "fedpower-private", "rank": 3, "noise": NOISE}),
    ("linear-moments", {"name": "moments", "rank": 3, "noise": NOISE}),
    ("linear-sums", {"name": "counted", "mechanism": "pd-nmf", "parameters": {"rank": 3}}),
]


@pytest.mark.parametrize(("name", "mechanism"), EXACT)
def test_exact_sums_tell_who_is_in_beside_honest_parties_and_a_coalition(
    name: str, mechanism: dict[str, Any]
) -> None:
    plan = plan_of(mechanism, honest=HONEST, coalition=COALITION)
    (statistic,) = (one for one in plan.statistics if one.name == name)
    units = plan.holdings.victim
    documents = Documents(plan.corpus.matrix[units], {}, pool=plan.pool)
    for run in range(3):
        seen = plan.mechanism.run(plan.database(0, run), np.random.default_rng(run))
        said = np.asarray(statistic.evaluate(seen, documents))
        inside = np.isin(units, plan.design.rows(0, run))
        assert said[inside].min() > said[~inside].max()
