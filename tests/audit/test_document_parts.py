"""Which documents are measured together, and whose values stay."""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.api.given import lent_statistic
from ksdp.audit.contract import Observables
from ksdp.audit.corpus.matrix import Corpus, canonical
from ksdp.audit.plan import (
    Plan,
    bytes_a_document,
    document_parts,
    keeps_values,
    reads_one_document,
    strongest_alone,
)
from ksdp.audit.registry import lent, make_mechanism, mechanism_names, statistics
from ksdp.audit.statistic import Documents
from ksdp.audit.statistics.linear.groups import GroupMean
from ksdp.audit.verdicts.looks import Stage

from ..plans import planned

MANY = 1100


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    rng = np.random.default_rng(4)
    matrix = rng.poisson(0.3, (MANY, 12)).astype(np.float64)
    matrix[np.arange(MANY), rng.integers(12, size=MANY)] += 1
    return Corpus(canonical(sp.csr_array(matrix)), np.array([f"d{row}" for row in range(MANY)]))


def plan_of(
    corpus: Corpus, design: dict[str, Any] | None = None, statistics: dict[str, Any] | None = None, **store: Any
) -> Plan:
    design = design or {"party_size": 0.03, "with_runs": 12}
    return planned(corpus, seed=5, design=design, statistics=statistics or {}, store=store)


def test_small_audits_keep_their_values_unless_asked(corpus: Corpus) -> None:
    assert keeps_values(plan_of(corpus))
    assert keeps_values(plan_of(corpus, values="all"))
    assert not keeps_values(plan_of(corpus, values="none"))


def test_designs_that_draw_for_the_documents_they_name_keep_theirs(corpus: Corpus) -> None:
    for kind in ("balanced", "literal"):
        design = {"kind": kind, "party_size": 20, "with_runs": 12, "documents": 3}
        assert keeps_values(plan_of(corpus, design, values="none"))


def among_others(observables: Observables, documents: Documents) -> np.ndarray:
    """What a person may write: where the document stands among those that are measured with it."""
    own = documents.matrix @ observables["V"][0]
    return own - own.mean()


def test_all_of_the_packages_statistics_read_one_document() -> None:
    brought = [s for name in mechanism_names() for s in getattr(make_mechanism(name, {}), "statistics", ())]
    assert brought
    assert reads_one_document([*statistics().values(), *brought])


def test_a_function_of_somebodys_may_look_at_others_however_it_is_wrapped(corpus: Corpus) -> None:
    theirs = lent_statistic(among_others)
    for made in (theirs, GroupMean(theirs)):
        assert not reads_one_document([statistics()["row-space-energy"], made])
    design, own = {"party_size": 0.03, "with_runs": 400}, {"names": [theirs.name]}
    assert plan_of(corpus, design, values="none").reading.every > 1
    with lent({theirs.name: theirs}):
        plan = plan_of(corpus, design, statistics=own, values="none")
    assert plan.reading.every == 1  # its arms then differ in who is held, and not in who is measured
    assert keeps_values(plan)


def test_of_a_document_its_strongest_alone_is_measured_where_nobody_else_matters(corpus: Corpus) -> None:
    names, columns = ("row-space-energy", "missing-weight", "w-max"), ["w-max", "row-space-energy", "w-max"]
    plan = plan_of(corpus)
    found = strongest_alone(plan, names, columns)
    assert found.tolist() == [2, 0, 2]
    assert strongest_alone(plan, names[:1], names[:1] * 3) is None  # it is all there is
    assert strongest_alone(plan, names, [*columns, "another"]) is None
    balanced = plan_of(corpus, {"kind": "balanced", "party_size": 20, "with_runs": 12, "documents": 3})
    assert strongest_alone(balanced, names, columns) is None
    theirs = lent_statistic(among_others)
    with lent({theirs.name: theirs}):
        assert strongest_alone(plan_of(corpus, statistics={"names": [theirs.name]}), names, columns) is None
    people = np.array([f"p{row // 2}" for row in range(MANY)])
    grouped = Corpus(corpus.matrix, corpus.ids, group=people)
    design = {"party_size": 0.03, "with_runs": 12, "unit": "group"}
    assert strongest_alone(plan_of(grouped, design), names, columns) is None


def test_a_document_of_one_column_takes_the_bytes_of_one(corpus: Corpus) -> None:
    plan = plan_of(corpus)
    names = tuple(statistic.name for statistic in plan.statistics)
    which = np.zeros(len(plan.audited), np.int64)
    alone = plan.narrowed(Stage("", plan.design.seed, plan.runs, plan.audited, names, strongest=which))
    few = plan.narrowed(Stage("", plan.design.seed, plan.runs, plan.audited, names[:1]))
    assert bytes_a_document(alone) == bytes_a_document(few) < bytes_a_document(plan) / 2


def test_large_audits_do_not(corpus: Corpus) -> None:
    few = plan_of(corpus)
    runs = int(5 * 600 * 2**20 / (len(few.audited) * bytes_a_document(few)) * 12)  # of which tests read a part
    assert not keeps_values(plan_of(corpus, {"party_size": 0.03, "with_runs": runs}))


def test_bytes_are_those_of_read_values_and_bits(corpus: Corpus) -> None:
    plan = plan_of(corpus, {"party_size": 0.03, "with_runs": 400, "looks": "end"})
    assert plan.reading.every > 1
    read = plan.design.runs * (0.03 + 0.97 / plan.reading.every)
    exact = read * (len(plan.statistics) + 1) * 4 + 2 * plan.design.runs / 8
    assert bytes_a_document(plan) == pytest.approx(exact)
    early = plan_of(corpus, {"party_size": 0.03, "with_runs": 400})
    first, every = early.looks[0].runs, early.reading.every
    assert early.reading.early == first > 0
    read = first + (early.design.runs - first) * (0.03 + 0.97 / every)
    exact = read * (len(early.statistics) + 1) * 4 + 2 * early.design.runs / 8
    assert bytes_a_document(early) == pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize(("together", "ends"), [(1024, [1024]), (256, [256, 512, 768, 1024])])
def test_parts_are_whole_groups_and_never_none(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch, together: int, ends: list[int]
) -> None:
    monkeypatch.setattr("ksdp.audit.plan.VALUES_AT_ONCE", 1)
    plan = plan_of(corpus, values="none")
    firsts = [0, *ends]
    assert document_parts(plan, together) == list(zip(firsts, [*ends, MANY], strict=True))


def test_parts_hold_what_fits(corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(corpus, values="none")
    assert document_parts(plan, 256) == [(0, MANY)]
    monkeypatch.setattr("ksdp.audit.plan.VALUES_AT_ONCE", 512.5 * bytes_a_document(plan))
    assert document_parts(plan, 256) == [(0, 512), (512, 1024), (1024, MANY)]
