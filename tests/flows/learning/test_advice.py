"""Gain and advice from files to a page and a spec, in this process."""

import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from ksdp.audit.errors import InputError
from ksdp.audit.randomness import Purpose, derived_seed
from ksdp.audit.screening.advice import Setting
from ksdp.audit.specs.models import GainSpec, LeversSpec, Spec, parse_spec
from ksdp.flows import learning
from ksdp.flows.audits.forecast import forecast
from ksdp.flows.audits.place import HERE
from ksdp.flows.learning import Limits, advise_spec, begin_search, measure_gain, spec_rows
from ksdp.flows.prepare import open_spec
from ksdp.storage.clearances import read_clearance
from ksdp.storage.learning import learning_of, read_advice, write_gain
from ksdp.storage.readers import spec_files
from ksdp.storage.readers.spec_files import read_spec_file
from ksdp.storage.remote import RemotePlace
from ksdp.storage.store import Store

from ...buckets import folder_as_bucket
from ...typed import typed

ROWS, TERMS = 600, 12


@pytest.fixture
def base(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    party = np.arange(ROWS) % 2
    weights = np.full((2, TERMS), 0.02)
    weights[0, :4], weights[1, 4:8] = 1.0, 1.0
    counts = np.array([rng.multinomial(12, weights[p] / weights[p].sum()) for p in party])
    sp.save_npz(tmp_path / "counts.npz", sp.csr_array(counts))
    pd.DataFrame({"office": np.array(["north", "south"])[party]}).to_csv(tmp_path / "labels.csv", index=False)
    (tmp_path / "words.txt").write_text("".join(f"word{i}\n" for i in range(TERMS)))
    return tmp_path


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


def test_a_gain_that_is_kept_is_found_by_spec_and_corpus(base: Path) -> None:
    found = measure_gain(spec(), base, base / "store")
    assert (found.measures[0].gains, found.alike, found.parties) == (True, False, ("north", "south"))
    store, corpus = Store.open(base / "store"), open_spec(spec(), base).corpus.hash
    kept = learning_of(store, spec(), corpus)
    assert kept.gain["sentences"] == list(found.sentences)
    assert kept.nothing_gained is None
    assert learning_of(store, spec(rank=3), corpus).gain is None
    other = spec().model_copy(update={"gain": GainSpec(splits=9)})
    assert learning_of(store, other, corpus).gain is None, "measured in another way"
    levers = spec().corpus.model_copy(update={"levers": LeversSpec(most_frequent=8)})
    narrowed = spec().model_copy(update={"corpus": levers})
    measure_gain(narrowed, base, base / "store")
    narrow = open_spec(narrowed, base).corpus.hash
    assert learning_of(store, narrowed, narrow).gain is None, (
        "it was judged in columns that the hash knows nothing of"
    )
    # A gain that may be nothing is said before everything else.
    nothing = found.to_json()
    nothing["measures"][0]["gain"]["low"] = -1.0
    write_gain(store, spec(), corpus, nothing)
    assert learning_of(store, spec(), corpus).nothing_gained == found.sentences[0]


def test_advice_is_a_spec_that_clear_signs_without_a_run(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "ANYWHERE", HERE)
    tables = spec().tables() | {"cluster": {"class": "distributed.LocalCluster", "arguments": {"n_workers": 1}}}
    out = advise_spec(parse_spec(tables), base, base / "store", Limits(), write=base / "advised.toml")
    best = out["tried"][out["best"]]
    assert best["promised"] == 0.2
    assert (out["missed"], out["nearest"]) == (None, None)
    assert (out["tried"][0]["setting"], out["tried"][0]["name"]) == ({}, "the spec as it stands")
    (checked,) = out["checked"]
    assert (checked["listed"], checked["every_attack"]) == (ROWS, ROWS)
    advised, folder = read_spec_file(base / "advised.toml")
    assert folder == base.resolve()
    assert advised.seed != spec().seed
    assert advised.cluster == parse_spec(tables).cluster
    page = Path(out["report"]).read_text()
    assert out["sentences"][0].split(":")[0] in page
    assert "<script" not in page
    assert [step["command"].split()[1] for step in out["commands"]] == ["keys", "clear", "plan", "party"]
    store = Store.open(base / "store")
    assert read_advice(store, out["name"])["spec"] == str(base / "advised.toml")
    # Audits of the spec that was asked about, and of the recommended one, both find it.
    asked = learning_of(store, spec(), open_spec(spec(), base).corpus.hash)
    assert asked.advice is not None
    assert not asked.recommended
    other = spec().model_copy(update={"gain": GainSpec(splits=9)})
    assert learning_of(store, other, asked.advice["corpus"]).advice is None
    told = learning_of(store, advised, open_spec(advised, base).corpus.hash)
    assert told.recommended
    assert learning_of(store, advised, "another corpus").advice is None
    assert told.gain["measures"][0]["gain"] == checked["gain"]

    # The audit is in the store: nothing is run again, by advice or by what it says to type.
    monkeypatch.setattr("ksdp.flows.audits.run._run_flows", None)  # it cannot be called
    again = advise_spec(parse_spec(tables), base, base / "store", Limits(), write=base / "advised.toml")
    assert again == out
    monkeypatch.chdir(base)
    for step in out["commands"][:2]:
        assert typed(*shlex.split(step["command"])[1:]).exit_code == 0
    assert len(read_clearance(base / "advised.clearance").documents) == ROWS
    whole = measure_gain(advised, base).measures[0].gain
    assert measure_gain(advised, base, clearance=base / "advised.clearance").measures[0].gain == whole


def at_urls(base: Path, there: RemotePlace) -> Spec:
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


def small(base: Path, rows: int = 90) -> Spec:
    counts, labels = sp.load_npz(base / "counts.npz")[:rows], pd.read_csv(base / "labels.csv")[:rows]
    sp.save_npz(base / "counts.npz", sp.csr_array(counts))
    labels.to_csv(base / "labels.csv", index=False)
    tables = spec().tables() | {"mechanism": {"name": "pd-svd", "rank": 2, "opens": "final", "noise": 0.01}}
    return parse_spec(tables | {"decision": {"margin": 0.05}, "gain": {"splits": 4}})


def test_where_everything_leaks_the_nearest_miss_is_written_with_the_documents_of_plan(base: Path) -> None:
    asked = small(base)
    out = advise_spec(asked, base, base / "store", Limits(documents=30), write=base / "advised.toml")
    assert out["best"] is None
    assert out["sentences"][0].startswith("Not reachable within a margin of 0.05")
    assert out["needed"] in forecast(open_spec(asked, base))["safe"]["sentence"]
    assert out["needed"] in out["sentences"][-1]
    assert not (base / "advised.toml").exists()
    missed, _ = read_spec_file(base / "advised.nearest.toml")
    assert out["missed"] == str(base / "advised.nearest.toml")
    assert missed.seed == derived_seed(asked.seed, Purpose.SEARCHED)
    assert "is written as <code>" in Path(out["report"]).read_text()
    assert out["commands"] == []


def test_groups_are_counted_as_groups(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "ANYWHERE", HERE)
    people = pd.read_csv(base / "labels.csv").assign(person=np.arange(ROWS) // 20 * 2 + np.arange(ROWS) % 2)
    people.to_csv(base / "labels.csv", index=False)
    tables = spec().tables() | {"mechanism": {"name": "pd-svd", "rank": 4}, "decision": {"margin": 0.5}}
    tables["corpus"]["group"], tables["design"]["unit"] = "person", "group"
    out = advise_spec(parse_spec(tables), base, base / "store", Limits(), write=base / "advised.toml")
    assert f"all {ROWS // 10} groups may enter" in out["sentences"][0]


def test_where_nothing_gains_nothing_is_run(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sampled_leak", "forecast_clear"):
        monkeypatch.setattr(learning, name, None)  # it cannot be called
    rng = np.random.default_rng(0)
    sp.save_npz(base / "counts.npz", sp.csr_array(rng.poisson(1.0, (ROWS, TERMS))))
    out = advise_spec(spec(noise=1e4, rank=4), base, base / "store", Limits(), write=base / "advised.toml")
    assert all(one["leak"] is None for one in out["tried"])
    assert out["sentences"][0].startswith("Work alone.")
    assert (out["spec"], out["missed"]) == (None, None)


def test_a_smaller_run_is_held_against_working_alone_at_its_own_rank(base: Path) -> None:
    """And a row of a benchmark, which is given as a spec, against the search's."""
    source = spec_rows(spec(), base)
    search = begin_search(spec(rank=4), source, Limits(), Store.open(base / "store"))
    for of, rank in ((None, 2), (spec(rank=4), 4)):
        found, alone = search.gained(Setting(rank=2), of), measure_gain(spec(rank=rank), base).measures[0].alone
        assert found.value is not None
        assert found.value - found.gain.mean == pytest.approx(alone.mean)


def test_a_spec_elsewhere_and_a_quota_that_is_none_are_refused(base: Path) -> None:
    with pytest.raises(InputError, match="folder"):
        advise_spec(spec(), base, base / "store", Limits(), write=base / "other" / "x.toml")
    with pytest.raises(InputError, match=r"`quota` must be in \(0, 1\); got 1"):
        Limits(quota=1.0)
