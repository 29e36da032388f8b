"""Runs that were made elsewhere, audited from two tables."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.typing import NDArray
from scipy.stats import ks_2samp

import ksdp
from ksdp.audit.errors import InputError, InvalidAudit
from ksdp.audit.mechanisms.recorded import RecordedRuns
from ksdp.storage import corpora

from ..typed import typed

RUNS, DOCUMENTS = 120, 30


@pytest.fixture(scope="module")
def made() -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """(data, announced means, who was in): document 0 pulls at the mean, by far."""
    rng = np.random.default_rng(4)
    data = rng.normal(size=(DOCUMENTS, 3))
    data[0] += 40
    bits = np.array([np.isin(np.arange(DOCUMENTS), rng.choice(DOCUMENTS, 12, replace=False)) for _ in range(RUNS)])
    return data, np.array([data[row].mean(axis=0) for row in bits]), bits


def tables(means: NDArray[np.float64], bits: NDArray[np.bool_]) -> tuple[pd.DataFrame, pd.DataFrame]:
    run, document = np.nonzero(bits)
    observables = pd.DataFrame({"run": np.arange(RUNS), "mean": list(means)}).sample(frac=1, random_state=1)
    return observables, pd.DataFrame({"run": run, "document": [f"d{n}" for n in document]})


def test_two_tables_are_audited_as_the_runs_that_made_them(made: Any, tmp_path: Path) -> None:
    data, means, bits = made
    observables, inclusion = tables(means, bits)
    ids = [f"d{n}" for n in range(DOCUMENTS)]
    found = ksdp.audit(data, ksdp.Recorded(observables, inclusion), ids=ids, store=tmp_path / "store")
    assert (found.summary.runs, found.summary.valid) == (RUNS, True)
    assert found.verdicts.loc["d0", "verdict"] == "sensitive"
    assert (found.verdicts["verdict"] == "sensitive").sum() == 1
    values = means @ data[5]
    expected = ks_2samp(values[bits[:, 5]], values[~bits[:, 5]]).statistic
    assert found.statistics.loc[("d5", "match:mean"), "distance"] == pytest.approx(expected)
    for given in (
        ksdp.Recorded({"mean": means}, bits),
        ksdp.Recorded(pl.from_pandas(observables), pl.from_pandas(inclusion)),
    ):
        again = ksdp.audit(data, given, ids=ids, store=tmp_path / "store")
        assert again.verdicts["distance"].tolist() == found.verdicts["distance"].tolist()


def test_whole_numbers_that_lose_digits_are_refused(made: Any) -> None:
    data, _, bits = made
    with pytest.raises(InputError, match="'mask' has more digits than double precision holds: record parts"):
        ksdp.audit(data, ksdp.Recorded({"mask": np.arange(RUNS) + 2**60}, bits))


def test_a_spec_names_the_two_files(made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, means, bits = made
    observables, inclusion = tables(means, bits)
    observables.to_parquet(tmp_path / "observables.parquet")
    inclusion.to_parquet(tmp_path / "inclusion.parquet")
    frame = pd.DataFrame(data, columns=list("abc")).assign(name=[f"d{n}" for n in range(DOCUMENTS)])
    frame.to_csv(tmp_path / "data.csv", index=False)
    (tmp_path / "spec.toml").write_text(
        '[corpus]\npath = "data.csv"\nid = "name"\n[mechanism]\nname = "recorded"\n'
        'observables = "observables.parquet"\ninclusion = "inclusion.parquet"\n'
    )
    planned = typed("plan", tmp_path / "spec.toml", "--json", code=0)
    assert json.loads(planned.output)["runs"] == RUNS
    typed("audit", tmp_path / "spec.toml", "--store", tmp_path / "store", code=3)
    assert ksdp.load(tmp_path / "store").verdicts.loc["d0", "verdict"] == "sensitive"
    reads: list[object] = []
    find = corpora.find_source
    monkeypatch.setattr(corpora, "find_source", lambda *asked: reads.append(asked) or find(*asked))
    found = ksdp.audit(tmp_path / "spec.toml")
    assert found.verdicts.loc["d0", "verdict"] == "sensitive"
    assert len(reads) == 1  # who was in a run, and the corpus that is audited, are of one version of the file
    spec = (tmp_path / "spec.toml").read_text()
    (tmp_path / "spec.toml").write_text(spec.replace("observables.parquet", "s3://bucket/observables.parquet"))
    with pytest.raises(InputError, match="must be a file of this machine"):
        ksdp.audit(tmp_path / "spec.toml")


@pytest.mark.parametrize("what", ["runs moved", "ids moved", "runs shuffled", "ids shuffled", "half moved"])
def test_tables_that_do_not_belong_together_void_the_audit(made: Any, what: str) -> None:
    """They were valid, and some documents were called clear or sensitive that other documents' runs were of."""
    data, means, bits = made
    rng, half = np.random.default_rng(8), np.concatenate([bits[:60], np.roll(bits[60:], 1, axis=0)])
    mixed, start = {
        "runs moved": (np.roll(bits, 1, axis=0), 0),
        "ids moved": (np.roll(bits, 2, axis=1), 0),
        "runs shuffled": (rng.permutation(bits), 0),
        "ids shuffled": (bits[:, rng.permutation(DOCUMENTS)], 0),
        "half moved": (half, 60),
    }[what]
    with pytest.raises(
        InvalidAudit, match=f"from recorded run {start} on fits the documents that were in no better"
    ):
        ksdp.audit(data, ksdp.Recorded({"mean": means}, mixed))


