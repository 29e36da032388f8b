"""Gain and advice from files to a page and a spec, in this process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from ksdp.audit.errors import InputError
from ksdp.audit.randomness import Purpose, derived_seed
from ksdp.audit.specs.models import Spec, parse_spec
from ksdp.flows import learning
from ksdp.flows.learning import Limits, advise_spec, measure_gain
from ksdp.flows.prepare import spec_corpus
from ksdp.storage.learning import learning_of, read_advice, write_gain
from ksdp.storage.readers import spec_files
from ksdp.storage.readers.spec_files import read_spec_file
from ksdp.storage.remote import RemotePlace
from ksdp.storage.store import Store

from ...buckets import folder_as_bucket

ROWS, TERMS = 600, 12


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Two parties that write about different things, in counts."""
    rng = np.random.default_rng(0)
    party = np.arange(ROWS) % 2
    weights = np.full((2, TERMS), 0.02)
    weights[0, :4], weights[1, 4:8] = 1.0, 1.0
    counts = np.array([rng.multinomial(12, weights[p] / weights[p].sum()) for p in party])
    sp.save_npz(tmp_path / "counts.npz", sp.csr_array(counts))
    pd.DataFrame({"office": np.array(["north", "south"])[party]}).to_csv(tmp_path / "labels.csv", index=False)
    (tmp_path / "words.txt").write_text("".join(f"word{i}\n" for i in range(TERMS)))
    return tmp_path


NOISE = 40.0


def spec(**mechanism):
    return parse_spec(
        {
            "corpus": {
                "path": "counts.npz",
                "vocabulary": "words.txt",
                "labels": "labels.csv",
                "party": "office",
                "weighting": "counts",
                "rows": "l2",
            },
            "mechanism": {"name": "moments", "rank": 4, "advantage": 0.2} | mechanism,
            "design": {"party_size": 0.5, "with_runs": 40},
            "gain": {"splits": 3, "public": 20},
        }
    )


def test_unlike_parties_gain_by_a_run_that_is_safe_by_construction(base: Path) -> None:
    found = measure_gain(spec(), base)
    main = found.measures[0]
    assert main.measure == "energy"
    assert not found.alike
    assert found.parties == ("north", "south")
    assert main.gains
    assert main.exact.mean > main.alone.mean
    assert found.sentences[0].startswith("Joining gains +")


def test_a_gain_that_is_kept_is_found_by_spec_and_corpus(base: Path) -> None:
    found = measure_gain(spec(), base, base / "store")
    store, corpus = Store.open(base / "store"), spec_corpus(spec(), base).hash
    kept = learning_of(store, spec().hash, corpus)
    assert kept.gain is not None
    assert kept.gain["sentences"] == list(found.sentences)
    assert kept.nothing_gained is None
    assert learning_of(store, spec(rank=3).hash, corpus).gain is None
    # A gain that may be nothing is said before everything else.
    nothing = found.to_json()
    nothing["measures"][0]["gain"]["low"] = -1.0
    write_gain(store, spec().hash, corpus, nothing)
    assert learning_of(store, spec().hash, corpus).nothing_gained == found.sentences[0]


