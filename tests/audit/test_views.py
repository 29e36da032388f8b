"""Views: the same runs seen by others, an equal part of the level each, and verdicts over all of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ksdp.audit.corpus.matrix import Corpus
from ksdp.audit.errors import SpecError
from ksdp.audit.mechanisms.recorded import RecordedRuns
from ksdp.audit.mechanisms.schema import final_output, recorded
from ksdp.audit.planning import make_plan
from ksdp.audit.registry import make_mechanism
from ksdp.audit.sampling import measure, sample
from ksdp.audit.specs.design import Block
from ksdp.audit.specs.models import DecisionSpec, Spec, parse_spec
from ksdp.audit.verdicts.controls import HANDED
from ksdp.audit.views import ViewVerdicts, combine, make_views


def spec_of(**sections) -> Spec:
    tables = {"seed": 1, "corpus": {"path": "x"}, "mechanism": {"name": "pd-nmf", "rank": 2}}
    tables["design"] = {"party_size": 15, "with_runs": 30}
    tables["views"] = {"coalitions": [0, 0.1, 20], "final": True}
    return parse_spec(tables | sections)


def test_each_view_is_an_audit_of_the_same_runs(corpus: Corpus) -> None:
    views = make_views(spec_of(parties={"honest": 5}), corpus)
    assert [view.name for view in views] == [
        "outsider", "coalition of 9 documents", "coalition of 20 documents", "final output"
    ]  # fmt: skip
    assert all(view.spec.decision.level == pytest.approx(0.05 / 4) for view in views)
    assert all(view.spec.views is None for view in views)
    plans = [make_plan(view.spec, corpus) for view in views]
    for plan in plans[1:]:
        assert (plan.audited == plans[0].audited).all()
        assert (plan.design.rows(0, 3) == plans[0].design.rows(0, 3)).all()
        everybody, first = (
            sorted(np.concatenate([p.holdings.honest, p.holdings.coalition]).tolist()) for p in (plan, plans[0])
        )
        assert everybody == first
        assert plan.database(0, 2).rows == plans[0].database(0, 2).rows == 15 + 25
    assert [len(plan.holdings.coalition) for plan in plans] == [0, 9, 20, 0]
    assert set(plans[1].holdings.coalition) < set(plans[2].holdings.coalition)
    # The final output is measured on the runs of the smallest coalition, and kept apart from its values.
    assert plans[3].runs_identity == plans[0].runs_identity
    assert len({str(plan.runs_identity) for plan in plans}) == 3


def test_the_final_output_is_all_that_its_statistics_see(corpus: Corpus) -> None:
    """Not only the statistics that need more are left out: what is not final never reaches one."""
    full, final = (make_plan(view.spec, corpus) for view in make_views(spec_of(views={"final": True}), corpus))
    assert final.seen == ("T",)
    assert "sigma" in {s.name for s in full.statistics} - {s.name for s in final.statistics}
    assert final.skipped["sigma"] == "needs denominators"
    block = Block(0, 0, 2)
    kept: list = []
    measure(full, block, sample(full, block), full.statistics, kept.append)
    assert set(kept[0]) == {HANDED, "T", "denominators", "weights", "total_weights", "sweeps"}
    assert final.from_store
    assert not full.from_store
    seen = []

    class Spy:
        name, version, family, needs = "spy", 1, "test", ()

        def evaluate(self, observables, documents):
            seen.append(set(observables))
            return np.zeros(len(documents))

    measure(final, block, kept, (Spy(),))
    assert seen == [{"T"}, {"T"}]


@pytest.mark.parametrize(
    ("name", "parameters", "final"),
    [
        ("pd-nmf", {}, {"T"}),
        ("pd-svd", {}, {"V"}),
        ("pd-svd", {"solver": "power"}, {"V"}),
        ("sigma-svd", {}, {"V", "sigma"}),
        ("pd-pca", {"reveal_sigma": True}, {"mean", "V", "sigma"}),
        ("planted-leak", {}, {"V"}),
    ],
)
def test_final_outputs_are_announced(name: str, parameters: dict, final: set[str]) -> None:
    mechanism = make_mechanism(name, {"rank": 2} | parameters)
    assert set(final_output(mechanism, 9)) == final
    assert final <= {announced.name for announced in recorded(mechanism, 9)}


def test_a_mechanism_without_a_final_output_has_none_to_audit() -> None:
    with pytest.raises(SpecError, match="announces no final output"):
        final_output(RecordedRuns({"total": np.arange(4.0)}, np.eye(4, 2, dtype=bool)[[0, 1, 0, 1]], 2), 2)


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"views": {}}, "must name `coalitions`, or `final = true`"),
        ({"views": {"coalitions": [1.5]}}, r"views\.coalitions"),
        ({"views": {"coalitions": [-1]}}, r"views\.coalitions"),
        ({"views": {"coalitions": [0.1, 9]}}, "must differ; of 90 documents"),
        ({"parties": {"coalition": 5}}, r"`parties\.coalition` and `me` must be left out"),
        ({"statistics": {"sees": "final"}}, r"`statistics\.sees` must be left out"),
        ({"mechanism": {"name": "pd-svd", "rank": 2, "opens": "final"}}, "nothing besides its final"),
    ],
)
def test_refuses(corpus: Corpus, sections: dict, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        make_views(spec_of(**sections), corpus)


def test_what_is_for_one_view_refuses_several(corpus: Corpus) -> None:
    with pytest.raises(SpecError, match="`views` must be left out"):
        make_plan(spec_of(), corpus)
    with pytest.raises(SpecError, match="this spec has one view"):
        make_views(spec_of(views=None), corpus)


KINDS = np.array(["sensitive", "clear", "undecided"])


@given(st.integers(1, 5), st.integers(1, 30), st.integers(0, 2**32 - 1))
@settings(max_examples=80, deadline=None)
def test_combined_verdicts_are_those_of_a_slow_reading(count: int, documents: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    level = 0.1
    views = []
    for _ in range(count):
        p = rng.random(documents) ** 4
        other = np.where(rng.random(documents) < 0.7, "clear", "undecided")
        below = np.log10(rng.random(documents) ** 6)
        views.append(ViewVerdicts(np.where(p <= level / count, "sensitive", other), np.log10(p), below))
    found = combine(views, DecisionSpec(level=level, error="fwer"))
    largest = np.array([max(10 ** view.log10_p_below[at] for view in views) for at in range(documents)])
    largest[(np.stack([view.verdict for view in views]) == "sensitive").any(axis=0)] = 1.0
    cleared = set()
    for rank, at in enumerate(np.argsort(largest, kind="stable")):  # Holm, to the letter
        if largest[at] > level / (documents - rank):
            break
        cleared.add(int(at))
    for at in range(documents):
        said = [str(view.verdict[at]) for view in views]
        expected = "sensitive" if "sensitive" in said else "clear" if at in cleared else "undecided"
        assert found.verdict[at] == expected
        smallest = min(10 ** view.log10_adjusted[at] for view in views)
        assert 10 ** found.log10_adjusted[at] == pytest.approx(min(count * smallest, 1.0))
        assert 10 ** views[found.view[at]].log10_adjusted[at] == pytest.approx(smallest)
        assert (found.log10_adjusted[at] <= np.log10(level) + 1e-12) == (expected == "sensitive")
        assert found.sensitive_in[:, at].tolist() == [word == "sensitive" for word in said]


def test_a_view_that_is_certified_needs_no_test_and_takes_no_room_from_the_others() -> None:
    rule = DecisionSpec(level=0.05, error="fwer")
    clear, no, proved = "clear", "undecided", np.array([True, True, True, False])
    one = ViewVerdicts(np.array([clear] * 4), np.zeros(4), np.zeros(4), proved)
    below = np.array([0.0, -3.0, -0.5, 0.0])
    other = ViewVerdicts(
        np.array([clear, clear, no, clear]), np.zeros(4), below, np.array([True, False, False, True])
    )
    found = combine([one, other], rule)
    # The fourth is certified in the second view; in the first its p is 1 all the same.
    assert found.verdict.tolist() == [clear, clear, no, no]
    assert found.every_attack.tolist() == [True, False, False, False]
    assert found.log10_adjusted_below[1] == pytest.approx(np.log10(4 * 1e-3))
    assert found.clear_in.tolist() == [[True] * 4, [True, True, False, True]]
    leaks = ViewVerdicts(np.array(["sensitive"] * 4), np.full(4, -9.0), np.zeros(4))
    assert combine([one, leaks], rule).verdict.tolist() == ["sensitive"] * 4


def test_views_of_other_documents_are_not_combined() -> None:
    one, two = (ViewVerdicts(KINDS[:n], np.zeros(n), np.zeros(n)) for n in (1, 2))
    for views in ([], [one, two]):
        with pytest.raises(ValueError, match="all of the same documents"):
            combine(views, DecisionSpec())


def test_no_document_is_clear_over_views_where_one_of_them_left_an_array_unread() -> None:
    """The p of that view is 1, whatever the others prove."""
    said = np.array(["clear", "clear"]), np.array(["undecided", "undecided"])
    one = ViewVerdicts(said[0], np.zeros(2), np.full(2, -9.0))
    other = ViewVerdicts(said[1], np.zeros(2), np.zeros(2))
    assert combine([one, one], DecisionSpec()).verdict.tolist() == ["clear", "clear"]
    assert combine([one, other], DecisionSpec()).verdict.tolist() == ["undecided", "undecided"]
