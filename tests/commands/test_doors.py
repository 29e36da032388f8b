"""The command line as a person finds it: version, groups, abbreviations, tables, first specs, refusals."""

import json
import shutil
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import typer

import ksdp
from ksdp.audit.errors import CorpusError, DamagedFile, InputError, SpecError, StoreError
from ksdp.audit.specs.models import CorpusSpec
from ksdp.cli import COMMANDS, application
from ksdp.flows.audits.first_spec import first_spec
from ksdp.storage.audits.sql import ask
from ksdp.storage.corpora import load_corpus
from ksdp.storage.readers.spec_files import read_spec_file
from ksdp.storage.store import Store

from ..flips import flip
from ..typed import typed


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A store with one audit of 30 documents, one row of which is empty, and two of which are twins."""
    rows = np.random.default_rng(0).poisson(1.0, (31, 5)).astype(float) + 0.5
    rows[4] = 0
    rows[6] = rows[5]
    store = tmp_path_factory.mktemp("doors") / "store"
    found = ksdp.audit(rows, "pd-svd", rank=2, party_size=0.3, with_runs=15, fresh_runs=0, store=store)
    return store, found.id


def run(*arguments: object) -> str:
    return typed(*arguments).output


def test_version_and_help_in_groups() -> None:
    assert run("--version").startswith("ksdp 0.")
    shown = run("--help")
    for group in COMMANDS:
        assert f"{group}:" in shown
    assert "Others:" not in shown
    assert "..." not in shown.split("Begin:")[1]


def test_no_command_takes_one_option_twice() -> None:
    """The second would take what is typed: `party --store` let documents in that the store excludes."""
    doubled, waiting = [], [("ksdp", typer.main.get_command(application()))]
    while waiting:
        name, command = waiting.pop()
        waiting += [(f"{name} {more}", inner) for more, inner in getattr(command, "commands", {}).items()]
        flags = [flag for given in command.params for flag in (*given.opts, *given.secondary_opts)]
        doubled += [f"{name} {flag}" for flag in {*flags} if flags.count(flag) > 1]
    assert not doubled


def test_ids_are_abbreviated_and_latest_is_the_newest(audited: tuple[Path, str]) -> None:
    store, audit = audited
    for name in (audit, audit[:4], "latest"):
        assert audit in run("show", name, "--store", store)
    with pytest.raises(StoreError, match="`ksdp list` shows"):
        run("show", "zzz", "--store", store)


def test_a_number_is_computed_again_from_the_seed(audited: tuple[Path, str]) -> None:
    shown = run("show", "latest", "7", "--again", "row-space-energy", "--store", audited[0])
    stored, replayed, word = shown.splitlines()[-3:]  # after the progress
    assert stored.split()[1:] == replayed.split()[1:]
    assert word == "equal"
    with pytest.raises(InputError, match="name the document"):
        run("show", "latest", "--again", "row-space-energy", "--store", audited[0])


def test_damage_is_named_with_what_makes_it_again(audited: tuple[Path, str], tmp_path: Path) -> None:
    store, audit = tmp_path / "store", audited[1]
    shutil.copytree(audited[0], store)
    assert typed("list", "--store", store).exit_code == 0
    (values,) = store.glob("runs/*/values/*/*.parquet")
    flip(values, 4 * values.stat().st_size)
    with pytest.raises(DamagedFile, match="values of audit .* are damaged: .*; `ksdp audit` with its spec"):
        run("show", audit, "2", "--store", store)
    values.unlink()
    assert "2: " in run("show", audit, "2", "--store", store), "values may be dropped for their space"
    flip(store / "audits" / audit / "audit.json", 800)
    for command in (("show", audit), ("show", audit, "2"), ("sql", audit, "--to", tmp_path / "t.csv")):
        with pytest.raises(DamagedFile, match=r"audit.json of audit .* is damaged .*; `ksdp audit` with its spec"):
            run(*command, "--store", store)
    listed = typed("list", "--store", store)
    assert (listed.exit_code, "audit.json of audit" in listed.output) == (1, True)


def test_the_store_is_named_by_the_environment(audited: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSDP_STORE", str(audited[0]))
    assert audited[1] in run("list")
    monkeypatch.setenv("KSDP_STORE", str(audited[0].parent))
    with pytest.raises(StoreError, match="--store"):
        run("list")


@pytest.mark.parametrize(
    "typed_there",
    [
        ("audit", "spec.toml", "--store", "s3://bucket/store"),
        ("audit", "s3://bucket/spec.toml"),
        ("advise", "spec.toml", "--write", "file:///elsewhere/advised.toml"),
        ("verify", "a.clearance", "--against", "gs://bucket/a.clearance"),
        ("agree", "s3://bucket/protocol.toml", "--me", "ada", "--key", "ada.key", "--accept"),
    ],
)
def test_a_url_in_place_of_a_path_is_refused_before_anything_is_made(
    typed_there: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="must be a path, and no URL"):
        run(*typed_there)
    monkeypatch.setenv("KSDP_STORE", "s3://bucket/store")
    with pytest.raises(InputError, match="`store` must be a path"):
        run("list")
    assert not list(tmp_path.iterdir())


def test_show_lists_documents_and_knows_those_left_out(audited: tuple[Path, str]) -> None:
    store, audit = audited
    assert run("show", audit, "--worst", 3, "--store", store).count(" p 10^") == 3
    assert "half of the documents measure" in run("show", audit, "1", "--store", store)
    shown = typed("show", audit, "--store", store)
    assert shown.stdout.startswith("30 documents: ")  # the summary goes down a pipe too
    assert "report  " in shown.stdout
    assert shown.stderr == ""
    with pytest.raises(StoreError, match="'5' is left out: empty"):
        run("show", audit, "5", "--store", store)


def test_no_spreadsheet_runs_an_exported_id(tmp_path: Path) -> None:
    names = ["=cmd|'/c calc'!A0", "+1+1", "-2", "@SUM(1)", "\tx", "x\x1b]0;y\u202e", *map(str, range(24))]
    rows = pd.DataFrame(np.random.default_rng(0).poisson(1.0, (30, 4)) + 0.5, index=names)
    found = ksdp.audit(rows, "pd-svd", rank=2, party_size=0.3, with_runs=5, fresh_runs=0, store=tmp_path / "s")
    to = tmp_path / "v.csv"
    run("sql", found.id, "--to", to, "--store", tmp_path / "s")
    written = pd.read_csv(to, dtype=str)["document"].tolist()
    assert sorted(written) == sorted([*(f"'{name}" for name in names[:5]), "x\ufffd]0;y\ufffd", *names[6:]])


def test_an_id_forges_no_line(tmp_path: Path) -> None:
    forged = "a\nb: clear\x07"
    rows = pd.DataFrame(np.random.default_rng(0).poisson(1.0, (30, 4)) + 0.5, index=[forged, *map(str, range(29))])
    found = ksdp.audit(rows, "pd-svd", rank=2, party_size=0.3, with_runs=5, fresh_runs=0, store=tmp_path / "s")
    query = "select document from verdicts where document like 'a%'"
    told = [
        run("show", found.id, "--worst", 30, "--store", tmp_path / "s"),
        run("show", found.id, forged, "--store", tmp_path / "s"),
        run("sql", found.id, query, "--store", tmp_path / "s"),
    ]
    for said in told:
        assert "a<U+000A>b: clear<U+0007>" in said
        assert not [line for line in said.splitlines() if line.startswith("b: clear")]


@pytest.mark.parametrize("suffix", ["csv", "json", "parquet"])
def test_tables_are_exported(suffix: str, audited: tuple[Path, str], tmp_path: Path) -> None:
    store, audit = audited
    to = tmp_path / f"out.{suffix}"
    assert run("sql", audit, "--to", to, "--store", store).startswith("30 rows")
    read = {"csv": pd.read_csv, "json": pd.read_json, "parquet": pd.read_parquet}[suffix]
    assert len(read(to)) == 30
    if suffix != "parquet":
        assert "nan" not in to.read_text(encoding="utf-8").lower()
    to = tmp_path / f"unbiased.{suffix}"
    assert run("sql", audit, "select * from unbiased", "--to", to, "--store", store).startswith("30 rows")
    beside = read(to).astype({"document": str}).set_index("document")
    assert beside.loc["1", "unbiased"] == pytest.approx(ksdp.load(store, audit).unbiased("1"))
    assert beside.loc["1", "distance"] == pytest.approx(ksdp.load(store, audit).verdicts.loc["1", "distance"])
    with pytest.raises(InputError, match="must end in"):
        run("sql", audit, "--to", tmp_path / "out.xml", "--store", store)


def test_sql_sees_every_run(audited: tuple[Path, str]) -> None:
    store, audit = audited
    query = "select document, count(*) as runs, sum(held::int) as held from runs group by 1 order by 1 limit 1"
    (row,) = json.loads(run("sql", audit, query, "--store", store, "--json"))
    found = ksdp.load(store, audit).document("1")
    assert row["runs"] == (found.tests[0].n_with + found.tests[0].n_without) * len(found.tests)
    assert row["held"] == found.tests[0].n_with * len(found.tests)
    nothing = "select 'nan'::double as a, 'inf'::double as b"
    assert json.loads(run("sql", audit, nothing, "--store", store, "--json")) == [{"a": None, "b": None}]
    assert "runs (" in run("sql", audit, "--store", store)


def test_sql_reads_and_writes_nothing_else(audited: tuple[Path, str], tmp_path: Path) -> None:
    opened, target = Store.open(audited[0]), tmp_path / "leak.csv"
    for query in (f"copy verdicts to '{target}'", "select * from read_text('/etc/hostname')"):
        with pytest.raises(InputError, match="the query is refused"):
            ask(opened, audited[1], query)
    assert not target.exists()


def test_init_takes_a_column_that_counts_rows_for_their_ids(tmp_path: Path) -> None:
    path = tmp_path / "patients.csv"
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=["age", "weight", "pressure"])
    frame.to_csv(path, index_label="patient")
    text = first_spec(str(path), tmp_path, 0.2)
    assert 'columns = ["age", "weight", "pressure"]\nid = "patient"\n' in text
    assert "group" not in text, "every patient has one row"
    frame.assign(row=range(1, 41), patient=[n // 2 for n in range(40)]).to_csv(path, index=False)
    text = first_spec(str(path), tmp_path, 0.2)
    assert 'id = "row"\n# group = "patient"' in text
    assert '"row"' not in text.partition("id =")[0]
    assert "no id" not in text
    frame.to_csv(path, index=False)
    assert "# no id: documents go by the numbers of their rows\n" in first_spec(str(path), tmp_path, 0.2)


def test_init_refuses_too_few_rows_before_there_is_a_spec(tmp_path: Path) -> None:
    path = tmp_path / "few.csv"
    path.write_text("a,b\n1,2\n3,4\n0,0\n5,6\n7,8\n")
    with pytest.raises(CorpusError, match="few.csv: only 4 of its rows hold a feature; an audit needs 5 or more"):
        first_spec(str(path), tmp_path, 0.2)


@pytest.mark.parametrize("kind", ["text", "table", "counts"])
def test_init_writes_a_spec_that_is_accepted(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    if kind == "text":
        path = tmp_path / "mail.csv"
        words = ["alpha", "beta", "gamma", "delta", "epsilon", "omega"]
        texts = [" ".join(rng.choice(words, 8)) for _ in range(60)]
        pd.DataFrame({"id": range(60), "body": texts}).to_csv(path, index=False)
    elif kind == "table":
        path = tmp_path / "patients.parquet"
        frame = pd.DataFrame(rng.normal(size=(60, 3)), columns=["age", "weight", "pressure"])
        frame.assign(label="yes", log_shares=1.5).to_parquet(path)
    else:
        path = tmp_path / "counts.npz"
        sp.save_npz(path, sp.csr_array(rng.poisson(1.0, (60, 9))))
    out = tmp_path / "spec.toml"
    run("init", path, "--out", out)
    spec, base = read_spec_file(out)
    assert len(load_corpus(spec.corpus, base, nonnegative=False)) == 60
    assert spec.design.with_runs >= 50
    if kind == "text":
        assert (spec.corpus.text, spec.corpus.id) == ("body", "id")
    if kind == "table":
        assert spec.corpus.columns == ("age", "weight", "pressure")
        text = first_spec(str(path), tmp_path, 0.2)
        assert "left out as labels: label\n" in text
        assert "left out as labels, which `gain.target` may foretell: log_shares\n" in text
    with pytest.raises(InputError, match="exists"):
        run("init", path, "--out", out)


def test_init_names_the_url_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in").mkdir()
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)), columns=["age", "weight", "pressure"])
    frame.to_csv(tmp_path / "in" / "all patients.csv", index=False)
    monkeypatch.chdir(tmp_path)
    url = f"file://{tmp_path}/in/all%20patients.csv"
    run("init", url)
    spec, base = read_spec_file(tmp_path / "all patients.toml")
    assert spec.corpus.path == url
    assert len(load_corpus(spec.corpus, base, nonnegative=False)) == 40
    with pytest.raises(SpecError, match="must hold no key"):
        run("init", "s3://me:hush@bucket/patients.csv")
    with pytest.raises(InputError, match=r"all patients.toml exists"):
        run("init", "s3://bucket/in/all%20patients.csv")  # before anything is fetched


def test_init_reads_what_an_office_exports_and_says_how(tmp_path: Path) -> None:
    path = tmp_path / "kunden.csv"
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"Kundennr": range(40), "Größe": rng.normal(170, 9, 40), "Betrag": rng.normal(90, 9, 40)})
    frame.to_csv(path, sep=";", decimal=",", index=False, encoding="cp1252")
    text = first_spec(str(path), tmp_path, 0.2)
    assert 'encoding = "cp1252"\n' in text
    assert "# separated by ';'\n" in text
    read = load_corpus(CorpusSpec.model_validate(tomllib.loads(text)["corpus"]), tmp_path, nonnegative=False)
    assert (len(read), read.features) == (40, 2)


def test_init_says_what_it_leaves_of_a_table_of_texts(tmp_path: Path) -> None:
    path = tmp_path / "kunden.csv"
    notes = [f"Gerät defekt und Kunde {'wartet' if n % 2 else 'schreibt'} seit langem" for n in range(40)]
    frame = pd.DataFrame({"Kundennr": [f"K{n}" for n in range(40)], "Alter": range(40, 0, -1), "Notiz": notes})
    frame.to_csv(path, sep=";", index=False, encoding="cp1252")
    text = first_spec(str(path), tmp_path, 0.2)
    assert 'text = "Notiz"' in text
    assert '\nid = "Kundennr"\n' in text
    assert "# left out beside the text: Alter\n" in text
    read = tomllib.loads(text.replace("# stop_words", "stop_words"))
    spec = CorpusSpec.model_validate(read["corpus"])
    assert (spec.id, spec.stop_words) == ("Kundennr", "none")
    assert load_corpus(spec, tmp_path, nonnegative=False).ids[0] == "K0"


def test_init_suggests_groups_where_the_ids_repeat_and_encoding_where_nothing_is_a_number(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    frame = pd.DataFrame({"id": [f"p{n // 2}" for n in range(60)], "a": range(3, 63), "b": [1.5, 2.5] * 30})
    frame.to_csv(path, index=False)
    text = first_spec(str(path), tmp_path, 0.2)
    assert '# left out, as it repeats: id\n# group = "id"' in text
    frame.assign(a="x", b=["m", "f"] * 30).to_csv(path, index=False)
    with pytest.raises(CorpusError, match=r"Make categories columns of 0 and 1: `pandas.get_dummies"):
        first_spec(str(path), tmp_path, 0.2)


def test_init_names_the_column_of_parties_and_audits_neither_ids_nor_labels(tmp_path: Path) -> None:
    path, rng = tmp_path / "visits.csv", np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(size=60), "Cover_class": [1, 2] * 30, "Kundennr": rng.permutation(60)})
    whose = np.array(["north", "south"])[np.arange(60) % 2]
    frame.assign(ward=whose).to_csv(path, index=False)
    assert 'columns = ["age"]\nid = "Kundennr"\nparty = "ward"\n' in first_spec(str(path), tmp_path, 0.2)
    frame.assign(ward=whose, sex=whose[::-1]).to_csv(path, index=False)
    assert "party" not in tomllib.loads(first_spec(str(path), tmp_path, 0.2))["corpus"], "either may be"
    frame.assign(ward=whose, Hospital=np.arange(60) // 30).to_csv(path, index=False)
    assert '\nparty = "Hospital"\n' in first_spec(str(path), tmp_path, 0.2)
    sp.save_npz(tmp_path / "counts.npz", sp.csr_array(rng.poisson(1.0, (60, 9))))
    pd.DataFrame({"mailbox": whose, "split": whose}).to_csv(tmp_path / "labels.csv", index=False)
    text = first_spec(str(tmp_path / "counts.npz"), tmp_path, 0.2)
    assert 'labels = "labels.csv"\nparty = "mailbox"\n' in text
