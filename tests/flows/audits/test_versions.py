"""`ksdp test SPEC --data EDITED`: what stored runs tell to somebody who knows edited versions alone."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from ksdp.audit.errors import InputError, KsdpError
from ksdp.audit.specs.models import CorpusSpec, parse_spec
from ksdp.flows.audits.place import HERE
from ksdp.flows.audits.replay import replay
from ksdp.flows.audits.run import EditedVersions, run_audit, run_versions
from ksdp.flows.prepare import open_spec
from ksdp.storage.corpora import load_edited
from ksdp.storage.findings import read_statistics

from ...typed import typed

COLUMNS = [f"c{at}" for at in range(12)]
TABLES: dict[str, Any] = {
    "corpus": {"path": "x.parquet", "id": "mail"},
    "mechanism": {"name": "pd-svd", "rank": 2, "opens": "final"},
    "design": {"party_size": 0.5, "with_runs": 100, "fresh_runs": 0},
    "statistics": {"families": [], "names": ["row-space-energy", "first-order-basis"]},
    "decision": {"margin": 0.3},
}


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus, and a store with its audit."""
    folder = tmp_path_factory.mktemp("versions")
    table = pd.DataFrame(np.random.default_rng(1).normal(size=(60, 12)), columns=COLUMNS)
    table.insert(0, "mail", [f"m{at}" for at in range(60)])
    table.to_parquet(folder / "x.parquet")
    run_audit(open_spec(parse_spec(TABLES), folder), folder / "store", HERE)
    return folder


def edited(folder: Path, change: float) -> tuple[Path, pd.DataFrame]:
    """Versions of ten documents that are the more their own the larger `change`, the last document first."""
    table = pd.read_parquet(folder / "x.parquet")[9::-1].copy()
    other = np.random.default_rng(2).normal(size=(10, 12))
    table[COLUMNS] = (1 - change) * table[COLUMNS] + change * other
    table.to_csv(folder / "edited.csv", index=False)
    return folder / "edited.csv", table


def measured(folder: Path, change: float) -> EditedVersions:
    path, _ = edited(folder, change)
    return run_versions(parse_spec(TABLES), folder, path, folder / "store", place=HERE)


def test_a_version_that_is_the_document_leaks_as_it_does_and_another_leaks_nothing(audited: Path) -> None:
    same, near, far = (measured(audited, change) for change in (0.0, 0.3, 1.0))
    assert [row["document"] for row in same.rows] == [f"m{at}" for at in range(9, -1, -1)]
    tables = [
        read_statistics(audited / "store" / "audits" / one.audit) for one in (same.themselves, same.versions)
    ]
    assert tables[0].equals(tables[1]), "to the last bit"
    assert same.themselves.sampled_runs == same.versions.sampled_runs == 0
    distances = [np.mean([row["D_version"] for row in one.rows]) for one in (same, near, far)]
    assert distances[0] > distances[1] > distances[2]
    assert sum(row["adjusted_p_itself"] <= 0.05 for row in same.rows) > 5
    assert not any(row["adjusted_p_version"] <= 0.05 for row in far.rows)


def test_nothing_is_decided_signed_or_run_again(audited: Path, tmp_path: Path) -> None:
    shutil.copytree(audited, tmp_path, dirs_exist_ok=True)
    store, found = tmp_path / "store", measured(tmp_path, 0.3).versions
    assert (found.verdicts.sensitive, found.verdicts.clear, found.detected) == (0, 0, 0)
    assert "knows the versions alone. Nothing is decided" in Path(found.report).read_text(encoding="utf-8")
    with pytest.raises(KsdpError, match="edited versions of documents, which no run holds"):
        replay(store, found.audit, "m3", "row-space-energy")
    typed("keys", "ada", "--folder", tmp_path, code=0)
    given = ("--clearance", tmp_path / "x.clearance", "--key", tmp_path / "ada.key", "--who", "Ada")
    with pytest.raises(InputError, match="explored statistics"):
        typed("clear", found.audit, *given, "--store", store)
    again = run_audit(open_spec(parse_spec({**TABLES, "decision": {"margin": 0.2}}), tmp_path), store, HERE)
    assert again.sampled_runs == 0, "statistics that the audit had tested were not chosen by looking"


def test_the_command_prints_both_side_by_side(audited: Path) -> None:
    (audited / "x.toml").write_text(
        'corpus.path = "x.parquet"\ncorpus.id = "mail"\nmechanism.name = "pd-svd"\nmechanism.rank = 2\n'
        'mechanism.opens = "final"\ndesign.party_size = 0.5\ndesign.with_runs = 100\ndesign.fresh_runs = 0\n'
        'statistics.families = []\nstatistics.names = ["row-space-energy", "first-order-basis"]\n'
        "decision.margin = 0.3\n",
        encoding="utf-8",
    )
    path, _ = edited(audited, 0.3)
    given = ("test", audited / "x.toml", "--data", path, "--store", audited / "store", "--here", 1)
    shown = typed(*given, code=0).stdout
    assert "D, itself" in shown
    assert "No verdict." in shown
    rows = json.loads(typed(*given, "--json", code=0).stdout)["rows"]
    assert rows[0].keys() >= {"document", "D_itself", "p_itself", "D_version", "p_version"}
    assert "verdict" not in rows[0]
    assert f"{rows[0]['D_version']:.3f}" in shown
    named = typed(*given, "--statistics", "missing-weight", "--json", code=0).stdout
    assert {row["statistic_version"] for row in json.loads(named)["rows"]} <= {"missing-weight", "simulated"}


