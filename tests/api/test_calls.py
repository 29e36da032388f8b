"""`import ksdp` as a person in a notebook uses it."""

import asyncio
import shutil
import subprocess
import sys
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_info, threadpool_limits

import ksdp
from ksdp.api.call_spec import call_spec
from ksdp.audit.errors import CorpusError, InputError, StoreError
from ksdp.audit.mechanisms.privacy.hardt_roth import HardtRoth
from ksdp.audit.reviewing import Decision, Proposal
from ksdp.dashboards.audits.sentences import next_steps
from ksdp.storage.audits.ledger import lost_audits, read_ledger
from ksdp.storage.audits.queries import Findings
from ksdp.storage.reviews.decisions import append, document_state
from ksdp.storage.reviews.log import check_chain
from ksdp.storage.store import Store

from ..functions import everything, mean

Matrix = NDArray[np.float64]
FEW = {"party_size": 0.5, "with_runs": 8, "fresh_runs": 0, "seed": 1}


@pytest.fixture(scope="module")
def counts() -> Matrix:
    return np.random.default_rng(0).poisson(1.0, (24, 6)).astype(float)


@pytest.fixture(scope="module")
def plain(counts: Matrix) -> ksdp.Audit:
    """An audit to look at."""
    return ksdp.audit(counts, mean, **FEW)


@pytest.fixture(scope="module")
def other(counts: Matrix) -> ksdp.Audit:
    """One of another seed and margin."""
    return ksdp.audit(counts, mean, **FEW | {"seed": 2, "margin": 0.4})


def test_import_is_quick_and_loads_nothing_heavy() -> None:
    code = (
        "import sys, ksdp; heavy = {'numpy', 'pandas', 'prefect', 'distributed', 'numba'} & set(sys.modules); "
        "assert not heavy, heavy; import ksdp.audit.errors; assert callable(ksdp.audit)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_same_seed_gives_the_same_table_where_an_event_loop_runs_too(
    counts: Matrix, plain: ksdp.Audit, other: ksdp.Audit
) -> None:
    async def cell() -> ksdp.Audit:
        return ksdp.audit(counts, mean, **FEW)

    again = asyncio.run(cell())
    pd.testing.assert_frame_equal(again.statistics, plain.statistics, check_exact=True)
    assert not again.statistics.equals(other.statistics)
    assert plain.id == again.id != ksdp.audit(counts, everything, **FEW).id


def test_a_mechanism_as_an_object_is_looked_at_as_by_its_name(counts: Matrix) -> None:
    """One that brings a statistic of its own was looked at by that alone."""
    parameters = {"rank": 2, "epsilon": 20.0}
    by_name = ksdp.plan(counts, {"name": "hardt-roth", **parameters}, **FEW)
    as_object = ksdp.plan(counts, HardtRoth(**parameters), **FEW)
    assert "linear-releases" in as_object["statistics"]
    assert as_object["statistics"] == by_name["statistics"]


def test_arrays_sparse_matrices_tables_and_texts_are_corpora(counts: Matrix, plain: ksdp.Audit) -> None:
    frame = pd.DataFrame(counts, columns=list("abcdef"))
    pd.testing.assert_frame_equal(ksdp.audit(frame, mean, **FEW).statistics, plain.statistics)
    sparse = ksdp.audit(sp.csr_array(counts), mean, **FEW)
    assert (sparse.summary.corpus, len(sparse.verdicts)) == (plain.summary.corpus, 24)
    texts = [f"word{chr(97 + n % 7)} common term{chr(97 + n % 5)}" for n in range(24)]
    assert len(ksdp.audit(texts, "pd-svd", rank=2, ids=[f"t{n}" for n in range(24)], **FEW).verdicts.loc["t3"])


