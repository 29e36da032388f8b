"""Answers without reading everything, against pandas, which reads everything."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ksdp.audit.errors import StoreError
from ksdp.storage.audits.queries import SORTS, VERDICTS, Filter, Findings
from ksdp.storage.codec import write_table_with_checksum

NAMES = ("row-space-energy", "sigma", "w-max")
DOCUMENTS = 137


def make(folder: Path, seed: int = 3) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    n, k = DOCUMENTS, len(NAMES)
    distance = np.round(rng.beta(2, 4, (n, k)), 2)  # with ties
    distance[5] = np.nan
    p = -np.round(rng.exponential(2, (n, k)), 1)
    p[7] = -np.inf
    best = p.argmin(axis=1)
    row = np.arange(n)
    ids = [
        f"{word}-{at:03d}"
        for at, word in zip(rng.permutation(n), rng.choice(["Mail", "note%", "x_y"], n), strict=True)
    ]
    verdicts = pd.DataFrame(
        {
            "document": ids, "verdict": rng.choice(VERDICTS, n), "proof": "statistics", "log10_p": p[row, best],
            "log10_adjusted_p": p[row, best] / 2, "detected": p[row, best] < -3,
            "log10_p_above": p[row, best] / 3, "log10_adjusted_p_above": p[row, best] / 4,
            "log10_p_below": -distance[row, best], "log10_adjusted_p_below": 0.0,
            "statistic": np.array(NAMES)[best],
            "distance": distance[row, best], "band_low": distance[row, best] - 0.1,
            "band_high": distance[row, best] + 0.1,
            "largest_band_high": np.nanmax(distance, axis=1, initial=0) + 0.1,
            "n_with": rng.integers(0, 4, n), "n_without": 9, "detectable_distance": 0.3,
            "runs_to_decide": rng.choice([10.0, 20.0, np.inf, np.nan], n),
            "certified_bound": np.round(rng.random(n), 1), "knows_all": 0.5,
        }
    )  # fmt: skip
    statistics = pd.DataFrame(
        {
            "document": np.repeat(ids, k), "statistic": np.tile(NAMES, n), "version": np.int32(1), "n_with": 3,
            "n_without": 9, "distance": distance.ravel(), "band_low": 0.0, "band_high": 1.0, "log10_p": p.ravel(),
            "log10_p_tail": p.ravel() / 3, "log10_p_above": p.ravel() / 2, "log10_p_below": p.ravel() / 4,
        }
    )  # fmt: skip
    for name, table in (("verdicts", verdicts), ("statistics", statistics)):
        columns = {column: table[column].to_numpy() for column in table}  # NaN stays NaN, as a flow writes it
        write_table_with_checksum(folder / f"{name}.parquet", pa.table(columns))
    return verdicts, statistics


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Findings, pd.DataFrame, pd.DataFrame]:
    folder = tmp_path_factory.mktemp("audit")
    return Findings(folder), *make(folder)


def by_hand(verdicts: pd.DataFrame, chosen: Filter) -> list[str]:
    rows = verdicts.assign(place=range(len(verdicts)))
    if chosen.verdict:
        rows = rows[rows.verdict == chosen.verdict]
    rows = rows[[chosen.search.lower() in name.lower() for name in rows.document]]
    if chosen.only is not None:
        rows = rows[rows.document.isin(chosen.only)]
    rows = rows[~rows.document.isin(chosen.without)]
    keys = {
        "evidence": lambda r: (r.log10_p, -(-1 if np.isnan(r.distance) else r.distance), r.place),
        "advantage": lambda r: (-(-1 if np.isnan(r.distance) else r.distance), r.place),
        "bound": lambda r: (-r.certified_bound, r.place),
        "band": lambda r: (-r.largest_band_high, r.place),
        "id": lambda r: (r.document, r.place),
        "file": lambda r: r.place,
    }
    order = sorted(rows.itertuples(), key=keys[chosen.sort], reverse=chosen.descending)
    return [row.document for row in order]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    verdict=st.sampled_from([None, *VERDICTS]),
    search=st.sampled_from(["", "1", "mail", "%", "_", "x_", "'", "nothing"]),
    sort=st.sampled_from(sorted(SORTS)),
    descending=st.booleans(),
    offset=st.integers(0, 150),
    limit=st.integers(1, 40),
    data=st.data(),
)
def test_a_page_is_what_sorting_everything_gives(
    made: tuple[Findings, pd.DataFrame, pd.DataFrame],
    verdict: str | None, search: str, sort: str, descending: bool, offset: int, limit: int, data: st.DataObject,
) -> None:  # fmt: skip
    findings, verdicts, _ = made
    some = st.lists(st.sampled_from(sorted(verdicts.document)), max_size=5).map(tuple)
    only, without = data.draw(st.none() | some), data.draw(some)
    chosen = Filter(verdict, search, sort, descending, only, without)
    page = findings.page(chosen, offset=offset, limit=limit)
    expected = by_hand(verdicts, chosen)
    assert page.total == len(expected)
    assert [row.document for row in page.rows] == expected[offset : offset + limit]


def test_one_document_and_its_tests(made: tuple[Findings, pd.DataFrame, pd.DataFrame]) -> None:
    findings, verdicts, statistics = made
    for place in (0, 5, 99, DOCUMENTS - 1):
        row = findings.document(verdicts.document[place])
        assert (row.place, row.verdict, row.n_with) == (place, verdicts.verdict[place], verdicts.n_with[place])
        own = statistics[statistics.document == row.document]
        assert {t.statistic: t.log10_p for t in findings.tests(row)} == dict(
            zip(own.statistic, own.log10_p, strict=True)
        )
    assert findings.document("nobody") is None
    assert findings.document("' or true --") is None


def test_totals_and_overviews(made: tuple[Findings, pd.DataFrame, pd.DataFrame]) -> None:
    findings, verdicts, statistics = made
    totals = findings.totals()
    sensitive = verdicts[verdicts.verdict == "sensitive"]
    assert totals.median == pytest.approx(sensitive.distance.median())
    assert totals.tenth == pytest.approx(sensitive.distance.quantile(0.9))
    top = sensitive.loc[sensitive.distance.idxmax()]
    assert (totals.largest, totals.largest_low) == (top.distance, top.band_low)
    undecided = verdicts[verdicts.verdict == "undecided"]
    assert totals.untested == (undecided.n_with == 0).sum()
    assert totals.hopeless == (np.isinf(undecided.runs_to_decide) & (undecided.n_with > 0)).sum()
    assert totals.runs_to_decide == undecided.runs_to_decide[np.isfinite(undecided.runs_to_decide)].median()
    for name, found in findings.overviews().items():
        own = statistics[statistics.statistic == name]
        p = 10.0**own.log10_p
        np.testing.assert_array_equal(found.p_counts, np.histogram(p, 20, (0, 1))[0])
        assert found.below == (p <= 0.05).sum()
        exact = np.quantile(np.nan_to_num(own.distance), (0.05, 0.25, 0.5, 0.75, 0.95), method="inverted_cdf")
        np.testing.assert_allclose(found.quantiles, exact, atol=0.0011)


def test_two_audits_are_compared_document_by_document(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 2)):
        (tmp_path / name).mkdir()
        make(tmp_path / name, seed)
    one, other = (pq.read_table(tmp_path / name / "verdicts.parquet").to_pandas() for name in "ab")
    a, b = Findings(tmp_path / "a"), Findings(tmp_path / "b")
    both = one.merge(other, on="document", how="outer", suffixes=("_a", "_b"))
    counted = both.groupby(["verdict_a", "verdict_b"], dropna=False).size()
    expected = {tuple(None if pd.isna(v) else v for v in key): n for key, n in counted.items()}
    assert dict(a.compare(b).moves) == expected
    common = both.dropna(subset=["distance_a", "distance_b"])
    assert 0 < len(common) < len(one.merge(other, on="document"))
    assert a.medians(b) == (len(common), common.distance_a.median(), common.distance_b.median())
    move = both[(both.verdict_a == "clear") & (both.verdict_b == "sensitive")]
    move = move.assign(change=(move.distance_a - move.distance_b).abs())
    found = a.moved(b, "clear", "sensitive", limit=100)
    assert {row[0] for row in found} == set(move.document)
    changes = [abs(before - after) for _, before, after in found if not np.isnan(before - after)]
    assert changes == sorted(changes, reverse=True)


def test_what_cannot_be_asked_or_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="`sort` must be one of"):
        Filter(sort="document; drop table")
    with pytest.raises(ValueError, match="`verdict` must be one of"):
        Filter(verdict="good")
    with pytest.raises(StoreError, match=r"has no verdicts\.parquet"):
        Findings(tmp_path / "none").totals()
    (tmp_path / "verdicts.parquet").write_bytes(b"no parquet at all")
    with pytest.raises(StoreError):
        Findings(tmp_path).totals()
