"""Who has copies in an audit, and for which mechanisms and designs they count."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp

from ksdp.audit.contract import Database, Observables, Release, Traits
from ksdp.audit.corpus.matrix import Corpus, canonical
from ksdp.audit.plan import Plan
from ksdp.audit.proofs import copies_bound
from ksdp.audit.registry import lent
from ksdp.audit.results.summarise import bound_summary, void_where_contradicted
from ksdp.audit.runs import measure, sample
from ksdp.audit.testing import compare_arms
from ksdp.audit.verdicts.certificates import told_by_count, told_by_independent_count
from ksdp.audit.verdicts.control_outcome import Controls
from ksdp.audit.verdicts.looks import Look, after_certificate, after_look

from ..plans import planned

SOUND = Controls(9, 0.5, 9, 1e-9, 9, 0.5, 0, 1.0, 0, None)


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    """90 documents: 40 alike, 2 alike, 48 that are alone."""
    rng = np.random.default_rng(2)
    rows = rng.integers(0, 5, (90, 14)).astype(float)
    rows[20:60] = rows[20]
    rows[70] = rows[3]
    group = np.array([f"g{n // 2}" for n in range(90)])
    return Corpus(canonical(sp.csr_array(rows)), np.array([f"d{n}" for n in range(90)]), group=group)


def plan_of(corpus: Corpus, **changes: Any) -> Plan:
    design = {"party_size": 30, "with_runs": 60} | changes.pop("design", {})
    return planned(corpus, design=design, **changes)


def test_copies_are_counted_among_those_that_may_be_in(corpus: Corpus) -> None:
    found = copies_bound(plan_of(corpus))
    expected = np.ones(90, int)
    expected[20:60], expected[[3, 70]] = 40, 2
    np.testing.assert_array_equal(found.copies, expected)
    by_hand = [told_by_count(count, 90, 30) for count in expected]
    np.testing.assert_allclose(found.advantage, by_hand)
    some = copies_bound(plan_of(corpus, design={"documents": ("d70", "d4", "d30")}))
    np.testing.assert_array_equal(some.copies, [1, 40, 2])
    # Those that others hold in every run are not of the pool.
    apart = plan_of(corpus, parties={"coalition": 30})
    held = apart.design.pool
    mine = copies_bound(apart)
    assert mine.copies.max() == (expected[held] == 40).sum() < 40
    loose = copies_bound(plan_of(corpus, design={"sampling": "poisson"}))
    assert loose.advantage[25] == pytest.approx(told_by_independent_count(40, 1 / 3))


def test_where_nothing_is_proved_nothing_is_said(corpus: Corpus) -> None:
    assert copies_bound(plan_of(corpus, design={"unit": "group", "party_size": 15})) is None
    assert copies_bound(plan_of(corpus, design={"kind": "balanced", "documents": 20})) is None
    literal = copies_bound(plan_of(corpus, design={"kind": "literal", "documents": ("d25", "d5")}))
    assert sorted(literal.copies.tolist()) == [1, 40]
    rows = sp.csr_array(np.arange(1.0, 31.0)[:, None] * np.ones((30, 6)))
    alone = Corpus(canonical(rows), np.array([f"d{n}" for n in range(30)]))
    assert copies_bound(plan_of(alone, design={"party_size": 10})) is None


@dataclass(frozen=True)
class Ordered:
    """Announces the first document of a run: order matters to it, whatever it says."""

    name: ClassVar[str] = "ordered"
    version: ClassVar[int] = 1
    order_free: bool = False

    @property
    def traits(self) -> Traits:
        return Traits(order_free=self.order_free)

    def releases(self, features: int) -> tuple[Release, ...]:
        return (Release("rows", (2,)),)

    def run(self, database: Database, rng: np.random.Generator) -> Observables:
        """Where documents 20 and 21 are, by number: as if names were announced."""
        held = database.held
        assert held is not None
        return Observables({"rows": np.array([float(20 in held), float(21 in held)])})


@dataclass(frozen=True)
class First:
    """How document 20 is told by `Ordered`."""

    name: str = "first"
    version: int = 1
    family: str = "own"
    needs: tuple[str, ...] = ("rows",)

    def evaluate(self, observables: Observables, documents: Any) -> np.ndarray:
        return np.full(len(documents), observables["rows"][0])


def test_only_mechanisms_that_say_so_are_taken_at_their_word_and_audits_check_them(corpus: Corpus) -> None:
    statistics = {"names": ["first"]}
    for honest in (True, False):
        mechanism = {"name": "ordered", "order_free": not honest}
        with lent({"ordered": Ordered, "first": First()}):
            plan = plan_of(corpus, mechanism=mechanism, statistics=statistics, decision={"margin": 0.4})
        found = copies_bound(plan)
        if honest:
            assert found is None
            continue
        assert found is not None
        first = [
            each for each in plan.statistics if each.name == "first"
        ]  # training runs hold nobody of the corpus
        values = [measure(plan, block, sample(plan, block), first) for block in plan.blocks]
        joined = np.concatenate([part.values["first"] for part in values], axis=1)
        bits = np.concatenate([part.inclusion for part in values], axis=1)
        tests = compare_arms({"first": joined}, bits)[: len(plan.audited)]
        rule = plan.spec.decision_in_run
        interim = after_look(None, tests, 0, Look(plan.design.runs, rule.level), rule, [])
        assert interim.decisions.verdict[20] == "sensitive"
        interim = after_certificate(interim, found.advantage, rule)
        assert interim.decisions.verdict[20] == "sensitive", "a proof of a leak is never overruled"
        said = bound_summary(found, interim, rule, plan.counted, len(plan.looks))
        assert (said.certified, said.sensitive, said.contradicted, said.fewest_copies) == (40, 1, 1, 40)
        void = void_where_contradicted(SOUND, [said])
        assert not void.valid
        assert "order_free" in str(void.reason)
        assert void_where_contradicted(replace(SOUND, reason="other"), [said]).reason == "other"
        assert void_where_contradicted(SOUND, [replace(said, contradicted=0)]) is SOUND


def test_what_is_said_of_copies_is_said_of_those_below_the_margin(corpus: Corpus) -> None:
    plan = plan_of(corpus, decision={"margin": 0.2})
    values = measure(plan, plan.blocks[0], sample(plan, plan.blocks[0]), plan.statistics)
    tests = compare_arms(values.values, values.inclusion)[: len(plan.audited)]
    rule = plan.spec.decision_in_run
    before = after_look(None, tests, 0, Look(plan.design.runs, rule.level), rule, [])
    found = copies_bound(plan)
    assert found.advantage[25] < 0.2 < found.advantage[3]
    after = after_certificate(before, found.advantage, rule)
    said = bound_summary(found, after, rule, plan.counted, len(plan.looks))
    assert (said.certified, said.sensitive, said.contradicted, said.fewest_copies) == (40, 0, 0, 40)
    assert said.largest_certified == found.advantage[25]
    assert (after.decisions.proof == "every attack").sum() == 40
    for margin in (0.05, 0.0):
        strict = rule.model_copy(update={"margin": margin})
        assert bound_summary(found, after, strict, plan.counted, len(plan.looks)).certified == 0
