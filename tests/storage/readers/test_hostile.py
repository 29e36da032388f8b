"""Files that strangers make: `tests/stories/test_strangers.py` hands them to the command."""

from __future__ import annotations

import gzip
import json
import os
import resource
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from scipy.io import mmwrite

from ksdp.audit.errors import KsdpError
from ksdp.flows.audits.first_spec import first_spec
from ksdp.storage.readers.spec_files import read_spec_file

MEMORY = 1.5e9
Make = Callable[[Path], object]


def zeros(path: Path, head: bytes = b"") -> None:
    """Two gigabytes, unpacked: a megabyte, packed once, as often."""
    path.write_bytes(gzip.compress(head) + gzip.compress(bytes(2**20), 1) * 2000)


def lines(path: Path, head: str, line: str) -> None:
    """As many times this line as are let through of a small file; the head says how many there are."""
    count = 19_900_000 // len(line)
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(head.format(count).encode())
        for _ in range(100):
            file.write(line.encode() * (count // 100))
        file.write(line.encode() * (count % 100))


def archive(path: Path, **members: bytes | int) -> None:
    """An npz of such bytes, or of so many megabytes of zeros."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as held:
        for name, data in members.items():
            with held.open(f"{name}.npy", "w", force_zip64=True) as file:
                for _ in range(data if isinstance(data, int) else 0):
                    file.write(bytes(2**20))
                file.write(data if isinstance(data, bytes) else b"")


def cut_parquet(path: Path) -> None:
    pq.write_table(pa.table({"a": np.arange(100_000.0), "b": np.arange(100_000.0)}), path)
    path.write_bytes(path.read_bytes()[:-5000])


def flipped_parquet(path: Path) -> None:
    pq.write_table(pa.table({"a": np.arange(1000.0), "b": np.arange(1000.0)}), path)
    data = bytearray(path.read_bytes())
    data[200:260] = bytes(60)
    path.write_bytes(bytes(data))


def objects(path: Path) -> None:
    np.savez(path, data=np.array([print, {}], dtype=object), allow_pickle=True)


FILES: dict[str, Make] = {
    "zeros.csv.gz": lambda path: zeros(path, b"a,b\n"),
    "zeros.jsonl.gz": lambda path: zeros(path),
    "bomb.npz": lambda path: archive(path, data=500, indices=10, indptr=1, shape=b"", format=b""),
    "empty.npz": lambda path: archive(path),
    "objects.npz": objects,
    "text.npz": lambda path: path.write_text("no archive"),
    "promise.mtx": lambda path: path.write_text(
        "%%MatrixMarket matrix coordinate real general\n9 9 999999999999\n1 1 1\n"
    ),
    "wide.mtx": lambda path: path.write_text("%%MatrixMarket matrix array real general\n99999999999 9\n1\n"),
    "docword.promise.txt": lambda path: path.write_text("999999999999\n999999999999\n999999999999\n1 1 1\n"),
    "zeros.mtx.gz": lambda path: zeros(path, b"%%MatrixMarket matrix coordinate real general\n9 9 9\n"),
    "dense.mtx.gz": lambda path: lines(path, "%%MatrixMarket matrix array real general\n1 {}\n", "1\n"),
    "full.mtx.gz": lambda path: lines(path, "%%MatrixMarket matrix coordinate real general\n1 1 {}\n", "1 1 1\n"),
    "docword.zeros.txt.gz": lambda path: zeros(path, b"9\n9\n9\n"),
    "docword.full.txt.gz": lambda path: lines(path, "9\n9\n{}\n", "1 1 1\n"),
    "docword.words.txt": lambda path: path.write_text("a\nb\nc\n"),
    "cut.parquet": cut_parquet,
    "flipped.parquet": flipped_parquet,
    "wide.csv": lambda path: path.write_text("," * 10_000_000 + "\n1\n"),
    "quote.csv": lambda path: path.write_text('a,b\n"' + "x" * 50_000_000),
    "nul.csv": lambda path: path.write_bytes(b"a,b\n1,\0\n\xff\xfe,2\n"),
    "deep.jsonl": lambda path: path.write_text('{"a": ' + "[" * 200_000 + "]" * 200_000 + "}\n"),
    "number.jsonl": lambda path: path.write_text('{"a": ' + "9" * 5_000_000 + "}\n"),
    "wide.jsonl": lambda path: path.write_text(json.dumps({f"k{n}": "" for n in range(100_000)}) + "\n"),
    "pipe.csv": lambda path: os.mkfifo(path),
    "zero.csv": lambda path: path.symlink_to("/dev/zero"),
    "folder.csv": lambda path: path.mkdir(),
    "deep.toml": lambda path: path.write_text("a = " + "[" * 100_000 + "]" * 100_000 + "\n"),
    "keys.toml": lambda path: path.write_text(".".join("k" * 100_000) + " = 1\n"),
    "many.toml": lambda path: path.write_text("".join(f"[t{n}]\n" for n in range(200_000))),
    "zero.toml": lambda path: path.symlink_to("/dev/zero"),
}


def good_files(folder: Path) -> list[Path]:
    """One of each kind that the command reads."""
    rng = np.random.default_rng(0)
    counts = sp.csr_matrix(rng.integers(0, 3, (12, 6)))
    frame = pd.DataFrame(rng.normal(size=(12, 3)), columns=list("abc")).assign(id=range(12))
    frame.to_csv(folder / "a.csv", index=False)
    frame.to_csv(folder / "b.tsv", index=False, sep="\t", decimal=",")
    frame.to_csv(folder / "c.csv.gz", index=False)
    frame.to_json(folder / "d.jsonl", orient="records", lines=True)
    frame.to_parquet(folder / "e.parquet")
    sp.save_npz(folder / "f.npz", counts)
    mmwrite(folder / "g.mtx", counts)
    rows, columns = counts.nonzero()
    cells = "".join(
        f"{row + 1} {column + 1} {counts[row, column]}\n" for row, column in zip(rows, columns, strict=True)
    )
    (folder / "docword.h.txt").write_text(f"12\n6\n{len(rows)}\n{cells}")
    (folder / "i.toml").write_text(first_spec(str(folder / "a.csv"), folder, 0.3))
    return sorted(folder.iterdir())


def changed(data: bytes, rng: np.random.Generator) -> bytes:
    """The same with some bytes others, cut, a piece twice, or a number that is far too large."""
    at, held = int(rng.integers(len(data))), bytearray(data)
    match rng.integers(4):
        case 0:
            for place in rng.integers(len(data), size=int(rng.integers(1, 20))):
                held[place] = int(rng.integers(256))
        case 1:
            del held[at:]
        case 2:
            held[at:at] = data[at // 2 : at] * int(rng.integers(1, 50))
        case _:
            held[at:at] = rng.choice([b"9" * 400, b"1e308", b"-0", b"nan", b"\0", b'"', b"\xff\xfe", b"[" * 5000])
    return bytes(held)


@pytest.mark.validity
def test_five_hundred_changed_files_are_read_or_refused(tmp_path: Path) -> None:
    """Whatever else is raised fails the test."""
    rng = np.random.default_rng(5)
    (tmp_path / "good").mkdir()
    files = good_files(tmp_path / "good")
    refusals: list[str] = []
    longest = 0.0
    for number in range(500):
        path = files[number % len(files)]
        bad = tmp_path / path.name
        bad.write_bytes(changed(path.read_bytes(), rng))
        began = time.monotonic()
        try:
            read_spec_file(bad) if bad.suffix == ".toml" else first_spec(str(bad), tmp_path, 0.3)
        except KsdpError as error:
            refusals.append(str(error))
        longest = max(longest, time.monotonic() - began)
        bad.unlink()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    read = 500 - len(refusals)
    print(f"500 changed files of {len(files)} kinds: {len(refusals)} refused, {read} read, 0 otherwise")
    print(f"longest {longest:.1f} s, {peak:.2f} GB")
    assert len(refusals) > 100
    assert max(map(len, refusals)) < 3000
    assert longest < 10
    assert peak < MEMORY / 1e9
