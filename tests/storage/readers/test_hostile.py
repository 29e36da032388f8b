"""Files that strangers make: `tests/stories/test_strangers.py` hands them to the command."""

import gzip
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

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


FILES: dict[str, Make] = {
    "zeros.csv.gz": lambda path: zeros(path, b"a,b\n"),
    "zeros.jsonl.gz": lambda path: zeros(path),
    "bomb.npz": lambda path: archive(path, data=500, indices=10, indptr=1, shape=b"", format=b""),
    "empty.npz": lambda path: archive(path),
    "objects.npz": lambda path: np.savez(path, data=np.array([print, {}], dtype=object), allow_pickle=True),
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
