"""The papers' tables and figures, on small data: against plain decompositions, and what must come out."""

import ast
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from joblib import Memory
from papers import __main__ as papers
from papers import data, fedpower, gains, leaks, outcome, pem
from scipy.optimize import nnls

ROOT = Path(__file__).resolve().parents[1]
PUBLIC = {"ksdp", "ksdp.audit.contract"}


def test_scripts_use_public_names_alone() -> None:
    taken = set()
    for path in (ROOT / "papers").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                taken.add(node.module)
            elif isinstance(node, ast.Import):
                taken |= {alias.name for alias in node.names}
    assert {name for name in taken if name and name.startswith("ksdp")} == PUBLIC


def test_the_list_and_the_page_have_every_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = (*papers.ENTRIES, *papers.ELSEWHERE)
    page = (ROOT / "docs" / "reproduced.md").read_text(encoding="utf-8")
    assert [name for name in names if f"`{name}`" not in page] == []
    assert {name for entry in papers.ENTRIES.values() for name in entry.data} <= set(data.FILES)
    (tmp_path / "kos").mkdir()
    (tmp_path / "kos" / "counts.npz").touch()
    papers.main(["--list", "--data", str(tmp_path)])
    shown = capsys.readouterr().out
    assert [name for name in names if name not in shown] == []
    assert "20newsgroups; not there: reuters-21578, enron-mail6, 20newsgroups" in shown


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="needs adult"):
        papers.main(["pem-figure-2a", "--data", str(tmp_path), "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit):
        papers.main(["figure-99"])
    assert not (tmp_path / "out").exists()


def test_a_table_from_the_command_to_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(papers.ENTRIES["fedpower-figure-2"], run=lambda *_: fedpower.figure_2((4, 8), devices=4))
    monkeypatch.setitem(papers.ENTRIES, "fedpower-figure-2", small)
    papers.main(["fedpower-figure-2", "--short", "--out", str(tmp_path)])
    page = (tmp_path / "fedpower-figure-2.md").read_text(encoding="utf-8")
    assert page.index("The paper sees") < page.index("| iterations | distance |") < page.index("Why the numbers")
    kept = json.loads((tmp_path / "fedpower-figure-2.json").read_text(encoding="utf-8"))
    assert [row[0] for row in kept["rows"]] == [4, 8]
    assert (tmp_path / "fedpower-figure-2.png").exists() == outcome.can_draw()


@pytest.fixture(scope="module")
def stars() -> sp.csr_array:
    rng = np.random.default_rng(4)
    likely = rng.gamma(0.5, size=(400, 12)) @ rng.gamma(0.5, size=(12, 60))
    return sp.csr_array(np.clip(np.rint(likely), 0, 5))


def test_fedpower_is_measured_against_numpys_basis(stars: sp.csr_array) -> None:
    values, basis = fedpower.top(data.split(stars, 4))
    dense = stars.toarray()
    slow = np.linalg.eigvalsh(dense.T @ dense / len(dense))[::-1][: fedpower.RANK + 1]
    np.testing.assert_allclose(values, slow, rtol=1e-9)
    turned = np.linalg.qr(np.random.default_rng(0).normal(size=(fedpower.RANK, fedpower.RANK)))[0]
    assert fedpower.error(turned @ basis, basis) < 1e-7
    by_iterations = fedpower.figure_3(stars, iterations=(2, 8), periods=(1,), devices=4)
    curves = {line.name: line.y for line in by_iterations.lines}
    assert [*curves] == [f"Algorithm {name}" for name in fedpower.NAMES]
    assert curves["Algorithm 2"][1] < curves["Algorithm 2"][0]
    by_sigma = fedpower.figure_4(stars, sigmas=(0.001, 10.0), iterations=4, period=2, devices=4)
    assert all(line.y[1] > line.y[0] for line in by_sigma.lines[:3])
    assert by_sigma.lines[4].x == fedpower.CLIPS


def test_folds_are_judged_on_records_that_they_did_not_learn_from() -> None:
    rng = np.random.default_rng(6)
    table = pd.DataFrame({name: rng.choice(["a", "b", "c"], 300, p=[0.7, 0.2, 0.1]) for name in "wxyz"})
    features = data.one_hot(table).toarray()
    records = sp.csr_array(np.column_stack([features, features[:, 0] > 0]))  # one column decides
    experiment = pem.adult_experiment(records, 30, folds=3)
    assert experiment.mean(pem.NO_PRIVACY, pem.SERVERS) > 0.95
    assert experiment.mean(1000.0, pem.SERVERS) > 0.9


@pytest.fixture(scope="module")
def rows() -> sp.csr_array:
    """400 rows of unit length about three directions."""
    rng = np.random.default_rng(0)
    dense = rng.gamma(0.4, size=(400, 3)) @ rng.gamma(0.5, size=(3, 20)) + 0.05 * rng.random((400, 20))
    return sp.csr_array(dense / np.linalg.norm(dense, axis=1)[:, None])


def test_errors_are_those_of_dense_projections_and_of_nonnegative_least_squares(rows: sp.csr_array) -> None:
    task, dense, test = gains.LowRank(rows), rows.toarray(), np.arange(50)
    right = np.linalg.svd(dense, full_matrices=False)[2][:2]
    assert task.error(task.learn(rows, 2), test, test) == pytest.approx(
        np.linalg.norm(dense[test] - dense[test] @ right.T @ right) ** 2
    )
    topics = gains.Topics(rows)
    T = topics.learn(sp.csr_array(rows[:300]), 3)
    slow = sum(nnls(T.T, row)[1] ** 2 for row in dense[300:])
    assert topics.error(T, test, np.arange(300, 400)) == pytest.approx(slow, rel=1e-3)


def test_hyperband_gives_the_best_more_and_counts_what_it_tries() -> None:
    """Of an error that is least at 1 and falls with the sweeps, the nearest to 1 of all values that are tried."""
    asked: list[tuple[float, int]] = []

    def error(value: float, sweeps: int) -> float:
        asked.append((value, sweeps))
        return float(abs(np.log(value))) + 1 / sweeps

    best, tried = gains.hyperband(error, np.random.default_rng(0), 27)
    assert tried == 27 + 12 + 6 + 4
    assert {sweeps for _, sweeps in asked} == {1, 3, 9, 27}
    assert abs(np.log(best)) == min(abs(np.log(value)) for value, sweeps in asked if sweeps == 27)
    assert sum(sweeps for _, sweeps in asked) < 27 * tried / 2


@pytest.fixture(scope="module")
def private() -> sp.csr_array:
    return sp.csr_array(np.random.default_rng(3).gamma(0.6, size=(120, 12)))


def test_table_2_says_what_its_p_values_mean(private: sp.csr_array) -> None:
    corpora = {"topics": (private, {**leaks.TOPICS, "sweeps": 3})}
    how = {"documents": 2, "runs": 40, "ranks": (2,), "shares": (0.03,), "few": (2, 40)}
    done = leaks.table_2(corpora, **how, parts=Memory(None))  # type: ignore[arg-type]
    assert done.rows[0][3] == "0.044 +- 0.02"
    assert int(str(done.rows[0][-1]).rstrip("%")) >= 50  # a run of three documents announces nearly a document
    assert "0.5% and 3.0% have p below 0.05" in done.notes[-1]


def test_a_table_that_was_stopped_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = sp.csr_array(np.random.default_rng(1).poisson(0.7, size=(60, 12)))
    keeps = Memory(tmp_path, verbose=0)
    first = gains.starts_scores(counts, (3,), (0.3,), (2,), 1, keeps)
    monkeypatch.setattr(gains, "released", lambda *_, **__: pytest.fail("made again"))
    assert gains.starts_scores(counts, (3,), (0.3,), (2,), 1, keeps) == first
    with pytest.raises(pytest.fail.Exception):
        gains.starts_scores(counts, (3,), (0.3,), (2,), 2, keeps)


def test_every_mechanism_is_compared_on_one_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = sp.csr_array(np.random.default_rng(3).gamma(0.6, size=(120, 24)))
    monkeypatch.setattr(leaks, "_PUBLIC", 60)
    monkeypatch.setattr(leaks, "_DIRECTIONS", 6)
    party = np.array(["a", "b"])[np.arange(rows.shape[0]) % 2]
    done = leaks.compare(rows, party, "topics", documents=2, runs=6, rank=2, splits=1)
    assert [row[0] for row in done.rows] == [*leaks.MECHANISMS]
    exact, certified = done.rows[0], {row[0]: row[6] for row in done.rows}
    assert exact[3] == "100%"
    assert certified["moments, advantage 0.2"] == 0.2
    assert certified["PD-SVD"] is None


def test_starts_are_compared_by_leak_and_error(private: sp.csr_array, stars: sp.csr_array) -> None:
    how = {"documents": 2, "runs": 6, "rank": 2, "sweeps": 2}
    done = leaks.starts(private[:60], stars[:150], wanted=("random", "random-2x"), **how)  # type: ignore[arg-type]
    assert [row[:2] for row in done.rows] == [
        (of, start) for of in ("text", "ratings") for start in ("random", "random-2x")
    ]
    errors = [float(str(row[2])) for row in done.rows[2:]]
    assert 0 < errors[1] < errors[0] < 3, "more sweeps predict better"
