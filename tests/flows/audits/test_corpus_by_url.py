"""A corpus in a bucket: planned, audited and scheduled as the same files here; nothing of it stays."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ...buckets import bucket
from ...specs import spec_text

DOCUMENTS = ["d1", "d2", "d5", "d8", "d13", "d21", "d34", "d55"]
SPEC = {
    "seed": 5,
    "corpus": {"text": "text", "id": "id"},
    "mechanism": {"name": "pd-svd", "rank": 3},
    "design": {"kind": "balanced", "party_size": 30, "with_runs": 8, "documents": DOCUMENTS},
    "statistics": {"families": ["geometry"]},
}
SECRET = "a-secret-of-forty-characters"


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """A corpus with a vocabulary and a lever."""
    rng = np.random.default_rng(1)
    words = np.array([f"{a}{b}{c}{d}" for a in "bdfk" for b in "aeiou" for c in "lmn" for d in "ae"])
    texts = [" ".join(rng.choice(words, 40)) for _ in range(60)]
    folder = tmp_path / "here"
    folder.mkdir()
    pd.DataFrame({"id": [f"d{n}" for n in range(60)], "text": texts}).to_parquet(folder / "mail one.parquet")
    (folder / "vocabulary.txt").write_text("\n".join(words) + "\n")
    (folder / "terms.txt").write_text("\n".join(words[5:100]) + "\n")
    names = {"path": "mail one.parquet", "vocabulary": "vocabulary.txt", "terms": "terms.txt"}
    return {key: folder / name for key, name in names.items()}


@pytest.fixture
def there(files: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Any, dict[str, str]]]:
    """The bucket, and the URLs of the files in it."""
    for name, value in {
        "ACCESS_KEY_ID": "any",
        "SECRET_ACCESS_KEY": SECRET,
        "EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    with bucket() as (made, options):
        for file in files.values():
            send(made, file)
        urls = {key: f"s3://ksdp/in/{file.name.replace(' ', '%20')}?{options}" for key, file in files.items()}
        yield made, urls


def send(made: Any, file: Path) -> None:
    with made.open_output_stream(f"ksdp/in/{file.name}", compression=None) as stream:
        stream.write(file.read_bytes())


@pytest.fixture
def run(typed: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run the command: it tells no secret, and leaves no copy."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))

    def ran(*arguments: Any, codes: tuple[int, ...] = (0, 3, 4)) -> Any:
        done = typed(*arguments)
        assert done.code in codes, done.err[-3000:]
        assert SECRET not in done.text + done.err
        assert not list(temporary.glob("ksdp-corpus-*"))
        return done

    return ran


def test_the_same_files_give_the_same_audit(
    run: Callable[..., Any], files: dict[str, Path], there: tuple[Any, dict[str, str]], tmp_path: Path
) -> None:
    made, urls = there
    stores = {name: tmp_path / f"{name}-store" for name in ("near", "far")}
    told = {}
    for name, names in {"near": files, "far": urls}.items():
        spec = tmp_path / f"{name}.toml"
        corpus = {key: str(names[key]) for key in ("path", "vocabulary")}
        spec.write_text(spec_text(SPEC, corpus=corpus | {"levers": {"terms": str(names["terms"])}}))
        planned = run("plan", spec, "--json").out
        out = run("audit", spec, "--store", stores[name], "--here", "1", "--json").out
        told[name] = out | {"planned": planned["runs"]}
    near, far = told["near"], told["far"]
    for key in ("corpus", "runs", "verdicts", "statistics", "detected", "planned"):
        assert near[key] == far[key], key
    for table in ("verdicts", "statistics", "effects", "curves"):
        kept = [(stores[name] / f"audits/{told[name]['audit']}/{table}.parquet").read_bytes() for name in stores]
        assert kept[0] == kept[1], table
    # In one store the runs of one are those of the other.
    again = run("audit", tmp_path / "far.toml", "--store", stores["near"], "--json").out
    assert again["cached_runs"] == again["runs"]
    # No text is kept, neither in the store nor in what is temporary.
    texts = pd.read_parquet(files["path"])["text"]
    for kept_file in (path for path in stores["far"].rglob("*") if path.is_file()):
        assert texts[0].encode() not in kept_file.read_bytes()

    # What is gone, or damaged, is refused by its name, and nothing is written.
    files["terms"].write_bytes(b"\xff")
    send(made, files["terms"])
    said = run("audit", tmp_path / "far.toml", "--store", tmp_path / "none", codes=(2,)).err
    assert "refused: terms.txt: is not utf-8" in said
    assert "endpoint_override" not in said
    made.delete_file("ksdp/in/mail one.parquet")
    said = run("plan", tmp_path / "far.toml", codes=(2,)).err
    assert "s3://ksdp/in/mail one.parquet: there is no such file." in said
    assert not (tmp_path / "none").exists()