def test_results_are_frames_of_the_kind_that_the_data_were(counts: Matrix) -> None:
    few = {**FEW, "id": "name", "party": "name"}
    frame = pd.DataFrame(counts, columns=list("abcdef")).assign(name=[f"d{n}" for n in range(24)])
    table, wanted = pa.Table.from_pandas(frame), ksdp.audit(frame, mean, **few)
    for data, kind in (
        (pl.DataFrame(frame), pl.DataFrame),
        (duckdb.from_arrow(table), duckdb.DuckDBPyRelation),
        (table.to_reader(), pa.Table),
    ):
        found = ksdp.audit(data, mean, **few)
        assert isinstance(found.verdicts, kind)
        assert isinstance(found.statistics, kind)
        assert pa.table(found.statistics).to_pylist() == wanted.arrow("statistics").to_pylist()
        assert pa.table(found.verdicts).to_pylist() == wanted.arrow().to_pylist()
        assert pa.table(found.effects).to_pylist() == wanted.arrow("effects").to_pylist()
        if isinstance(found.statistics, pl.DataFrame):
            joined = pl.DataFrame(frame).join(found.statistics, left_on="name", right_on="document")
            assert len(joined) == len(wanted.statistics)
    counted = duckdb.sql("select verdict, count(*) from wanted group by verdict").fetchall()
    assert dict(counted) == wanted.verdicts["verdict"].value_counts().to_dict()
    assert pl.DataFrame(wanted).equals(pl.DataFrame(wanted.arrow()))
    with pytest.raises(InputError, match="`table` must be verdicts, statistics or effects; got 'curves'"):
        wanted.arrow("curves")  # type: ignore[arg-type]
    with pytest.raises(CorpusError, match="the DuckDBPyRelation cannot be read as a table"):
        ksdp.audit(duckdb.sql("select error('gone') as a"), mean, **few)
    with pytest.raises(CorpusError, match="the LazyFrame hands on no Arrow stream; collect it"):
        ksdp.audit(pl.DataFrame(frame).lazy(), mean, **few)


@pytest.mark.usefixtures("many_documents")
def test_estimators_are_fitted_in_every_run(counts: Matrix) -> None:
    found = ksdp.audit(counts, KMeans(2, n_init=1), **FEW)
    assert set(found.summary.statistics) == {
        *(f"{what}:cluster_centers_" for what in ("projection", "match", "distance")),
        "simulated",
    }
    labels, half = np.where(np.arange(24) % 2, "yes", "no"), {**FEW, "party_size": 0.5}
    with pytest.warns(ConvergenceWarning) as heard:  # once, and not in every run
        regression = ksdp.audit(counts, LogisticRegression(max_iter=1), y=labels, **half)
    assert len([one for one in heard if one.category is ConvergenceWarning]) == 1
    assert {"match:coef_", "sum:intercept_"} <= set(regression.summary.statistics)
    assert not regression.summary.unread
    largest = []

    class Heard(LinearRegression):  # type: ignore[misc]
        def fit(self, X: Any, y: Any) -> Any:
            largest.append(y.max())
            return super().fit(X, y)

    ksdp.audit(counts, Heard(), y=np.full(24, 1e4), **half)
    assert set(largest) == {1e4}, "numbers are no labels"
    with pytest.raises(InputError, match="no fitted attribute 'secret_'"):
        ksdp.audit(counts, KMeans(2, n_init=1), publishes=["secret_"], **FEW)


@pytest.mark.usefixtures("many_documents")
def test_of_a_pipeline_the_steps_before_the_last_are_looked_at(counts: Matrix) -> None:
    """Nobody can use the components without the scaler's means, so they are published too."""
    pipeline = make_pipeline(StandardScaler(), PCA(2))
    said = "publishes components_, mean_, standardscaler__mean_, standardscaler__scale_, standardscaler__var_\n"
    assert said in repr(ksdp.plan(counts, pipeline, **FEW))
    found = ksdp.audit(counts, pipeline, **FEW).summary
    names = {array.name for array in found.announced}
    assert names == {"components_", "mean_", *(f"standardscaler__{name}_" for name in ("mean", "scale", "var"))}
    assert not found.unread
    assert "projection:standardscaler__mean_" in found.statistics
    only = ksdp.plan(counts, pipeline, publishes=["pca__components_"], **FEW)
    assert "publishes pca__components_\n" in repr(only)


def test_a_mechanism_that_gives_everything_away_is_found_by_its_arrays(counts: Matrix) -> None:
    outlier = counts.copy()
    outlier[7] *= 100
    found = ksdp.audit(outlier, everything, **{**FEW, "with_runs": 60})
    assert found.verdicts.loc["8", "verdict"] == "sensitive"
    assert found.document("8").verdict.distance == 1.0
    curve = found.values("8")
    assert curve.with_values.min() > curve.without_values.max()


def test_ids_of_arrays_are_row_numbers_and_those_of_frames_their_index(counts: Matrix) -> None:
    counts = counts.copy()
    counts[[0, 5]] = 0.0
    with pytest.warns(UserWarning, match=r"^2 rows .* no verdict: '1', '6'\."):
        found = ksdp.audit(counts, "pd-svd", rank=2, **FEW)
    assert list(found.verdicts.index) == [str(at) for at in range(1, 25) if at not in (1, 6)]
    frame = pd.DataFrame(counts[6:], index=[f"patient {at}" for at in range(6, 24)])
    frame = frame.rename(columns=str).assign(city="here")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        ksdp.plan(pd.DataFrame(np.abs(counts) + 1), "pd-svd", rank=2, **FEW)  # its columns are called 0, 1, 2, ...
    with pytest.warns(UserWarning, match=r"do not hold numbers are left out: city\."):
        named = ksdp.audit(frame, "pd-svd", rank=2, **FEW)
    assert list(named.verdicts.index) == list(frame.index)
    first, *lines = repr(document := named.document("patient 7")).splitlines()
    assert first.endswith(f" under {lines[0].split()[0]}")
    assert len(lines) == len(document.tests) == len(named.summary.statistics)
    few = {**FEW, "documents": ["patient 7", "patient 9"]}
    assert list(ksdp.audit(frame.drop(columns="city"), "pd-svd", rank=2, **few).verdicts.index) == few["documents"]


