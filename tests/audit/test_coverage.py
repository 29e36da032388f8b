"""Coverage: every array that a run opens is read by a tested statistic, or nothing is clear."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog
from scipy.stats import ks_2samp

from ksdp.audit.contract import Observables, Release, Terms, traits_of
from ksdp.audit.corpus.matrix import Corpus, canonical
from ksdp.audit.coverage import (
    MayBeIn,
    coverage,
    coverage_of,
    enough_numbers,
    enumerated,
    followed,
    reads,
    telling_numbers,
    unfollowed,
    unsolved,
)
from ksdp.audit.mechanisms.callables import function_mechanism
from ksdp.audit.mechanisms.schema import final_output, opened, recorded
from ksdp.audit.registry import lent, make_mechanism, mechanism_names, statistics
from ksdp.audit.statistic import Documents, TableStatistic

from ..plans import planned

pytestmark = pytest.mark.usefixtures("many_documents")
SMALL = {"rank": 2, "iterations": 3}
plan_of = partial(planned, design={"party_size": 20, "with_runs": 40})


def but_followed(plan) -> list[str]:
    """What nobody looks at, but for topics that say who was in to whoever follows the run."""
    followed = "who was in, by following the run: `T`"
    return [said for said in coverage_of(plan).unread if not said.startswith(followed)]


def small(name: str) -> dict:
    known = getattr(type(make_mechanism(name, {})), "__dataclass_fields__", {})
    return {"name": name} | {key: value for key, value in SMALL.items() if key in known}


@pytest.mark.parametrize("name", [n for n in mechanism_names() if n not in ("noisy", "counted-svd")])
def test_the_default_audit_reads_everything_that_a_run_opens(corpus: Corpus, name: str) -> None:
    parameters = small(name) | ({"period": 1} if name.startswith("fedpower") else {})
    parameters |= {"intermediate": 4} if name == "dpdispca" else {}
    plan = plan_of(corpus, parameters)
    assert coverage_of(plan).unread == ()
    assert set(coverage_of(plan).read_by) == set(opened(plan.mechanism, corpus.features))
    assert coverage_of(plan).may_clear


def test_nothing_follows_v_on_rows_that_a_run_weighs_so_that_a_draw_alone_clears(corpus: Corpus) -> None:
    covered = coverage_of(plan_of(corpus, small("counted-svd")))
    assert len(covered.unread) == 1
    assert covered.unread[0].startswith("who is in `V`, which no statistic follows")
    assert not covered.may_clear


def test_an_own_array_with_the_name_of_ours_is_not_asked_for_the_columns_of_ours(corpus: Corpus) -> None:
    own = function_mechanism("own", lambda x, rng: {"V": x.toarray()[:2] + 1.0}, corpus.matrix[:10])
    with lent({"own": own}):
        plan = plan_of(corpus, {"name": "own"}, statistics={"families": [], "names": ["simulated"]})
    assert plan.tested.default == ("simulated",)
    assert not any("default columns" in said for said in coverage_of(plan).unread)


def test_what_must_be_learnt_from_is_so_whatever_own_statistics_say_and_they_are_no_remedy(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ksdp.audit.statistics.simulated.MOST_NUMBERS", 0)
    own = function_mechanism("own", lambda x, rng: {"V": x.toarray()[:2] + 1.0}, corpus.matrix[:10])
    mine = TableStatistic("mine", "mine", lambda seen, of: of.squared_norms, "mine", needs=("V",), weighs=True)
    with lent({"own": own, "mine": mine}):
        (unread,) = coverage_of(plan_of(corpus, {"name": "own"}, statistics={"names": ["mine"]})).unread
    assert unread.startswith("V number by number")
    assert "your own" not in unread


def test_sums_of_fewer_numbers_than_runs_clear_nobody_unless_they_are_learnt_from(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three sweeps of two topics: 6 numbers a feature."""
    nmf, numbers = {"name": "pd-nmf", "rank": 2}, 6 * corpus.features
    few, many = ({"party_size": 20, "with_runs": runs} for runs in (10, numbers))
    assert coverage_of(plan_of(corpus, nmf, design=few)).may_clear
    unread = coverage_of(plan_of(corpus, nmf, design=many)).unread
    assert len(unread) == 1
    assert unread[0].startswith("sums number by number")
    learnt = {"statistics": {"families": ["paper", "geometry", "rounds", "simulated"]}}
    assert coverage_of(plan_of(corpus, nmf, design=many, **learnt)).may_clear
    assert but_followed(plan_of(corpus, nmf | {"opens": "final"}, design=many)) == []
    noisy = {"name": "noisy", "mechanism": "pd-nmf", "parameters": {"rank": 2}, "scale": 1.0}
    assert coverage_of(plan_of(corpus, noisy, design=many)).may_clear, "the learnt statistic is a default"
    monkeypatch.setattr("ksdp.audit.planning.MOST_LEARNT_FROM", 0)  # simulated runs for training are too dear
    assert coverage_of(plan_of(corpus, noisy, design=many)).unread == unread
    assert coverage_of(plan_of(corpus, noisy, design=many, **learnt)).may_clear
    assert coverage_of(plan_of(corpus, {"name": "pd-svd", "rank": 2}, design=many)).may_clear


