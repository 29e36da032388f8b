"""A corpus at URLs is the corpus of the same files here, one version of each, and nothing of it stays."""

import gc
import gzip
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from ksdp.audit.errors import CorpusAway, CorpusError, SpecError
from ksdp.audit.specs.models import CorpusSpec, parse_spec
from ksdp.storage.corpora import corpus_features, corpus_of, find_source, load_corpus, rows_hash
from ksdp.storage.readers.spec_files import fetched
from ksdp.storage.remote import RemotePlace
from ksdp.storage.schedules.changes import document_digests

from ...buckets import folder_as_bucket


@pytest.fixture(autouse=True)
def own_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for copies, empty when all is read."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    if any(folder.iterdir()):
        gc.collect()  # tracebacks hold what failed
    assert not list(folder.iterdir())


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RemotePlace:
    """A folder of this process that is reached as an object store is."""
    return folder_as_bucket(tmp_path / "far", monkeypatch)


def put(there: RemotePlace, file: Path) -> str:
    (there / file.name).send(file)
    return f"s3://bucket/{file.name}?region=eu-west-1"


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Files of every kind that a corpus may have."""
    rng = np.random.default_rng(3)
    counts = rng.poisson(0.8, (30, 12)) + np.eye(30, 12, dtype=int)
    terms = [f"term{letter}" for letter in "abcdefghijkl"]
    table = pd.DataFrame({"who": [f"d{row}" for row in range(30)], "side": ["x", "y"] * 15})
    table["body"] = [" ".join(np.repeat(terms, row)) for row in counts]
    numbers = pd.DataFrame(counts, columns=terms).assign(who=table["who"])
    out = {
        name: tmp_path / name
        for name in ("counts.npz", "labels.csv", "terms.txt", "mail.parquet", "lines.jsonl.gz", "table.csv")
    }
    sp.save_npz(out["counts.npz"], sp.csr_array(counts))
    table[["who", "side"]].to_csv(out["labels.csv"], index=False)
    out["terms.txt"].write_text("\n".join(terms) + "\n")
    table.to_parquet(out["mail.parquet"])
    out["lines.jsonl.gz"].write_bytes(gzip.compress(table.to_json(orient="records", lines=True).encode()))
    numbers.to_csv(out["table.csv"], index=False)
    (tmp_path / "kept.txt").write_text("\n".join(terms[2:9]) + "\n")
    units = pd.DataFrame({"column": terms, "centre": 1.0, "scale": 2.0})
    units.to_csv(tmp_path / "units.csv", index=False)
    reference = "documents\t50\n" + "".join(f"{term}\t{10 + place}\n" for place, term in enumerate(terms))
    (tmp_path / "reference.tsv").write_text(reference)
    np.save(tmp_path / "basis.npy", np.linalg.qr(rng.normal(size=(12, 3)))[0])
    return out | {name: tmp_path / name for name in ("kept.txt", "units.csv", "reference.tsv", "basis.npy")}


KINDS: dict[str, dict[str, Any]] = {
    "counts with labels, a vocabulary and levers": {
        "path": "counts.npz",
        "labels": "labels.csv",
        "id": "who",
        "party": "side",
        "vocabulary": "terms.txt",
        "levers": {"terms": "kept.txt", "reference": "reference.tsv"},
        "idf": "public",
    },
    "counts on a basis": {"path": "counts.npz", "levers": {"basis": "basis.npy", "directions": 2}},
    "text in Parquet": {"path": "mail.parquet", "text": "body", "id": "who", "party": "side"},
    "text in JSON lines": {"path": "lines.jsonl.gz", "text": "body", "id": "who", "vocabulary": "terms.txt"},
    "a table in units": {
        "path": "table.csv",
        "id": "who",
        "columns": [f"term{letter}" for letter in "abcdefghijkl"],
        "levers": {"units": "units.csv"},
    },
}


def moved(keys: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {
        key: moved(value, names) if isinstance(value, dict) else names.get(str(value), value)
        for key, value in keys.items()
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scheme", ["s3", "file"])
def test_the_same_files_are_the_same_corpus(
    kind: str, scheme: str, files: dict[str, Path], there: RemotePlace, tmp_path: Path
) -> None:
    names = {name: put(there, file) if scheme == "s3" else f"file://{file}" for name, file in files.items()}
    here = CorpusSpec.model_validate(KINDS[kind])
    away = CorpusSpec.model_validate(moved(KINDS[kind], names))
    one, other = (load_corpus(spec, tmp_path, nonnegative=False) for spec in (here, away))
    assert one.hash == other.hash
    assert one.ids.tolist() == other.ids.tolist()
    digests = [document_digests(find_source(spec, tmp_path), b"key") for spec in (here, away)]
    assert digests[0] == digests[1]
    if here.vocabulary is not None:
        for said in (corpus_features, rows_hash):
            assert said(here, tmp_path) == said(away, tmp_path)


def test_errors_name_the_file_and_never_its_options_or_keys(
    there: RemotePlace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def said(name: str, kind: type[CorpusError] = CorpusError, **keys: Any) -> str:
        with pytest.raises(CorpusError) as refused:
            load_corpus(CorpusSpec(path=name, **keys), tmp_path, nonnegative=False)
        assert isinstance(refused.value, CorpusAway) == (kind is CorpusAway)  # who tries again looks at this
        return str(refused.value)

    assert said("s3://bucket/none.npz?region=x") == "s3://bucket/none.npz: there is no such file."
    (tmp_path / "bad.npz").write_bytes(b"no archive")
    assert said(put(there, tmp_path / "bad.npz")).startswith("bad.npz: is damaged")
    (tmp_path / "some.csv").write_text("a,b\n1,2\nx,3\n")
    text = said(put(there, tmp_path / "some.csv"), columns=("a",))
    assert text == "some.csv, row 2, column `a`: is not a number."
    monkeypatch.setenv("KSDP_LARGEST_INPUT", "5")
    assert "has more than 5 bytes" in said("s3://bucket/some.csv")

    def denied(*_: object) -> object:
        raise OSError("AWS Error: the key AKIA-OURS may not; Details: secret")

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA-OURS")
    monkeypatch.setattr("ksdp.storage.remote._files", denied)
    text = said("s3://bucket/some.csv", CorpusAway)
    assert "s3://bucket/some.csv cannot be reached or used" in text
    assert "AKIA-OURS" not in text
    assert "secret" not in text


def test_a_file_that_is_changed_while_it_is_read_is_refused(
    there: RemotePlace, files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = CorpusSpec(path=put(there, files["table.csv"]), id="who")
    fetch = RemotePlace.fetch

    def changed(place: RemotePlace, to: Path) -> None:
        fetch(place, to)
        put(there, files["table.csv"])

    monkeypatch.setattr(RemotePlace, "fetch", changed)
    with pytest.raises(CorpusAway, match=r"s3://bucket/table.csv: is changed while it is read"):
        load_corpus(spec, tmp_path, nonnegative=False)


def test_a_source_is_one_version_however_often_it_is_read(
    there: RemotePlace, files: dict[str, Path], tmp_path: Path
) -> None:
    spec = CorpusSpec(path=put(there, files["mail.parquet"]), text="body", id="who")
    source = find_source(spec, tmp_path)
    first = corpus_of(source, nonnegative=False)
    pd.DataFrame({"who": ["a", "b", "c"], "body": ["plum pear", "plum", "apple pear"]}).to_parquet(
        files["mail.parquet"]
    )
    put(there, files["mail.parquet"])
    assert corpus_of(source, nonnegative=False).hash == first.hash
    assert set(document_digests(source, b"key")) == set(first.ids.tolist())
    assert load_corpus(spec, tmp_path, nonnegative=False).hash != first.hash


def test_copies_are_for_their_owner_and_go_with_who_holds_them(
    there: RemotePlace, files: dict[str, Path], own_temporary_files: Path
) -> None:
    spec, copies = fetched(CorpusSpec(path=put(there, files["counts.npz"])), own_temporary_files)
    folder = Path(spec.path).parent
    assert folder.stat().st_mode & 0o777 == 0o700
    assert Path(spec.path).read_bytes() == files["counts.npz"].read_bytes()
    del copies
    assert not folder.exists()


def test_what_a_spec_may_not_name() -> None:
    def refused(**corpus: Any) -> str:
        with pytest.raises(SpecError) as caught:
            parse_spec({"corpus": corpus, "mechanism": {"name": "pd-svd"}})
        assert "hush" not in str(caught.value)
        return str(caught.value)

    assert "begins with `s3://`, `gs://`, `file://`" in refused(path="https://host/a.csv")
    assert "`corpus.path`: the URL must hold no key" in refused(path="s3://me:hush@bucket/a.csv")
    assert "must hold no key" in refused(path="a.npz", labels="s3://bucket/a.csv?secret_key=hush")
    assert "must hold no key" in refused(path="a.npz", levers={"terms": "s3://k:hush@bucket/a.csv"})
    assert "no encryption" in refused(path="s3://bucket/a.csv?scheme=http&endpoint_override=minio:9000")
    parse_spec(
        {
            "corpus": {"path": "s3://b/a.csv?scheme=http&endpoint_override=127.0.0.1:9000"},
            "mechanism": {"name": "pd-svd"},
        }
    )


def test_what_the_environment_fills_in_is_checked_too(
    there: RemotePlace, files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(there, files["counts.npz"])
    monkeypatch.setenv("BUCKET", "bucket")
    assert len(load_corpus(CorpusSpec(path="s3://$BUCKET/counts.npz"), tmp_path, nonnegative=True)) == 30
    monkeypatch.setenv("BUCKET", "me:hush@bucket")
    with pytest.raises(SpecError, match="must hold no key") as caught:
        load_corpus(CorpusSpec(path="s3://$BUCKET/counts.npz"), tmp_path, nonnegative=True)
    assert "hush" not in str(caught.value)
    with pytest.raises(SpecError, match="must be of this machine"):
        load_corpus(CorpusSpec(path="file://elsewhere/counts.npz"), tmp_path, nonnegative=True)