def test_advice_is_a_page_and_a_spec_that_can_be_audited(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = Limits(tried=2, documents=30, runs=30, quota=0.2, levers=("advantage",))
    tables = spec().tables() | {"cluster": {"class": "distributed.LocalCluster", "arguments": {"n_workers": 1}}}
    out = advise_spec(parse_spec(tables), base, base / "store", limits, write=base / "advised.toml")
    assert sum(one["leak"] is not None for one in out["tried"]) == 2
    assert out["best"] is not None
    assert (out["missed"], out["nearest"]) == (None, None)
    assert (out["tried"][0]["setting"], out["tried"][0]["name"]) == ({}, "the spec as it stands")
    advised, folder = read_spec_file(base / "advised.toml")
    assert folder == base.resolve()
    assert advised.seed != spec().seed
    assert advised.cluster == parse_spec(tables).cluster
    assert advised.mechanism.parameters["advantage"] == out["tried"][out["best"]]["setting"].get("advantage", 0.2)
    assert advised.design == spec().design
    page = Path(out["report"]).read_text()
    assert out["sentences"][0].split(":")[0] in page
    assert "exact run</text>" in page
    assert [step["command"].split()[1] for step in out["commands"]] == ["audit", "clear", "columns", "party"]
    assert out["gain"]["measures"][0]["run"]["mean"] == out["tried"][out["best"]]["value"]
    assert "<script" not in page
    store = Store.open(base / "store")
    assert read_advice(store, out["name"])["spec"] == str(base / "advised.toml")
    # Audits of the spec that was asked about, and of the recommended one, both find it.
    asked = learning_of(store, spec().hash, spec_corpus(spec(), base).hash)
    assert asked.advice is not None
    assert not asked.recommended
    told = learning_of(store, advised.hash, spec_corpus(advised, base).hash)
    assert told.recommended
    assert told.gain is not None
    assert told.gain["measures"][0]["run"]["mean"] == out["tried"][out["best"]]["value"]

    # The same command computes nothing again; another level does.
    def stopped(*_: object, **__: object) -> None:
        raise InputError("measured again")

    monkeypatch.setattr(learning, "sampled_leak", stopped)
    again = advise_spec(parse_spec(tables), base, base / "store", limits, write=base / "advised.toml")
    assert {**again, "report": ""} == {**out, "report": ""}
    other = advise_spec(
        parse_spec(tables), base, base / "store", replace(limits, quota=0.3), write=base / "a.toml"
    )
    assert {one["refused"] for one in other["tried"]} == {"measured again"}


def at_urls(base: Path, there: RemotePlace) -> Spec:
    """The same spec, its files in a bucket."""
    tables = spec().model_dump(mode="json")
    for key in ("path", "vocabulary", "labels"):
        (there / tables["corpus"][key]).send(base / tables["corpus"][key])
        tables["corpus"][key] = f"s3://bucket/{tables['corpus'][key]}"
    return parse_spec(tables)


def test_a_gain_is_kept_of_the_version_it_was_measured_on(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    away = at_urls(base, folder_as_bucket(base / "far", monkeypatch))
    copied, make = [], spec_files.Copy

    def copy(url: str) -> spec_files.Copy:
        copied.append(url)
        return make(url)

    monkeypatch.setattr(spec_files, "Copy", copy)
    assert measure_gain(away, base, base / "store").to_json() == measure_gain(spec(), base).to_json()
    assert len(copied) == len(set(copied)) == 3


def test_where_everything_leaks_the_nearest_miss_is_written(base: Path) -> None:
    """Few documents, little noise: useful, and not safe."""
    asked = spec(noise=1e-6, rank=2)
    tables = asked.model_dump(mode="json")
    tables["design"]["party_size"] = 60
    limits = Limits(tried=1, documents=30, runs=40, quota=0.2, levers=("rank",))
    out = advise_spec(parse_spec(tables), base, base / "store", limits, write=base / "advised.toml")
    assert out["best"] is None
    assert out["needed"] > ROWS
    assert "documents until 95 % are within the margin, and there are" in out["sentences"][1]
    assert not (base / "advised.toml").exists()
    missed, _ = read_spec_file(base / "advised.nearest.toml")
    assert out["missed"] == str(base / "advised.nearest.toml")
    assert (missed.mechanism, missed.seed) == (asked.mechanism, derived_seed(asked.seed, Purpose.SEARCHED))
    assert "is written as <code>" in Path(out["report"]).read_text()
    assert out["commands"] == []


def test_a_setting_that_gains_nothing_is_not_run(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object, **__: object) -> None:
        raise InputError("it was run")

    monkeypatch.setattr(learning, "sampled_leak", run)
    limits = Limits(tried=1, documents=60, runs=60, quota=0.2, levers=("rank",))
    out = advise_spec(spec(noise=1e4, rank=2), base, base / "store", limits, write=base / "advised.toml")
    (tried,) = out["tried"]
    assert tried["refused"].startswith("it gains nothing over working alone (-")
    assert tried["leak"] is None
    assert out["sentences"][0].startswith("No setting within these levers gains anything")


def test_noise_that_costs_much_says_of_how_many_documents_it_would_not(base: Path) -> None:
    """As many as leave enough of the gain with so much less noise, and no fewer."""
    limits = Limits(tried=1, documents=30, runs=20, quota=0.2, levers=("rank",))
    asked = spec(noise=NOISE, advantage=0.9)
    out = advise_spec(asked, base, base / "store", limits, write=base / "advised.toml")
    (tried,) = out["tried"]
    assert 1 < tried["times"] < 100

    def kept(noise: float) -> float:
        found = measure_gain(spec(noise=noise, advantage=0.9), base).measures[0].kept
        assert found is not None
        return found.mean

    assert kept(NOISE) < kept(NOISE / tried["times"] * 2**0.25) < 0.9 <= kept(NOISE / tried["times"])


def test_a_spec_elsewhere_and_a_quota_that_cannot_be_shown_are_refused(base: Path) -> None:
    with pytest.raises(InputError, match="folder"):
        advise_spec(spec(), base, base / "store", Limits(), write=base / "other" / "x.toml")
    with pytest.raises(InputError, match="cannot be shown"):
        advise_spec(spec(), base, base / "store", Limits(documents=10, quota=0.01), write=base / "x.toml")
