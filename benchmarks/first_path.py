"""From a file to a signature, by typing only what the product prints next.

::

    python -m benchmarks.first_path digits covertype news patients wine mails

For each corpus `ksdp init`, then `ksdp advise`, as that says, and where it recommends a spec `ksdp keys` and
`ksdp clear`. Gains are of the documents that are signed, or of the spec as it stands where nobody is, on each
party's own documents and on the others'. 20 Newsgroups and MovieLens take longer: `posts`, `ratings`.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn import datasets

from benchmarks import data_folder, news_parts
from benchmarks.signed_lists import _ksdp

MARGIN = "0.3"


def _table(name: str, index: str) -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        frame = getattr(datasets, f"load_{name}")(as_frame=True)
        rows = frame.data if name == "digits" else frame.frame
        rows.to_csv(folder / f"{name}.csv", index_label=index)
        return f"{name}.csv"

    return write


def _covertype(folder: Path) -> str:
    """6,000 plots with their numbers, of four wildernesses, each a party."""
    table = pd.read_parquet(data_folder() / "covertype" / "table.parquet")
    areas = np.array(["Rawah", "Neota", "Comanche", "Cache"])[table.filter(like="Wilderness").to_numpy().argmax(1)]
    rows = table.iloc[:, :10].assign(wilderness=areas).sample(6000, random_state=1).sort_index()
    rows.to_csv(folder / "plots.csv", index_label="plot")
    return "plots.csv"


def _news(folder: Path) -> str:
    news_parts.main([str(data_folder() / "online-news-popularity"), str(folder)])
    (folder / "news.toml").unlink()
    return "articles.parquet"


def _copied(name: str, *files: str) -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        for file in files:
            shutil.copy(data_folder() / name / file, folder)
        return files[0]

    return write


CORPORA = {
    "digits": _table("digits", "scan"),
    "covertype": _covertype,
    "news": _news,
    "patients": _table("breast_cancer", "patient"),
    "wine": _table("wine", "bottle"),
    "mails": _copied("enron-mail6", "counts.npz", "vocabulary.txt", "labels.parquet"),
    "posts": _copied("20newsgroups", "documents.parquet"),
    "ratings": _copied("movielens-1m", "ratings.parquet"),
}


def run(names: Sequence[str]) -> None:
    """Print a row for each corpus."""
    print(f"{'corpus':11}{'commands':>9}{'CPU s':>7}{'signed':>9}{'of':>8}{'kept':>7}{'own':>10}{'others':>10}")
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            _row(name, Path(folder))


def _row(name: str, folder: Path) -> None:
    data = CORPORA[name](folder)
    spec = Path(data).with_suffix(".toml").name
    _, first = _ksdp(folder, "init", data, "--margin", MARGIN)
    found, searched = _ksdp(folder, "advise", spec, "--json")
    spent, commands, signed = first + searched, 2, 0
    if found["best"] is not None:
        advised, clearance = Path(found["spec"]).name, f"{name}.clearance"
        _ksdp(folder, "keys", "me")
        signer = ("--clearance", clearance, "--key", "me.key", "--who", "Me")
        cleared, last = _ksdp(folder, "clear", advised, *signer, "--json")
        spent, commands, signed = spent + last, 4, cleared["allowed"]
    main = found["gain"]["measures"][0]
    kept = f"{main['kept']['mean']:.0%}" if signed and main["kept"] else "-"
    own, others = (f"{main[whose]['mean']:+.4f}" for whose in ("own", "others"))
    line = f"{name:11}{commands:9}{spent:7.0f}{signed:9,}{found['documents']:8,}{kept:>7}{own:>10}{others:>10}"
    print(line, flush=True)
    for sentence in found["sentences"]:
        print(f"   {sentence}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Read what is asked, and run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpora", nargs="*", choices=[[], *CORPORA], help="digits, covertype and news by default")
    run(parser.parse_args(arguments).corpora or ["digits", "covertype", "news"])


if __name__ == "__main__":
    main()