def test_weights_of_single_items_clear_nobody_unless_they_are_learnt_from(corpus: Corpus) -> None:
    """However many there are: statistics look at their mean."""
    rated, few = {"name": "pd-nmf", "rank": 2, "weighted": True}, {"party_size": 20, "with_runs": 10}
    (unread,) = coverage_of(plan_of(corpus, rated, design=few)).unread
    assert unread.startswith("weights number by number")
    learnt = {"statistics": {"families": ["paper", "geometry", "rounds", "simulated"]}}
    assert coverage_of(plan_of(corpus, rated, design=few, **learnt)).may_clear
    assert but_followed(plan_of(corpus, rated | {"opens": "final"}, design=few)) == []


@pytest.mark.parametrize(
    ("parameters", "more"),
    [
        (
            {"name": "pd-svd", "solver": "power"},
            {"V", "span", "span_sigma", "first_blocks", "block_sums", "iterations"},
        ),
        ({"name": "sigma-svd"}, {"V", "sigma", "span", "span_sigma", "first_blocks", "block_sums"}),
        ({"name": "pd-pca"}, {"mean", "V", "span", "span_sigma", "first_blocks", "block_sums"}),
        (
            {"name": "pd-nmf"},
            {"T", "numerators", "denominators", "sums", "weights", "topics", "total", "total_weights", "sweeps"},
        ),
        (
            {"name": "pd-nmf", "start": "pd-nmf-init"},
            {"init_sums", "init_weights", "init_total", "init_total_weights", "init_sweeps", "start"},
        ),
        (
            {"name": "pd-nmf", "start": "nnsvd"},
            {"start", "V", "sigma", "span", "span_sigma", "first_blocks", "block_sums", "part_squares"},
        ),
        ({"name": "pd-nmf", "weighted": True, "tolerance": 0.0}, {"T", "weights", "sums"}),
    ],
)
def test_every_start_and_solver_is_covered(corpus: Corpus, parameters: dict, more: set[str]) -> None:
    learnt = {"statistics": {"families": ["paper", "geometry", "rounds", "simulated"]}}
    plan = plan_of(corpus, parameters | {"rank": 2}, **(learnt if {"weighted", "start"} & set(parameters) else {}))
    assert coverage_of(plan).unread == ()
    assert more <= set(coverage_of(plan).read_by)
    assert ("sweeps" in coverage_of(plan).read_by) == (
        parameters.get("name") == "pd-nmf" and "tolerance" not in parameters
    )


def test_a_start_by_svd_clears_nobody_before_its_sums_are_learnt_from(corpus: Corpus) -> None:
    """They and those of sweeps are equations in the same unknowns, and no column solves both at once."""
    parameters = {"name": "pd-nmf", "rank": 2, "start": "nnsvd"}
    assert coverage_of(plan_of(corpus, parameters)).unread[0].startswith("sums number by number")
    assert but_followed(plan_of(corpus, parameters | {"opens": "final"})) == []
    # Of ratings the weights must be learnt from besides, and nothing is said twice where sums are small too.
    for runs in (10, 7 * corpus.features):
        design = {"party_size": 20, "with_runs": runs}
        sums, weights = coverage_of(plan_of(corpus, parameters | {"weighted": True}, design=design)).unread
        assert (sums.split()[0], weights.split()[0]) == ("sums", "weights")