def test_a_run_that_was_recorded_twice_counts_once(made: Any) -> None:
    data, means, bits = made
    twice = ksdp.Recorded({"mean": np.concatenate([means, means])}, np.concatenate([bits, bits]))
    found = ksdp.audit(data, twice)
    assert found.summary.runs == RUNS
    once = ksdp.audit(data, ksdp.Recorded({"mean": means}, bits))
    assert found.verdicts["log10_p"].tolist() == once.verdicts["log10_p"].tolist()


def hidden(leak: float) -> tuple[NDArray[np.float64], ksdp.Recorded]:
    """(data, 500 runs that announce sums of the rows as no plain statistic reads them, with noise)."""
    rng = np.random.default_rng(6)
    data, bits = rng.normal(size=(DOCUMENTS, 40)), rng.random((500, DOCUMENTS)) < 0.5
    seen = leak * bits @ data @ rng.normal(size=(40, 39)) / 6 + rng.normal(size=(500, 39))
    return data, ksdp.Recorded({"answers": seen}, bits)


def test_of_many_runs_half_are_learnt_from_and_half_are_tested() -> None:
    data, recorded = hidden(1.0)
    assert len([*RecordedRuns(recorded.observables, recorded.inclusion, 40).to_learn_from()]) == 250
    found = ksdp.audit(data, recorded, seed=3)
    assert (found.summary.runs, found.summary.valid) == (250, True)
    distance = found.statistics["distance"].unstack()
    assert distance["simulated"].min() > 0.6 > 0.5 > distance.drop(columns="simulated").max(axis=None)
    with pytest.raises(InvalidAudit, match="these runs tell too little: record more"):
        ksdp.audit(*hidden(0.0), seed=3)


def test_what_does_not_fit_is_refused(made: Any) -> None:
    data, means, bits = made
    observables, inclusion = tables(means, bits)
    with pytest.raises(InputError, match="names a document 'd0' that the corpus does not hold"):
        ksdp.audit(data, ksdp.Recorded(observables, inclusion))
    ids = [f"d{n}" for n in range(DOCUMENTS)]
    with pytest.raises(InputError, match="`design.party_size` is what the recorded runs say"):
        ksdp.audit(data, ksdp.Recorded(observables, inclusion), ids=ids, party_size=0.2)
    with pytest.raises(InputError, match="one row a run"):
        ksdp.audit(data, ksdp.Recorded(pd.concat([observables, observables]), inclusion), ids=ids)
    with pytest.raises(InputError, match="twice in run"):
        ksdp.audit(data, ksdp.Recorded(observables, pd.concat([inclusion, inclusion])), ids=ids)
    with pytest.raises(InputError, match="1 documents were in fewer than 2 recorded runs"):
        ksdp.audit(data, ksdp.Recorded({"mean": means}, bits & (np.arange(DOCUMENTS) != 3)))
