"""Canaries by themselves; what they notice in a whole audit is in tests/tasks/test_slices.py."""

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import Database
from ksdp.audit.corpus.groups import make_units
from ksdp.audit.corpus.matrix import Corpus, canonical
from ksdp.audit.errors import KsdpError
from ksdp.audit.plan import NULL_CONTROLS, Plan
from ksdp.audit.runs import measure, run_observables, sample
from ksdp.audit.specs.design import Block
from ksdp.audit.verdicts.controls import HANDED, canary_values, handed_bits, handed_units
from ksdp.audit.verdicts.looks import Stage

from ..plans import planned


def plan_of(corpus: Corpus, **design) -> Plan:
    return planned(corpus, seed=3, design={"party_size": 30, "with_runs": 40} | design)


def test_a_group_was_handed_over_when_all_of_its_documents_were() -> None:
    names = np.array(["b", "a", "b", "c", "a"])
    corpus = Corpus(canonical(sp.csr_array(np.eye(5))), np.array(list("vwxyz")), group=names)
    units = make_units(corpus, "group")
    database = Database((corpus.matrix[[0, 2, 4]],), held=np.array([0, 2, 4]))
    stored = {HANDED: handed_bits(database, 5)}
    assert handed_units(stored, corpus, units).tolist() == [False, True, False]
    alone = handed_units(stored, corpus, make_units(corpus, "document"))
    assert alone.tolist() == [True, False, True, False, True]


def test_a_canary_is_the_same_whoever_is_audited(corpus: Corpus) -> None:
    plan, some = plan_of(corpus), plan_of(corpus, documents=["d5", "d60"])
    block = Block(0, 3, 9)
    whole, few = (measure(p, block, sample(p, block), p.statistics).canary for p in (plan, some))
    np.testing.assert_array_equal(whole[[5, 60]], few[:2])
    again = measure(plan, block, list(sample(plan, block)), plan.statistics).canary
    np.testing.assert_array_equal(whole, again)
    assert whole[:90].std() > 5 > abs(whole[90 : 90 + NULL_CONTROLS]).max()


def test_noise_is_normal_and_of_its_own_stream() -> None:
    handed = np.zeros(2000, dtype=bool)
    noise = np.stack([canary_values(handed, 5, 0, run) for run in range(20)])
    assert abs(noise.mean()) < 0.02
    assert noise.std() == pytest.approx(1, abs=0.02)
    assert abs(np.corrcoef(noise)[0, 1:]).max() < 0.1
    np.testing.assert_allclose(canary_values(~handed, 5, 0, 3) - noise[3], 16, rtol=1e-5)


def test_a_database_that_does_not_say_what_it_holds_is_refused(corpus: Corpus) -> None:
    part = corpus.matrix[:3]
    for held in (None, np.array([0, 1]), np.array([0, 1, 1])):
        with pytest.raises(KsdpError, match="does not say"):
            handed_bits(Database((part,), held=held), len(corpus))
    plan = plan_of(corpus)
    stored = run_observables(plan, 0, 0)
    del stored[HANDED]
    with pytest.raises(KsdpError, match="run the audit again"):
        measure(plan, Block(0, 0, 1), [stored], plan.statistics)


def test_canaries_and_values_are_the_same_from_what_a_store_keeps_of_the_last_round(corpus: Corpus) -> None:
    """What is not kept is not read again; who was handed over is kept, whatever else is."""
    plan = plan_of(corpus)
    assert plan.spec.store.observables == "last"
    assert not plan.from_store
    names = tuple(s.name for s in plan.statistics if s.family == "geometry")
    some = plan.narrowed(Stage("some", plan.design.seed, 40, plan.audited, names))
    assert some.from_store
    block, kept = Block(0, 0, 40), []
    fresh = measure(plan, block, sample(plan, block), plan.statistics, kept.append)
    assert set(kept[0]) == {HANDED, "V", "span_sigma"}
    again = measure(some, block, iter(kept), some.statistics)
    np.testing.assert_array_equal(again.canary, fresh.canary)
    for name in names:
        np.testing.assert_array_equal(again.values[name], fresh.values[name])