def test_a_start_by_local_topics_clears_nobody(corpus: Corpus) -> None:
    """A run would have to tell everybody each party's own topics."""
    plan = plan_of(corpus, {"name": "pd-nmf", "rank": 2, "start": "best-of-m"})
    assert coverage_of(plan).unread == ("local_topics",)
    final = {"name": "pd-nmf", "rank": 2, "start": "best-of-m", "opens": "final"}
    assert but_followed(plan_of(corpus, final)) == []


@pytest.mark.parametrize("name", ["pd-svd", "sigma-svd", "pd-pca", "pd-nmf", "hardt-roth", "dp-nmf", "fedpower"])
def test_a_run_that_opens_its_final_output_alone_is_audited_as_that(corpus: Corpus, name: str) -> None:
    plan = plan_of(corpus, small(name) | {"opens": "final"} | ({"period": 1} if name == "fedpower" else {}))
    assert set(plan.releases.opened) == set(final_output(plan.mechanism, corpus.features))
    assert coverage_of(plan).may_clear == (name != "pd-nmf")
    assert but_followed(plan) == []


def test_noise_added_to_a_part_of_what_is_opened_clears_nothing(corpus: Corpus) -> None:
    """The other mechanism's run shows the rest all the same."""
    inner = {"name": "noisy", "mechanism": "pd-nmf", "noise": 0.1}
    every = plan_of(corpus, inner | {"parameters": {"rank": 2}})
    some = plan_of(corpus, inner | {"parameters": {"rank": 2, "start": "best-of-m"}})
    assert coverage_of(every).may_clear
    assert not coverage_of(some).may_clear
    assert "local_topics" in coverage_of(some).unread
    final = plan_of(corpus, inner | {"parameters": {"rank": 2, "opens": "final"}})
    assert but_followed(final) == []
    assert traits_of(final.mechanism).opens == "final"


def test_what_nobody_looks_at_is_named(corpus: Corpus) -> None:
    one = {"families": [], "names": ["row-space-energy"]}
    unread = coverage_of(plan_of(corpus, small("pd-svd"), statistics=one)).unread
    assert unread[:4] == ("span", "span_sigma", "first_blocks", "block_sums")
    assert len(unread) == 5  # and what the other columns see, by name


def test_nobody_is_clear_without_the_columns_that_an_audit_tests_by_default(corpus: Corpus) -> None:
    """Every announced array was read by `d-max`, which sees half of what `first-order-basis` does."""
    final = {"name": "pd-svd", "rank": 2, "opens": "final"}
    by_default = plan_of(corpus, final)
    (unread,) = coverage_of(plan_of(corpus, final, statistics={"families": [], "names": ["d-max"]})).unread
    assert unread.startswith("what default columns see that were not tested: `row-space-energy`, ")
    assert f"and {len(by_default.statistics) - 5} more" in unread, "the learnt statistic is tested in any case"
    every = [s.name for s in by_default.statistics]
    named = coverage_of(plan_of(corpus, final, statistics={"families": [], "names": every[1:]}))
    assert named.unread[0].count("`") == 4  # the one that is missing, and `statistics.families`
    assert coverage_of(plan_of(corpus, final, statistics={"families": [], "names": every})).may_clear


def test_columns_that_are_left_out_of_large_audits_are_not_asked_for() -> None:
    rows = sp.csr_array(np.random.default_rng(1).poisson(3.0, (2100, 7)).astype(float))
    large = Corpus(rows, np.array([f"d{row}" for row in range(2100)]))
    sparse = {"design": {"party_size": 20, "with_runs": 40}, "decision": {"margin": 0.9}}
    plan = plan_of(large, {"name": "pd-svd", "rank": 1, "opens": "final"}, **sparse)
    assert "linear-basis" in plan.tested.skipped
    assert coverage_of(plan).unread == ()


