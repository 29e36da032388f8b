"""Several runs as one view: what is in it, and that it finds what no run by itself gives away."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import ks_2samp

from ksdp.audit.certifying import paired_advantages
from ksdp.audit.contract import Database, Documents, Mechanism, Observables, Pool, Release
from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.joint import JointMechanism
from ksdp.audit.mechanisms.schema import final_output, opened, recorded
from ksdp.audit.planning import make_plan
from ksdp.audit.registry import lent, make_mechanism, statistics
from ksdp.audit.specs.models import parse_spec
from ksdp.audit.statistics.combined import CombinedStatistic
from ksdp.audit.verdicts.certificates import pair_advantage, pair_distance

TWO = [{"name": "pd-nmf", "rank": 2, "sweeps": 3}, {"name": "pd-nmf", "rank": 3, "sweeps": 2}]


def plan_of(corpus: Corpus, runs: list[dict[str, Any]], **sections: Any):
    tables: dict[str, Any] = {"seed": 1, "corpus": {"path": "x"}, "design": {"party_size": 20, "with_runs": 10}}
    return make_plan(parse_spec(tables | {"mechanism": {"name": "together", "runs": runs}} | sections), corpus)


def test_it_announces_what_each_run_announces_and_nothing_else(corpus: Corpus) -> None:
    database = Database((sp.csr_array(corpus.matrix[:20]), sp.csr_array(corpus.matrix[20:40])))
    seen = JointMechanism(tuple(TWO)).run(database, np.random.default_rng(0))
    for place, one in enumerate(TWO, start=1):
        mechanism = make_mechanism(one["name"], {k: v for k, v in one.items() if k != "name"})
        alone = mechanism.run(database, np.random.default_rng(0))
        own = {name: array for name, array in seen.items() if name.startswith(f"run{place}_")}
        assert {name.removeprefix(f"run{place}_") for name in own} == set(alone)
        for name, array in alone.items():
            np.testing.assert_array_equal(own[f"run{place}_{name}"], array)


def test_a_statistic_of_a_run_is_that_statistic_on_that_run(corpus: Corpus) -> None:
    """Whichever was asked for before, and of whom."""
    database = Database((sp.csr_array(corpus.matrix[:20]), sp.csr_array(corpus.matrix[20:40])))
    together = JointMechanism(tuple(TWO))
    seen = together.run(database, np.random.default_rng(0))
    by_name = {statistic.name: statistic for statistic in together.statistics}
    first, second = (
        Observables({n.removeprefix(before): a for n, a in seen.items() if n.startswith(before)})
        for before in ("run1_", "run2_")
    )
    unlike = 0
    some, others = (Documents(sp.csr_array(corpus.matrix[at : at + 9])) for at in (0, 9))
    for name in ("weights-sum", "sums-energy"):
        plain = statistics()[name]
        for documents in (some, others):
            alone, beside = plain.evaluate(first, documents), plain.evaluate(second, documents)
            np.testing.assert_array_equal(by_name[f"run2-{name}"].evaluate(seen, documents), beside)
            np.testing.assert_array_equal(by_name[f"runs-{name}"].evaluate(seen, documents), alone + beside)
            np.testing.assert_array_equal(by_name[f"run1-{name}"].evaluate(seen, documents), alone)
            unlike += int((alone != beside).all())
    assert unlike == 4


def test_what_holds_of_the_parts_is_said_of_the_whole() -> None:
    final, rounds, svd = {"opens": "final"}, {"sweeps": 3, "rank": 2}, {"name": "pd-svd", "rank": 3}
    both = JointMechanism(({"name": "pd-nmf", "rank": 2} | final, svd | final))
    mixed = JointMechanism(({"name": "pd-nmf"} | rounds, svd | final))
    assert (both.traits.opens, mixed.traits.opens) == ("final", "every round")
    assert final_output(both, 9) == ("run1_T", "run2_V")
    assert _learnt(mixed, "small") == ["run1_sums"]
    assert mixed.traits.nonnegative
    assert not JointMechanism((svd, svd)).traits.nonnegative
    inner = mixed.inner[0]
    assert {n for n in opened(mixed, 9) if n.startswith("run1_")} == {f"run1_{n}" for n in opened(inner, 9)}
    declared = {array.name: array for array in recorded(mixed, 9)}
    for array in recorded(inner, 9):
        again = declared[f"run1_{array.name}"]
        assert (again.shape, again.early) == (array.shape, array.early)
    assert any(array.early for array in declared.values())


def test_a_statistic_needs_and_reads_its_own_run_and_a_sum_every_one() -> None:
    together = JointMechanism(({"name": "pd-svd", "rank": 2}, {"name": "pd-svd", "rank": 3}))
    by_name = {statistic.name: statistic for statistic in together.statistics}
    plain = statistics()
    sums = 0
    for name, statistic in plain.items():
        for place in (1, 2):
            part = by_name.get(f"run{place}-{name}")
            if part is None:
                continue
            for what in ("needs", "needs_any", "reads"):
                wanted = tuple(f"run{place}_{n}" for n in getattr(statistic, what, ()))
                assert getattr(part, what) == wanted, (name, what)
            assert part.needs_background == tuple(getattr(statistic, "needs_background", ()))
        summed = by_name.get(f"runs-{name}")
        if summed is not None:
            sums += 1
            assert summed.needs == tuple(f"run{place}_{n}" for place in (1, 2) for n in statistic.needs)
            assert summed.needs_background == tuple(getattr(statistic, "needs_background", ()))
            assert not getattr(statistic, "needs_any", ())
            # Whoever has all that it needs can work it out.
            assert set(summed.needs) <= set(opened(together, 9))
    assert sums > 2
    assert any(part.needs_any for part in by_name.values() if part.name.startswith("run1-"))
    assert any(part.reads for part in by_name.values() if part.name.startswith("run1-"))
    assert any(part.needs_background for part in by_name.values())
    # A statistic that one run alone can have has no sum over runs.
    unlike = JointMechanism(({"name": "pd-nmf", "rank": 2}, {"name": "pd-svd", "rank": 3}))
    assert "runs-topics-match" not in {statistic.name for statistic in unlike.statistics}


def test_versions_and_defaults_are_filled_in_and_others_refused() -> None:
    nmf = make_mechanism("pd-nmf", {"rank": 2})
    made = JointMechanism(({"name": "pd-nmf", "rank": 2}, {"name": "pd-svd", "rank": 3}))
    assert made.runs[0]["version"] == nmf.version
    assert made.runs[0]["tolerance"] == nmf.tolerance
    with pytest.raises(SpecError, match="`version` of pd-nmf"):
        JointMechanism(({"name": "pd-nmf", "version": nmf.version + 1}, {"name": "pd-svd"}))


def test_topics_of_a_run_are_expected_of_its_own_mechanism(corpus: Corpus) -> None:
    together, rows = JointMechanism(tuple(TWO)), sp.csr_array(corpus.matrix)
    seen = together.run(Database((sp.csr_array(rows[:20]),)), np.random.default_rng(0))
    found = {s.name: s for s in together.statistics}["run2-first-order-topics"]
    values = found.evaluate(seen, Documents(rows, pool=Pool(rows, 0.5, mechanism=together)))
    alone = Documents(rows, pool=Pool(rows, 0.5, mechanism=together.inner[1]))
    assert values.any()
    np.testing.assert_array_equal(
        values, statistics()["first-order-topics"].evaluate(Observables({"T": seen["run2_T"]}), alone)
    )


def _learnt(mechanism: Mechanism, how: str) -> list[str]:
    return [array.name for array in mechanism.releases(9) if array.learner == how]


def test_weights_of_ratings_must_be_learnt_from_in_every_wrapping(corpus: Corpus) -> None:
    rated = {"rank": 2, "weighted": True}
    both = JointMechanism(({"name": "pd-nmf"} | rated, {"name": "pd-svd", "rank": 2}))
    assert _learnt(both, "always") == ["run1_weights"]
    assert _learnt(make_mechanism("noisy", {"mechanism": "pd-nmf", "parameters": rated}), "always") == ["weights"]


@pytest.mark.usefixtures("many_documents")
def test_nothing_is_clear_unless_somebody_looks_at_the_runs_together(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = {"party_size": 20, "with_runs": 6 * corpus.features}
    for design in ({}, large):
        combined = next(s for s in plan_of(corpus, TWO, design=design).statistics if s.name == "combined")
        assert {"run1-linear-sums", "run2-linear-sums"} <= {
            s.name for s in cast(CombinedStatistic, combined).others
        }
        assert plan_of(corpus, TWO, design=design).coverage.may_clear
    monkeypatch.setattr("ksdp.audit.statistics.combined._MOST", 0)  # too many documents to combine
    few = plan_of(corpus, TWO)
    assert [reason[:30] for reason in few.coverage.unread] == ["what the runs say together (`s"]
    assert plan_of(corpus, TWO, design=large).coverage.unread == few.coverage.unread
    final = [run | {"name": "pd-svd", "opens": "final"} for run in ({"rank": 2}, {"rank": 3})]
    numbers = 5 * corpus.features
    for trained, clear in ((numbers - 1, False), (numbers, True)):
        monkeypatch.setattr("ksdp.audit.statistics.simulated.TRAINING_RUNS", trained)
        assert plan_of(corpus, final, design=large).coverage.may_clear is clear
    monkeypatch.undo()
    monkeypatch.setattr("ksdp.audit.plan.MOST_LEARNT_FROM", 0)  # simulated runs for training are too dear
    many = plan_of(corpus, TWO, design=large)
    assert any("run1_sums number by number" in reason for reason in many.coverage.unread)


@dataclass(frozen=True)
class Masked:
    """Announces how many documents it has; `mask` those without the last feature alone."""

    mask: bool
    version: int = 1
    name: str = "masked"

    def releases(self, features: int) -> tuple[Release, ...]:
        return (Release("output", (1,)),)

    def run(self, database: Database, rng: np.random.Generator) -> Observables:
        matrix = sp.csr_array(sp.vstack(database.parties, format="csr"))
        marked = matrix[:, [matrix.shape[1] - 1]].toarray()[:, 0]
        kept = marked == 0 if self.mask else np.full(len(marked), fill_value=True)
        return Observables({"output": np.array([matrix[np.flatnonzero(kept)][:, [0]].sum()])})


@dataclass(frozen=True)
class Own:
    """The output as it is, of a mechanism that brings it along."""

    name: str
    needs_any: tuple[str, ...] = ()
    version: int = 1
    family: str = "own"
    needs: tuple[str, ...] = ("output",)

    def evaluate(self, observables: Observables, documents: Documents) -> np.ndarray:
        return np.full(len(documents), float(observables["output"][0]))


@dataclass(frozen=True)
class Bringing(Masked):
    """With statistics of its own."""

    statistics: tuple[Own, ...] = ()


def test_sums_are_of_what_all_runs_have_in_the_same_units() -> None:
    everybodys, either = Own("everybodys"), Own("either", needs_any=("output", "other"))
    here, there = (Bringing(mask, statistics=(everybodys, either, Own(f"own-{mask}"))) for mask in (False, True))
    with lent({"here": here, "there": there}):
        together = JointMechanism(({"name": "here"}, {"name": "there"}))
        sums = [s for s in together.statistics if s.name.startswith("runs-")]
    assert [s.name for s in sums] == ["runs-everybodys"]
    seen = Observables({"run1_output": np.array([3.0]), "run2_output": np.array([4.0])})
    assert sums[0].evaluate(seen, Documents(sp.csr_array((2, 3)))).tolist() == [7.0, 7.0]


def test_two_runs_that_say_nothing_alone_may_say_all_together() -> None:
    """A document behind the sum of the others, and the sum of the others: D of each, and of their difference."""
    rng = np.random.default_rng(2)
    rows = sp.csr_array(np.column_stack([rng.normal(0, 30, 60) ** 2, rng.random(60), np.zeros(60)]))
    document = sp.csr_array(np.array([[5.0, 0.5, 1.0]]))
    with lent({"sum-of-all": Masked(mask=False), "sum-of-most": Masked(mask=True)}):
        together = JointMechanism(({"name": "sum-of-all"}, {"name": "sum-of-most"}))
        seen = np.empty((2, 300, 2))
        for held, run in np.ndindex(2, 300):
            drawn = sp.csr_array(rows[np.sort(rng.choice(60, 20, replace=False))])
            whole = sp.csr_array(sp.vstack((drawn, document), format="csr")) if held else drawn
            found = together.run(Database((whole,)), rng)
            seen[held, run] = found["run1_output"][0], found["run2_output"][0]
    alone = [ks_2samp(seen[0, :, place], seen[1, :, place]).statistic for place in (0, 1)]
    assert max(alone) < 0.25  # chance alone: above 0.16 once in a thousand
    assert ks_2samp(*(np.diff(arm)[:, 0] for arm in seen)).statistic == 1.0


def test_what_cannot_be_run_together_is_refused() -> None:
    for runs, message in (
        ((TWO[0],), "at least two"),
        ((TWO[0], {"rank": 3}), "each with the `name`"),
        ((TWO[0], {"name": "together"}), "one by one"),
        ((TWO[0], {"name": "pd-nmf", "ranks": 3}), "is not a parameter"),
    ):
        with pytest.raises(SpecError, match=message):
            JointMechanism(tuple(runs))


QUIET = {
    "name": "noisy",
    "mechanism": "pd-pca",
    "noise": 1.0,
    "scale": 0.3,
    "parameters": {"rank": 2, "opens": "final"},
}
STRONG = {"name": "moments", "rank": 2, "advantage": 0.3}
POWER = {"name": "hardt-roth", "rank": 2, "iterations": 2, "epsilon": 8.0}


def alone(corpus: Corpus, run: dict[str, Any]) -> np.ndarray:
    design = {"party_size": 20, "with_runs": 10}
    tables = {"seed": 1, "corpus": {"path": "x"}, "design": design, "mechanism": run}
    return paired_advantages(make_plan(parse_spec(tables), corpus), 0, 4)


def test_pairs_of_normals_are_as_far_apart_as_both_announcements_are(corpus: Corpus) -> None:
    """Two independent normals side by side are one normal, whose mean moves by both shifts."""
    both = paired_advantages(plan_of(corpus, [QUIET, STRONG]), 0, 4)
    apart = np.hypot(*(pair_distance(alone(corpus, run)) for run in (QUIET, STRONG)))
    np.testing.assert_allclose(both, pair_advantage(apart), rtol=1e-6, atol=1e-9)
    assert (both >= np.maximum(alone(corpus, QUIET), alone(corpus, STRONG)) - 1e-9).all()
    last = paired_advantages(plan_of(corpus, [QUIET, STRONG], statistics={"sees": "final"}), 0, 4)
    np.testing.assert_allclose(last, both, rtol=1e-6)  # of both nothing else is opened, or tells more


def test_the_noise_of_each_run_is_its_own_in_a_pair(corpus: Corpus) -> None:
    """Who cannot tell by either cannot tell; one draw for both would say less than both do."""
    rows = sp.csr_array(corpus.matrix)
    base, other = Database((sp.csr_array(rows[:20]),)), Database((sp.csr_array(rows[1:21]),))
    power = make_mechanism("hardt-roth", {key: value for key, value in POWER.items() if key != "name"})
    single = [power.paired(base, lambda at=at: np.random.default_rng(3).spawn(at)[-1])(other) for at in (1, 2)]
    both = JointMechanism((POWER, POWER)).paired(base, lambda: np.random.default_rng(3))(other)
    assert single[0] != single[1]
    assert both == pytest.approx(1 - (1 - single[0]) * (1 - single[1]))


def test_no_pair_bounds_runs_of_which_one_has_no_noise(corpus: Corpus) -> None:
    with pytest.raises(SpecError, match="has run 2, pd-nmf, which adds no noise"):
        paired_advantages(plan_of(corpus, [QUIET, TWO[0]]), 0, 2)