def test_versions_that_cannot_be_measured_are_refused(audited: Path) -> None:
    path, table = edited(audited, 0.3)
    spec, store = parse_spec(TABLES), audited / "store"
    changes = {
        r"row 2, column `mail`: 'q' is no document": table.assign(mail=["m9", "q", *table["mail"][2:]]),
        "repeats that of row 1": table.assign(mail=["m8", *table["mail"][1:]]),
        "there is no column `c3`": table.drop(columns="c3"),
        "there is no column `mail`": table.drop(columns="mail"),
        "row 1: nothing of it is left": table.assign(
            **{name: table[name].where(table.index != 9, 0.0) for name in COLUMNS}
        ),
    }
    for words, changed in changes.items():
        changed.to_csv(path, index=False)
        with pytest.raises(InputError, match=words):
            run_versions(spec, audited, path, store, place=HERE)
    path, _ = edited(audited, 0.3)
    other = parse_spec({**TABLES, "seed": 5})
    with pytest.raises(InputError, match="no finished audit of this spec and corpus"):
        run_versions(other, audited, path, store, place=HERE)
    with pytest.raises(InputError, match="`--statistics` must name"):
        typed("test", "latest", "--store", store)


TEXTS = [
    "storm in the harbour tonight",
    "the harbour is calm tonight",
    "calm sailors mend nets",
    "storm storm nets",
]


@pytest.mark.parametrize("idf", ["global", "party"])
def test_texts_are_weighed_by_what_the_corpus_holds(idf: str, tmp_path: Path) -> None:
    table = pd.DataFrame({"id": list("abcd"), "body": TEXTS, "by": ["x", "x", "y", "y"]})
    table.to_csv(tmp_path / "mail.csv", index=False)
    forwarded = pd.DataFrame({"id": ["c", "a"], "body": [TEXTS[2], "fw nice " + TEXTS[0] + " nets nets"]})
    forwarded.to_csv(tmp_path / "fw.csv", index=False)
    spec = CorpusSpec(
        path="mail.csv", text="body", id="id", party="by", idf=idf, stop_words="none", min_documents=1
    )
    corpus, changed, ids = load_edited(spec, tmp_path, tmp_path / "fw.csv", nonnegative=True)
    assert ids == ("c", "a")
    assert (changed.matrix[1:].toarray() == corpus.matrix[1:].toarray()).all(), "one is the text itself"
    words = sorted({word for text in TEXTS for word in text.split() if len(word) >= 3})
    counted = TEXTS if idf == "global" else TEXTS[:2]
    said = [*TEXTS[0].split(), "nets", "nets"]
    held = {word: sum(word in text.split() for text in counted) for word in words}
    row = np.array([said.count(w) * np.log(len(counted) / held[w]) if held[w] else 0.0 for w in words])
    np.testing.assert_allclose(changed.matrix[0].toarray().ravel(), row / np.linalg.norm(row))


def test_numbers_are_standardised_by_what_the_corpus_holds(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(20, 3))
    pd.DataFrame(rows, columns=list("abc")).to_csv(tmp_path / "x.csv", index=False)
    pd.DataFrame([[7, *rows[6] + 1.0]], columns=["id", *"abc"]).to_csv(tmp_path / "y.csv", index=False)
    spec = CorpusSpec(path="x.csv", weighting="standardised")
    corpus, changed, _ = load_edited(spec, tmp_path, tmp_path / "y.csv", nonnegative=False)
    difference = changed.matrix.toarray() - corpus.matrix.toarray()
    np.testing.assert_allclose(difference[6], 1.0 / rows.std(axis=0))
    assert not np.delete(difference, 6, axis=0).any()


def test_counts_are_read_by_their_vocabulary(tmp_path: Path) -> None:
    counts = np.random.default_rng(0).poisson(1.0, (30, 4)) + np.eye(30, 4, dtype=np.int64)
    sp.save_npz(tmp_path / "counts.npz", sp.csr_array(counts))
    (tmp_path / "words.txt").write_text("calm\nharbour\nnets\nstorm\n", encoding="utf-8")
    more = pd.DataFrame([[3, *counts[2]], [1, *counts[0] + 1]], columns=["id", "calm", "harbour", "nets", "storm"])
    more.to_csv(tmp_path / "more.csv", index=False)
    spec = CorpusSpec(path="counts.npz", vocabulary="words.txt", weighting="counts", rows="none")
    corpus, changed, _ = load_edited(spec, tmp_path, tmp_path / "more.csv", nonnegative=True)
    difference = changed.matrix.toarray() - corpus.matrix.toarray()
    assert (difference[0] == 1).all()
    assert not difference[1:].any()
    with pytest.raises(InputError, match=r"counts with `corpus.vocabulary`"):
        load_edited(
            spec.model_copy(update={"vocabulary": None}), tmp_path, tmp_path / "more.csv", nonnegative=True
        )