@pytest.mark.parametrize(("name", "array"), [("fedpower", "uploads"), ("fedpower-utility", "sums")])
def test_iterations_that_nobody_follows_clear_nobody(name: str, array: str) -> None:
    """Whoever follows them tells documents apart that no column does (decision 5)."""

    def said(mechanism: dict, seen: tuple[str, ...] = ("V", "uploads", "sums")) -> tuple:
        made = make_mechanism(mechanism.pop("name"), mechanism)
        return unfollowed(array for array in recorded(made, 30) if array.name in seen)

    (words,) = said({"name": name, "period": 4})
    assert words.startswith(f"who is in `{array}`")
    assert said({"name": name, "period": 1}) == ()
    assert said({"name": name, "period": 4}, ("V",)) == (), "where the final output alone is seen"
    assert said({"name": "fedpower-private", "period": 2, "iterations": 4}) == ()
    (within,) = said({"name": "noisy", "mechanism": name, "parameters": {"period": 4}})
    assert within == words


class Watched(Observables):
    """Notes which arrays are read."""

    __slots__ = ("asked",)

    def __init__(self, arrays: dict) -> None:
        super().__init__(arrays)
        self.asked: set[str] = set()

    def __getitem__(self, name: str):
        self.asked.add(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        return name in set(self)


@pytest.mark.parametrize("basis", ["T", "V", "V mean"])
@pytest.mark.parametrize("name", sorted(n for n, one in statistics().items() if one.family != "simulated"))
def test_statistics_read_what_coverage_says(name: str, basis: str) -> None:
    """What a statistic asks of the observables, watched, is all that coverage says (but for mean and sigma)."""
    statistic = statistics()[name]
    rng = np.random.default_rng(0)
    seen = [n for n in SHAPES if n not in ("T", "V", "mean") or n in basis.split()]
    if not set(statistic.needs) <= set(seen):
        pytest.skip("the mechanism does not announce what it needs")
    watched = Watched({n: np.abs(rng.normal(size=SHAPES[n])) for n in seen})
    matrix = sp.csr_array(np.abs(rng.normal(size=(6, 8))) * (rng.random((6, 8)) < 0.7))
    background = {"adversary_sigma": np.ones(3), "adversary_rows": np.array(5), "victim_rows": np.array(5)}
    statistic.evaluate(watched, Documents(matrix, background))
    said = reads(statistic, seen)
    assert said <= watched.asked
    assert watched.asked - said <= {"mean", "sigma"}


def test_reading_by_name() -> None:
    found = statistics()
    assert reads(found["row-space-energy"], ["V", "sigma"]) == {"V"}
    assert reads(found["span-energy"], ["mean", "V", "span"]) == {"mean", "span"}
    assert coverage(["V", "sigma"], ["V"], [found["row-space-energy"]]).unread == ("sigma",)


SHAPES = {
    "T": (3, 8), "V": (3, 8), "sigma": (3,), "mean": (8,), "denominators": (3,), "numerators": (3, 8),
    "sums": (2, 3, 8), "weights": (2, 3), "total": (3, 8), "total_weights": (3,), "sweeps": (1,), "start": (3, 8),
    "init_sums": (2, 3, 8), "init_weights": (2, 3), "init_total": (3, 8), "init_total_weights": (3,),
    "init_sweeps": (1,), "span": (5, 8), "span_sigma": (5,), "iterations": (1,), "means": (2, 3, 8),
    "uploads": (2, 3, 8), "scales": (2,), "P": (4, 8), "counts": (2, 3), "centres": (2, 3, 8), "label": (1,),
    "topics": (3, 3, 8), "first_blocks": (4, 3, 8), "gradients": (2, 8), "items": (8,), "pairs": (8, 8),
}  # fmt: skip


def test_exact_sums_of_more_documents_than_are_solved_for_clear_nobody(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three blocks or sums of two rows, and what they start with: 8 numbers a feature, and 6."""
    monkeypatch.setattr("ksdp.audit.statistics.linear.solve.MOST_SOLVED", len(corpus) - 1)
    wide = len(corpus) // corpus.features + 1  # as many rows as it takes

    def unread(name: str, rank: int = wide, **more) -> tuple[str, ...]:
        design = {"party_size": 0.5, "with_runs": 4}
        return coverage_of(plan_of(corpus, {"name": name, "rank": rank} | more, design=design)).unread

    for name, array in (("pd-svd", "first_blocks"), ("pd-pca", "first_blocks"), ("pd-nmf", "sums")):
        (said,) = unread(name)
        assert said.startswith(f"who was in, by equations: `{array}` are ")
        assert f" for {len(corpus)} documents" in said
    (said,) = unread("pd-nmf", opens="final")
    assert said.startswith("who was in, by following the run: `T` ")
    for name in ("pd-svd", "pd-pca"):  # fewer numbers, and enough
        (said,) = unread(name, opens="final")
        numbers = wide * corpus.features - wide * (wide + 1) // 2
        assert f"`V` are {numbers:,} exact numbers in all" in said
    noisy = {"mechanism": "pd-svd", "parameters": {"rank": wide}, "scale": 1.0}
    assert coverage_of(plan_of(corpus, {"name": "noisy"} | noisy)).unread == ()
    monkeypatch.setattr("ksdp.audit.statistics.linear.solve.MOST_SOLVED", len(corpus))
    assert unread("pd-svd") == ()


def test_how_many_exact_numbers_are_enough_depends_on_the_party_size_and_the_margin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """13 numbers for 400 documents: enough to tell 0.2 where a tenth is in, and not where half are."""
    monkeypatch.setattr("ksdp.audit.statistics.linear.solve.MOST_SOLVED", 399)
    rows = np.random.default_rng(3).poisson(1.0, (400, 14)) + 1.0
    many = Corpus(canonical(sp.csr_array(rows)), np.array([f"d{n}" for n in range(400)]))

    def unread(size: float, margin: float) -> tuple[str, ...]:
        final = {"name": "pd-svd", "rank": 1, "opens": "final"}
        design = {"party_size": size, "with_runs": 4}
        return coverage_of(plan_of(many, final, design=design, decision={"margin": margin})).unread

    (said,) = unread(0.1, 0.2)
    assert "`V` are 13 exact numbers in all for 400 documents" in said
    assert unread(0.5, 0.2) == ()
    assert unread(0.1, 0.3) == ()


def test_what_can_be_followed_clears_nobody_where_it_is_numbers_enough(corpus: Corpus) -> None:
    (words,) = followed({"T": 60}, MayBeIn(150, 0.5, 0.4))
    assert "`T` makes 60 numbers with hardly any noise or none, for 150 documents" in words
    most = int(60 / telling_numbers(0.5, 0.4))
    assert len(followed({"T": 60}, MayBeIn(most, 0.5, 0.4))) == 1
    assert followed({"T": 60}, MayBeIn(most + 1, 0.5, 0.4)) == ()
    assert len(followed({"T": 50, "run2_T": 10}, MayBeIn(most, 0.5, 0.4))) == 2, "numbers of runs together add up"
    assert followed({}, MayBeIn(150, 0.5, 0.4)) == ()
    final = {"name": "pd-nmf", "rank": 2, "opens": "final"}
    for sweeps in (1, 20, 100):
        assert len(coverage_of(plan_of(corpus, final | {"sweeps": sweeps})).unread) == 1
    assert coverage_of(plan_of(corpus, {"name": "pd-nmf", "rank": 2})).unread == ()


@pytest.mark.parametrize("opens", ["final", "every round"])
def test_equations_that_a_hidden_mean_bends_clear_nobody(corpus: Corpus, opens: str) -> None:
    own = {"name": "pd-pca", "rank": 2, "centre": "own", "opens": opens}
    learnt = {"statistics": {"families": ["paper", "geometry", "rounds", "simulated"]}}
    (said,) = coverage_of(plan_of(corpus, own, **learnt)).unread
    assert said.startswith("who was in, by following the run: `")
    assert coverage_of(plan_of(corpus, own | {"centre": "all"}, **learnt)).unread == ()


def test_too_few_exact_numbers_hide_who_was_in() -> None:
    plain, seen = make_mechanism("pd-svd", {"rank": 2}), [Release("span", (9, 9000))]
    shapes = {"V": (2, 400), "block_sums": (3, 2, 400), "first_blocks": (4, 2, 400)}
    seen += [Release(name, shape, Terms("moments")) for name, shape in shapes.items()]
    names = tuple(array.name for array in seen)
    assert unsolved(plain, seen, names, MayBeIn(6401, 0.5)) == ()
    (said,) = unsolved(plain, seen, names, MayBeIn(6400, 0.5))
    assert "`first_blocks` are 3,200 exact numbers in all for 6,400 documents" in said
    assert unsolved(plain, seen, names[:1], MayBeIn(3000, 0.5)) == ()
    noisy = make_mechanism("noisy", {"mechanism": "pd-svd", "scale": 1.0})
    assert unsolved(noisy, seen, names, MayBeIn(3000, 0.5)) == ()
    assert len(unsolved(plain, seen, names, MayBeIn(12_000, 0.1))) == 1
    assert unsolved(plain, seen, names, MayBeIn(13_000, 0.1)) == ()


def test_numbers_that_tell_more_than_the_margin_hide_nobody() -> None:
    plain, seen = make_mechanism("pd-svd", {"rank": 2}), [Release("first_blocks", (4, 2, 400), Terms("moments"))]
    most = int(3200 / telling_numbers(0.5, 0.2))
    assert len(unsolved(plain, seen, ["first_blocks"], MayBeIn(most, 0.5, 0.2))) == 1
    assert unsolved(plain, seen, ["first_blocks"], MayBeIn(most + 1, 0.5, 0.2)) == ()
    assert unsolved(plain, seen, ["first_blocks"], MayBeIn(6401, 0.5, 0.99)) == ()  # who was in takes half as many
    assert len(unsolved(plain, seen, ["first_blocks"], MayBeIn(10**9, 0.5, 0.0))) == 1


@pytest.mark.parametrize(("share", "margin"), [(0.1, 0.2), (0.5, 0.2), (0.3, 0.5)])
def test_so_many_general_equations_tell_the_average_document_that_much(share: float, margin: float) -> None:
    """The solution nearest to what is expected, of random equations: D between those in and out."""
    rng, n = np.random.default_rng(2), 3000
    terms = np.linalg.qr(rng.normal(size=(n, round(n * telling_numbers(share, margin)))))[0]
    held = rng.random((n, 20)) < share
    found = share + terms @ (terms.T @ (held - share))
    distances = [ks_2samp(found[h, run], found[~h, run]).statistic for run, h in enumerate(held.T)]
    assert np.mean(distances) == pytest.approx(margin, abs=0.03)


def test_numbers_of_all_rounds_count_though_the_first_are_looked_at() -> None:
    """Twenty sweeps of two topics; ten blocks; both run together; counts of columns beside blocks of these."""

    def said(name: str, parameters: dict, features: int, documents: int) -> tuple[str, ...]:
        mechanism = make_mechanism(name, parameters)
        announced = recorded(mechanism, features)
        return unsolved(mechanism, announced, [a.name for a in announced], MayBeIn(documents, 0.5))

    for name, parameters, features, numbers in (
        ("pd-nmf", {"rank": 2}, 500, 20 * 2 * 501),
        ("pd-nmf", {"rank": 2, "weighted": True}, 500, 20 * 2 * 1000),
        ("pd-nmf", {"rank": 2, "start": "random-2x"}, 500, 40 * 2 * 501),
        ("pd-svd", {"rank": 2}, 500, 10 * 2 * 500),
        ("sigma-svd", {"rank": 7}, 120, 120 * 121 // 2),
        ("pd-svd", {"rank": 2, "solver": "power", "iterations": 6}, 500, 6 * 2 * 500),
    ):
        assert said(name, parameters, features, 2 * numbers + 1) == ()
        (words,) = said(name, parameters, features, 2 * numbers)
        assert f" are {numbers:,} exact numbers in all for {2 * numbers:,} documents" in words
    assert said("pd-nmf", {"rank": 2, "opens": "final"}, 500, 3000) == ()


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_from_enough_numbers_on_bounds_tell_who_is_in(share: float) -> None:
    """Least squares within 0 and 1, of general equations: which of these find everybody, by SciPy."""
    rng, n = np.random.default_rng(1), 200
    held = np.arange(n) < share * n
    for factor, found in ((1.3, True), (0.7, False)):
        terms = rng.normal(size=(n, round(factor * enough_numbers(share) * n)))
        least = linprog(np.ones(n), A_eq=terms.T, b_eq=held @ terms, bounds=(0, 1)).x
        assert bool(np.abs(least - held).max() < 1e-6) is found


@pytest.mark.parametrize(
    ("documents", "held", "few"),
    [(16, 8, True), (20, 10, False), (1001, 1, True), (1001, 2, False), (10**6, 5 * 10**5, False)],
)
def test_so_few_databases_that_each_can_be_weighed(documents: int, held: int, few: bool) -> None:
    assert bool(enumerated(MayBeIn(documents, held / documents))) is few