@pytest.mark.parametrize(
    ("statistic", "message"),
    [
        (lambda seen, rows: seen["nothing"], r"failed: KeyError: 'nothing' \(test_calls.py, line \d+"),
        (lambda seen, rows: seen["mean"], r"a finite number a document, shape \(24,\), not shape \(6,\)"),
        (lambda seen, rows: rows @ seen["mean"] * np.nan, "with NaN"),
    ],
)
def test_a_statistic_that_fails_is_named_with_what_it_must_return(
    counts: Matrix, statistic: Any, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        ksdp.audit(counts, mean, statistics=[statistic], documents=None, **FEW)


@pytest.mark.parametrize("value", [1e308, 2.0**70])
def test_a_number_that_cannot_be_squared_is_named_with_its_place(counts: Matrix, value: float) -> None:
    counts = counts.copy()
    counts[4, 2] = value
    with pytest.raises(InputError, match=r"document '5', column 2 \(from 0\) holds .*Divide the column"):
        ksdp.audit(counts, mean, **FEW)
    with pytest.raises(InputError, match=r"row 5, column `2`: is .*Divide the column"):
        ksdp.audit(pd.DataFrame(counts).rename(columns=str), mean, **FEW)


def test_products_of_matrices_have_one_thread_as_in_the_command(counts: Matrix) -> None:
    threads: list[int] = []

    def watched(rows: Matrix, rng: np.random.Generator) -> dict[str, Matrix]:
        threads.append(max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"))
        return mean(rows, rng)

    with threadpool_limits(2):
        runs = ksdp.audit(counts, watched, **FEW).summary.runs
    assert set(threads[-runs:]) == {1}  # the first one is a trial


def test_stored_runs_of_a_function_are_used_again_only_where_a_version_says_so(
    counts: Matrix, tmp_path: Path
) -> None:
    again = [ksdp.audit(counts, mean, store=tmp_path / "s", **FEW).summary.cached_runs for _ in range(2)]
    assert again == [0, 0]
    named = [ksdp.audit(counts, mean, version=1, store=tmp_path / "s", **FEW).summary.cached_runs for _ in "ab"]
    assert named[0] == 0
    assert named[1] > 0


def test_saved_loaded_reported(plain: ksdp.Audit, tmp_path: Path) -> None:
    found, store = plain, plain.save(tmp_path / "kept")
    loaded = ksdp.load(store, found.id[:5])
    pd.testing.assert_frame_equal(loaded.verdicts, found.verdicts)
    assert loaded.values("1").with_values.tolist() == found.values("1").with_values.tolist()
    assert ksdp.load(store).id == found.id
    asked = read_ledger(Store(found.store)).attempt(found.id)
    assert read_ledger(Store(store)).attempts_at(asked.question) == (asked,)
    page = found.report(tmp_path / "page.html")
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert "undecided" in found._repr_html_()
    with pytest.raises(StoreError, match="no finished audit 'zz'"):
        ksdp.load(store, "zz")


def test_what_another_seed_proved_is_saved_with_an_audit(counts: Matrix, tmp_path: Path) -> None:
    first, last = (ksdp.audit(counts, mean, version=1, store=tmp_path / "s", **FEW | {"seed": n}) for n in (1, 2))
    kept = Store(last.save(tmp_path / "kept"))
    asked = read_ledger(kept).attempt(last.id)
    attempts = read_ledger(kept).attempts_at(asked.question)
    assert [one.audit for one in attempts] == [first.id, last.id]
    assert lost_audits(kept) == {}
    shutil.rmtree(kept.audit(first.id))
    assert list(lost_audits(kept)) == [first.id]


def test_decisions_are_saved_with_an_audit_and_never_joined_with_others(plain: ksdp.Audit, tmp_path: Path) -> None:
    found = ksdp.load(shutil.copytree(plain.store, tmp_path / "s"))
    here, there = Store(found.store), Store.open(tmp_path / "kept")
    excluded = Proposal(found.id, "7", Decision.EXCLUDE, "objection", "Ana")
    append(here, [excluded], datetime.now(UTC))
    for _ in range(2):  # the second time they are there already
        found.save(there.root)
        assert document_state(there, found.id, "7") == document_state(here, found.id, "7")
        assert (check_chain(there.root).entries, check_chain(there.root).reason) == (1, "")
    append(there, [Proposal(found.id, "8", Decision.EXCLUDE, "objection", "Ana")], datetime.now(UTC))
    with pytest.raises(StoreError, match="two logs cannot be joined"):
        found.save(there.root)


def test_plan_says_what_it_would_take(counts: Matrix) -> None:
    said = ksdp.plan(counts, "pd-svd", rank=2, party_size=0.25)
    assert said["documents"] == 24
    assert ksdp.plan(counts, "pd-svd", rank=2, noise=0.3, party_size=0.25)["documents"] == 24, "any can have noise"
    assert "clears" in repr(said)


def test_refusals_name_what_is_wrong(counts: Matrix) -> None:
    with pytest.raises(InputError, match="`wit_runs` is neither a setting nor .* mean `with_runs`"):
        ksdp.audit(counts, "pd-svd", rank=2, wit_runs=3)
    with pytest.raises(InputError, match=r"ZeroDivisionError: division by zero \(test_calls.py, line \d+"):
        ksdp.audit(counts, lambda rows, rng: 1 / 0, **FEW)
    with pytest.raises(InputError, match="NaN or infinity in 'output'"):
        ksdp.audit(counts, lambda rows, rng: np.array([np.nan]), **FEW)
    with pytest.raises(InputError, match="'output' has more digits than double precision holds"):
        ksdp.audit(counts, lambda rows, rng: np.array([2**60 + 1]), **FEW)
    with pytest.raises(InputError, match="`workers` need names"):
        ksdp.audit(counts, mean, workers=2, **FEW)
    with pytest.raises(InputError, match=r"emb.npy is no spec \(.toml\): give arrays"):
        ksdp.audit("emb.npy", "pd-svd", rank=2)
    with pytest.raises(InputError, match="a matrix of numbers"):
        ksdp.audit([1, 2, 3], mean)


def test_audits_are_compared_as_a_table(plain: ksdp.Audit, other: ksdp.Audit) -> None:
    table = ksdp.compare(plain, other)
    assert table.index.tolist() == [plain.id, other.id]
    assert {"seed", "decision.margin"} <= set(table.columns)
    assert "design.with_runs" not in table.columns  # the same in both
    assert (table[["sensitive", "clear", "undecided"]].sum(axis=1) == table["documents"]).all()
    medians = [one.verdicts["distance"].median() for one in (plain, other)]
    assert table["median_D"].tolist() == pytest.approx(medians)
    with pytest.raises(InputError, match="at least one audit"):
        ksdp.compare()


def test_a_result_says_what_to_do_next_as_the_command_does(plain: ksdp.Audit) -> None:
    steps = next_steps(plain.summary, Findings(plain.store / "audits" / plain.id).totals().runs_to_decide)
    assert [line.removeprefix("next    ") for line in repr(plain).splitlines()[1:]] == [
        step.replace("“", "`").replace("”", "`") for step in steps
    ]
    assert "<p>Do not take the 24 undecided" in plain._repr_html_()
    assert "specification" not in plain._repr_html_(), "a call has none"
    page = plain.document("3")._repr_html_()
    assert page.count("<td>") == 5 * len(plain.summary.statistics)


def test_a_cell_that_is_stopped_or_refused_ends_in_one_line(
    counts: Matrix, plain: ksdp.Audit, tmp_path: Path
) -> None:
    def stopped(rows: Any, rng: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        ksdp.audit(counts, stopped, store=tmp_path / "s", **FEW)
    assert caught.value._render_traceback_() == ["Stopped. The same call goes on from what is stored."]  # type: ignore[attr-defined]
    with pytest.raises(StoreError) as refused:
        plain.document("nosuch")
    (line,) = refused.value._render_traceback_()
    assert "has no document 'nosuch'" in line


def test_a_mechanism_by_name_opens_its_final_output_alone(counts: Matrix) -> None:
    assert call_spec(counts, "pd-svd", {}).spec.mechanism.parameters["opens"] == "final"
    asked = call_spec(counts, "pd-svd", {"opens": "every round"})
    assert asked.spec.mechanism.parameters["opens"] == "every round"


def test_plot_says_what_to_install_or_draws(plain: ksdp.Audit) -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        with pytest.raises(InputError, match=r"ksdp\[plot\]"):
            plain.plot()
    else:
        assert len(plain.plot("3").axes[0].lines) >= 2
        assert plain.plot("3")._repr_png_().startswith(b"\x89PNG"), "a notebook shows it"
